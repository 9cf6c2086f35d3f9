//! A persistent B+-tree from 64-bit keys to 64-bit values: one writer at a time, any number of readers.
//!
//! It is there to be profiled: right at every crash, with the habits of the trees that programs have, some of
//! them expensive. The tree to use is `index::BTree`, which the workload `index-fill` runs.
//!
//! # Layout
//! Offset 0 holds the superblock, and nodes of 512 bytes follow it. All numbers are 8-byte words.
//!
//! | superblock | | node | |
//! |---|---|---|---|
//! | 0 | magic | 0 | bitmap of the slots in use |
//! | 8 | root node | 8 | right sibling on the same level, 0 if none |
//! | 16 | first free offset | 16 | low: no key below it belongs here |
//! | | | 24 | level, 0 for leaves |
//! | | | 64 + 16 i | slot i: key, then value or child |
//!
//! Slots are not sorted. In an inner node a slot's key is the low of its child.
//!
//! # Why every crash leaves a tree
//! Nothing is logged. Every change is prepared where no reader looks, made durable by flush and fence, and
//! then takes effect by one store of one word, which a crash does or does not let survive as a whole:
//! - *Insert*: the slot is written and persisted while its bit is 0; setting the bit inserts.
//! - *Update*: the value is one word.
//! - *Split*: the right half is copied into a new node, with its own right sibling, and all of it is persisted. Storing
//!   it as right sibling of the old node splits: from here on every key from the new node's low upward belongs to
//!   the new node, and what the old node still has of them counts for nothing. Clearing these bits and
//!   entering the new node in the parent come afterwards; should a crash prevent it, [`BTree::open`] does it. A bit is
//!   durably cleared before its slot is used again.
//! - *New root*: written and persisted, then the superblock's word is stored.
//! - *Allocation*: the free offset is persisted before the word that makes the node reachable. A crash between the
//!   two loses the node's 512 bytes.
//!
//! An operation has returned only when its last word is persisted, so what was acknowledged survives.

use space::{Observer, Space};

/// First word of a tree.
const MAGIC: u64 = u64::from_le_bytes(*b"SLBTREE1");
const ROOT: u64 = 8;
const FREE: u64 = 16;
/// Bytes of a node, and offset of the first one.
const NODE: u64 = 512;
const BITMAP: u64 = 0;
const NEXT: u64 = 8;
const LOW: u64 = 16;
const LEVEL: u64 = 24;
const SLOTS: u64 = 64;
const FANOUT: u32 = 28;
const ALL: u64 = (1 << FANOUT) - 1;

const _: () = assert!(SLOTS + 16 * FANOUT as u64 == NODE);

/// Why a tree can't do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There is no room for the nodes of a split; the tree is as before.
    #[error("the space of {len} bytes is full")]
    Full {
        /// Length of the space.
        len: u64,
    },
    /// The space does not hold a tree.
    #[error("no tree at offset 0: found {found:#x}, expected {MAGIC:#x}")]
    NotATree {
        /// The first word.
        found: u64,
    },
}

/// The tree. It keeps nothing but the way to its space.
#[derive(Debug)]
pub struct BTree<'s, S> {
    space: &'s S,
}

impl<'s, S: Space> BTree<'s, S> {
    /// Makes an empty tree at the start of `space`, whatever was there.
    ///
    /// # Errors
    /// If the space has not room for one node.
    pub fn create(space: &'s S) -> Result<Self, TreeError> {
        let tree = BTree { space };
        if space.len() < 2 * NODE {
            return Err(TreeError::Full { len: space.len() });
        }
        space.store_u64(0, 0);
        space.persist(0, 8);
        space.store_u64(FREE, NODE);
        let root = tree.allocate();
        tree.write_node(root, 0, 0, 0, &[]);
        space.store_u64(ROOT, root);
        space.flush(ROOT, 8);
        space.fence();
        space.store_u64(0, MAGIC);
        space.persist(0, 8);
        Ok(tree)
    }

