//! What touches memory: accesses, atomic operations, the C library's functions on bytes and strings, the
//! heap, libpmem.

pub mod access;
pub mod alloc;
pub mod atomic;
pub mod bytes;
#[cfg(target_arch = "x86_64")]
pub mod format;
#[cfg(target_arch = "x86_64")]
pub mod hand_written;
#[cfg(target_arch = "x86_64")]
pub mod instructions;
pub mod pmem;
pub mod pmem2;
pub mod received;
#[cfg(target_arch = "x86_64")]
pub mod shipped;
#[cfg(target_arch = "x86_64")]
pub mod sort;
pub mod strings;
pub mod wide;
pub mod wide_strings;
