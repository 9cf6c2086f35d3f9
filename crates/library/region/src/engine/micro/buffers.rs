//! What a region works on: copies of lines in ordinary memory, and which of their words it wrote.

use std::cell::Cell;

use space::{LINE, Space};

use crate::writes::Writes;
use crate::{Change, Write};

/// Words of a line.
const WORDS: usize = 8;
/// Lines that a set may have room for and still be kept for the next region of its thread.
const KEPT: usize = 1 << 12;

/// A line in ordinary memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    /// Where the line lies.
    pub(super) offset: u64,
    /// A bit for each word that was written.
    written: u8,
    words: [u64; WORDS],
}

impl Buffer {
    /// Whether all of the line was written.
    pub(super) fn is_whole(&self) -> bool {
        self.written == u8::MAX
    }

    /// The words that were written: where, and what.
    pub(super) fn written(&self) -> impl Iterator<Item = (u64, u64)> {
        let places = (self.offset..).step_by(8).zip(self.words);
        (0u32..).zip(places).filter(|(bit, _)| self.written >> bit & 1 == 1).map(|(_, word)| word)
    }

    /// The line's bytes.
    pub(super) fn bytes(&self) -> [[u8; 8]; WORDS] {
        self.words.map(u64::to_le_bytes)
    }
}

/// The lines that a region wrote to, and the bits that it changes.
#[derive(Debug, Default)]
pub struct Buffers {
    lines: Vec<Buffer>,
    /// By offset of a line: which of `lines` it is.
    index: Box<Writes>,
    /// The one that was written last.
    last: usize,
    bits: Vec<Write>,
}

thread_local! {
    /// The set of this thread's last region, empty, for its next one.
    static SPARE: Cell<Option<Buffers>> = const { Cell::new(None) };
}

impl Buffers {
    /// An empty set.
    pub(super) fn take() -> Buffers {
        // A thread that is ending may abort a region when its variables are gone.
        let mut buffers = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        buffers.index = Writes::take();
        buffers
    }

    /// Empties a set and keeps its memory for this thread.
    pub(super) fn put_back(mut self) {
        std::mem::take(&mut self.index).put_back();
        if self.lines.capacity() <= KEPT {
            self.lines.clear();
            self.bits.clear();
            _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.bits.is_empty()
    }

    #[inline]
    fn find(&self, line: u64) -> Option<usize> {
        match self.lines.get(self.last) {
            Some(buffer) if buffer.offset == line => Some(self.last),
            _ => self.index.get(line).map(|at| at as usize),
        }
    }

    /// The word at `offset`, if its line is here.
    #[inline]
    pub(super) fn get(&self, offset: u64) -> Option<u64> {
        let (line, word) = split(offset);
        self.find(line).map(|at| self.lines[at].words[word])
    }

    /// Writes the word at `offset`, to a copy of its line that is made if there is none.
    #[inline]
    pub(super) fn set<S: Space>(&mut self, space: &S, offset: u64, value: u64) {
        let (line, word) = split(offset);
        self.last = self.find(line).unwrap_or_else(|| self.copy(space, line));
        let buffer = &mut self.lines[self.last];
        buffer.words[word] = value;
        buffer.written |= 1 << word;
    }

    fn copy<S: Space>(&mut self, space: &S, line: u64) -> usize {
        let at = self.lines.len();
        let words = std::array::from_fn(|word| space.load_u64(line + 8 * word as u64));
        self.lines.push(Buffer { offset: line, written: 0, words });
        self.index.set(line, at as u64);
        at
    }

    /// Remembers a change of bits.
    pub(super) fn push_bits(&mut self, offset: u64, change: Change) {
        self.bits.push(Write::new(offset, change));
    }

    /// Puts the lines into the order of their places. Nothing may be written any more.
    pub(super) fn sort(&mut self) {
        if !self.lines.is_sorted_by_key(|line| line.offset) {
            self.lines.sort_unstable_by_key(|line| line.offset);
        }
    }

    /// The lines.
    pub(super) fn lines(&self) -> &[Buffer] {
        &self.lines
    }

    /// The changes of bits.
    pub(super) fn bits(&self) -> &[Write] {
        &self.bits
    }

    /// Writes that the region wants, at most.
    pub(super) fn most_writes(&self) -> usize {
        self.lines.len() * WORDS + self.bits.len()
    }

    /// All that the region wants.
    pub(super) fn writes(&self) -> impl Iterator<Item = Write> {
        let words = self.lines.iter().flat_map(Buffer::written);
        words.map(|(offset, value)| Write::set(offset, value)).chain(self.bits.iter().copied())
    }
}

/// The line of a word, and which of its words it is.
fn split(offset: u64) -> (u64, usize) {
    (offset / LINE * LINE, (offset % LINE / 8) as usize)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;
    use space::Image;

    proptest! {
        #[test]
        fn they_hold_what_a_map_holds(writes in prop::collection::vec((0u64..512, any::<u64>()), 0..200)) {
            let space = Image::new(4096);
            (0..512).for_each(|word| space.store_u64(8 * word, !word));
            let (mut buffers, mut map) = (Buffers::take(), BTreeMap::new());
            for (word, value) in writes {
                buffers.set(&space, 8 * word, value);
                map.insert(8 * word, value);
                let beside = 8 * (word ^ 1);
                prop_assert_eq!(buffers.get(beside), Some(map.get(&beside).copied().unwrap_or(!(word ^ 1))));
            }
            buffers.sort();
            let held: Vec<Write> = buffers.writes().collect();
            let expected = map.iter().map(|(&offset, &value)| Write::set(offset, value));
            prop_assert_eq!(held, expected.collect::<Vec<_>>());
            buffers.put_back();
            prop_assert!(Buffers::take().is_empty() && Buffers::take().get(0).is_none());
            prop_assert!((0..512).all(|word| space.load_u64(8 * word) == !word), "nothing is written in place");
        }
    }
}
