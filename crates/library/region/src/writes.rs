//! What a region under way wants to write: words by offset, kept in ordinary memory.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So few words are found without a table.
const FEW: usize = 16;
/// From so many words on, each appears once: a region is not to become long by writing few words again and
/// again.
const BLIND: usize = 256;
/// Places of the smallest table: a power of two.
const PLACES_MIN: usize = 64;
/// Words that a set may have room for and still be kept for the next region of its thread.
const KEPT: usize = 1 << 16;

/// One change of a word of the pool. In two words, because a region has many of them, and stores wait behind
/// a fence.
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

    /// Offset and kind of change in one; the offset alone if the word gets a value.
    #[inline(always)]
    pub(crate) fn place(&self) -> u64 {
        self.place
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
    /// These bits are taken: set in the word, and cleared in the one behind it, which is its complement.
    /// Other regions may take and give bits of the same word at the same time.
    Take(u64),
    /// These bits are given back: cleared in the word, set in the one behind it.
    Give(u64),
}

/// The writes of a region in the order in which they were made; what was written last to a word counts. A
/// word appears once, but where `append` says otherwise.
#[derive(Debug)]
pub struct Writes {
    entries: Vec<Write>,
    /// By hash of the offset: the round in which a word was noted, and in the lower half an index into
    /// `entries`. What was noted in an earlier round is not there: nobody has to empty the table. At least
    /// half of it is free.
    table: Vec<AtomicU64>,
    /// Whether all words that are set stand in the table. They do from the first moment on at which somebody
    /// looks for one among more than few.
    noted: OnceLock<()>,
    /// Counted for each region that noted words; never 0.
    round: u32,
    /// By hash of the offset: whether any such word is set, by [`Change::Set`], among the first few. Most
    /// that are not there are known by this alone.
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

/// A table without words.
fn places(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Default for Writes {
    fn default() -> Self {
        Writes { entries: Vec::new(), table: places(PLACES_MIN), noted: OnceLock::new(), round: 1, seen: 0 }
    }
}

thread_local! {
    /// The set of this thread's last region, empty, for its next one. Boxed, so that what changes hands is
    /// one word: a wider one that was stored behind a fence in pieces can't be loaded until the fence is
    /// done.
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
        self.entries.clear();
        self.seen = 0;
        if self.noted.take().is_none() {
            return;
        }
        self.round = self.round.checked_add(1).unwrap_or_else(|| {
            self.table = places(self.table.len());
            1
        });
    }

    /// All writes.
    #[must_use]
    pub fn entries(&self) -> &[Write] {
        &self.entries
    }

    /// All writes, each word that is set once. Among the first ones [`Writes::append`] may have put one
    /// twice.
    #[cold]
    pub(crate) fn once(&self) -> Cow<'_, [Write]> {
        let (first, rest) = self.entries.split_at(self.entries.len().min(BLIND));
        let mut seen = HashSet::with_capacity(BLIND);
        let last = |write: &&Write| !write.is_set() || seen.insert(write.offset());
        let mut kept: Vec<Write> = first.iter().rev().filter(last).copied().collect();
        if kept.len() == first.len() {
            return Cow::Borrowed(&self.entries);
        }
        kept.reverse();
        kept.extend_from_slice(rest);
        Cow::Owned(kept)
    }

    /// What the word at `offset` will be, if this region sets it.
    #[inline]
    #[must_use]
    pub fn get(&self, offset: u64) -> Option<u64> {
        let at = if self.entries.len() <= FEW { self.find_in_few(offset) } else { self.find_in_many(offset) };
        Some(self.entries[at?].value)
    }

    /// Sets the word at `offset`. Whether it was not in the set before.
    #[inline]
    pub(crate) fn set(&mut self, offset: u64, value: u64) -> bool {
        let at = if self.entries.len() <= FEW { self.find_in_few(offset) } else { self.find_in_many(offset) };
        match at {
            Some(at) => self.entries[at].value = value,
            None => self.push_set(offset, value),
        }
        at.is_none()
    }

    /// Sets the word at `offset`, which may appear again for that. Nobody looks for it in a region that
    /// writes many words and reads none: that costs more than to write one down twice. Few words, and very
    /// many, appear once.
    #[inline(always)]
    pub(crate) fn append(&mut self, offset: u64, value: u64) {
        let count = self.entries.len();
        if count <= FEW {
            let bit = bit(offset);
            if self.seen & bit != 0
                && let Some(at) = self.find_in_few(offset)
            {
                self.entries[at].value = value;
                return;
            }
            self.seen |= bit;
        } else if count >= BLIND || self.noted.get().is_some() {
            self.set(offset, value);
            return;
        }
        self.push(Write::set(offset, value));
    }

