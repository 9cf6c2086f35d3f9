//! Words against those some time before them.

use crate::{Words, told_address};

/// Most words that are compared together.
pub const COMPARED: usize = 64;
/// Of these, so many at a time.
const GROUP: usize = 16;

/// What [`Words::compare`] found of [`COMPARED`] words. Bit i says something of word i; behind the first
/// head that differs nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// So many words are there; what is compared in place of others is 0.
    pub there: usize,
    /// Which differ from the words at the distance before them.
    pub differ: u64,
    /// Which of these tell address 0.
    pub empty: u64,
}

/// Does what [`Words::compare`] says, by means of [`Words::copy`]. It looks no further than to the end of a group in which a head differs.
///
/// # Panics
/// As that one.
pub fn copy_and_compare(
    words: &(impl Words + ?Sized),
    from: usize,
    block: &mut [u64],
    [at, distance]: [usize; 2],
    heads: u64,
    differences: &mut [u64; COMPARED],
) -> Compared {
    let there = words.copy(from, &mut block[at..at + COMPARED]);
    block[at + there..at + COMPARED].fill(0);
    let (new, old) = (&block[at..][..COMPARED], &block[at - distance..][..COMPARED]);
    let mut differ = 0;
    let groups = new.as_chunks().0.iter().zip(old.as_chunks().0);
    for ((new, old), shift) in groups.zip((0..).step_by(GROUP)) {
        differ |= differing(new, old) << shift;
        if differ & heads != 0 {
            break;
        }
    }
    let (mut left, mut count, mut empty) = (differ, 0, 0);
    while left != 0 {
        let slot = left.trailing_zeros() as usize % COMPARED;
        let address = told_address(new[slot]);
        empty |= u64::from(address == 0) << slot;
        differences[count % COMPARED] = address.wrapping_sub(told_address(old[slot]));
        count += 1;
        left &= left - 1;
    }
    Compared { there, differ, empty }
}

/// Bit i: words i differ.
///
/// Each word's result is that of its halves, which is then narrowed to a byte.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn differing(new: &[u64; GROUP], old: &[u64; GROUP]) -> u64 {
    use safe_arch::{
        bitand_m128i, cast_to_m128_from_m128i, cast_to_m128i_from_m128, cmp_eq_mask_i32_m128i, m128i,
        move_mask_i8_m128i, pack_i16_to_i8_m128i, pack_i32_to_i16_m128i, shuffle_abi_f32_all_m128,
    };
    let (new, old) = (new.as_chunks::<2>().0, old.as_chunks::<2>().0);
    let equal = |at: usize| {
        let (new, old) = (m128i::from(new[at / 2]), m128i::from(old[at / 2]));
        cast_to_m128_from_m128i(cmp_eq_mask_i32_m128i(new, old))
    };
    let four = |at: usize| {
        let (a, b) = (equal(at), equal(at + 2));
        let low = cast_to_m128i_from_m128(shuffle_abi_f32_all_m128::<0b10_00_10_00>(a, b));
        let high = cast_to_m128i_from_m128(shuffle_abi_f32_all_m128::<0b11_01_11_01>(a, b));
        bitand_m128i(low, high)
    };
    let words = pack_i16_to_i8_m128i(
        pack_i32_to_i16_m128i(four(0), four(4)),
        pack_i32_to_i16_m128i(four(8), four(12)),
    );
    u64::from(!move_mask_i8_m128i(words) as u16)
}

/// Bit i: words i differ.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn differing(new: &[u64; GROUP], old: &[u64; GROUP]) -> u64 {
    (0..GROUP).fold(0, |differ, at| differ | u64::from(new[at] != old[at]) << at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(1 << 63), Just(1), Just(1 << 32), Just(0x8000_8000_8000_8000), any::<u64>()]
    }

    proptest! {
        #[test]
        fn bits_are_those_of_each_word(words in prop::array::uniform16((word(), word(), any::<bool>()))) {
            let new = words.map(|(new, _, _)| new);
            let old = words.map(|(new, old, same)| if same { new } else { old });
            let differ = differing(&new, &old);
            prop_assert!(differ >> GROUP == 0);
            for at in 0..GROUP {
                prop_assert_eq!(differ >> at & 1 == 1, new[at] != old[at]);
            }
        }
    }
}
