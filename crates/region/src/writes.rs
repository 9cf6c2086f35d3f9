//! What a region under way wants to write: words by offset, kept in ordinary memory.

use std::cell::Cell;
use std::fmt;

/// So few words are found without a table.
const FEW: usize = 16;
/// Places of the smallest table: a power of two.
const PLACES_MIN: usize = 64;
/// Words that a set may have room for and still be kept for the next region of its thread.
const KEPT: usize = 1 << 16;

/// One change of a word of the pool. In two words, because a region has many of them, and stores wait behind a fence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Offset of the word, a multiple of 8, and the kind of change in its lowest bits.
    place: u64,
    value: u64,
}

/// Kinds of changes.
const SET: u64 = 0;
const TAKE: u64 = 1;
const GIVE: u64 = 2;
const KINDS: u64 = 7;

impl Write {
    /// A change of the word at `offset`, a multiple of 8.
    #[inline(always)]
    #[must_use]
    pub fn new(offset: u64, change: Change) -> Write {
        debug_assert!(offset.is_multiple_of(8));
        let (kind, value) = match change {
            Change::Set(value) => (SET, value),
            Change::Take(mask) => (TAKE, mask),
            Change::Give(mask) => (GIVE, mask),
        };
        Write { place: offset | kind, value }
    }

    /// The word at `offset`, a multiple of 8, gets a value.
    #[inline(always)]
    #[must_use]
    pub const fn set(offset: u64, value: u64) -> Write {
        debug_assert!(offset.is_multiple_of(8));
        Write { place: offset, value }
    }

    /// Offset of the word.
    #[inline(always)]
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.place & !KINDS
    }

    /// What becomes of it.
    #[inline(always)]
    #[must_use]
    pub fn change(&self) -> Change {
        match self.kind() {
            SET => Change::Set(self.value),
            TAKE => Change::Take(self.value),
            _ => Change::Give(self.value),
        }
    }

    /// Whether it gets a value, and not single bits.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.kind() == SET
    }

    /// The kind of change, as a number.
    #[inline(always)]
    pub(crate) fn kind(&self) -> u64 {
        self.place & KINDS
    }

    /// The value or the bits.
    #[inline(always)]
    pub(crate) fn value(&self) -> u64 {
        self.value
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write").field("offset", &self.offset()).field("change", &self.change()).finish()
    }
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
#[derive(Debug)]
pub struct Writes {
    entries: Vec<Write>,
    /// Of more than few words, by hash of the offset: the round in which it was noted, and behind it an index into `entries`. What was noted in an earlier round is
    /// not there: nobody has to empty the table. At least half of it is free.
    table: Vec<(u32, u32)>,
    /// Counted for each region; never 0.
    round: u32,
    /// By hash of the offset: whether any such word is set, by [`Change::Set`]. Of few words, most that are not there are known by this alone.
    seen: u64,
}

