//! Where persistent bytes are, and the words of an image.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::files::{BULKS, Bulks};
use crate::{Change, History};
use event::map::Map;

/// A byte of persistent memory, independent of where it was mapped: which file, and the offset in it.
///
/// A program that unmaps a pool and maps it again somewhere else, and another run with other addresses, have the same places.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place(pub u64);

const OFFSET_BITS: u32 = 48;

impl Place {
    /// Offset `offset` of the `file`-th file of the history.
    #[must_use]
    pub fn new(file: u16, offset: u64) -> Self {
        debug_assert!(offset < 1 << OFFSET_BITS);
        Place(u64::from(file) << OFFSET_BITS | offset)
    }

    /// Number of the file, in the order in which they were mapped first.
    #[must_use]
    pub fn file(self) -> u16 {
        (self.0 >> OFFSET_BITS) as u16
    }

    /// Offset in the file, bytes.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.0 & ((1 << OFFSET_BITS) - 1)
    }

    /// First byte of its 64 B line.
    #[must_use]
    pub fn line(self) -> Place {
        Place(self.0 & !63)
    }

    /// First byte of its 8-byte word.
    #[must_use]
    pub fn word(self) -> Place {
        Place(self.0 & !7)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.file(), self.offset())
    }
}

/// What was in the files when the run began. A file that is not here, and what lies behind a file's end, is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    files: HashMap<String, Arc<Vec<u8>>>,
}

impl Contents {
    /// Enters a file.
    pub fn insert(&mut self, name: impl Into<String>, bytes: Vec<u8>) {
        self.files.insert(name.into(), Arc::new(bytes));
    }

    pub(crate) fn share(&mut self, name: impl Into<String>, bytes: Arc<Vec<u8>>) {
        self.files.insert(name.into(), bytes);
    }

    /// Cuts a file to at most `len` bytes.
    pub fn truncate(&mut self, name: &str, len: u64) {
        if let Some(bytes) = self.files.get_mut(name) {
            Arc::make_mut(bytes).truncate(usize::try_from(len).unwrap_or(usize::MAX));
        }
    }

    /// The names of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The bytes of a file, if they were entered.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(|bytes| bytes.as_slice())
    }
}

/// Words that are stored together.
pub(crate) const PAGE_WORDS: u64 = 64;

/// Words by place, with the initial contents below.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    /// Initial bytes by number of file.
    initial: Vec<&'a [u8]>,
    pages: Map<u64, Box<[u64; PAGE_WORDS as usize]>>,
    /// What long runs wrote at once, and how much of it is there by now: the word at [`BULKS`].
    bulks: &'a Bulks,
    made: u32,
}

impl<'a> Words<'a> {
    pub fn new(history: &'a History, contents: &'a Contents) -> Self {
        let initial = history.files.iter().map(|name| contents.file(name).unwrap_or(&[])).collect();
        Words { initial, pages: Map::default(), bulks: &history.bulks, made: 0 }
    }

    /// What bytes from `place` on are where no page is.
    fn below(&self, place: Place, bytes: &mut [u8]) {
        let initial = self.initial.get(usize::from(place.file())).copied().unwrap_or(&[]);
        let from = usize::try_from(place.offset()).unwrap_or(usize::MAX).min(initial.len());
        let initial = &initial[from..initial.len().min(from.saturating_add(bytes.len()))];
        bytes[..initial.len()].copy_from_slice(initial);
        bytes[initial.len()..].fill(0);
        self.bulks.fill(place, bytes, self.made);
    }

    fn initial(&self, word: Place) -> u64 {
        let mut whole = [0; 8];
        self.below(word, &mut whole);
        u64::from_le_bytes(whole)
    }

    /// First places of the pieces of [`PAGE_WORDS`] words to which something was written.
    pub fn pages(&self) -> Vec<Place> {
        let mut pages: Vec<u64> = self.pages.keys().copied().collect();
        let words = crate::files::Disk::PAGE / 8;
        pages.extend(self.bulks.pages().flat_map(|page| {
            let first = page * words / PAGE_WORDS;
            first..first + words / PAGE_WORDS
        }));
        pages.sort_unstable();
        pages.dedup();
        pages.into_iter().map(|page| Place(page * PAGE_WORDS * 8)).collect()
    }

