//! What memory is placed and protected by.

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// First and the last byte's successor of the whole pages of a block.
pub fn whole(address: usize, len: usize) -> (usize, usize) {
    (address.next_multiple_of(PAGE), (address + len) / PAGE * PAGE)
}
