//! Lines on their way from a store to memory.

use std::collections::{BTreeMap, HashMap};

use event::{SiteId, ThreadId};

use crate::Place;

/// Bytes of a cache line.
pub(super) const LINE: u64 = 64;
/// Lines of one structure: so far from its first byte on, what a flush was meant for is looked for.
const STRUCTURE: u64 = 64;

/// Stores of one place in the code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stores {
    pub site: SiteId,
    pub count: u64,
    pub bytes: u64,
    pub first: Place,
    /// The flush that was meant for them and flushed a pointer to them.
    pub meant: Option<SiteId>,
}

impl Stores {
    /// Adds stores to those of the same code.
    pub fn add(list: &mut Vec<Stores>, stores: Stores) {
        match list.iter_mut().find(|known| known.site == stores.site) {
            Some(known) => {
                known.count += stores.count;
                known.bytes += stores.bytes;
                known.meant = known.meant.or(stores.meant);
            }
            None => list.push(stores),
        }
    }
}

/// Stores that were flushed but not yet fenced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flying {
    pub stores: Stores,
    pub flush: SiteId,
    number: u64,
}

/// A line that holds something that need not survive.
#[derive(Debug, Default)]
struct Line {
    dirty: Vec<Stores>,
    flying: Vec<Flying>,
}

/// A flush that no fence of its thread has followed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    line: Place,
    number: u64,
}

/// All lines that were stored to.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pending: BTreeMap<Place, Line>,
    /// Who flushed a line last, of those that were stored to.
    flushers: HashMap<Place, ThreadId>,
    flushes: u64,
}

impl Lines {
    pub fn store(&mut self, stores: Stores) {
        let line = stores.first.line();
        Stores::add(&mut self.pending.entry(line).or_default().dirty, stores);
    }

    /// A flush of the line: what its thread's fence will complete, and whether there was nothing to flush.
    pub fn flush(&mut self, thread: ThreadId, site: SiteId, line: Place) -> (Flush, bool) {
        self.flushes += 1;
        let number = self.flushes;
        let mut had_stores = false;
        if let Some(state) = self.pending.get_mut(&line) {
            had_stores = !state.dirty.is_empty();
            let flying = state.dirty.drain(..).map(|stores| Flying { stores, flush: site, number });
            state.flying.extend(flying);
        }
        let redundant = !had_stores && self.flushers.get(&line).is_none_or(|&last| last == thread);
        if had_stores || self.flushers.contains_key(&line) {
            self.flushers.insert(line, thread);
        }
        (Flush { line, number }, redundant)
    }

    /// A flush at `site` was meant for what `from` begins: the unflushed stores to the lines from there on,
    /// without a gap. Whether there are any.
    pub fn mean(&mut self, from: Place, site: SiteId) -> bool {
        let lines = (0..STRUCTURE).map(|line| Place(from.line().0 + line * LINE));
        let mut any = false;
        for line in lines {
            let Some(state) = self.pending.get_mut(&line).filter(|state| !state.dirty.is_empty()) else {
                break;
            };
            state.dirty.iter_mut().for_each(|stores| stores.meant = stores.meant.or(Some(site)));
            any = true;
        }
        any
    }

    /// A fence followed the flush: what the line held is durable. Returns what of it was not yet.
    pub fn complete(&mut self, flush: Flush) -> Vec<Flying> {
        let Some(state) = self.pending.get_mut(&flush.line) else { return Vec::new() };
        let (durable, flying) = state.flying.drain(..).partition(|flying| flying.number <= flush.number);
        state.flying = flying;
        if state.dirty.is_empty() && state.flying.is_empty() {
            self.pending.remove(&flush.line);
        }
        durable
    }

    /// Lines from `from` to before `to` that have unflushed or unfenced stores.
    pub fn pending(&self, from: Place, to: Place) -> Vec<Place> {
        self.pending.range(from.line()..to).map(|(&line, _)| line).collect()
    }

    /// Everything that was never flushed.
    pub fn dirty(&self) -> impl Iterator<Item = &Stores> {
        self.pending.values().flat_map(|line| &line.dirty)
    }

    /// Everything that was flushed and never fenced.
    pub fn flying(&self) -> impl Iterator<Item = &Flying> {
        self.pending.values().flat_map(|line| &line.flying)
    }
}