    /// Whether the bytes from `place` on, the first one of a piece of [`PAGE_WORDS`] words, are these.
    pub fn are(&self, place: Place, bytes: &[u8]) -> bool {
        if let Some(page) = self.pages.get(&(place.0 / 8 / PAGE_WORDS)) {
            return bytes
                .chunks(8)
                .zip(page.iter())
                .all(|(bytes, word)| word.to_le_bytes().starts_with(bytes));
        }
        let mut below = [0; (PAGE_WORDS * 8) as usize];
        let below = &mut below[..bytes.len().min((PAGE_WORDS * 8) as usize)];
        self.below(place, below);
        below == bytes
    }

    pub fn get(&self, word: Place) -> u64 {
        let at = word.0 / 8;
        match self.pages.get(&(at / PAGE_WORDS)) {
            Some(page) => page[(at % PAGE_WORDS) as usize],
            None => self.initial(word),
        }
    }

    /// Writes the bytes of `value` that `mask` has a bit for, and returns the whole word.
    pub fn put(&mut self, word: Place, value: u64, mask: u8) -> u64 {
        let at = word.0 / 8;
        let page = at / PAGE_WORDS;
        if !self.pages.contains_key(&page) {
            let first = page * PAGE_WORDS;
            let mut bytes = [0; (PAGE_WORDS * 8) as usize];
            self.below(Place(first * 8), &mut bytes);
            let mut words = [0; PAGE_WORDS as usize];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
            self.pages.insert(page, Box::new(words));
        }
        let slot = self.pages.get_mut(&page).map(|page| &mut page[(at % PAGE_WORDS) as usize]);
        let Some(slot) = slot else { return 0 };
        *slot = merge(*slot, value, mask);
        let whole = *slot;
        if word == BULKS {
            self.made = whole as u32;
        }
        whole
    }
}

/// `old` with those bytes of `value` that `mask` has a bit for.
pub(crate) fn merge(old: u64, value: u64, mask: u8) -> u64 {
    if mask == 0xFF {
        return value;
    }
    let mut bits = 0u64;
    for byte in 0..8 {
        if mask & 1 << byte != 0 {
            bits |= 0xFF << (byte * 8);
        }
    }
    old & !bits | value & bits
}

impl<'a> Words<'a> {
    /// The words as they were when the run began.
    pub fn initial_again(&self) -> Words<'a> {
        Words { initial: self.initial.clone(), pages: Map::default(), bulks: self.bulks, made: 0 }
    }

    /// Adds the next bulk. Words of pages that differ from what is below are given to `each`.
    pub fn pass(&mut self, number: u32, mut each: impl FnMut(Place, u64, u64)) {
        let bulk = self.bulks.get(number);
        let piece = PAGE_WORDS * 8;
        for page in bulk.place.0 / piece..bulk.end().0.div_ceil(piece) {
            let Some(words) = self.pages.get_mut(&page) else { continue };
            for (at, word) in (page * piece..).step_by(8).zip(words.iter_mut()) {
                if at + 8 <= bulk.place.0 || bulk.end().0 <= at {
                    continue;
                }
                let mut bytes = word.to_le_bytes();
                self.bulks.fill_by(number, Place(at), &mut bytes);
                let before = std::mem::replace(word, u64::from_le_bytes(bytes));
                each(Place(at), before, *word);
            }
        }
        self.put(BULKS, u64::from(number) + 1, 0xFF);
    }

    /// See [`Self::pass`].
    pub fn bulk(&self, number: u32) -> crate::files::Bulk {
        self.bulks.get(number)
    }

    /// What must be changed to have `other`, by place.
    pub fn difference(&self, other: &Words<'_>) -> Vec<Change> {
        let mut pages: Vec<u64> = self.pages.keys().chain(other.pages.keys()).copied().collect();
        pages.sort_unstable();
        pages.dedup();
        let mut changes = Vec::new();
        for page in pages {
            let (own, others) = (self.pages.get(&page), other.pages.get(&page));
            // Where bulks come or go, whoever holds the words forgets what they did not see.
            let all = self.made != other.made && others.is_some();
            if own == others && !all {
                continue;
            }
            let words = (page * PAGE_WORDS..(page + 1) * PAGE_WORDS).map(|at| Place(at * 8));
            for (at, place) in words.enumerate() {
                let own = own.map_or_else(|| self.initial(place), |words| words[at]);
                let word = others.map_or_else(|| other.initial(place), |words| words[at]);
                if own != word || all {
                    changes.push(Change { place, word });
                }
            }
        }
        changes
    }

    /// Takes over the words of `other`, which has the same initial ones.
    pub fn become_like(&mut self, other: &Words<'_>) {
        self.pages.clone_from(&other.pages);
        self.made = other.made;
    }
}
