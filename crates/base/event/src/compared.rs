//! Words against those some time before them.

use crate::{RawWords, raw_address};

/// Most words that are compared together.
pub const COMPARED: usize = 64;
/// Of these, so many before it is asked whether a head differs.
const GROUP: usize = 16;

/// What [`RawWords::compare`] found of [`COMPARED`] words. Bit i says something of word i; behind the first
/// head that differs nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// So many words are there; what is compared in place of others is 0.
    pub there: usize,
    /// Which differ from the words at the distance before them.
    pub differ: u64,
    /// Which stand for address 0.
    pub empty: u64,
}

/// Does what [`RawWords::compare`] says, by means of [`RawWords::copy`]. It looks no further than to the end
/// of a group in which a head differs.
///
/// # Panics
/// As that one.
pub fn copy_and_compare(
    words: &(impl RawWords + ?Sized),
    from: usize,
    block: &mut [u64],
    [at, distance]: [usize; 2],
    heads: u64,
    differences: &mut [u64; COMPARED],
) -> Compared {
    assert!(distance > 0, "words are compared with earlier ones");
    let there = words.copy(from, &mut block[at..at + COMPARED]);
    block[at + there..at + COMPARED].fill(0);
    let (new, old) = (&block[at..][..COMPARED], &block[at - distance..][..COMPARED]);
    let (mut differ, mut empty) = (0, 0);
    let groups = new.chunks(GROUP).zip(old.chunks(GROUP));
    for ((new, old), shift) in groups.zip((0..).step_by(GROUP)) {
        for ((&new, &old), slot) in new.iter().zip(old).zip(shift..) {
            differ |= u64::from(new != old) << slot;
            empty |= u64::from(raw_address(new) == 0) << slot;
        }
        if differ & heads != 0 {
            break;
        }
    }
    let (mut left, mut count) = (differ, 0);
    while left != 0 {
        let slot = left.trailing_zeros() as usize % COMPARED;
        differences[count % COMPARED] = raw_address(new[slot]).wrapping_sub(raw_address(old[slot]));
        count += 1;
        left &= left - 1;
    }
    Compared { there, differ, empty }
}
