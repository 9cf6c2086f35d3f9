//! Which places of a log's records are to be flushed.
//!
//! # When a place is flushed
//! At the beginning of the log's next record, whose fence then waits for it and for the record together. Right behind the store it would
//! hold up the next region, whose lock waits until all earlier stores and flushes are done; much later, when the line has left the near caches or been written back by
//! itself, a flush costs more. But a line that many regions write would be flushed for each
//! of them, and a processor whose flush drops the line would fetch it again each time. So the lines that were written to lately are known here. One that is not
//! among them is flushed with the next record. One that is among them has been already; it is written to often, is flushed when another one
//! takes its place here, and at the latest when the log is full.
//!
//! Where a fence is a sync of a file ([`Space::fence_writes`]), every flush makes the next sync longer, so there nothing is flushed
//! before a log is full.
//!
//! A flush is worth something to the thread alone that fences after it: here it is the one that writes the next record, or gives the records up.

use std::marker::PhantomData;

use space::LINE;

use crate::Write;
use crate::engine::flaw::Flaw;

/// Lines that are known: a power of two.
const KNOWN: usize = 256;
/// What stands where none is known.
const NONE: u64 = !1;
/// Beside a line's offset: it was written to again.
const AGAIN: u64 = 1;
/// Lines that the list may have room for and still be kept.
const KEPT: usize = 1 << 16;

/// Where a line stands among those that are known.
#[inline(always)]
fn slot(line: u64) -> usize {
    // The beginnings of chunks are far apart, by powers of two.
    ((line / LINE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - KNOWN.ilog2())) as usize
}

/// The places that the records of a log name.
#[derive(Debug)]
pub(super) struct Places<F: Flaw> {
    flaw: PhantomData<F>,
    /// Lines that were written to lately, each where its number leads.
    lately: Box<[u64; KNOWN]>,
    /// Lines that are to be flushed.
    open: Vec<u64>,
    /// Whether that is done with the next record.
    soon: bool,
}

impl<F: Flaw> Places<F> {
    pub(super) fn new(soon: bool) -> Self {
        Places { flaw: PhantomData, lately: Box::new([NONE; KNOWN]), open: Vec::new(), soon }
    }

    /// Flushes what the records before this one wrote, for which the fence of this one waits.
    #[inline]
    pub(super) fn begin(&self, flush: impl FnMut(u64)) {
        if self.soon {
            self.open.iter().copied().for_each(flush);
        }
    }

    /// What was begun is durable. These writes are made, one after the other, by `make`.
    #[inline]
    pub(super) fn write(&mut self, writes: &[Write], make: impl Fn(&Write)) {
        if self.soon {
            // They were flushed as the record was begun, which the fence has waited for.
            self.open.clear();
            if self.open.capacity() > KEPT {
                self.open = Vec::new();
            }
        }
        // The line of the last write: words that follow each other have one flush.
        let mut last = NONE;
        for write in writes {
            make(write);
            let line = write.offset() & !(LINE - 1);
            if line != last {
                self.written(last);
                last = line;
            }
            if !write.is_set() {
                // The complement may lie in the next line.
                let line = (write.offset() + 8) & !(LINE - 1);
                if line != last {
                    self.written(last);
                    last = line;
                }
            }
        }
        self.written(last);
    }

    /// A line was written to.
    #[inline]
    fn written(&mut self, line: u64) {
        if F::PLACES_NOT_FLUSHED || line == NONE {
            return;
        }
        let slot = slot(line);
        let known = std::mem::replace(&mut self.lately[slot], line);
        if known & !AGAIN == line {
            self.lately[slot] = line | AGAIN;
            return;
        }
        if self.soon && known & AGAIN != 0 && !F::WRITTEN_AGAIN_FORGOTTEN {
            self.open.push(known & !AGAIN);
        }
        self.open.push(line);
    }

    /// Flushes all that is not durable yet.
    pub(super) fn settle(&mut self, mut flush: impl FnMut(u64)) {
        if !F::OPEN_FORGOTTEN {
            self.open.iter().copied().for_each(&mut flush);
        }
        self.open.clear();
        for known in &mut *self.lately {
            if !self.soon {
                *known = NONE;
            } else if *known & AGAIN != 0 {
                *known &= !AGAIN;
                if !F::WRITTEN_AGAIN_FORGOTTEN {
                    flush(*known);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;
    use crate::Change;
    use crate::engine::flaw::Sound;
    use proptest::prelude::*;

    /// Lines that drive each other out of three places among those that are known.
    fn rivals() -> Vec<u64> {
        let of = |place| (0..).map(|line| line * LINE).filter(move |&line| slot(line) == place).take(3);
        [0, KNOWN / 3, KNOWN - 1].into_iter().flat_map(of).collect()
    }

    proptest! {
        #[test]
        fn what_is_settled_was_flushed_behind_its_last_write(
            soon: bool,
            records in prop::collection::vec((prop::collection::vec((0usize..9, 0u64..8, any::<bool>()), 1..6), 0u8..4), 1..60),
        ) {
            let (mut places, rivals) = (Places::<Sound>::new(soon), rivals());
            // Lines that were written to and not flushed since.
            let open = RefCell::new(BTreeSet::new());
            let flush = |line| _ = open.borrow_mut().remove(&line);
            for (writes, then) in records {
                let write = |(line, word, is_bits): (usize, u64, bool)| match is_bits {
                    // Words of a map are pairs.
                    true => Write::new(rivals[line] + word / 2 * 16, Change::Take(1)),
                    false => Write::set(rivals[line] + word * 8, 1),
                };
                let writes: Vec<Write> = writes.into_iter().map(write).collect();
                places.begin(flush);
                places.write(&writes, |write| _ = open.borrow_mut().insert(write.offset() & !(LINE - 1)));
                if then == 0 {
                    places.settle(flush);
                    prop_assert_eq!(&*open.borrow(), &BTreeSet::new(), "soon: {}", soon);
                }
            }
        }
    }
}
