//! How many words of each kind there are among those that blocks are recorded by (see `abi::record`): nothing
//! but their two upper bits is looked at, many words at a time.

/// How many words of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Words that are not zero.
    pub used: u64,
    /// Headers of blocks.
    pub blocks: u64,
    /// Stores in blocks.
    pub stores: u64,
}

impl Kinds {
    /// Of these words up to the first header of another record, in whose place it leaves zeros. Returns where
    /// that header is, or how many words there are.
    pub fn take(words: &mut [u64]) -> (Self, usize) {
        Self::take_by(words, u8::MAX)
    }

    /// The same, with so many words in a register at most.
    pub fn take_by(words: &mut [u64], width: u8) -> (Self, usize) {
        #[cfg(target_arch = "x86_64")]
        match width.min(wide::usable()) {
            0..4 => {}
            // SAFETY: the processor has what the function is compiled for.
            4..8 => return unsafe { wide::take(words) },
            // SAFETY: likewise.
            8.. => return unsafe { wide::take_wider(words) },
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = width;
        Kinds::default().and_rest(words, 0)
    }

    /// These and those of the words from number `from` on, one by one.
    fn and_rest(mut self, words: &mut [u64], from: usize) -> (Self, usize) {
        for (at, word) in words.iter_mut().enumerate().skip(from) {
            let (first, second) = (*word >> 63, *word << 1 >> 63);
            if first < second {
                return (self, at);
            }
            self.used += u64::from(*word != 0);
            self.blocks += first & !second;
            self.stores += first & second;
            *word = 0;
        }
        (self, words.len())
    }
}

/// Sixteen or 32 words at a time.
#[cfg(target_arch = "x86_64")]
mod wide {
    use core::arch::x86_64::{
        __cpuid, __cpuid_count, __m256i, __m512i, _mm256_add_epi32, _mm256_add_epi64, _mm256_andnot_si256,
        _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_ps,
        _mm256_or_si256, _mm256_setzero_si256, _mm256_shuffle_ps, _mm256_srli_epi32, _mm256_storeu_si256,
        _mm512_add_epi32, _mm512_andnot_si512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_loadu_si512,
        _mm512_mask_add_epi64, _mm512_movepi32_mask, _mm512_reduce_add_epi32, _mm512_reduce_add_epi64,
        _mm512_set1_epi64, _mm512_setzero_si512, _mm512_shuffle_ps, _mm512_srli_epi32, _mm512_storeu_si512,
        _mm512_ternarylogic_epi64, _mm512_test_epi64_mask, _xgetbv,
    };
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Kinds;

    static USABLE: AtomicU8 = AtomicU8::new(0);

    /// Words that the processor can take into one register: 0 (none), 4 or 8. 0 until [`prepare`] has looked.
    pub fn usable() -> u8 {
        USABLE.load(Ordering::Relaxed)
    }

    /// Looks what the processor can.
    pub fn prepare() {
        const OSXSAVE: u32 = 1 << 27;
        const AVX2: u32 = 1 << 5;
        const AVX512: u32 = 1 << 16 | 1 << 17;
        const XMM_AND_YMM: u64 = 0b110;
        const ALL: u64 = 0b1110_0110;
        let (first, seventh) = (__cpuid(1), __cpuid_count(7, 0));
        // SAFETY: `OSXSAVE` says that the instruction is there.
        let kept = if first.ecx & OSXSAVE != 0 { unsafe { _xgetbv(0) } } else { 0 };
        let words = if seventh.ebx & AVX512 == AVX512 && kept & ALL == ALL {
            8
        } else if seventh.ebx & AVX2 != 0 && kept & XMM_AND_YMM == XMM_AND_YMM {
            4
        } else {
            0
        };
        USABLE.store(words, Ordering::Relaxed);
    }

