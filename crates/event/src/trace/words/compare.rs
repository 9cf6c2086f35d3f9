//! Sixteen words against sixteen others.

/// Words that are compared together.
pub(super) const GROUP: usize = 16;

/// Bit i of the first result: words i differ. Bit i of the second: the new word i is a head.
#[inline(always)]
pub(super) fn compare(new: &[u64; GROUP], old: &[u64; GROUP]) -> (u32, u32) {
    let (mut differ, mut heads) = (0, 0);
    for at in 0..GROUP {
        differ |= u32::from(new[at] != old[at]) << at;
        heads |= ((new[at] >> 63) as u32) << at;
    }
    (differ, heads)
}
