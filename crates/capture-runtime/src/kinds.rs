//! How many words of each kind there are among those that runs are told by (see `wire.rs`): nothing but their two upper bits is
//! looked at, many words at a time.

/// How many words of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Words that are not zero.
    pub used: u64,
    /// Headers of runs, if there are no other records.
    pub runs: u64,
    /// Stores in runs, if there are no other records.
    pub stores: u64,
    /// Whether there are headers of other records; a payload may look like one.
    pub records: bool,
}

impl Kinds {
    /// Of these words.
    pub fn of(words: &[u64]) -> Self {
        Self::by(words, u8::MAX)
    }

    /// Of these words, with so many in a register at most.
    pub fn by(words: &[u64], width: u8) -> Self {
        #[cfg(target_arch = "x86_64")]
        match width.min(wide::usable()) {
            0..4 => {}
            // SAFETY: the processor has what the function is compiled for.
            4..8 => return unsafe { wide::kinds(words) },
            // SAFETY: likewise.
            8.. => return unsafe { wide::kinds_wider(words) },
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = width;
        Self::by_words(words)
    }

    fn by_words(words: &[u64]) -> Self {
        let mut kinds = Kinds::default();
        for &word in words {
            let (first, second) = (word >> 63, word << 1 >> 63);
            kinds.used += u64::from(word != 0);
            kinds.runs += first & !second;
            kinds.stores += first & second;
            kinds.records |= first < second;
        }
        kinds
    }

    fn plus(self, other: Self) -> Self {
        Kinds {
            used: self.used + other.used,
            // With records among the words they are any numbers.
            runs: self.runs.wrapping_add(other.runs),
            stores: self.stores.wrapping_add(other.stores),
            records: self.records | other.records,
        }
    }
}

/// Eight or sixteen words at a time.
#[cfg(target_arch = "x86_64")]
mod wide {
    use core::arch::x86_64::{
        __cpuid, __cpuid_count, __m256i, __m512i, _mm256_add_epi32, _mm256_add_epi64, _mm256_andnot_si256,
        _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_ps,
        _mm256_or_si256, _mm256_setzero_si256, _mm256_shuffle_ps, _mm256_srli_epi32, _mm256_storeu_si256,
        _mm512_add_epi32, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_loadu_si512,
        _mm512_mask_add_epi64, _mm512_movepi32_mask, _mm512_reduce_add_epi32, _mm512_reduce_add_epi64,
        _mm512_set1_epi64, _mm512_setzero_si512, _mm512_shuffle_ps, _mm512_srli_epi32,
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

    /// As [`kinds`], sixteen words at a time.
    ///
    /// # Safety
    /// [`usable`] is 8.
    #[target_feature(enable = "avx512f,avx512dq")]
    pub unsafe fn kinds_wider(words: &[u64]) -> Kinds {
        /// a or (b and not c)
        const OR_AND_NOT: i32 = 0xf4;
        let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi64(1));
        let (mut used, mut upper, mut sum, mut records) = (zero, zero, zero, zero);
        let (blocks, rest) = words.as_chunks::<16>();
        for block in blocks {
            let halves = block.as_ptr().cast::<__m512i>();
            // SAFETY: a block is two halves of eight words; the loads need no alignment.
            let (low, high) = unsafe { (_mm512_loadu_si512(halves), _mm512_loadu_si512(halves.add(1))) };
            used = _mm512_mask_add_epi64(used, _mm512_test_epi64_mask(low, low), used, one);
            used = _mm512_mask_add_epi64(used, _mm512_test_epi64_mask(high, high), used, one);
            let (low, high) = (_mm512_castsi512_ps(low), _mm512_castsi512_ps(high));
            let tops = _mm512_castps_si512(_mm512_shuffle_ps::<0b11_01_11_01>(low, high));
            upper = _mm512_add_epi32(upper, _mm512_srli_epi32::<31>(tops));
            sum = _mm512_add_epi32(sum, _mm512_srli_epi32::<30>(tops));
            let doubled = _mm512_add_epi32(tops, tops);
            records = _mm512_ternarylogic_epi64::<OR_AND_NOT>(records, doubled, tops);
        }
        let upper = u64::from(_mm512_reduce_add_epi32(upper).cast_unsigned());
        let sum = u64::from(_mm512_reduce_add_epi32(sum).cast_unsigned());
        let stores = sum.wrapping_sub(2 * upper);
        let blocks = Kinds {
            used: _mm512_reduce_add_epi64(used).cast_unsigned(),
            runs: upper.wrapping_sub(stores),
            stores,
            records: _mm512_movepi32_mask(records) != 0,
        };
        blocks.plus(Kinds::by_words(rest))
    }

    /// As [`Kinds::by_words`], eight words at a time, of which what tells the kind are the upper halves.
    ///
    /// # Safety
    /// [`usable`] is not 0.
    #[target_feature(enable = "avx2")]
    pub unsafe fn kinds(words: &[u64]) -> Kinds {
        let zero = _mm256_setzero_si256();
        // Words of zero, less than none; words with the upper bit; the sum of the two upper bits; 01 in the upper bits.
        let (mut empty, mut upper, mut sum, mut records) = (zero, zero, zero, zero);
        let (blocks, rest) = words.as_chunks::<8>();
        for block in blocks {
            let halves = block.as_ptr().cast::<__m256i>();
            // SAFETY: a block is two halves of four words; the loads need no alignment.
            let (low, high) = unsafe { (_mm256_loadu_si256(halves), _mm256_loadu_si256(halves.add(1))) };
            empty = _mm256_add_epi64(empty, _mm256_cmpeq_epi64(low, zero));
            empty = _mm256_add_epi64(empty, _mm256_cmpeq_epi64(high, zero));
            let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
            let tops = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
            upper = _mm256_add_epi32(upper, _mm256_srli_epi32::<31>(tops));
            sum = _mm256_add_epi32(sum, _mm256_srli_epi32::<30>(tops));
            records = _mm256_or_si256(records, _mm256_andnot_si256(tops, _mm256_add_epi32(tops, tops)));
        }
        let (upper, sum) = (total(upper), total(sum));
        // Without records, a header has 2 in its upper bits and a store 3.
        let stores = sum.wrapping_sub(2 * upper);
        let blocks = Kinds {
            used: (words.len() - rest.len()) as u64 - total_negated(empty),
            runs: upper.wrapping_sub(stores),
            stores,
            records: _mm256_movemask_ps(_mm256_castsi256_ps(records)) != 0,
        };
        blocks.plus(Kinds::by_words(rest))
    }

    /// The sum of eight numbers; the scratch memory has too few words for more than 32 bits.
    #[target_feature(enable = "avx2")]
    fn total(counts: __m256i) -> u64 {
        let mut parts = [0u32; 8];
        // SAFETY: room for eight numbers; the store needs no alignment.
        unsafe { _mm256_storeu_si256(parts.as_mut_ptr().cast(), counts) };
        parts.iter().map(|&part| u64::from(part)).sum()
    }

    /// Less the sum of four numbers.
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
