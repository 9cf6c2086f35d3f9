//! Counting instead of recording: adds up a thread's scratch memory when it is full.
//!
//! The two upper bits of a word say what it is (see `wire.rs`), so runs are counted without being taken apart, as fast as
//! memory is read. Records that code of ours makes are counted as they are made and never get there; those that hooks
//! in assembly write do, and then the memory is gone through record by record.

use core::sync::atomic::Ordering;

use crate::session::Attached;
use crate::wire::{RUN_STORE, access, accessed, descriptor_of, kind, kind_of};

/// Numbers of loads, stores and other records. All zero bits are zeros.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    loads: u64,
    stores: u64,
    others: u64,
}

impl Counts {
    /// These and a record with this header, which is no run's.
    #[inline]
    pub fn and_record(mut self, header: u64) -> Self {
        match (kind_of(header), (header >> 48) as u8 & 0xf) {
            (kind::ACCESS | kind::ODD_ACCESS, access::LOAD) | (kind::ATOMIC, 0) => self.loads += 1,
            (kind::ACCESS | kind::ODD_ACCESS, _) | (kind::ATOMIC, 1) => self.stores += 1,
            (kind::ATOMIC, 2) => {
                self.loads += 1;
                self.stores += 1;
            }
            (kind::VALUE, _) => {}
            _ => self.others += 1,
        }
        self
    }
}

/// Adds the records in `words`, and those in `counts`, to the session's counts. Leaves zeros in `words`.
pub fn count(session: &Attached, words: &mut [u64], mut counts: Counts) {
    let kinds = Kinds::of(words);
    if !kinds.records {
        counts.stores += kinds.stores;
        counts.loads += kinds.used - kinds.stores - kinds.runs;
    } else {
        counts = one_by_one(words, counts);
    }
    words.fill(0);
    let head = session.head();
    for (counter, number) in [
        (&head.counted_loads, counts.loads),
        (&head.counted_stores, counts.stores),
        (&head.counted_others, counts.others),
    ] {
        if number > 0 {
            counter.fetch_add(number, Ordering::Relaxed);
        }
    }
}

/// How many words of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds {
    /// Words that are not zero.
    used: u64,
    /// Headers of runs, if there are no other records.
    runs: u64,
    /// Stores in runs, if there are no other records.
    stores: u64,
    /// Whether there are headers of other records; a payload may look like one.
    records: bool,
}

impl Kinds {
    fn of(words: &[u64]) -> Self {
        #[cfg(target_arch = "x86_64")]
        match wide::usable() {
            0 => {}
            // SAFETY: the processor has what the function is compiled for.
            4 => return unsafe { wide::kinds(words) },
            // SAFETY: likewise.
            _ => return unsafe { wide::kinds_wider(words) },
        }
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

/// Adds up `words` with other records than runs among them.
#[cold]
fn one_by_one(words: &[u64], mut counts: Counts) -> Counts {
    let mut at = 0;
    while let Some(&header) = words.get(at).filter(|&&header| header != 0) {
        let Some(descriptor) = descriptor_of(header) else {
            counts = counts.and_record(header);
            at += 1 + payload(kind_of(header), &words[at..]);
            continue;
        };
        let descriptor = descriptor as *const u8;
        // SAFETY: code in line writes only addresses of descriptors in its own text, which stays mapped: `dlclose` does
        // not unmap while there is a session. A descriptor has as many entries of 8 bytes as it says.
        let accesses = usize::from(unsafe { descriptor.add(4).read() });
        for (entry, &word) in words[at + 1..].iter().take(accesses).enumerate() {
            // SAFETY: as above.
            let store = u64::from(unsafe { descriptor.add(12 + 8 * entry).read() } / RUN_STORE);
            let executed = u64::from(accessed(word) != 0);
            counts.stores += store & executed;
            counts.loads += (store ^ 1) & executed;
        }
        at += 1 + accesses;
    }
    counts
}

/// Words after the header of the record that `words` begins with.
fn payload(kind: u8, words: &[u64]) -> usize {
    let text = |at: usize| words.get(at).map_or(0, |bytes| at + bytes.div_ceil(8) as usize);
    match kind {
        kind::FENCE | kind::STRAND => 0,
        kind::THREAD_START | kind::THREAD_END | kind::FREE | kind::REGION_BEGIN | kind::REGION_END => 1,
        kind::ATOMIC => 4,
        kind::MAP => text(3),
        kind::VALUE | kind::PHASE => text(1),
        kind::FILE => {
            words.get(1).map_or(0, |&lens| 5 + ((lens as u32 as u64) + (lens >> 32)).div_ceil(8) as usize)
        }
        _ => 2,
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

/// Finds out how to count. Called once, from the library's constructor.
pub fn prepare() {
    #[cfg(target_arch = "x86_64")]
    wide::prepare();
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn many_words_at_a_time_are_counted_as_one_by_one() {
        prepare();
        let mut random = 1_u64;
        for length in 0..200 {
            for upper in [&[0b00, 0b10, 0b11][..], &[0b00, 0b01, 0b10, 0b11]] {
                let words: Vec<u64> = (0..length)
                    .map(|_| {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let kind = upper[(random >> 40) as usize % upper.len()];
                        if random >> 60 == 0 { 0 } else { kind << 62 | random >> 20 }
                    })
                    .collect();
                let expected = Kinds::by_words(&words);
                let mut found = vec![Kinds::of(&words)];
                if wide::usable() > 0 {
                    // SAFETY: the processor has what the function is compiled for.
                    found.push(unsafe { wide::kinds(&words) });
                }
                for found in found {
                    assert_eq!((found.records, found.used), (expected.records, expected.used));
                    assert!(found == expected || expected.records, "{found:?}, {expected:?}");
                }
            }
        }
    }
}
