//! Which places of a log's records are to be flushed.
//!
//! # When a place is flushed
//! At the beginning of the log's next record, whose fence then waits for it and for the record together.
//! Right behind the store it would hold up the next region, whose lock waits until all earlier stores and
//! flushes are done; much later, when the line has left the near caches or been written back by itself, a
//! flush costs more. But a line that many regions write would be flushed for each of them, and a processor
//! whose flush drops the line would fetch it again each time. So the lines that were written to lately are
//! known here. One that is not among them is flushed with the next record. One that is among them has been
//! already; it is written to often, is flushed when another one takes its place here, and at the latest when
//! the log is full.
//!
//! Where a fence is a sync of a file ([`Space::fence_writes`]), every flush makes the next sync longer, so
//! there nothing is flushed before a log is full.
//!
//! A flush is worth something to the thread alone that fences after it: here it is the one that writes the
//! next record, or gives the records up.

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
/// So many writes have their lines noted at once.
const NOTED_AT_ONCE: usize = 1024;
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
    /// Room for lines that are to be flushed, and how many there are.
    open: Vec<u64>,
    opened: usize,
    /// Whether that is done with the next record.
    soon: bool,
}

/// The line of a word.
#[inline(always)]
fn line_of(offset: u64) -> u64 {
    offset & !(LINE - 1)
}

impl<F: Flaw> Places<F> {
    pub(super) fn new(soon: bool) -> Self {
        let lately = Box::new([NONE; KNOWN]);
        Places { flaw: PhantomData, lately, open: Vec::new(), opened: 0, soon }
    }

    /// Flushes what the records before this one wrote, for which the fence of this one waits.
    #[inline]
    pub(super) fn begin(&self, flush: impl FnMut(u64)) {
        if self.soon {
            self.open[..self.opened].iter().copied().for_each(flush);
        }
    }

    /// What was begun is durable once this record is, and these writes are made then. The lines that they go
    /// to are known from here on.
    #[inline(always)]
    pub(super) fn note(&mut self, writes: &[Write]) {
        if self.soon {
            self.opened = 0;
        }
        if let [write] = writes {
            self.note_some(std::slice::from_ref(write));
            return;
        }
        writes.chunks(NOTED_AT_ONCE).for_each(|writes| self.note_some(writes));
    }

    /// Notes the lines of not too many writes.
    #[inline(always)]
    fn note_some(&mut self, writes: &[Write]) {
        if F::PLACES_NOT_FLUSHED {
            return;
        }
        // As many as there can be: the lines of a write, and with each another one that is not known any
        // more.
        let most = 4 * writes.len();
        if self.open.len() - self.opened < most {
            self.make_room(most);
        }
        let (lately, soon) = (&mut self.lately, self.soon);
        let mut free = self.open[self.opened..].iter_mut();
        let room = free.len();
        let mut open = |line| *free.next().expect("there is room for all") = line;
        // The line of the last write: words that follow each other have one flush.
        let mut last = NONE;
        let mut written = |line| {
            if line == last {
                return;
            }
            last = line;
            let place = &mut lately[slot(line)];
            let known = std::mem::replace(place, line);
            if known & !AGAIN == line {
                *place = line | AGAIN;
                return;
            }
            if soon && known & AGAIN != 0 && !F::WRITTEN_AGAIN_FORGOTTEN {
                open(known & !AGAIN);
            }
            open(line);
        };
        for write in writes {
            written(line_of(write.offset()));
            if !write.is_set() {
                // The complement may lie in the next line.
                written(line_of(write.offset() + 8));
            }
        }
        self.opened += room - free.len();
    }

    #[cold]
    fn make_room(&mut self, count: usize) {
        self.open.resize(self.opened + count, NONE);
    }

    /// Flushes all that is not durable yet.
    pub(super) fn flush_all(&mut self, mut flush: impl FnMut(u64)) {
        if !F::OPEN_FORGOTTEN {
            self.open[..self.opened].iter().copied().for_each(&mut flush);
        }
        self.opened = 0;
        if self.open.len() > KEPT {
            self.open = Vec::new();
        }
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
                places.note(&writes);
                open.borrow_mut().extend(writes.iter().map(|write| line_of(write.offset())));
                if then == 0 {
                    places.flush_all(flush);
                    prop_assert_eq!(&*open.borrow(), &BTreeSet::new(), "soon: {}", soon);
                }
            }
        }
    }
}