    /// Opens the tree at the start of `space` and completes what a crash interrupted. Reads every node once.
    ///
    /// # Errors
    /// If there is no tree, or no room to complete a split.
    pub fn open(space: &'s S) -> Result<Self, TreeError> {
        let found = if space.is_empty() { 0 } else { space.load_u64(0) };
        if found != MAGIC {
            return Err(TreeError::NotATree { found });
        }
        let mut tree = BTree { space };
        tree.complete_splits()?;
        Ok(tree)
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        let leaf = self.descend(key, 0);
        let slot = self.find(leaf, key)?;
        Some(self.space.load_u64(slot + 8))
    }

    /// Sets the value of `key`, durably, and returns the one before.
    ///
    /// # Errors
    /// If a split is needed and there is no room for it; the tree is as before.
    pub fn insert(&mut self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        let leaf = self.descend(key, 0);
        if let Some(slot) = self.find(leaf, key) {
            let before = self.space.load_u64(slot + 8);
            self.space.store_u64(slot + 8, value);
            self.space.persist(slot + 8, 8);
            return Ok(Some(before));
        }
        self.reserve()?;
        self.add(leaf, key, value);
        Ok(None)
    }

    /// All keys with their values, in order.
    #[must_use]
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        let mut leaf = self.descend(0, 0);
        while leaf != 0 {
            pairs.extend(self.sorted(leaf).into_iter().map(|(key, value, _)| (key, value)));
            leaf = self.space.load_u64(leaf + NEXT);
        }
        pairs
    }

    /// The node of `level` that `key` belongs to.
    fn descend(&self, key: u64, level: u64) -> u64 {
        let mut node = self.space.load_u64(ROOT);
        while self.space.load_u64(node + LEVEL) > level {
            node = self.child(node, key);
        }
        node
    }

    /// The child of `node` with the greatest low that is not above `key`.
    fn child(&self, node: u64, key: u64) -> u64 {
        let mut best = (0, 0);
        for slot in self.used(node) {
            let low = self.space.load_u64(slot);
            if low <= key && (best.0 == 0 || low > best.1) {
                best = (slot, low);
            }
        }
        assert!(best.0 != 0, "inner node {node:#x} has no child for key {key:#x}");
        self.space.load_u64(best.0 + 8)
    }

    /// The slot of `node` that holds `key`.
    fn find(&self, node: u64, key: u64) -> Option<u64> {
        self.used(node).find(|&slot| self.space.load_u64(slot) == key)
    }

    /// Offsets of the slots in use.
    fn used(&self, node: u64) -> impl Iterator<Item = u64> {
        let bitmap = self.space.load_u64(node + BITMAP);
        (0..u64::from(FANOUT)).filter(move |i| bitmap >> i & 1 == 1).map(move |i| node + SLOTS + 16 * i)
    }

    /// Key, value and slot of everything in `node`, by key.
    fn sorted(&self, node: u64) -> Vec<(u64, u64, u64)> {
        let read = |slot| (self.space.load_u64(slot), self.space.load_u64(slot + 8), slot);
        let mut entries: Vec<_> = self.used(node).map(read).collect();
        entries.sort_unstable();
        entries
    }

    /// Fails unless every level can split and a new root can be made.
    fn reserve(&self) -> Result<(), TreeError> {
        let root = self.space.load_u64(ROOT);
        let nodes = self.space.load_u64(root + LEVEL) + 2;
        let free = self.space.load_u64(FREE);
        let len = self.space.len();
        if free + nodes * NODE > len { Err(TreeError::Full { len }) } else { Ok(()) }
    }

    /// Adds a key that `node` does not have, splitting it if it is full.
    fn add(&mut self, node: u64, key: u64, value: u64) {
        let mut node = node;
        if self.space.load_u64(node + BITMAP) == ALL {
            node = self.split(node, key);
        }
        let bitmap = self.space.load_u64(node + BITMAP);
        let free = bitmap.trailing_ones();
        assert!(free < FANOUT, "node {node:#x} has a free slot after a split");
        let slot = node + SLOTS + 16 * u64::from(free);
        self.space.store_u64(slot, key);
        self.space.store_u64(slot + 8, value);
        self.space.flush(slot, 16);
        self.space.fence();
        self.space.store_u64(node + BITMAP, bitmap | 1 << free);
        self.space.flush(node + BITMAP, 8);
        self.space.fence();
    }

    /// Splits a full node and returns the half that `key` belongs to.
    fn split(&mut self, node: u64, key: u64) -> u64 {
        let entries = self.sorted(node);
        let moved = &entries[entries.len() / 2..];
        let low = moved[0].0;
        let level = self.space.load_u64(node + LEVEL);
        let right = self.allocate();
        self.write_node(right, low, level, self.space.load_u64(node + NEXT), moved);
        self.space.fence();
        self.space.store_u64(node + NEXT, right);
        self.space.persist(node + NEXT, 8);
        self.clear_moved(node, low);
        self.enter(right, low, level);
        if key >= low { right } else { node }
    }

    /// Writes and flushes a node that nobody can reach yet.
    fn write_node(&self, node: u64, low: u64, level: u64, next: u64, entries: &[(u64, u64, u64)]) {
        for (i, &(key, value, _)) in (0..).zip(entries) {
            self.space.store_u64(node + SLOTS + 16 * i, key);
            self.space.store_u64(node + SLOTS + 16 * i + 8, value);
        }
        self.space.store_u64(node + BITMAP, (1 << entries.len()) - 1);
        self.space.store_u64(node + NEXT, next);
        self.space.store_u64(node + LOW, low);
        self.space.store_u64(node + LEVEL, level);
        self.space.flush(node, SLOTS + 16 * entries.len() as u64);
    }

    /// Durably forgets the entries of `node` from key `low` upward.
    fn clear_moved(&self, node: u64, low: u64) {
        let before = self.space.load_u64(node + BITMAP);
        let mut bitmap = before;
        for slot in self.used(node) {
            if self.space.load_u64(slot) >= low {
                bitmap &= !(1 << ((slot - node - SLOTS) / 16));
            }
        }
        if bitmap != before {
            self.space.store_u64(node + BITMAP, bitmap);
            self.space.persist(node + BITMAP, 8);
        }
    }

    /// Enters `node` of `level`, which just came into being by a split, in the level above.
    fn enter(&mut self, node: u64, low: u64, level: u64) {
        let root = self.space.load_u64(ROOT);
        if self.space.load_u64(root + LEVEL) == level {
            let above = self.allocate();
            self.write_node(above, 0, level + 1, 0, &[(0, root, 0), (low, node, 0)]);
            self.space.fence();
            self.space.store_u64(ROOT, above);
            self.space.persist(ROOT, 8);
        } else {
            let parent = self.descend(low, level + 1);
            self.add(parent, low, node);
        }
    }

    /// Takes the next node; flushed, but not fenced.
    fn allocate(&self) -> u64 {
        let node = self.space.load_u64(FREE);
        assert!(node + NODE <= self.space.len(), "reserve() looked for room");
        self.space.store_u64(FREE, node + NODE);
        self.space.flush(FREE, 8);
        self.space.observer().allocated(node, NODE);
        node
    }

    /// Finishes, from the root downwards, each split that took effect: the old node forgets what moved, the
    /// level above learns of the new node.
    fn complete_splits(&mut self) -> Result<(), TreeError> {
        let root = self.space.load_u64(ROOT);
        for level in (0..=self.space.load_u64(root + LEVEL)).rev() {
            let mut node = self.descend(0, level);
            loop {
                let next = self.space.load_u64(node + NEXT);
                if next == 0 {
                    break;
                }
                let low = self.space.load_u64(next + LOW);
                self.clear_moved(node, low);
                let root = self.space.load_u64(ROOT);
                let is_top = self.space.load_u64(root + LEVEL) == level;
                if is_top || self.find(self.descend(low, level + 1), low).is_none() {
                    self.reserve()?;
                    self.enter(next, low, level);
                }
                node = next;
            }
        }
        Ok(())
    }
}
