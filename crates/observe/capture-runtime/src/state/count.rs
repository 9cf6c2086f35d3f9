//! Counting instead of recording: adds up a thread's scratch memory when it is full.
//!
//! The two upper bits of a word say what it is (see `abi::record`), so blocks are counted without being taken
//! apart, as fast as memory is read and cleared. Records that code of ours makes are counted as they are made
//! and never get there; those that hooks in assembly write do, and from the first one on the memory is gone
//! through record by record.

use core::sync::atomic::Ordering;

use crate::base::kinds::Kinds;
use crate::base::session::Attached;
use abi::{BLOCK_STORE, access, accessed, descriptor_of, kind, kind_of};

/// Numbers of loads, stores and other records. All zero bits are zeros.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    loads: u64,
    stores: u64,
    others: u64,
}

impl Counts {
    /// These and a record with this header, which is no block's.
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
    let (kinds, end) = Kinds::take(words);
    counts.stores += kinds.stores;
    counts.loads += kinds.used - kinds.stores - kinds.blocks;
    // The first record that is no block.
    let rest = &mut words[end..];
    if !rest.is_empty() {
        counts = one_by_one(rest, counts);
        rest.fill(0);
    }
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

/// Adds up `words`, which begin with a record and have other records than blocks among them.
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
        // SAFETY: code in line writes only addresses of descriptors in its own text, which stays mapped:
        // `dlclose` does not unmap while there is a session. A descriptor has as many entries of 8 bytes as
        // it says.
        let accesses = usize::from(unsafe { descriptor.add(4).read() });
        for (entry, &word) in words[at + 1..].iter().take(accesses).enumerate() {
            // SAFETY: as above.
            let store = u64::from(unsafe { descriptor.add(12 + 8 * entry).read() } / BLOCK_STORE);
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
