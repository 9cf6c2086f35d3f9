//! The index in ordinary memory: where the record of a key is.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use Ordering::{Acquire, Relaxed, Release};

/// Entries of the smallest table, as a power of two.
const SMALLEST: u32 = 3;
const SIZES: usize = 40;

/// A hash table from 64-bit hashes to locations, which are not 0. One thread at a time changes it; any number
/// reads meanwhile and finds out afterwards, by the version of whoever owns the table, whether it read
/// nonsense.
///
/// An entry is two words, the location second; entries lie where their hash says, or as near behind as there
/// was room. Tables that became too small are kept, for readers that are still in them: half a table's
/// memory.
#[derive(Debug)]
pub(crate) struct Table {
    sizes: [OnceLock<Box<[AtomicU64]>>; SIZES],
    /// Power of two of the entries; 0 before the first.
    size: AtomicU32,
    /// Entries in use.
    count: AtomicU64,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table { sizes: [const { OnceLock::new() }; SIZES], size: AtomicU32::new(0), count: AtomicU64::new(0) }
    }

    /// Keys that it has.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().filter_map(OnceLock::get).map(|words| 8 * words.len() as u64).sum()
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        let size = self.size.load(Acquire);
        self.sizes.get(size as usize).and_then(OnceLock::get).map_or(&[], |words| words)
    }

    /// The location of the first entry with that hash which `is` the one that is looked for.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u64) -> bool) -> Option<u64> {
        self.slot(hash, &mut is).map(|(_, location)| location)
    }

    #[inline]
    fn slot(&self, hash: u64, is: &mut impl FnMut(u64) -> bool) -> Option<(usize, u64)> {
        let words = self.words();
        let mask = (words.len() / 2).wrapping_sub(1);
        let mut at = hash as usize & mask;
        for _ in 0..words.len() / 2 {
            let location = words[2 * at + 1].load(Relaxed);
            if location == 0 {
                return None;
            }
            if words[2 * at].load(Relaxed) == hash && is(location) {
                return Some((at, location));
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The location of the entry with which a search for that hash begins, if it has that hash; else 0. For
    /// who wants it in the cache before it is looked for.
    #[inline]
    pub(crate) fn first(&self, hash: u64) -> u64 {
        let words = self.words();
        if words.is_empty() {
            return 0;
        }
        let at = hash as usize & (words.len() / 2 - 1);
        if words[2 * at].load(Relaxed) == hash { words[2 * at + 1].load(Relaxed) } else { 0 }
    }

    /// Replaces the location `old` of an entry.
    pub(crate) fn replace(&self, hash: u64, old: u64, new: u64) {
        if let Some((at, _)) = self.slot(hash, &mut |location| location == old) {
            self.words()[2 * at + 1].store(new, Relaxed);
        }
    }

    /// Adds an entry.
    pub(crate) fn insert(&self, hash: u64, location: u64) {
        let count = self.count();
        if 4 * (count as usize + 1) > 3 * (self.words().len() / 2) {
            self.grow();
        }
        Self::put(self.words(), hash, location);
        self.count.store(count + 1, Relaxed);
    }

    fn put(words: &[AtomicU64], hash: u64, location: u64) {
        let mask = words.len() / 2 - 1;
        let mut at = hash as usize & mask;
        while words[2 * at + 1].load(Relaxed) != 0 {
            at = (at + 1) & mask;
        }
        words[2 * at].store(hash, Relaxed);
        words[2 * at + 1].store(location, Relaxed);
    }

    #[cold]
    fn grow(&self) {
        let size = (self.size.load(Relaxed) + 1).max(SMALLEST);
        let zeros = || (0..2usize << size).map(|_| AtomicU64::new(0)).collect();
        let longer = self.sizes[size as usize].get_or_init(zeros);
        self.each(|hash, location| Self::put(longer, hash, location));
        self.size.store(size, Release);
    }

    /// Takes out the entry with that hash and location.
    pub(crate) fn remove(&self, hash: u64, location: u64) {
        let Some((mut hole, _)) = self.slot(hash, &mut |found| found == location) else { return };
        let words = self.words();
        let mask = words.len() / 2 - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let (hash, location) = (words[2 * at].load(Relaxed), words[2 * at + 1].load(Relaxed));
            if location == 0 {
                break;
            }
            // It moves into the hole unless its own place lies behind it.
            let home = hash as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                words[2 * hole].store(hash, Relaxed);
                words[2 * hole + 1].store(location, Relaxed);
                hole = at;
            }
        }
        words[2 * hole + 1].store(0, Relaxed);
        self.count.store(self.count() - 1, Relaxed);
    }

    /// Hands out all entries, hash and location.
    pub(crate) fn each(&self, mut visit: impl FnMut(u64, u64)) {
        for entry in self.words().chunks_exact(2) {
            let location = entry[1].load(Relaxed);
            if location != 0 {
                visit(entry[0].load(Relaxed), location);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((any::<bool>(), 0..48u64, 0..4u64), 0..400)) {
            // Few hashes, so that many entries are not at their own place.
            let (table, mut model) = (Table::new(), BTreeMap::new());
            for (add, location, hash) in steps {
                let location = 4 * location + hash + 1;
                if add && model.insert(location, hash).is_none() {
                    table.insert(hash, location);
                } else if !add && model.remove(&location).is_some() {
                    table.remove(hash, location);
                }
                let mut all = BTreeMap::new();
                table.each(|hash, location| _ = all.insert(location, hash));
                prop_assert_eq!(&all, &model);
                prop_assert_eq!(table.count(), model.len() as u64);
                for (location, hash) in &model {
                    prop_assert_eq!(table.find(*hash, |found| found == *location), Some(*location));
                }
            }
        }
    }
}
