//! The part of the address space in which pools are mapped.
//!
//! It is far from where the kernel maps what has no wish of its own, below all 47 bits, and so large that one
//! shift says whether an address is in it.

/// Addresses of the window, shifted right by [`SHIFT`], are this.
pub const NUMBER: usize = 4;
/// Bits of an address below the window's number.
pub const SHIFT: u32 = 42;
/// The first address.
pub const BEGIN: usize = NUMBER << SHIFT;
/// Bytes of the window.
pub const BYTES: usize = 1 << SHIFT;

/// Whether an address is in the window.
#[inline(always)]
pub fn contains(address: usize) -> bool {
    address >> SHIFT == NUMBER
}
