//! Which places of a log's records are not durable yet.
//!
//! # When a place is flushed
//! Right after it was stored to, its line is near: flushing it then costs least, and the next region's fence waits for it anyway. Later, when
//! it has left the near caches or been written back by itself, a flush costs more. But a line that many regions write would be flushed for each
//! of them, and a processor whose flush drops the line would fetch it again each time. So the lines that were written to lately are known here. One that is not
//! among them is flushed at once. One that is among them has been flushed already; it is written to often, is flushed when another one
//! takes its place here, and at the latest when the log is full.
//!
//! Where a fence is a sync of a file ([`Space::fence_writes`]), every flush makes the next sync longer, so there nothing is flushed
//! before a log is full.
//!
//! # What was flushed is not durable
//! before a fence of the *same thread*, which is as a rule that of its next region. Until then the lines stand here, and whoever wants them
//! durable before flushes them again: a thread that comes to this log after another one, and who gives up records.

use std::marker::PhantomData;

use space::{LINE, Space};

use crate::Write;
use crate::engine::flaw::Flaw;
use crate::engine::place::words;

/// Lines that are known: a power of two.
const KNOWN: usize = 256;
/// What stands where none is known.
const NONE: u64 = !1;
/// Beside a line's offset: it was written to after it was flushed.
const AGAIN: u64 = 1;
/// Lines that the list may have room for and still be kept.
const KEPT: usize = 1 << 16;

/// The places that the records of a log name.
#[derive(Debug)]
pub(super) struct Places<F: Flaw> {
    flaw: PhantomData<F>,
    /// Lines that were written to lately, each where its number leads.
    lately: Box<[u64; KNOWN]>,
    /// Lines that are flushed and may not be durable, or are to be flushed.
    open: Vec<u64>,
    /// The thread that flushed them.
    thread: u32,
    /// Whether lines are flushed at once.
    at_once: bool,
}

impl<F: Flaw> Places<F> {
    pub(super) fn new(at_once: bool) -> Self {
        Places { flaw: PhantomData, lately: Box::new([NONE; KNOWN]), open: Vec::new(), thread: 0, at_once }
    }

    /// The next record is of that thread, which has not fenced yet.
    #[inline]
    pub(super) fn begin<S: Space>(&mut self, space: &S, thread: u32) {
        if self.thread != thread {
            self.take_over(space, thread);
        }
    }

    /// What another thread has flushed is flushed again by this one.
    #[cold]
    fn take_over<S: Space>(&mut self, space: &S, thread: u32) {
        self.thread = thread;
        if self.at_once && !F::FLUSHED_BY_OTHERS {
            self.open.iter().for_each(|&line| space.flush(line, LINE));
        }
    }

    /// The thread has fenced: what it flushed before is durable.
    #[inline]
    pub(super) fn fenced(&mut self) {
        if self.at_once {
            self.open.clear();
            if self.open.capacity() > KEPT {
                self.open = Vec::new();
            }
        }
    }

    /// These writes are made, one after the other, by `make`.
    #[inline]
    pub(super) fn write<S: Space>(&mut self, space: &S, writes: &[Write], make: impl Fn(&Write)) {
        // The line of the last write: words that follow each other have one flush.
        let mut last = NONE;
        for write in writes {
            make(write);
            let end = write.offset + 8 * words(write) - 1;
            for line in [write.offset & !(LINE - 1), end & !(LINE - 1)] {
                if line != last {
                    self.written(space, last);
                    last = line;
                }
            }
        }
        self.written(space, last);
    }

    /// A line was written to.
    #[inline]
    fn written<S: Space>(&mut self, space: &S, line: u64) {
        if F::PLACES_NOT_FLUSHED || line == NONE {
            return;
        }
        // The beginnings of chunks are far apart, by powers of two.
        let slot = (line / LINE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - KNOWN.ilog2());
        let known = std::mem::replace(&mut self.lately[slot as usize], line);
        if known & !AGAIN == line {
            self.lately[slot as usize] = line | AGAIN;
            return;
        }
        if self.at_once {
            if known & AGAIN != 0 && !F::WRITTEN_AGAIN_FORGOTTEN {
                self.flush(space, known & !AGAIN);
            }
            self.flush(space, line);
        } else {
            self.open.push(line);
        }
    }

    #[inline]
    fn flush<S: Space>(&mut self, space: &S, line: u64) {
        space.flush(line, LINE);
        self.open.push(line);
    }

    /// Flushes what `thread` has not flushed itself. All is durable by its next fence, which comes before anybody asks again.
    pub(super) fn settle<S: Space>(&mut self, space: &S, thread: u32) {
        if !self.at_once || (self.thread != thread && !F::FLUSHED_BY_OTHERS) {
            self.open.iter().for_each(|&line| space.flush(line, LINE));
        }
        self.open.clear();
        for known in &mut *self.lately {
            if !self.at_once {
                *known = NONE;
            } else if *known & AGAIN != 0 && *known != NONE {
                *known &= !AGAIN;
                if !F::WRITTEN_AGAIN_FORGOTTEN {
                    space.flush(*known, LINE);
                }
            }
        }
    }
}
