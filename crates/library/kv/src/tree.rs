//! The index, wherever it is: in the shards' tables, or a B+-tree in the file.
//!
//! The tree's keys are hashes of 128 bits, salted with the store's number, so two keys never have the same
//! one.

use index::btree::{BTree, Options};
use index::{Extents, Map};
use space::Env;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::handle::Handle;
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
        Options { node, latches: self.options.shards, ..Options::default() }
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
    #[inline]
    pub(crate) fn find(&self, shard: &Shard<E>, hash: u64, key: &[u8]) -> Option<u64> {
        match &self.tree {
            None => {
                let space = self.env.space();
                shard.table.find(hash, |location| record::has_key(space, location, key))
            }
            Some(tree) => tree.get(self.long_hash(key)),
        }
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

    /// Hands out the location of every record that the index leads to. Nothing changes meanwhile.
    pub(crate) fn each_location(&self, mut visit: impl FnMut(u64)) {
        match &self.tree {
            None => self.shards.iter().for_each(|shard| shard.table.each(|_, location| visit(location))),
            Some(tree) => tree.each(&mut |_, location| {
                visit(location);
                true
            }),
        }
    }
}