    /// As [`take`], 32 words at a time.
    ///
    /// # Safety
    /// [`usable`] is 8.
    #[target_feature(enable = "avx512f,avx512dq")]
    pub unsafe fn take_wider(words: &mut [u64]) -> (Kinds, usize) {
        /// a or (b and not c)
        const OR_AND_NOT: i32 = 0xf4;
        let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi64(1));
        let (mut used, mut upper, mut sum, mut taken) = (zero, zero, zero, 0);
        for block in words.as_chunks_mut::<32>().0 {
            let parts = block.as_mut_ptr().cast::<__m512i>();
            // SAFETY: a block is four parts of eight words; loads and stores need no alignment.
            let [a, b, c, d] = [0, 1, 2, 3].map(|part| unsafe { _mm512_loadu_si512(parts.add(part)) });
            let tops = |low, high| {
                let (low, high) = (_mm512_castsi512_ps(low), _mm512_castsi512_ps(high));
                _mm512_castps_si512(_mm512_shuffle_ps::<0b11_01_11_01>(low, high))
            };
            let (low, high) = (tops(a, b), tops(c, d));
            // 01 in the upper bits.
            let records = _mm512_andnot_si512(low, _mm512_add_epi32(low, low));
            let records =
                _mm512_ternarylogic_epi64::<OR_AND_NOT>(records, _mm512_add_epi32(high, high), high);
            if _mm512_movepi32_mask(records) != 0 {
                break;
            }
            for (part, words) in [a, b, c, d].into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { _mm512_storeu_si512(parts.add(part), zero) };
                used = _mm512_mask_add_epi64(used, _mm512_test_epi64_mask(words, words), used, one);
            }
            for tops in [low, high] {
                upper = _mm512_add_epi32(upper, _mm512_srli_epi32::<31>(tops));
                sum = _mm512_add_epi32(sum, _mm512_srli_epi32::<30>(tops));
            }
            taken += 32;
        }
        let upper = u64::from(_mm512_reduce_add_epi32(upper).cast_unsigned());
        let sum = u64::from(_mm512_reduce_add_epi32(sum).cast_unsigned());
        let used = _mm512_reduce_add_epi64(used).cast_unsigned();
        Kinds::of_bits(used, upper, sum).and_rest(words, taken)
    }

    /// As [`Kinds::and_rest`], sixteen words at a time, of which what records the kind are the upper halves.
    ///
    /// # Safety
    /// [`usable`] is not 0.
    #[target_feature(enable = "avx2")]
    pub unsafe fn take(words: &mut [u64]) -> (Kinds, usize) {
        let zero = _mm256_setzero_si256();
        // Words of zero, less than none; words with the upper bit; the sum of the two upper bits.
        let (mut empty, mut upper, mut sum, mut taken) = (zero, zero, zero, 0);
        for block in words.as_chunks_mut::<16>().0 {
            let parts = block.as_mut_ptr().cast::<__m256i>();
            // SAFETY: a block is four parts of four words; loads and stores need no alignment.
            let [a, b, c, d] = [0, 1, 2, 3].map(|part| unsafe { _mm256_loadu_si256(parts.add(part)) });
            let tops = |low, high| {
                let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
                _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high))
            };
            let (low, high) = (tops(a, b), tops(c, d));
            // 01 in the upper bits.
            let records = _mm256_or_si256(
                _mm256_andnot_si256(low, _mm256_add_epi32(low, low)),
                _mm256_andnot_si256(high, _mm256_add_epi32(high, high)),
            );
            if _mm256_movemask_ps(_mm256_castsi256_ps(records)) != 0 {
                break;
            }
            for (part, words) in [a, b, c, d].into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { _mm256_storeu_si256(parts.add(part), zero) };
                empty = _mm256_add_epi64(empty, _mm256_cmpeq_epi64(words, zero));
            }
            for tops in [low, high] {
                upper = _mm256_add_epi32(upper, _mm256_srli_epi32::<31>(tops));
                sum = _mm256_add_epi32(sum, _mm256_srli_epi32::<30>(tops));
            }
            taken += 16;
        }
        Kinds::of_bits(taken as u64 - total_negated(empty), total(upper), total(sum)).and_rest(words, taken)
    }

    impl Kinds {
        /// Of so many words that are not zero and of which so many have the upper bit, with the sum of the
        /// two upper bits: a header has 2 in these and a store 3.
        fn of_bits(used: u64, upper: u64, sum: u64) -> Self {
            let stores = sum - 2 * upper;
            Kinds { used, blocks: upper - stores, stores }
        }
    }

    /// The sum of eight numbers; the scratch memory has too few words for more than 32 bits.
    #[target_feature(enable = "avx2")]
    fn total(counts: __m256i) -> u64 {
        let mut parts = [0u32; 8];
        // SAFETY: room for eight numbers; the store needs no alignment.
        unsafe { _mm256_storeu_si256(parts.as_mut_ptr().cast(), counts) };
        parts.iter().map(|&part| u64::from(part)).sum()
    }

    /// The sum of four numbers, negated.
    #[target_feature(enable = "avx2")]
    fn total_negated(counts: __m256i) -> u64 {
        let mut parts = [0u64; 4];
        // SAFETY: room for four numbers; the store needs no alignment.
        unsafe { _mm256_storeu_si256(parts.as_mut_ptr().cast(), counts) };
        parts.iter().fold(0, |sum, &part| sum.wrapping_sub(part))
    }
}

/// Finds out how to look. Called once, from the library's constructor.
pub fn prepare() {
    #[cfg(target_arch = "x86_64")]
    wide::prepare();
}
