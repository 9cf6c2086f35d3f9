//! Pre-stores: move written data towards memory before anybody waits for it.
//!
//! [`prestore`] gives the hint for data that stays where it is, [`copy_skip`] writes by non-temporal stores
//! in the first place. When each helps and when it harms, the manual `docs/man/prestore.md` says; in short:
//!
//! | the data will be | use | because |
//! |---|---|---|
//! | written again soon, and a fence or an atomic follows | [`Prestore::Demote`] | it is visible before the fence, and stays cached |
//! | only read again | [`Prestore::Clean`] | it goes to memory in the order in which it was written, and stays cached |
//! | neither | [`copy_skip`] | it goes to memory in order, and displaces nothing |
//! | written again soon, no fence | nothing | every pre-store would write to memory what is about to change |
//!
//! The instructions are chosen at run time. A processor that has none executes nothing, and [`supported`] says so: an
//! instruction that invalidates (`clflushopt`) is never put in a pre-store's place. On memory of [`crate::Mapped`],
//! [`space::Space::prestore`] does the same by offset.
//!
//! ```
//! use pmem::prestore::{Prestore, prestore};
//!
//! let mut rows = vec![[0.0f64; 512]; 64];
//! for row in &mut rows {
//!     row.iter_mut().enumerate().for_each(|(i, cell)| *cell = i as f64);
//!     prestore(row, Prestore::Clean); // after the innermost loop, never inside
//! }
//! ```

pub use space::Prestore;

use crate::isa::{self, Offer};

/// Whether this processor has an instruction for `op`. Where it has not, [`prestore`] does nothing.
#[must_use]
pub fn supported(op: Prestore) -> bool {
    offers(Offer::of_this_cpu(), op)
}

/// Applies `op` to every cache line that holds a byte of `data`.
///
/// It waits for nothing, orders nothing and invalidates nothing; what was stored survives a crash no sooner because of
/// it. What elements own elsewhere (a `String`'s text) is not reached.
#[inline]
pub fn prestore<T>(data: &[T], op: Prestore) {
    // SAFETY: the lines hold bytes of `data`, so they are mapped.
    unsafe { prestore_range(data.as_ptr().cast(), size_of_val(data), op) }
}

/// Applies `op` to every cache line that holds one of the `len` bytes at `address`.
///
/// # Safety
/// The bytes are mapped.
#[inline]
pub unsafe fn prestore_range(address: *const u8, len: usize, op: Prestore) {
    let offer = Offer::of_this_cpu();
    match op {
        Prestore::Clean => {
            let Some(clean) = offer.clean else { return };
            // SAFETY: the line holds a mapped byte; the processor has the instruction.
            each_line(address.addr(), len, offer.line, |line| unsafe { clean.line(address.with_addr(line)) });
        }
        Prestore::Demote if offer.demote => {
            // SAFETY: the line holds a mapped byte.
            each_line(address.addr(), len, offer.line, |line| unsafe {
                isa::demote(address.with_addr(line))
            });
        }
        Prestore::Demote => {}
    }
}

/// Copies `from` to `to`, whole aligned words of 8 bytes with non-temporal stores, the bytes before and
/// behind them the usual way.
///
/// Ends with a store fence, as the language asks for: whoever learns of the data later finds it. Copy much at a time, or
/// use [`space::Space::store_nt`], which leaves the fence to you. On aarch64, which has no such stores that can be relied
/// upon, it copies and cleans.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy_skip(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "copy_skip between slices of different lengths");
    let head = to.as_ptr().align_offset(8).min(to.len());
    let (first, rest) = to.split_at_mut(head);
    let (before, from) = from.split_at(head);
    first.copy_from_slice(before);
    let (words, after) = from.as_chunks::<8>();
    let (middle, last) = rest.split_at_mut(8 * words.len());
    // SAFETY: `middle` is exclusively ours, 8-aligned and as long as `words`; no access of another thread can come
    // between the stores and the fence, and none of ours does.
    unsafe { isa::store_nt(middle.as_mut_ptr(), words, Offer::of_this_cpu().flush) };
    last.copy_from_slice(after);
    isa::fence();
}

/// Whether a processor with that offer has an instruction for `op`.
fn offers(offer: Offer, op: Prestore) -> bool {
    match op {
        Prestore::Demote => offer.demote,
        Prestore::Clean => offer.clean.is_some(),
    }
}

/// Calls `act` with the start of every line of `line` bytes that holds one of the `len` bytes at `address`.
#[inline(always)]
fn each_line(address: usize, len: usize, line: usize, mut act: impl FnMut(usize)) {
    // Nothing touches no line, not even the one that its address lies in.
    let end = address + len;
    let mut at = if len == 0 { end } else { address & !(line - 1) };
    while at < end {
        act(at);
        at += line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: usize, len: usize, line: usize) -> Vec<usize> {
        let mut lines = Vec::new();
        each_line(address, len, line, |at| lines.push(at));
        lines
    }

    #[test]
    fn every_line_of_a_range_is_touched_once() {
        assert_eq!(of(128, 64, 64), [128]);
        assert_eq!(of(191, 1, 64), [128]);
        assert_eq!(of(191, 2, 64), [128, 192]);
        assert_eq!(of(130, 200, 64), [128, 192, 256, 320]);
        assert_eq!(of(130, 200, 128), [128, 256]);
    }

    #[test]
    fn nothing_touches_no_line() {
        assert!(of(130, 0, 64).is_empty());
        prestore::<u64>(&[], Prestore::Clean);
        prestore(&[(), ()], Prestore::Demote);
        copy_skip(&mut [], &[]);
    }

    #[test]
    fn what_the_processor_lacks_is_said() {
        let offer = Offer::of_this_cpu();
        let neither = Offer { clean: None, demote: false, ..offer };
        assert!(!offers(neither, Prestore::Clean) && !offers(neither, Prestore::Demote));
        let cleans = Offer { clean: Some(offer.flush), ..neither };
        assert!(offers(cleans, Prestore::Clean) && !offers(cleans, Prestore::Demote));
        let demotes = Offer { demote: true, ..neither };
        assert!(!offers(demotes, Prestore::Clean) && offers(demotes, Prestore::Demote));
    }

    #[test]
    fn data_is_the_same_after_a_hint() {
        let data: Vec<u16> = (0..1000).collect();
        for op in [Prestore::Clean, Prestore::Demote] {
            for range in [0..1000, 3..4, 17..800] {
                prestore(&data[range], op);
            }
        }
        assert!(data.iter().enumerate().all(|(i, &value)| usize::from(value) == i));
    }

    #[test]
    fn a_copy_at_any_alignment_is_whole_and_touches_nothing_else() {
        let from: Vec<u8> = (0..200).map(|i| i as u8 | 1).collect();
        for start in 0..70 {
            for len in [0, 1, 5, 8, 9, 16, 63, 64, 65, 100] {
                let mut to = [0u8; 200];
                copy_skip(&mut to[start..start + len], &from[start / 3..start / 3 + len]);
                assert_eq!(to[start..start + len], from[start / 3..start / 3 + len]);
                assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    #[should_panic(expected = "different lengths")]
    fn lengths_must_agree() {
        copy_skip(&mut [0; 3], &[1; 4]);
    }
}