    /// [`Writes::append`] of words that follow each other, the first at `offset`.
    #[inline]
    pub(crate) fn append_run(&mut self, offset: u64, words: &[[u8; 8]]) {
        let count = self.entries.len();
        let words = words.iter().enumerate();
        let words = words.map(|(at, word)| Write::set(offset + 8 * at as u64, u64::from_le_bytes(*word)));
        if count + words.len() <= FEW {
            let seen = words.clone().fold(0, |seen, write| seen | bit(write.place));
            if self.seen & seen == 0 {
                // None is there yet.
                self.seen |= seen;
                self.make_room(words.len());
                self.entries.extend(words);
                return;
            }
        }
        words.for_each(|write| self.append(write.place, write.value));
    }

    /// Appends a change of bits, which no other write of this region may concern.
    pub(crate) fn push_bits(&mut self, offset: u64, change: Change) {
        debug_assert!(!matches!(change, Change::Set(_)));
        // Not in the table: several changes may concern one word.
        self.push(Write::new(offset, change));
    }

    /// Appends a word that is not there.
    #[inline(always)]
    fn push_set(&mut self, offset: u64, value: u64) {
        if self.noted.get().is_some() {
            // Before the entry: it makes room in the table.
            self.make_room(1);
            self.note(self.entries.len(), offset);
        } else {
            self.seen |= bit(offset);
        }
        self.push(Write::set(offset, value));
    }

    #[inline(always)]
    fn push(&mut self, write: Write) {
        self.make_room(1);
        self.entries.push(write);
    }

    /// Makes room for so many entries more.
    #[inline(always)]
    fn make_room(&mut self, count: usize) {
        if self.entries.capacity() - self.entries.len() < count {
            self.grow(count);
        }
    }

    /// The table has room for all entries that there is room for.
    #[cold]
    fn grow(&mut self, count: usize) {
        self.entries.reserve(count.max(FEW));
        let size = (self.entries.capacity() * 2).next_power_of_two();
        if size > self.table.len() {
            (self.table, self.round) = (places(size), 1);
            if self.noted.get().is_some() {
                self.note_all();
            }
        }
    }

    /// The index of the word's entry, of few.
    #[inline(always)]
    fn find_in_few(&self, offset: u64) -> Option<usize> {
        if self.seen & bit(offset) == 0 {
            return None;
        }
        // One that sets the word: its kind is 0.
        self.entries.iter().position(|write| write.place == offset)
    }

    /// The index of the word's last entry, of many.
    fn find_in_many(&self, offset: u64) -> Option<usize> {
        self.noted.get_or_init(|| self.note_all());
        self.place(offset).ok()
    }

    /// The index of the word's last entry that is noted, or the free place of the table where it would be.
    #[inline(always)]
    fn place(&self, offset: u64) -> Result<usize, usize> {
        let last = self.table.len() - 1;
        let mut place = (hash(offset) >> 32) as usize & last;
        loop {
            let noted = self.table[place].load(Relaxed);
            if noted >> 32 != u64::from(self.round) {
                return Err(place);
            }
            let at = noted as u32 as usize;
            if self.entries[at].place == offset {
                return Ok(at);
            }
            place = (place + 1) & last;
        }
    }

    /// Notes all words. By the first of those that look for one, for all of them.
    #[cold]
    fn note_all(&self) {
        for (at, write) in self.entries.iter().enumerate().rev() {
            // From the last one on, which counts.
            if write.is_set() {
                self.note(at, write.offset());
            }
        }
    }

