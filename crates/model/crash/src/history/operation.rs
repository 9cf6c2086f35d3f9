//! What atoms are pieces of: a store, or a call.

use std::ops::Range;

use super::History;
use crate::Place;
use crate::files::is_contents;

/// What the program did at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It stored bytes, or a call wrote them.
    Bytes {
        /// The first of them.
        place: Place,
        /// How many.
        bytes: u64,
    },
    /// A call set the length of a file.
    Length {
        /// The file's number.
        file: u16,
        /// The length before, bytes.
        from: u64,
        /// The new length, bytes.
        to: u64,
    },
    /// A call changed names; in words: `the rename of `a` to `b``.
    Names(String),
}

/// Some of the bytes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first of them, counted from the operation's first.
    pub from: u64,
    /// Behind the last of them.
    pub to: u64,
    /// How many there are: fewer than from `from` to `to` if others lie between.
    pub bytes: u64,
    /// How many the operation has.
    pub of: u64,
}

impl History {
    /// What the atom of that number is a piece of, and all atoms of that.
    pub(crate) fn operation(&self, atom: u32) -> (Operation, Range<u32>) {
        if self.platform.is_files() {
            let next = self.calls.partition_point(|&(first, _)| first <= atom);
            if let Some((first, operation)) = next.checked_sub(1).and_then(|at| self.calls.get(at)) {
                let end = self.calls.get(next).map_or(self.atoms.len() as u32, |&(first, _)| first);
                return (operation.clone(), *first..end);
            }
        }
        let store = self.atoms[atom as usize].store;
        let of_store = |at: &u32| self.atoms.get(*at as usize).is_some_and(|atom| atom.store == store);
        let before = (0..atom).rev().take_while(of_store).count() as u32;
        let behind = (atom..).take_while(of_store).count() as u32;
        let atoms = atom - before..atom + behind;
        let place = self.first_byte(atoms.start);
        let bytes = self.bytes_of(atoms.clone());
        (Operation::Bytes { place, bytes }, atoms)
    }

    /// The first byte that an atom stored.
    pub(crate) fn first_byte(&self, atom: u32) -> Place {
        let atom = &self.atoms[atom as usize];
        Place(atom.place.0 + u64::from(atom.mask.trailing_zeros()))
    }

    /// Bytes of memory or of a file's contents that atoms stored.
    pub(crate) fn bytes_of(&self, atoms: impl IntoIterator<Item = u32>) -> u64 {
        let atoms = atoms.into_iter().filter(|&at| self.is_of_contents(at));
        atoms.map(|at| u64::from(self.atoms[at as usize].mask.count_ones())).sum()
    }

    /// Whether the atom is no length and no name.
    pub(crate) fn is_of_contents(&self, atom: u32) -> bool {
        !self.platform.is_files() || is_contents(self.atoms[atom as usize].place)
    }

    /// The one of these atoms of an operation that says best what it did: the first byte of a write, and the
    /// length of a change of one. On some file systems that and the bytes that it zeroes or moves become
    /// durable apart.
    pub(crate) fn main_atom(&self, operation: &Operation, atoms: &[u32]) -> Option<u32> {
        let of_contents = |wanted: bool| atoms.iter().copied().find(|&at| self.is_of_contents(at) == wanted);
        match operation {
            Operation::Bytes { .. } => of_contents(true),
            Operation::Length { .. } => of_contents(false).or_else(|| of_contents(true)),
            Operation::Names(_) => None,
        }
    }

    /// Which bytes of an operation these atoms of it are, if not all.
    pub(crate) fn part(&self, operation: &Operation, atoms: &[u32]) -> Option<Part> {
        let &Operation::Bytes { place, bytes: of } = operation else { return None };
        let mut contents = atoms.iter().copied().filter(|&at| self.is_of_contents(at));
        let first = contents.next()?;
        let last = contents.next_back().unwrap_or(first);
        let bytes = self.bytes_of(atoms.iter().copied());
        let from = self.first_byte(first).0 - place.0;
        let end = self.atoms[last as usize];
        let to = end.place.0 + 8 - u64::from(end.mask.leading_zeros()) - place.0;
        (bytes < of).then_some(Part { from, to, bytes, of })
    }
}
