//! Words of a chunk against those some time before them, with wide registers.
//!
//! What the portable way costs is not the comparing but its branches: how many words differ, and whether a
//! head is among them, can't be predicted, and a wrong prediction costs as much as a dozen words. Here there
//! is none. Words go from the chunk through a register into the block, and the differences of those that
//! differ are moved together by one instruction.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use event::{COMPARED, Compared};

/// What the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// Registers of four words.
    Four,
    /// Registers of eight words.
    Eight,
}

impl Width {
    /// The widest; `None` if there is neither.
    #[inline(always)]
    pub(super) fn available() -> Option<Width> {
        if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("popcnt") {
            Some(Width::Eight)
        } else if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt")
        {
            Some(Width::Four)
        } else {
            None
        }
    }
}

/// Where the words of a comparison are.
struct Places {
    words: *const u64,
    /// `distance` words before the place where these go.
    block: *mut u64,
    distance: usize,
    differences: *mut u64,
}

impl Places {
    /// # Panics
    /// If the block has no room, or does not reach back so far.
    #[inline(always)]
    fn new(
        words: &[AtomicU64; COMPARED],
        block: &mut [u64],
        [at, distance]: [usize; 2],
        differences: &mut [u64; COMPARED],
    ) -> Places {
        assert!(distance > 0, "words are compared with earlier ones");
        let block = block[at - distance..at + COMPARED].as_mut_ptr();
        Places { words: words.as_ptr().cast(), block, distance, differences: differences.as_mut_ptr() }
    }
}

/// Does what [`event::RawWords::compare`] says, where all words are there. The heads are not asked for.
///
/// # Safety
/// The processor has registers of this width.
#[inline(always)]
pub(super) unsafe fn compare(
    width: Width,
    words: &[AtomicU64; COMPARED],
    block: &mut [u64],
    place: [usize; 2],
    differences: &mut [u64; COMPARED],
) -> Compared {
    let places = Places::new(words, block, place, differences);
    // SAFETY: 64 words are there, their writer is done with them, and they have room in the block, which is
    // there from `distance` words before on. There is room for 64 differences. That the processor has what it
    // takes is the caller's word. If a broken program writes to the words, they are any numbers, as they may
    // be anyway, and nothing refers to them where they are.
    unsafe {
        match width {
            Width::Four => fours(&places),
            Width::Eight => eights(&places),
        }
    }
}

/// # Safety
/// What `places` says is there: 64 words, as many and `distance` more in the block, and room for 64
/// differences.
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn eights(places: &Places) -> Compared {
    let &Places { words, block, distance, differences } = places;
    let address_of = |words| _mm512_xor_si512(words, _mm512_srai_epi64::<63>(words));
    let (mut differ, mut empty, mut count) = (0, 0, 0);
    for slot in (0..COMPARED).step_by(8) {
        // SAFETY: these are among what is there. Earlier words of the block that are new ones were put
        // before.
        let (new, old) = unsafe {
            let new = _mm512_loadu_si512(words.add(slot).cast());
            _mm512_storeu_si512(block.add(distance + slot).cast(), new);
            (new, _mm512_loadu_si512(block.add(slot).cast()))
        };
        // What is likely to be compared next.
        _mm_prefetch::<_MM_HINT_T0>(block.wrapping_add(COMPARED + slot).cast());
        let different = _mm512_cmpneq_epi64_mask(new, old);
        let address = address_of(new);
        let difference = _mm512_maskz_compress_epi64(different, _mm512_sub_epi64(address, address_of(old)));
        // SAFETY: at most `slot` differences were put, so there is room for eight more.
        unsafe { _mm512_storeu_si512(differences.add(count).cast(), difference) };
        count += different.count_ones() as usize;
        differ |= u64::from(different) << slot;
        empty |= u64::from(_mm512_testn_epi64_mask(address, address)) << slot;
    }
    Compared { there: COMPARED, differ, empty }
}

/// For each set of four words, where the halves of its words are, which are moved to the front.
const TOGETHER: [[i32; 8]; 16] = {
    let mut all = [[0; 8]; 16];
    let mut set = 0;
    while set < 16 {
        let (mut from, mut to) = (0, 0);
        while from < 4 {
            if set >> from & 1 != 0 {
                all[set][to] = 2 * from;
                all[set][to + 1] = 2 * from + 1;
                to += 2;
            }
            from += 1;
        }
        set += 1;
    }
    all
};

/// # Safety
/// As [`eights`].
#[target_feature(enable = "avx2,popcnt")]
unsafe fn fours(places: &Places) -> Compared {
    let &Places { words, block, distance, differences } = places;
    let zero = _mm256_setzero_si256();
    let address_of = |words| _mm256_xor_si256(words, _mm256_cmpgt_epi64(zero, words));
    let bits = |equal| _mm256_movemask_pd(_mm256_castsi256_pd(equal)).cast_unsigned();
    let (mut differ, mut empty, mut count) = (0, 0, 0);
    for slot in (0..COMPARED).step_by(4) {
        // SAFETY: these are among what is there. Earlier words of the block that are new ones were put
        // before.
        let (new, old) = unsafe {
            let new = _mm256_loadu_si256(words.add(slot).cast());
            _mm256_storeu_si256(block.add(distance + slot).cast(), new);
            (new, _mm256_loadu_si256(block.add(slot).cast()))
        };
        let different = bits(_mm256_cmpeq_epi64(new, old)) ^ 15;
        let address = address_of(new);
        let difference = _mm256_sub_epi64(address, address_of(old));
        // SAFETY: a set has eight numbers. At most `slot` differences were put, so there is room for four
        // more.
        unsafe {
            let together = _mm256_loadu_si256(TOGETHER[different as usize % 16].as_ptr().cast());
            let difference = _mm256_permutevar8x32_epi32(difference, together);
            _mm256_storeu_si256(differences.add(count).cast(), difference);
        }
        count += different.count_ones() as usize;
        differ |= u64::from(different) << slot;
        empty |= u64::from(bits(_mm256_cmpeq_epi64(address, zero))) << slot;
    }
    Compared { there: COMPARED, differ, empty }
}

#[cfg(test)]
mod tests {
    use event::RawWords;
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
            let mut before = before;
            before.resize(MOST + COMPARED, 7);
            let (place, mut expected_block, mut expected_differences) = ([MOST, distance], before.clone(), [0; COMPARED]);
            let expected = (&words[..]).compare(0, &mut expected_block, place, 0, &mut expected_differences);
            let count = expected.differ.count_ones() as usize;
            let shared: [AtomicU64; COMPARED] = std::array::from_fn(|at| AtomicU64::new(words[at]));
            // What has the wider ones has the others.
            let widths = match Width::available() {
                Some(Width::Eight) => &[Width::Four, Width::Eight][..],
                Some(Width::Four) => &[Width::Four],
                None => &[],
            };
            for &width in widths {
                let (mut block, mut differences) = (before.clone(), [0; COMPARED]);
                // SAFETY: it is available.
                let found = unsafe { compare(width, &shared, &mut block, place, &mut differences) };
                prop_assert_eq!(found, expected);
                prop_assert_eq!(&block, &expected_block);
                prop_assert_eq!(&differences[..count], &expected_differences[..count]);
            }
        }
    }
}
