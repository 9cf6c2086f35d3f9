//! Goes through a history and keeps what is durable and what is pending.

use std::collections::BTreeMap;

use crate::files::BULKS;
use crate::history::Item;
use crate::words::Words;
use crate::{Change, Contents, History, MarkKind, Place};

/// The state of a run after its first items, every store of which is seen by the oracle.
#[derive(Clone, Debug)]
pub(crate) struct Walker<'h> {
    pub history: &'h History,
    /// Items passed.
    pub at: usize,
    /// What the barriers passed demand.
    pub durable: Words<'h>,
    /// The words as the oracle has them, once it has got `changes`.
    pub current: Words<'h>,
    /// Atoms by cell that no barrier has demanded yet, in order.
    pub pending: BTreeMap<u64, Vec<u32>>,
    /// Changes that the oracle has not got yet.
    pub changes: Vec<Change>,
    /// Exclusive-or over all words that are not initial; equal images have equal hashes.
    pub hash: u128,
    /// Atoms passed: they are numbered in their order.
    passed_atoms: u32,
    pub marks: usize,
    pub begun: u64,
    pub ended: u64,
}

impl<'h> Walker<'h> {
    pub fn new(history: &'h History, contents: &'h Contents) -> Self {
        let words = Words::new(history, contents);
        Walker {
            history,
            at: 0,
            durable: words.clone(),
            current: words,
            pending: BTreeMap::new(),
            changes: Vec::new(),
            hash: 0,
            passed_atoms: 0,
            marks: 0,
            begun: 0,
            ended: 0,
        }
    }

    /// Passes the items before `until`.
    pub fn advance(&mut self, until: usize) {
        let history = self.history;
        while self.at < until {
            match history.items[self.at] {
                Item::Atom(at) => {
                    self.passed_atoms = at + 1;
                    let atom = &history.atoms[at as usize];
                    self.pending.entry(atom.cell).or_default().push(at);
                    let word = crate::words::merge(self.current.get(atom.place), atom.value, atom.mask);
                    self.show(atom.place, word);
                }
                Item::Barrier(at) => self.pass(&history.barriers[at as usize].demands),
                Item::Mark(at) => {
                    self.marks += 1;
                    match history.marks[at as usize].kind {
                        MarkKind::Begin(_) => self.begun += 1,
                        MarkKind::End(_) => self.ended += 1,
                        MarkKind::Phase(_) => {}
                    }
                }
                Item::Flush(_) => {}
                Item::Bulk(at) => self.bulk(at),
            }
            self.at += 1;
        }
    }

    /// A bulk survives, and so does all that was in its cells and in that of its file's length.
    fn bulk(&mut self, number: u32) {
        let bulk = self.current.bulk(number);
        let sector = bulk.place.0 / crate::files::Disk::PAGE * crate::files::Disk::PAGE;
        let mut cells: Vec<u64> = self.pending.range(sector..bulk.end().0).map(|(&cell, _)| cell).collect();
        cells.push(bulk.length);
        let last: Vec<u32> =
            cells.iter().filter_map(|cell| self.pending.get(cell)?.last().copied()).collect();
        self.pass(&last);
        self.durable.pass(number, |_, _, _| {});
        let (hash, changes) = (&mut self.hash, &mut self.changes);
        self.current.pass(number, |place, before, word| {
            *hash ^= mix(place, before) ^ mix(place, word);
            changes.push(Change { place, word });
        });
        let made = [u64::from(number), u64::from(number) + 1];
        *hash ^= mix(BULKS, made[0]) ^ mix(BULKS, made[1]);
        changes.push(Change { place: BULKS, word: made[1] });
    }

    fn pass(&mut self, demands: &[u32]) {
        let mut survived = Vec::new();
        for &demand in demands {
            let cell = self.history.atoms[demand as usize].cell;
            let Some(atoms) = self.pending.get_mut(&cell) else { continue };
            let count = atoms.partition_point(|&at| at <= demand);
            survived.extend(atoms.drain(..count));
            if atoms.is_empty() {
                self.pending.remove(&cell);
            }
        }
        survived.sort_unstable();
        for at in survived {
            let atom = &self.history.atoms[at as usize];
            self.durable.put(atom.place, atom.value, atom.mask);
        }
    }

    /// Lets the oracle see `word` at `place` from its next examination on.
    pub fn show(&mut self, place: Place, word: u64) {
        let before = self.current.get(place);
        if before != word {
            self.hash ^= mix(place, before) ^ mix(place, word);
            self.current.put(place, word, 0xFF);
            self.changes.push(Change { place, word });
        }
    }
}

/// A well mixed number for a word of an image.
pub(crate) fn mix(place: Place, word: u64) -> u128 {
    let a = (u128::from(place.0) << 64 | u128::from(word))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let b = (a ^ a >> 67).wrapping_mul(0xD6E8_FEB8_6659_FD93_CA5A_8263_9512_1157);
    b ^ b >> 61
}

impl Walker<'_> {
    /// Whether the atom is among the items passed.
    pub fn has_passed(&self, atom: u32) -> bool {
        self.passed_atoms > atom
    }
}
