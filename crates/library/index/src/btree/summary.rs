//! What a clean close leaves, so that the next opening need not read the leaves.
//!
//! The summary is in an extent of its own: a head of 64 bytes (entries, free leaves, the first leaf that was
//! never used, a sum of the three), an entry for each leaf in ascending order (its low, its offset), then the
//! offsets of free leaves. The root word that leads to it is zeroed durably when the map is opened: it holds
//! for one opening. An entry is held against its leaf when it is used. Inner nodes that are damaged all the
//! same are made anew from the leaves.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use space::{Env, Space};

use super::leaf::{NONE, Shape};
use super::{BTree, EnvOf};
use crate::nodes::root;
use crate::{Error, Extent, Extents, Fixed};

/// Bytes of the summary's head.
const HEAD: u64 = 64;

impl<H, K, V, X> BTree<H, K, V, X>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    /// Bytes of an entry.
    const ENTRY: u64 = 8 * K::WORDS as u64 + 8;

    fn sum(entries: u64, free: u64, next: u64) -> u64 {
        (entries ^ free.rotate_left(21) ^ next.rotate_left(42)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
    }

    /// Opens a map by its summary; false if there is none.
    pub(super) fn resume(&mut self) -> Result<bool, Error> {
        let space = self.env.space();
        let at = space.load_u64(self.root + root::SUMMARY);
        if at == 0 {
            return Ok(false);
        }
        space.store_u64(self.root + root::SUMMARY, 0);
        space.persist(self.root, root::BYTES);
        let inside =
            |len: u64| at.checked_add(len).is_some_and(|end| end <= space.len()) && at.is_multiple_of(8);
        if !inside(HEAD) {
            return Ok(false);
        }
        let [entries, free, next, sum] = [0, 8, 16, 24].map(|word| space.load_u64(at + word));
        let bytes = entries.checked_mul(Self::ENTRY).zip(free.checked_mul(8));
        let bytes = bytes.and_then(|(entries, free)| entries.checked_add(free)?.checked_add(HEAD));
        let ceiling = space.load_u64(self.root + root::CEILING);
        let mut nodes = self.env.lock(&self.nodes);
        let right = sum == Self::sum(entries, free, next)
            && entries > 0
            && next <= ceiling
            && ceiling <= u64::from(nodes.total())
            && bytes.is_some_and(inside);
        if !right {
            return Ok(false);
        }
        (nodes.ceiling, nodes.next) = (ceiling as u32, next as u32);
        nodes.saved = (at + HEAD + entries * Self::ENTRY, free);
        drop(nodes);
        self.entries = (at + HEAD, entries);
        self.changed.store(false, Relaxed);
        let mut growth = self.env.lock(&self.growth);
        self.inner.restore(&mut growth, entries, &|at| self.entry(at));
        Ok(true)
    }

    /// An entry of the summary: a low and a leaf. If there is no such leaf, the head: it is left of all.
    pub(super) fn entry(&self, at: u64) -> (K, u32) {
        let space = self.space();
        let at = self.entries.0 + at * Self::ENTRY;
        let mut words = [0; 2];
        for (word, at) in words[..K::WORDS].iter_mut().zip((at..).step_by(8)) {
            *word = space.load_u64(at);
        }
        let low = K::from_words(words);
        let offset = space.load_u64(at + Self::ENTRY - 8);
        let number = self.env.lock(&self.nodes).number(offset);
        let known = number.filter(|_| Shape::<K, V>::low_of(space, offset) == low);
        (low, known.unwrap_or(0))
    }

    /// Makes the inner nodes on the way to a key.
    #[cold]
    pub(super) fn load_way(&self, key: K) {
        let mut growth = self.env.lock(&self.growth);
        self.inner.load_way(&mut growth, key, &|at| self.entry(at));
    }

    /// Closes the map: the next opening takes no time. Without room for the list of leaves it
    /// takes as long as after a crash.
    ///
    /// # Errors
    /// If the map is damaged, or the space can't say whether it has room.
    pub fn close(self) -> Result<(H, X), Error> {
        let space = self.space();
        let mut chain = Vec::new();
        let mut number = 0;
        loop {
            let leaf = self.leaf(number);
            let nodes = self.env.lock(&self.nodes);
            let node = nodes.offset(number);
            chain.push((Shape::<K, V>::low_of(space, node), node));
            number = match (leaf.node(), space.load_u64(node)) {
                (0, 0) => NONE,
                (0, next) => {
                    let damaged = Error::Damaged { offset: node, what: "the next leaf's offset" };
                    nodes.number(next).ok_or(damaged)?
                }
                _ => {
                    for slot in super::leaf::bits(leaf.pending()) {
                        space.flush(self.shape.slot(node, slot), 8);
                    }
                    leaf.next().unwrap_or(NONE)
                }
            };
            if number == NONE {
                break;
            }
            if chain.len() > nodes.total() as usize {
                return Err(Error::Damaged { offset: node, what: "leaves in a circle" });
            }
        }
        space.fence();
        let at = if self.changed.load(Relaxed) { self.write_summary(&chain)? } else { self.entries.0 - HEAD };
        space.store_u64(self.root + root::SUMMARY, at);
        space.persist(self.root, root::BYTES);
        Ok((self.env, self.extents))
    }

    /// Writes the summary; its offset, 0 if there is no room.
    fn write_summary(&self, chain: &[(K, u64)]) -> Result<u64, Error> {
        let space = self.space();
        let nodes = self.env.lock(&self.nodes);
        let mut free: Vec<u64> = nodes.free.iter().map(|number| nodes.offset(*number)).collect();
        free.extend((0..nodes.saved.1).map(|at| space.load_u64(nodes.saved.0 + 8 * at)));
        let next = u64::from(nodes.next);
        drop(nodes);
        let bytes = HEAD + chain.len() as u64 * Self::ENTRY + 8 * free.len() as u64;
        let Some(extent) = self.summary_extent(bytes)? else { return Ok(0) };
        let mut at = extent.offset;
        let sum = Self::sum(chain.len() as u64, free.len() as u64, next);
        space.store_words(at, &[chain.len() as u64, free.len() as u64, next, sum]);
        at += HEAD;
        for (low, node) in chain {
            for word in 0..K::WORDS {
                space.store_u64(at + 8 * word as u64, low.word(word));
            }
            space.store_u64(at + Self::ENTRY - 8, *node);
            at += Self::ENTRY;
        }
        space.store_words(at, &free);
        space.persist(extent.offset, bytes);
        Ok(extent.offset)
    }

    /// An extent for a summary of so many bytes, if there is room.
    fn summary_extent(&self, bytes: u64) -> Result<Option<Extent>, Error> {
        let space = self.space();
        let word = self.root + root::SUMMARIES;
        let summaries = space.load_u64(word);
        let all = self.extents.all(space);
        let of_summaries = |at: &usize| *at < 64 && summaries >> at & 1 == 1;
        let last = (0..all.len()).rfind(of_summaries).map(|at| all[at]);
        if let Some(extent) = last.filter(|extent| extent.bytes >= bytes) {
            return Ok(Some(extent));
        }
        if all.len() >= 64 {
            return Ok(None);
        }
        let extent = match self.extents.add(space, 2 * bytes) {
            Ok(extent) => extent,
            Err(Error::Full { .. }) => return Ok(None),
            Err(other) => return Err(other),
        };
        space.store_u64(word, summaries | 1 << all.len());
        space.persist(word, 8);
        Ok(Some(extent))
    }
}
