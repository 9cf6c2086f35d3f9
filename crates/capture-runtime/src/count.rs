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
#[derive(Clone, Copy, Default)]
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
        if wide::usable() {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { wide::kinds(words) };
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
            runs: self.runs + other.runs,
            stores: self.stores + other.stores,
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

/// Eight words at a time.
#[cfg(target_arch = "x86_64")]
mod wide {
    use core::arch::x86_64::{
        __cpuid, __cpuid_count, __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_andnot_si256,
        _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_ps,
        _mm256_or_si256, _mm256_setzero_si256, _mm256_shuffle_ps, _mm256_srli_epi32, _mm256_storeu_si256,
        _xgetbv,
    };
    use core::sync::atomic::{AtomicBool, Ordering};

    use super::Kinds;

    static USABLE: AtomicBool = AtomicBool::new(false);

    /// Whether the processor can. False until [`prepare`] has looked.
    pub fn usable() -> bool {
        USABLE.load(Ordering::Relaxed)
    }

    /// Looks whether the processor can.
    pub fn prepare() {
        const OSXSAVE: u32 = 1 << 27;
        const AVX2: u32 = 1 << 5;
        const XMM_AND_YMM: u64 = 0b110;
        let (first, seventh) = (__cpuid(1), __cpuid_count(7, 0));
        let has = first.ecx & OSXSAVE != 0 && seventh.ebx & AVX2 != 0;
        // SAFETY: `OSXSAVE` says that the instruction is there.
        let kept = has && unsafe { _xgetbv(0) } & XMM_AND_YMM == XMM_AND_YMM;
        USABLE.store(kept, Ordering::Relaxed);
    }

    /// As [`Kinds::by_words`], eight words at a time, of which what tells the kind are the upper halves.
    ///
    /// # Safety
    /// [`usable`].
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
