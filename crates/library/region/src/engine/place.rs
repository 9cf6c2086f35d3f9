//! What engines do to the words that regions write.

use space::{LINE, Space};

use super::Logs;
use crate::{Change, Write};

/// Gives a word its new value.
#[inline]
pub fn apply<S: Space>(space: &S, write: &Write) {
    match write.change() {
        Change::Set(value) => space.store_u64(write.offset(), value),
        Change::Take(mask) => {
            change_bits(space, write.offset(), |bits| bits | mask);
            change_bits(space, write.offset() + 8, |bits| bits & !mask);
        }
        Change::Give(mask) => {
            change_bits(space, write.offset(), |bits| bits & !mask);
            change_bits(space, write.offset() + 8, |bits| bits | mask);
        }
    }
}

/// Changes a word that others may change, too.
fn change_bits<S: Space>(space: &S, offset: u64, change: impl Fn(u64) -> u64) {
    let mut bits = space.load_u64(offset);
    while let Err(found) = space.cas_u64(offset, bits, change(bits)) {
        bits = found;
    }
}

/// What takes a change of bits back; `None` if it is not one.
#[inline]
pub(super) fn inverse(change: Change) -> Option<Change> {
    match change {
        Change::Take(mask) => Some(Change::Give(mask)),
        Change::Give(mask) => Some(Change::Take(mask)),
        Change::Set(_) => None,
    }
}

/// Takes writes back, of which these are the inverses in the order in which the writes were made. Flushes,
/// does not fence.
pub(super) fn take_back<S: Space>(space: &S, inverses: &[Write]) {
    inverses.iter().rev().for_each(|write| apply(space, write));
    flush_all(space, inverses);
}

/// Words that a write goes to.
#[inline(always)]
pub(super) fn words(write: &Write) -> u64 {
    if write.is_set() { 1 } else { 2 }
}

/// Flushes the places of a write.
#[inline]
pub fn flush<S: Space>(space: &S, write: &Write) {
    space.flush(write.offset(), 8 * words(write));
}

/// Flushes the places of many writes, most lines once. For places that nobody else writes to meanwhile: what
/// is written after a line was flushed needs another flush, which it may not get.
pub(super) struct Flusher<const LINES: usize> {
    /// Lines that were flushed, each where its number leads.
    lines: [u64; LINES],
}

impl<const LINES: usize> Flusher<LINES> {
    pub(super) fn new() -> Self {
        Flusher { lines: [u64::MAX; LINES] }
    }

    #[inline]
    pub(super) fn flush<S: Space>(&mut self, space: &S, write: &Write) {
        let last = (write.offset() + 8 * words(write) - 1) / LINE;
        for line in write.offset() / LINE..=last {
            let known = &mut self.lines[line as usize % LINES];
            if *known != line {
                *known = line;
                space.flush(line * LINE, LINE);
            }
        }
    }
}

/// Flushes the places of a region's writes, once they are made.
#[inline]
pub fn flush_all<S: Space>(space: &S, writes: &[Write]) {
    let mut places = Flusher::<8>::new();
    writes.iter().for_each(|write| places.flush(space, write));
}

/// Whether a write goes to where regions may write: behind the state, and not into logs.
pub(super) fn fits(write: &Write, logs: &Logs) -> bool {
    let past = logs.base + u64::from(logs.count) * logs.bytes;
    write.offset() > logs.state
        && !(logs.base..past).contains(&write.offset())
        && write.offset().checked_add(8 * words(write)).is_some_and(|end| end <= logs.end)
}
