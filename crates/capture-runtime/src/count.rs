//! Counting instead of recording: looks through a thread's records when its memory is full.

use core::sync::atomic::Ordering;

use crate::session::Attached;
use crate::wire::{RUN_STORE, access, kind};

/// Adds the records in `words` to the session's counts.
pub fn count(session: &Attached, words: &[u64]) {
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
    let head = session.head();
    head.counted_loads.fetch_add(loads, Ordering::Relaxed);
    head.counted_stores.fetch_add(stores, Ordering::Relaxed);
    head.counted_others.fetch_add(others, Ordering::Relaxed);
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
