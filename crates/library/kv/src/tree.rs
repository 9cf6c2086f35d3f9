//! The index, wherever it is: in the shards' tables, or a B+-tree in the file.
//!
//! The tree's keys are hashes of 128 bits, salted with the store's number, so two keys never have the same
//! one.

use index::btree::{BTree, Options};
use index::{Extents, Map};
use space::{Env, Space};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::handle::Handle;
use crate::layout::CHUNKS;
use crate::pieces::{HEAD, Pieces, Tree};
use crate::record;
use crate::shard::Shard;
use crate::store::Store;
use crate::{Error, Placement};

/// Bytes of the index's first piece, at least.
const FIRST: u64 = 64 << 10;

impl From<index::Error> for Error {
    fn from(error: index::Error) -> Error {
        match error {
            index::Error::Full { wanted, .. } => Error::Full { wanted },
            index::Error::Mismatch { offset, found, .. } => {
                Error::damaged(offset, "a part of the index", found)
            }
            index::Error::Damaged { offset, what } => Error::damaged(offset, what, 0),
            index::Error::Options(what) => Error::Options(what),
        }
    }
}

impl<E: Env, H: Handle<E>> Store<E, H> {
    fn tree_options(&self) -> Options {
        let node = if self.layout().chunk < FIRST { 512 } else { Options::default().node };
        Options { node, latches: self.options.shards.max(1), ..Options::default() }
    }

    fn pieces(&self) -> Pieces<E, H> {
        Pieces::new(self.env.clone(), self.chunks.clone())
    }

    /// Makes an empty index in the file.
    pub(crate) fn make_tree(&self) -> Result<Tree<E, H>, Error> {
        let pieces = self.pieces();
        pieces.add(self.env.space(), FIRST.min(self.layout().chunk - HEAD))?;
        Ok(BTree::create(self.env.clone(), pieces, &self.tree_options())?)
    }

    /// Opens the index in the file.
    pub(crate) fn open_tree(&self) -> Result<Tree<E, H>, Error> {
        Ok(BTree::open(self.env.clone(), self.pieces(), &self.tree_options())?)
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.layout().index == Placement::Persistent
    }

    fn long_hash(&self, key: &[u8]) -> [u64; 2] {
        let hash = xxh3_128_with_seed(key, self.layout().id);
        [(hash >> 64) as u64, hash as u64]
    }

    /// Where the record of a key is.
    ///
    /// # Errors
    /// If the index in the file is damaged, or leads to something else. Also by chance to readers who hold
    /// nothing, as [`Shard::read`] says.
    #[inline]
    pub(crate) fn find(&self, shard: &Shard<E>, hash: u64, key: &[u8]) -> Result<Option<u64>, Error> {
        let space = self.env.space();
        match &self.tree {
            None => match shard.table.find(hash, |location| record::has_key(space, location, key)) {
                None if self.confirms() => self.nothing_damaged(shard, hash).map(|()| None),
                found => Ok(found),
            },
            Some(tree) => match tree.try_get(self.long_hash(key))? {
                Some(location) if !self.leads_to(location, key) => Err(misled(location)),
                found => Ok(found),
            },
        }
    }

    /// That no record of a key with that hash is damaged: it may be the one that was not found.
    fn nothing_damaged(&self, shard: &Shard<E>, hash: u64) -> Result<(), Error> {
        let mut buffer = Vec::new();
        let found = shard.table.find(hash, |location| self.confirmed(location, &mut buffer).is_none());
        found.map_or(Ok(()), |location| Err(misled(location)))
    }

    /// Whether the record of `key` is at `location`, of which only the index in the file says so.
    #[inline]
    fn leads_to(&self, location: u64, key: &[u8]) -> bool {
        self.may_be_record(location) && record::has_key(self.env.space(), location, key)
    }

    /// Whether a record's head can be at `location`.
    #[inline]
    pub(crate) fn may_be_record(&self, location: u64) -> bool {
        let len = self.env.space().len();
        location >= CHUNKS && location.is_multiple_of(8) && location < len && len - location >= record::HEAD
    }

    /// Has the index lead to the record at `new`. The shard is held.
    pub(crate) fn point(
        &self,
        shard: &Shard<E>,
        hash: u64,
        key: &[u8],
        old: Option<u64>,
        new: u64,
    ) -> Result<(), Error> {
        match (&self.tree, old) {
            (None, Some(old)) => shard.change(|table| table.replace(hash, old, new)),
            (None, None) => shard.change(|table| table.insert(hash, new)),
            (Some(tree), _) => {
                tree.insert(self.long_hash(key), new)?;
                shard.changed_elsewhere(u64::from(old.is_none()), 0);
            }
        }
        Ok(())
    }

    /// Takes a key out of the index. The shard is held.
    pub(crate) fn unpoint(&self, shard: &Shard<E>, hash: u64, key: &[u8], old: u64) -> Result<(), Error> {
        match &self.tree {
            None => shard.change(|table| table.remove(hash, old)),
            Some(tree) => {
                tree.remove(self.long_hash(key))?;
                shard.changed_elsewhere(0, 1);
            }
        }
        Ok(())
    }

    /// Hands out every record that the index leads to: where it is, and its key. Nothing changes meanwhile.
    ///
    /// # Errors
    /// If the index in the file is damaged, or leads to something else.
    pub(crate) fn each_record(&self, mut visit: impl FnMut(u64, Vec<u8>)) -> Result<(), Error> {
        let mut wrong = None;
        let Some(tree) = &self.tree else {
            let mut each = |hash, location| {
                let key = self.key_at(location);
                if self.hash(&key) == hash { visit(location, key) } else { wrong = Some(location) }
            };
            self.shards.iter().for_each(|shard| shard.table.each(&mut each));
            return wrong.map_or(Ok(()), |location| Err(misled(location)));
        };
        tree.try_range([0; 2], &mut |hash, location| {
            let key = self.may_be_record(location).then(|| self.key_at(location));
            match key.filter(|key| self.long_hash(key) == hash) {
                Some(key) => visit(location, key),
                None => wrong = Some(location),
            }
            wrong.is_none()
        })?;
        wrong.map_or(Ok(()), |location| Err(misled(location)))
    }
}

#[cold]
fn misled(location: u64) -> Error {
    Error::damaged(location, "the record that the index leads to", 0)
}
