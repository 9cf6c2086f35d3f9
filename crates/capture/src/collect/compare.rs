//! Words of a chunk against those some time before them, with 512-bit registers.
//!
//! What the portable way costs is not the comparing but its branches: how many words differ, and whether a head is among them,
//! can't be predicted, and a wrong prediction costs as much as eight words. Here there is none. Words go from the chunk
//! through a register into the block, and differences are put one behind the other by an instruction.

use std::arch::x86_64::{
    __m512i, _mm512_cmpneq_epi64_mask, _mm512_loadu_si512, _mm512_maskz_compress_epi64, _mm512_srai_epi64,
    _mm512_storeu_si512, _mm512_sub_epi64, _mm512_testn_epi64_mask, _mm512_xor_si512,
};
use std::sync::atomic::AtomicU64;

use event::{COMPARED, Compared};

/// Words of a register.
const WIDTH: usize = 8;

/// Whether the processor has what it takes.
#[inline(always)]
pub(super) fn available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("popcnt")
}

/// The address that each word tells, as [`event::told_address`].
#[inline]
#[target_feature(enable = "avx512f")]
fn told(words: __m512i) -> __m512i {
    _mm512_xor_si512(words, _mm512_srai_epi64::<63>(words))
}

/// Does what [`event::Words::compare`] says, where all words are there.
#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn compare(
    words: &[AtomicU64; COMPARED],
    block: &mut [u64],
    [at, distance]: [usize; 2],
    differences: &mut [u64; COMPARED],
) -> Compared {
    let block = &mut block[at - distance..at + COMPARED];
    assert!(distance > 0 && block.len() >= COMPARED, "words are compared with earlier ones");
    let (words, block, differences) = (words.as_ptr(), block.as_mut_ptr(), differences.as_mut_ptr());
    let (mut differ, mut empty, mut count) = (0, 0, 0);
    for slot in (0..COMPARED).step_by(WIDTH) {
        // SAFETY: 64 words are there and have room in the block, which begins `distance` words before it; so the words from the
        // block's number `slot` on lie in it as well, and are new ones only where they were put before, this time or an earlier one.
        // At most `slot` differences were put, so that there is room for eight more. Nobody writes to the words any more; if a broken program does, they
        // are any numbers, as they may be anyway, and nothing refers to them where they are.
        let (new, old) = unsafe {
            let new = _mm512_loadu_si512(words.add(slot).cast());
            _mm512_storeu_si512(block.add(distance + slot).cast(), new);
            (new, _mm512_loadu_si512(block.add(slot).cast()))
        };
        let different = _mm512_cmpneq_epi64_mask(new, old);
        let address = told(new);
        let difference = _mm512_maskz_compress_epi64(different, _mm512_sub_epi64(address, told(old)));
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(differences.add(count).cast(), difference) };
        count += different.count_ones() as usize;
        differ |= u64::from(different) << slot;
        empty |= u64::from(_mm512_testn_epi64_mask(address, address)) << slot;
    }
    Compared { there: COMPARED, differ, empty: empty & differ }
}

#[cfg(test)]
mod tests {
    use event::Words;
    use proptest::prelude::*;

    use super::*;

    /// Most distances that are tried.
    const MOST: usize = 200;

    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![3 => 0u64..3, 1 => (0u64..3).prop_map(|word| !word), 1 => any::<u64>()]
    }

    proptest! {
        #[test]
        fn all_is_as_the_portable_way_has_it(
            before in prop::collection::vec(word(), MOST),
            words in prop::collection::vec(word(), COMPARED),
            distance in 1..=MOST,
        ) {
            prop_assume!(available());
            let mut block = before;
            block.resize(MOST + COMPARED, 7);
            let (mut other_block, place) = (block.clone(), [MOST, distance]);
            let (mut differences, mut other_differences) = ([0; COMPARED], [0; COMPARED]);
            let shared: [AtomicU64; COMPARED] = std::array::from_fn(|at| AtomicU64::new(words[at]));
            // SAFETY: it is available.
            let found = unsafe { compare(&shared, &mut block, place, &mut differences) };
            let expected = (&words[..]).compare(0, &mut other_block, place, 0, &mut other_differences);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(block, other_block);
            let count = found.differ.count_ones() as usize;
            prop_assert_eq!(&differences[..count], &other_differences[..count]);
        }
    }
}
