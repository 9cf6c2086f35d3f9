//! What the two upper bits of words say, many words at a time.

/// Words that are looked at together.
pub(crate) const GROUP: usize = 64;

/// Bit i: the two upper bits of word i differ.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn differ(words: &[u64; GROUP]) -> u64 {
    use safe_arch::{
        add_i32_m128i, bitxor_m128i, cast_to_m128_from_m128i, cast_to_m128i_from_m128, m128i,
        move_mask_i8_m128i, pack_i16_to_i8_m128i, pack_i32_to_i16_m128i, shuffle_abi_f32_all_m128,
    };
    let (parts, _) = words.as_chunks::<16>();
    parts.iter().zip((0..).step_by(16)).fold(0, |bits, (part, shift)| {
        let (pairs, _) = part.as_chunks::<2>();
        // The upper halves of four words. Narrowing saturates, which leaves the sign.
        let four = |at: usize| {
            let (a, b) = (m128i::from(pairs[at]), m128i::from(pairs[at + 1]));
            let (a, b) = (cast_to_m128_from_m128i(a), cast_to_m128_from_m128i(b));
            let upper = cast_to_m128i_from_m128(shuffle_abi_f32_all_m128::<0b11_01_11_01>(a, b));
            bitxor_m128i(upper, add_i32_m128i(upper, upper))
        };
        let signs = pack_i16_to_i8_m128i(
            pack_i32_to_i16_m128i(four(0), four(2)),
            pack_i32_to_i16_m128i(four(4), four(6)),
        );
        bits | u64::from(move_mask_i8_m128i(signs) as u16) << shift
    })
}

/// Bit i: the two upper bits of word i differ.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn differ(words: &[u64; GROUP]) -> u64 {
    words.iter().zip(0..).fold(0, |bits, (word, at)| bits | (word ^ word << 1) >> 63 << at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(1 << 63), Just(1 << 62), Just(3 << 62), Just(u64::MAX), any::<u64>()]
    }

    proptest! {
        #[test]
        fn bits_are_those_of_each_word(words in prop::collection::vec(word(), GROUP)) {
            let words: [u64; GROUP] = words.try_into().unwrap();
            let bits = differ(&words);
            for (at, word) in words.iter().enumerate() {
                prop_assert_eq!(bits >> at & 1 != 0, word >> 63 != word >> 62 & 1, "{} {:#x}", at, word);
            }
        }
    }
}
