//! Counting instead of recording: looks through a thread's records when its memory is full.
//!
//! Runs are nearly all there is, and a loop over a run's few accesses costs more in mispredicted branches than in work.
//! With AVX2, eight accesses are looked at together, and few runs have more.

use core::sync::atomic::Ordering;

use crate::session::Attached;
use crate::wire::{RUN_STORE, access, kind};

/// Adds the records in `words` to the session's counts.
pub fn count(session: &Attached, words: &[u64]) {
    #[cfg(target_arch = "x86_64")]
    let [loads, stores, others] = if wide::usable() {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { wide::count(words) }
    } else {
        count_by(words, run)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let [loads, stores, others] = count_by(words, run);
    let head = session.head();
    head.counted_loads.fetch_add(loads, Ordering::Relaxed);
    head.counted_stores.fetch_add(stores, Ordering::Relaxed);
    head.counted_others.fetch_add(others, Ordering::Relaxed);
}

/// Loads, stores and other records in `words`, where `run` counts a run's.
#[inline(always)]
fn count_by(words: &[u64], run: impl Fn(u64, &[u64], &mut u64, &mut u64) -> usize) -> [u64; 3] {
    let (mut loads, mut stores, mut others) = (0, 0, 0);
    let mut at = 0;
    while let Some(&header) = words.get(at) {
        if header == 0 {
            break;
        }
        if header >> 48 == 0 {
            let accesses = run(header, &words[at + 1..], &mut loads, &mut stores);
            at += 1 + accesses;
            continue;
        }
        let (kind, argument) = ((header >> 56) as u8, (header >> 48) as u8);
        match (kind, argument & 0xf) {
            (kind::ACCESS, access::LOAD) | (kind::ATOMIC, 0) => loads += 1,
            (kind::ACCESS, _) | (kind::ATOMIC, 1) => stores += 1,
            (kind::ATOMIC, _) => {
                loads += 1;
                stores += 1;
            }
            (kind::VALUE, _) => {}
            _ => others += 1,
        }
        at += 1 + payload(kind, &words[at..]);
    }
    [loads, stores, others]
}

/// Adds the accesses of the run with that descriptor; how many it has. Those without an address were not executed.
#[inline]
fn run(descriptor: u64, words: &[u64], loads: &mut u64, stores: &mut u64) -> usize {
    let descriptor = descriptor as *const u8;
    // SAFETY: code in line writes only addresses of descriptors in its own text, which stays mapped: `dlclose` does
    // not unmap while there is a session. A descriptor has as many entries of 8 bytes as it says.
    unsafe {
        let accesses = usize::from(descriptor.add(4).read());
        for (at, word) in words.iter().take(accesses).enumerate() {
            let store = u64::from(descriptor.add(12 + 8 * at).read() / RUN_STORE);
            let executed = u64::from(*word != 0);
            *stores += store & executed;
            *loads += (store ^ 1) & executed;
        }
        accesses
    }
}

/// Words after the header of the record that `words` begins with.
fn payload(kind: u8, words: &[u64]) -> usize {
    let text = |at: usize| words.get(at).map_or(0, |bytes| at + bytes.div_ceil(8) as usize);
    match kind {
        kind::FENCE => 0,
        kind::THREAD_START | kind::THREAD_END | kind::FREE | kind::REGION_BEGIN | kind::REGION_END => 1,
        kind::ATOMIC => 4,
        kind::MAP => text(3),
        kind::VALUE | kind::PHASE => text(1),
        _ => 2,
    }
}

/// Eight accesses of a run at a time.
#[cfg(target_arch = "x86_64")]
mod wide {
    use core::arch::x86_64::*;
    use core::sync::atomic::{AtomicBool, Ordering};

    static USABLE: AtomicBool = AtomicBool::new(false);

    /// Whether the processor can. False until [`prepare`] has looked.
    pub fn usable() -> bool {
        USABLE.load(Ordering::Relaxed)
    }

    /// Looks whether the processor can.
    pub fn prepare() {
        const POPCNT: u32 = 1 << 23;
        const OSXSAVE: u32 = 1 << 27;
        const AVX2: u32 = 1 << 5;
        const XMM_AND_YMM: u64 = 0b110;
        let (first, seventh) = (__cpuid(1), __cpuid_count(7, 0));
        let has = first.ecx & POPCNT != 0 && first.ecx & OSXSAVE != 0 && seventh.ebx & AVX2 != 0;
        // SAFETY: `OSXSAVE` says that the instruction is there.
        let kept = has && unsafe { _xgetbv(0) } & XMM_AND_YMM == XMM_AND_YMM;
        USABLE.store(kept, Ordering::Relaxed);
    }

    /// As [`super::count_by`].
    ///
    /// # Safety
    /// [`usable`].
    #[target_feature(enable = "avx2,popcnt")]
    pub unsafe fn count(words: &[u64]) -> [u64; 3] {
        super::count_by(words, |descriptor, words, loads, stores| {
            // SAFETY: as `count` itself.
            unsafe { run(descriptor, words, loads, stores) }
        })
    }

    /// As [`super::run`].
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn run(descriptor: u64, words: &[u64], loads: &mut u64, stores: &mut u64) -> usize {
        // SAFETY: as in `super::run`; masked loads touch only the lanes below `left`, which are inside both.
        unsafe {
            let accesses = usize::from((descriptor as *const u8).add(4).read());
            let entries = (descriptor as *const i64).add(1);
            let mut at = 0;
            while at < accesses {
                let left = _mm256_set1_epi64x(accesses.min(words.len()) as i64 - at as i64);
                let mut executed = 0;
                let mut storing = 0;
                for half in [4, 0] {
                    let lanes = _mm256_setr_epi64x(half, half + 1, half + 2, half + 3);
                    let active = _mm256_cmpgt_epi64(left, lanes);
                    let from = at + half as usize;
                    let addresses = _mm256_maskload_epi64(words.as_ptr().wrapping_add(from).cast(), active);
                    let entries = _mm256_maskload_epi64(entries.wrapping_add(from), active);
                    let empty = _mm256_cmpeq_epi64(addresses, _mm256_setzero_si256());
                    executed = executed << 4 | (!_mm256_movemask_pd(_mm256_castsi256_pd(empty)) & 0xf);
                    // The flag is bit 4 of byte 4; the sign is what `movemask` takes.
                    let flags = _mm256_slli_epi64::<27>(entries);
                    storing = storing << 4 | _mm256_movemask_pd(_mm256_castsi256_pd(flags));
                }
                *stores += u64::from((executed & storing).count_ones());
                *loads += u64::from((executed & !storing).count_ones());
                at += 8;
            }
            accesses
        }
    }
}

/// Finds out how to count. Called once, from the library's constructor.
pub fn prepare() {
    #[cfg(target_arch = "x86_64")]
    wide::prepare();
}