    /// Notes where the entry of a word is that is not noted yet.
    #[inline]
    fn note(&self, at: usize, offset: u64) {
        if let Err(place) = self.place(offset) {
            self.table[place].store(u64::from(self.round) << 32 | at as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    /// What becomes of a word of a set.
    #[derive(Clone, Debug)]
    enum Step {
        Bits,
        Set,
        Append,
        Run(usize),
        Get,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => Just(Step::Bits),
            2 => Just(Step::Set),
            8 => Just(Step::Append),
            2 => (0usize..20).prop_map(Step::Run),
            1 => Just(Step::Get),
        ]
    }

    /// Goes those steps with a set and a map, which hold the same afterwards.
    fn hold_the_same(set: &mut Writes, steps: Vec<(u64, u64, Step)>) -> Result<(), TestCaseError> {
        let (mut map, mut bits) = (BTreeMap::new(), Vec::new());
        for (word, value, step) in steps {
            match step {
                Step::Bits => {
                    set.push_bits(word * 8, Change::Take(value));
                    bits.push((word * 8, value));
                }
                Step::Set => {
                    let is_new = map.insert(word * 8, value).is_none();
                    prop_assert_eq!(set.set(word * 8, value), is_new);
                }
                Step::Append => {
                    map.insert(word * 8, value);
                    set.append(word * 8, value);
                }
                Step::Run(count) => {
                    let run: Vec<u64> = (0..count as u64).map(|at| value ^ at).collect();
                    let bytes: Vec<[u8; 8]> = run.iter().map(|word| word.to_le_bytes()).collect();
                    set.append_run(word * 8, &bytes);
                    map.extend((word * 8..).step_by(8).zip(run));
                }
                Step::Get => prop_assert_eq!(set.get(word * 8), map.get(&(word * 8)).copied()),
            }
        }
        let (sets, others): (Vec<&Write>, Vec<&Write>) =
            set.entries().iter().partition(|write| write.is_set());
        let others: Vec<(u64, u64)> = others.iter().map(|write| (write.offset(), write.value())).collect();
        prop_assert_eq!(others, bits);
        // One after the other, as they are done.
        let done: BTreeMap<u64, u64> = sets.iter().map(|write| (write.offset(), write.value())).collect();
        prop_assert_eq!(&done, &map);
        for word in 0..420 {
            prop_assert_eq!(set.get(word * 8), map.get(&(word * 8)).copied());
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(
            rounds in prop::collection::vec(
                prop::collection::vec((0u64..400, any::<u64>(), any_step()), 0..600), 1..4
            )
        ) {
            let mut set = Writes::default();
            for steps in rounds {
                hold_the_same(&mut set, steps)?;
                set.clear();
            }
        }

        #[test]
        fn words_are_in_the_order_in_which_they_came(words in prop::collection::vec(0u64..100, 0..200)) {
            let (mut set, mut order) = (Writes::default(), Vec::new());
            for word in words {
                if set.set(word * 8, word) {
                    order.push(word * 8);
                }
            }
            let held: Vec<u64> = set.entries().iter().map(Write::offset).collect();
            prop_assert_eq!(held, order);
        }
    }

    #[test]
    fn few_words_and_very_many_appear_once() {
        let mut set = Writes::default();
        let mut write = |words: std::ops::Range<u64>, times| {
            (0..times).for_each(|_| words.clone().for_each(|word| set.append(word * 8, word)));
            set.entries().len()
        };
        assert_eq!(write(0..FEW as u64, 10), FEW);
        let many = 2 * BLIND as u64;
        let before = write(0..many, 1);
        assert!(before < 2 * BLIND + FEW, "{before}");
        assert_eq!(write(0..many, 3), before);
    }

    #[test]
    fn what_was_put_twice_can_be_had_once() {
        for (words, times) in [(10, 40), (20, 12), (300, 1), (100, 4), (400, 2)] {
            let mut set = Writes::default();
            for time in 0..times {
                (0..words).for_each(|word| set.append(word * 8, word + time));
            }
            set.push_bits(8 * words, Change::Take(1));
            let once = set.once();
            assert_eq!(once.len() as u64, words + 1, "{words} {times}");
            let expected: BTreeMap<u64, u64> =
                (0..words).map(|word| (word * 8, word + times - 1)).chain([(8 * words, 1)]).collect();
            assert_eq!(
                once.iter().map(|write| (write.offset(), write.value())).collect::<BTreeMap<_, _>>(),
                expected
            );
        }
    }

    /// A region that reads has its words noted, and from then on none appears twice.
    #[test]
    fn words_that_are_looked_for_appear_once() {
        let mut set = Writes::default();
        for round in 0..10 {
            for word in 0..40 {
                let found = set.get(word * 8);
                assert_eq!(found, (round > 0).then(|| word + round - 1));
                set.append(word * 8, word + round);
            }
        }
        assert_eq!(set.entries().len(), 40);
    }

    /// By several threads at once: a region may be looked at by all that have a reference to it.
    #[test]
    fn many_words_are_found_by_all_threads() {
        for _ in 0..1000 {
            let mut set = Writes::default();
            (0..BLIND as u64 - 1).for_each(|word| set.append(word % 200 * 8, word));
            // Who waits in the kernel comes too late.
            let ready = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        ready.fetch_add(1, Relaxed);
                        while ready.load(Relaxed) < 2 {
                            std::thread::yield_now();
                        }
                        // The one that is noted last comes first.
                        for word in (50..200).chain(0..50) {
                            let last = if word < 55 { word + 200 } else { word };
                            assert_eq!(set.get(word * 8), Some(last));
                        }
                    });
                }
            });
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
