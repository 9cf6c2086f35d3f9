//! One log: a ring of records, and lines for copies behind it.

use std::collections::VecDeque;

use space::{LINE, Space};

use crate::Write;
use crate::engine::long::OverflowRecord;
use crate::engine::record::Draft;
use crate::log::Ring;

/// How the lines of a log are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lines of records.
    pub lines: u64,
    /// Lines for copies behind them.
    pub copies: u64,
}

impl Shape {
    /// Where copy `slot` of the log at `base` lies.
    pub fn copy(&self, base: u64, slot: u64) -> u64 {
        base + (self.lines + slot) * LINE
    }
}

/// A log, and what of it is in use.
pub struct Log {
    base: u64,
    shape: Shape,
    ring: Ring,
    /// Copies taken since the log was empty, those that are not needed any more, and those that belong to a
    /// record.
    taken: u64,
    released: u64,
    recorded: u64,
    /// Records that recovery could carry out.
    kept: VecDeque<Kept>,
}

/// A record: its region's number, and how far lines and copies of the log were taken with it.
struct Kept {
    number: u64,
    head: u64,
    copies: u64,
}

impl Log {
    pub(in crate::engine) fn new(base: u64, shape: Shape) -> Log {
        let ring = Ring::new(base, shape.lines * LINE);
        Log { base, shape, ring, taken: 0, released: 0, recorded: 0, kept: VecDeque::new() }
    }

    /// Whether so many lines of a record, and so many copies, can be taken without touching any that are
    /// needed.
    pub(in crate::engine) fn has_room(&self, lines: u64, copies: u64) -> bool {
        self.ring.has_room(lines) && self.taken - self.released + copies <= self.shape.copies
    }

    /// The number of the last record that is needed.
    pub(in crate::engine) fn last_kept(&self) -> Option<u64> {
        self.kept.back().map(|kept| kept.number)
    }

    /// Records with lower numbers than `mark` are not needed any more.
    pub(in crate::engine) fn release(&mut self, mark: u64) {
        while let Some(kept) = self.kept.pop_front_if(|kept| kept.number < mark) {
            self.ring.release(kept.head);
            self.released = kept.copies;
        }
    }

    /// Takes a line for a copy, for which there is room; which one it is.
    pub fn take_copy(&mut self) -> u64 {
        self.taken += 1;
        (self.taken - 1) % self.shape.copies
    }

    /// Where copy `slot` lies.
    pub fn copy(&self, slot: u64) -> u64 {
        self.shape.copy(self.base, slot)
    }

    /// Copies that no record names are free again.
    pub(in crate::engine) fn forget_copies(&mut self) {
        self.taken = self.recorded;
    }

    /// Stores a record, for which there is room, of these writes and perhaps others elsewhere. The copies
    /// that were taken are given up together with it. The next fence makes it durable; not so if it is not
    /// `flushed`, by mistake.
    pub(in crate::engine) fn write<S: Space>(
        &mut self,
        space: &S,
        number: u64,
        writes: &[Write],
        there: Option<&OverflowRecord>,
        flushed: bool,
    ) {
        let mut draft = Draft::default();
        draft.fill(writes, there);
        draft.write(space, &mut self.ring, number, flushed);
        self.recorded = self.taken;
        self.kept.push_back(Kept { number, head: self.ring.head(), copies: self.taken });
    }
}
