//! What a region under way wants to write: words by offset, kept in ordinary memory.

use std::cell::Cell;

/// Entries up to which a search goes through them one by one.
const FEW: usize = 16;
/// Words that a set may have room for and still be kept for the next region of its thread.
const KEPT: usize = 1 << 16;

/// One change of a word of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Offset of the word, a multiple of 8.
    pub offset: u64,
    /// What becomes of it.
    pub change: Change,
}

/// What becomes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It gets this value.
    Set(u64),
    /// These bits are taken: set in the word, and cleared in the one behind it, which is its complement. Other regions may take
    /// and give bits of the same word at the same time.
    Take(u64),
    /// These bits are given back: cleared in the word, set in the one behind it.
    Give(u64),
}

/// The writes of a region in the order in which their words were first written. A word appears once; what was written last counts.
#[derive(Debug, Default)]
pub struct Writes {
    entries: Vec<Write>,
    /// No word from here on is set.
    end: u64,
    /// Indices into `entries` plus 1, by hash of the offset; empty while there are few entries.
    table: Vec<u32>,
}

thread_local! {
    /// The set of this thread's last region, empty, for its next one. Boxed, so that what changes hands is one word: a wider one that was stored
    /// behind a fence in pieces can't be loaded until the fence is done.
    static SPARE: Cell<Option<Box<Writes>>> = const { Cell::new(None) };
}

impl Writes {
    /// An empty set.
    pub(crate) fn take() -> Box<Writes> {
        // A thread that is ending may abort a region when its variables are gone.
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Empties a set and keeps its memory for this thread.
    pub(crate) fn put_back(mut self: Box<Self>) {
        if self.table.len() <= KEPT {
            self.clear();
            _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    fn clear(&mut self) {
        if !self.table.is_empty() {
            self.table.clear();
        }
        self.entries.clear();
        self.end = 0;
    }

    /// All writes.
    #[must_use]
    pub fn entries(&self) -> &[Write] {
        &self.entries
    }

    /// What the word at `offset` will be, if this region sets it.
    #[inline]
    #[must_use]
    pub fn get(&self, offset: u64) -> Option<u64> {
        match self.entries[self.find(offset)?].change {
            Change::Set(value) => Some(value),
            Change::Take(_) | Change::Give(_) => None,
        }
    }

    /// Sets the word at `offset`. Whether it was not in the set before.
    #[inline]
    pub(crate) fn set(&mut self, offset: u64, value: u64) -> bool {
        match self.find(offset) {
            Some(at) => {
                self.entries[at].change = Change::Set(value);
                false
            }
            None => {
                self.append(Write { offset, change: Change::Set(value) });
                true
            }
        }
    }

    /// Appends a change of bits, which no other write of this region may concern.
    pub(crate) fn push_bits(&mut self, offset: u64, change: Change) {
        debug_assert!(!matches!(change, Change::Set(_)));
        // Not found by `find`: several changes may concern one word.
        self.entries.push(Write { offset, change });
        if !self.table.is_empty() && self.entries.len() * 2 > self.table.len() {
            self.rehash();
        }
    }

    #[inline]
    fn append(&mut self, write: Write) {
        self.end = self.end.max(write.offset + 8);
        self.entries.push(write);
        let count = self.entries.len();
        if count <= FEW {
            return;
        }
        if self.table.len() < count * 2 {
            self.rehash();
        } else {
            self.index(count - 1);
        }
    }

    #[inline]
    fn find(&self, offset: u64) -> Option<usize> {
        // What is written in order, as new blocks are, is not searched for.
        if offset >= self.end {
            return None;
        }
        let is_it = |write: &Write| write.offset == offset && matches!(write.change, Change::Set(_));
        if self.table.is_empty() {
            return self.entries.iter().rposition(is_it);
        }
        let mut slot = self.slot(offset);
        loop {
            let at = (self.table[slot] as usize).checked_sub(1)?;
            if is_it(&self.entries[at]) {
                return Some(at);
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
    }

    #[inline]
    fn slot(&self, offset: u64) -> usize {
        ((offset >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.table.len() - 1)
    }

    fn index(&mut self, at: usize) {
        if !matches!(self.entries[at].change, Change::Set(_)) {
            return;
        }
        let mut slot = self.slot(self.entries[at].offset);
        while self.table[slot] != 0 {
            slot = (slot + 1) & (self.table.len() - 1);
        }
        self.table[slot] = at as u32 + 1;
    }

    #[cold]
    fn rehash(&mut self) {
        let size = (self.entries.len() * 4).next_power_of_two();
        self.table.clear();
        self.table.resize(size, 0);
        (0..self.entries.len()).for_each(|at| self.index(at));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(writes in prop::collection::vec((0u64..200, any::<u64>(), 0u8..8), 0..300)) {
            let (mut set, mut map) = (Writes::default(), BTreeMap::new());
            for (word, value, kind) in writes {
                if kind == 0 {
                    set.push_bits(word * 8, Change::Take(value));
                } else {
                    prop_assert_eq!(set.set(word * 8, value), map.insert(word * 8, value).is_none());
                }
                prop_assert_eq!(set.get(word * 8), map.get(&(word * 8)).copied());
            }
            let held: BTreeMap<u64, u64> = set
                .entries()
                .iter()
                .filter_map(|write| match write.change {
                    Change::Set(value) => Some((write.offset, value)),
                    _ => None,
                })
                .collect();
            prop_assert_eq!(held, map);
        }
    }

    #[test]
    fn a_set_that_was_put_back_is_empty() {
        let mut set = Writes::take();
        (0..100).for_each(|word| _ = set.set(word * 8, word));
        set.put_back();
        let set = Writes::take();
        assert_eq!((set.entries().len(), set.get(8)), (0, None));
    }
}
