//! What a run left in its files when nothing was lost.

use std::collections::{BTreeSet, HashMap};

use event::SiteId;

use super::Item;
use crate::words::{PAGE_WORDS, Words};
use crate::{Change, Contents, History, Place};

/// Bytes of the largest of the C library's locks, `pthread_rwlock_t`.
const OBJECT_BYTES: u64 = 56;
/// Bytes that are compared at once.
const PAGE: u64 = PAGE_WORDS * 8;

/// The files behind a whole run: its complete, undisturbed image.
#[derive(Clone, Debug)]
pub struct Left<'a> {
    history: &'a History,
    words: Words<'a>,
    /// By number of file: stored words, and those of them that held something else before.
    stored: Vec<(u64, u64)>,
    /// The atoms of each word that several threads stored to; made when a difference asks for it.
    shared: Option<HashMap<Place, Vec<u32>>>,
    raced: Vec<Change>,
}

/// A byte of a file that is not what the run's stores made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where in the file, bytes.
    pub offset: u64,
    /// What the stores made of it.
    pub expected: u8,
    /// What is there.
    pub found: u8,
    /// The code of the last store to the byte; none if the run stored nothing there.
    pub last: Option<SiteId>,
}

impl History {
    /// What the run's stores make of `contents`.
    #[must_use]
    pub fn left<'a>(&'a self, contents: &'a Contents) -> Left<'a> {
        let words = Words::new(self, contents);
        let stored = vec![(0, 0); self.files.len()];
        let mut left = Left { history: self, words, stored, shared: None, raced: Vec::new() };
        for &item in &self.items {
            let atom = match item {
                Item::Atom(at) => &self.atoms[at as usize],
                Item::Bulk(at) => {
                    let bulk = left.words.bulk(at);
                    left.words.pass(at, |_, _, _| {});
                    if let Some((stored, changed)) = left.stored.get_mut(usize::from(bulk.place.file())) {
                        *stored += bulk.len.div_ceil(8);
                        *changed += bulk.len.div_ceil(8);
                    }
                    continue;
                }
                _ => continue,
            };
            let before = left.words.get(atom.place);
            let after = left.words.put(atom.place, atom.value, atom.mask);
            if let Some((stored, changed)) = left.stored.get_mut(usize::from(atom.place.file())) {
                *stored += 1;
                *changed += u64::from(before != after);
            }
        }
        left
    }
}

impl Left<'_> {
    /// How many words the run stored to a file, and how many of these stores changed something.
    #[must_use]
    pub fn stored(&self, file: usize) -> (u64, u64) {
        self.stored.get(file).copied().unwrap_or_default()
    }

    /// What differs from what the files held when the run began.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        self.words.initial_again().difference(&self.words)
    }

    /// Words in which another order of stores than the recorded one was found, as it left them.
    #[must_use]
    pub fn raced(&self) -> &[Change] {
        &self.raced
    }

    /// The pieces of 512 B that the run stored to, in order.
    #[must_use]
    pub fn pages(&self) -> Vec<Place> {
        let mut pages = self.words.pages();
        pages.sort_unstable();
        pages
    }

    /// The first byte of a part of a file, from the offset `from` on (a multiple of 512), that is not what
    /// the run's stores make of it: a store there was not recorded.
    ///
    /// Threads that do not synchronise may have stored in another order than the source recorded. Where the
    /// last store of another thread gives what is there, this is what the run left from now on. What the C
    /// library keeps in its own locks is left out.
    ///
    /// # Panics
    /// If `from` is no multiple of 512.
    pub fn difference(&mut self, file: u16, from: u64, found: &[u8]) -> Option<Difference> {
        assert!(from.is_multiple_of(PAGE), "parts begin where pages do");
        for (at, page) in (from..).step_by(PAGE as usize).zip(found.chunks(PAGE as usize)) {
            if self.words.are(Place::new(file, at), page) {
                continue;
            }
            for (at, bytes) in (at..).step_by(8).zip(page.chunks(8)) {
                let difference = self.word(Place::new(file, at), bytes);
                if difference.is_some() {
                    return difference;
                }
            }
        }
        None
    }

    fn word(&mut self, word: Place, bytes: &[u8]) -> Option<Difference> {
        let expected = self.words.get(word).to_le_bytes();
        if bytes == &expected[..bytes.len()] || self.is_in_object(word) {
            return None;
        }
        for (byte, &found) in bytes.iter().enumerate().filter(|&(byte, found)| *found != expected[byte]) {
            if self.is_of_another(word, byte, found) {
                let whole = self.words.put(word, u64::from(found) << (8 * byte), 1 << byte);
                self.raced.push(Change { place: word, word: whole });
                continue;
            }
            let last =
                self.history.atoms.iter().rev().find(|atom| atom.place == word && has(atom.mask, byte));
            return Some(Difference {
                offset: word.offset() + byte as u64,
                expected: expected[byte],
                found,
                last: last.map(|atom| atom.site),
            });
        }
        None
    }

    /// Whether this is what one of several threads stored last to a byte of the word.
    fn is_of_another(&mut self, word: Place, byte: usize, found: u8) -> bool {
        let atoms = &self.history.atoms;
        let shared = self.shared.get_or_insert_with(|| shared(self.history));
        let Some(stores) = shared.get(&word) else { return false };
        let mut seen = BTreeSet::new();
        let stores = stores.iter().rev().map(|&at| &atoms[at as usize]).filter(|atom| has(atom.mask, byte));
        let mut last = stores.filter(|atom| seen.insert(atom.thread));
        last.any(|atom| atom.value.to_le_bytes()[byte] == found)
    }

    fn is_in_object(&self, word: Place) -> bool {
        let before = self.history.objects.range(..=word).next_back();
        before.is_some_and(|object| {
            object.file() == word.file() && word.offset() - object.offset() < OBJECT_BYTES
        })
    }
}

fn has(mask: u8, byte: usize) -> bool {
    mask & 1 << byte != 0
}

/// The atoms, in order, of each word that several threads stored to.
fn shared(history: &History) -> HashMap<Place, Vec<u32>> {
    let mut owners = HashMap::new();
    let mut shared: HashMap<Place, Vec<u32>> = HashMap::new();
    for atom in &history.atoms {
        if *owners.entry(atom.place).or_insert(atom.thread) != atom.thread {
            shared.entry(atom.place).or_default();
        }
    }
    for (at, atom) in (0..).zip(&history.atoms) {
        if let Some(atoms) = shared.get_mut(&atom.place) {
            atoms.push(at);
        }
    }
    shared
}
