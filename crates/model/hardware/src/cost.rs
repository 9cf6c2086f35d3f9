//! What the designs take in hardware, from the widths of their entries.

/// Bits of an entry of a persist queue or strand buffer: type, address, three state bits, in whole bytes [published].
const ENTRY: u64 = 9 * 8;

/// Bytes of a persist queue.
#[must_use]
pub const fn persist_queue(entries: u64) -> u64 {
    entries * ENTRY / 8
}

/// Bytes of strand buffers.
#[must_use]
pub const fn strand_buffers(buffers: u64, entries: u64) -> u64 {
    buffers * entries * ENTRY / 8
}

/// Bits that each entry of a write-back or snoop buffer has more: a tail index per strand buffer.
#[must_use]
pub const fn tail_indexes(buffers: u64, entries: u64) -> u64 {
    buffers * entries.next_power_of_two().ilog2() as u64
}

/// Bytes that shadow sub-paging adds to a core: first- and second-level TLB with a bitmap and a page number per entry, and a write-set
/// buffer with a tag and a bitmap.
#[must_use]
pub const fn shadow_sub_paging(first: u64, second: u64, write_set: u64) -> [u64; 3] {
    const BITMAP: u64 = 64;
    const PAGE: u64 = 40;
    const TAG: u64 = 36;
    [first * (BITMAP + PAGE) / 8, second * (BITMAP + PAGE) / 8, write_set * (TAG + BITMAP) / 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_widths() {
        assert_eq!((persist_queue(1), strand_buffers(2, 3), tail_indexes(4, 4)), (9, 54, 8));
        assert_eq!(shadow_sub_paging(8, 8, 2), [104, 104, 25]);
    }
}
