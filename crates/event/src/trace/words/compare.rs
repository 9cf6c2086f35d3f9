//! Sixteen words against sixteen others.

/// Words that are compared together.
pub(super) const GROUP: usize = 16;

/// Bit i of the first result: words i differ. Bit i of the second: the new word i is a head.
///
/// The first part of each word's result is that of its halves, which are then narrowed to a byte per word.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn compare(new: &[u64; GROUP], old: &[u64; GROUP]) -> (u32, u32) {
    use safe_arch::{
        bitand_m128i, cast_to_m128_from_m128i, cast_to_m128i_from_m128, cmp_eq_mask_i32_m128i, m128i,
        move_mask_i8_m128i, pack_i16_to_i8_m128i, pack_i32_to_i16_m128i, set_i64_m128i,
        shuffle_abi_f32_all_m128,
    };
    let two = |words: &[u64; GROUP], at: usize| set_i64_m128i(words[at + 1] as i64, words[at] as i64);
    let low = |a: m128i, b: m128i| {
        let (a, b) = (cast_to_m128_from_m128i(a), cast_to_m128_from_m128i(b));
        cast_to_m128i_from_m128(shuffle_abi_f32_all_m128::<0b10_00_10_00>(a, b))
    };
    let high = |a: m128i, b: m128i| {
        let (a, b) = (cast_to_m128_from_m128i(a), cast_to_m128_from_m128i(b));
        cast_to_m128i_from_m128(shuffle_abi_f32_all_m128::<0b11_01_11_01>(a, b))
    };
    // Of four words: equal or not, and the upper halves, whose signs are those of the words.
    let four = |at: usize| {
        let (a, b) = (two(new, at), two(new, at + 2));
        let equal_a = cmp_eq_mask_i32_m128i(a, two(old, at));
        let equal_b = cmp_eq_mask_i32_m128i(b, two(old, at + 2));
        (bitand_m128i(low(equal_a, equal_b), high(equal_a, equal_b)), high(a, b))
    };
    let bits = |a, b, c, d| {
        let words = pack_i16_to_i8_m128i(pack_i32_to_i16_m128i(a, b), pack_i32_to_i16_m128i(c, d));
        move_mask_i8_m128i(words) as u32
    };
    let [a, b, c, d] = [four(0), four(4), four(8), four(12)];
    (!bits(a.0, b.0, c.0, d.0) & 0xffff, bits(a.1, b.1, c.1, d.1))
}

/// Bit i of the first result: words i differ. Bit i of the second: the new word i is a head.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn compare(new: &[u64; GROUP], old: &[u64; GROUP]) -> (u32, u32) {
    let (mut differ, mut heads) = (0, 0);
    for at in 0..GROUP {
        differ |= u32::from(new[at] != old[at]) << at;
        heads |= ((new[at] >> 63) as u32) << at;
    }
    (differ, heads)
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
            let (differ, heads) = compare(&new, &old);
            prop_assert!(differ >> GROUP == 0 && heads >> GROUP == 0);
            for at in 0..GROUP {
                prop_assert_eq!(differ >> at & 1 == 1, new[at] != old[at]);
                prop_assert_eq!(heads >> at & 1 == 1, new[at] & crate::HEAD != 0);
            }
        }
    }
}