/// Of a word's offset; its upper half can be used.
#[inline(always)]
fn hash(offset: u64) -> u64 {
    (offset >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bit of `seen` that stands for a word.
#[inline(always)]
fn bit(offset: u64) -> u64 {
    1 << (hash(offset) >> 58)
}

impl Default for Writes {
    fn default() -> Self {
        Writes { entries: Vec::new(), table: vec![(0, 0); PLACES_MIN], round: 1, seen: 0 }
    }
}

thread_local! {
    /// The set of this thread's last region, empty, for its next one. Boxed, so that what changes hands is one word: a wider one that was stored
    /// behind a fence in pieces can't be loaded until the fence is done.
    static SPARE: Cell<Option<Box<Writes>>> = const { Cell::new(None) };
}

impl Writes {
    /// An empty set.
    #[inline(always)]
    pub(crate) fn take() -> Box<Writes> {
        // A thread that is ending may abort a region when its variables are gone.
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Empties a set and keeps its memory for this thread.
    #[inline(always)]
    pub(crate) fn put_back(mut self: Box<Self>) {
        if self.table.len() <= KEPT {
            self.clear();
            _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    #[inline]
    fn clear(&mut self) {
        let had_table = self.entries.len() > FEW;
        self.entries.clear();
        self.seen = 0;
        if !had_table {
            return;
        }
        self.round = self.round.checked_add(1).unwrap_or_else(|| {
            self.table.fill((0, 0));
            1
        });
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
        if self.seen & bit(offset) == 0 {
            return None;
        }
        Some(self.entries[self.find(offset).ok()?].value)
    }

    /// Sets the word at `offset`. Whether it was not in the set before.
    #[inline(always)]
    pub(crate) fn set(&mut self, offset: u64, value: u64) -> bool {
        let write = Write::set(offset, value);
        match self.find(offset) {
            Ok(at) => {
                self.entries[at] = write;
                false
            }
            Err(place) => {
                if self.entries.len() > FEW {
                    self.table[place] = (self.round, self.entries.len() as u32);
                }
                self.seen |= bit(offset);
                self.push(write);
                true
            }
        }
    }

    /// Sets words that follow each other, the first at `offset`.
    #[inline]
    pub(crate) fn set_run(&mut self, offset: u64, words: &[[u8; 8]]) {
        let is_few = self.entries.len() + words.len() <= FEW;
        let words = words.iter().enumerate();
        let words = words.map(|(at, word)| Write::set(offset + 8 * at as u64, u64::from_le_bytes(*word)));
        let seen = || words.clone().fold(0, |seen, write| seen | bit(write.place));
        let seen = if is_few { seen() } else { 0 };
        if is_few && self.seen & seen == 0 {
            // None is there yet.
            self.seen |= seen;
            self.entries.extend(words);
        } else {
            words.for_each(|write| _ = self.set(write.place, write.value));
        }
    }

    /// Appends a change of bits, which no other write of this region may concern.
    pub(crate) fn push_bits(&mut self, offset: u64, change: Change) {
        debug_assert!(!matches!(change, Change::Set(_)));
        // Not in the table: several changes may concern one word.
        self.push(Write::new(offset, change));
    }

    #[inline(always)]
    fn push(&mut self, write: Write) {
        self.entries.push(write);
        let count = self.entries.len();
        if count == FEW + 1 || count * 2 > self.table.len() {
            self.index();
        }
    }

    /// The index of the word's entry, or the free place of the table where it would be noted, if there are more than few.
    #[inline(always)]
    fn find(&self, offset: u64) -> Result<usize, usize> {
        if self.entries.len() > FEW {
            return self.find_in_table(offset);
        }
        if self.seen & bit(offset) == 0 {
            return Err(0);
        }
        // One that sets the word: its kind is 0.
        self.entries.iter().position(|write| write.place == offset).ok_or(0)
    }

    fn find_in_table(&self, offset: u64) -> Result<usize, usize> {
        let last = self.table.len() - 1;
        let mut place = (hash(offset) >> 32) as usize & last;
        loop {
            let (round, at) = self.table[place];
            if round != self.round {
                return Err(place);
            }
            if self.entries[at as usize].place == offset {
                return Ok(at as usize);
            }
            place = (place + 1) & last;
        }
    }

    /// Notes all words in the table, in a longer one if they fill half of it.
    #[cold]
    fn index(&mut self) {
        if self.entries.len() * 2 > self.table.len() {
            let size = (self.entries.len() * 4).next_power_of_two();
            (self.table, self.round) = (vec![(0, 0); size], 1);
        }
        for at in 0..self.entries.len() {
            let write = self.entries[at];
            if write.is_set()
                && let Err(place) = self.find_in_table(write.offset())
            {
                self.table[place] = (self.round, at as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(
            rounds in prop::collection::vec(
                prop::collection::vec((0u64..200, any::<u64>(), 0u8..8, 0usize..20), 0..100), 1..4
            )
        ) {
            let mut set = Writes::default();
            for writes in rounds {
                let mut map = BTreeMap::new();
                // In the order in which they came, each word once.
                let mut order = Vec::new();
                for (word, value, kind, count) in writes {
                    match kind {
                        0 => {
                            set.push_bits(word * 8, Change::Take(value));
                            order.push((word * 8, false));
                        }
                        1 => {
                            let run: Vec<u64> = (0..count as u64).map(|at| value ^ at).collect();
                            let bytes: Vec<[u8; 8]> = run.iter().map(|word| word.to_le_bytes()).collect();
                            set.set_run(word * 8, &bytes);
                            for (offset, value) in (word * 8..).step_by(8).zip(run) {
                                if map.insert(offset, value).is_none() {
                                    order.push((offset, true));
                                }
                            }
                        }
                        _ => {
                            let is_new = map.insert(word * 8, value).is_none();
                            prop_assert_eq!(set.set(word * 8, value), is_new);
                            if is_new {
                                order.push((word * 8, true));
                            }
                        }
                    }
                    prop_assert_eq!(set.get(word * 8), map.get(&(word * 8)).copied());
                }
                for word in 0..220 {
                    prop_assert_eq!(set.get(word * 8), map.get(&(word * 8)).copied());
                }
                let held: Vec<(u64, bool)> =
                    set.entries().iter().map(|write| (write.offset(), write.is_set())).collect();
                prop_assert_eq!(held, order);
                set.clear();
            }
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

    #[test]
    fn what_was_noted_in_the_first_round_is_not_there_when_rounds_begin_anew() {
        let mut set = Writes::default();
        (0..30).for_each(|word| _ = set.set(word * 8, word));
        set.clear();
        set.round = u32::MAX;
        (0..20).for_each(|word| _ = set.set(word * 8, word));
        set.clear();
        assert_eq!(set.round, 1);
        (100..120).for_each(|word| _ = set.set(word * 8, word));
        assert!((0..30).all(|word| set.get(word * 8).is_none()));
        assert!((100..120).all(|word| set.get(word * 8) == Some(word)));
    }
}
