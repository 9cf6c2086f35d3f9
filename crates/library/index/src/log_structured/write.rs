//! What changes a tree.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use space::{Env, Space};

use super::layout::CHUNK_HEAD;
use super::record::{Content, NONE};
use super::{EnvOf, Flaw, Held, LogTree, STRIPES, broken, same};
use crate::wish::Wish;
use crate::{Error, Extents, Fixed};

/// A record that was appended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    pub at: u64,
    pub position: u64,
    pub bytes: u64,
}

impl<H, K, V, X> LogTree<H, K, V, X>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    /// Does with a key what `wish` makes of its value; the value that it had.
    #[inline]
    pub(super) fn change(&self, key: K, wish: impl Fn(Option<V>) -> Wish<V>) -> Result<Option<V>, Error> {
        let mut collected = false;
        loop {
            let (number, held) = self.hold(key);
            let leaf = self.leaf(number);
            let before = self.find(leaf, key).map_err(|_| broken(&self.root))?;
            let content = match (wish(before), before) {
                (Wish::Nothing, _) | (Wish::Remove, None) => return Ok(before),
                (Wish::Put(value), Some(before)) if same(value, before) => return Ok(Some(before)),
                (Wish::Put(value), _) => Content::Put(key, value),
                (Wish::Remove, Some(_)) => Content::Remove(key),
            };
            let done = if leaf.items() >= self.root.capacity {
                self.rewrite(number, key, held).map(|()| false)
            } else {
                self.append(number, leaf.newest(0), &content, false).map(|record| {
                    leaf.change(|leaf| leaf.push(record.at, record.bytes, key));
                    self.bytes[self.log_of(number)].live.fetch_add(record.bytes, Relaxed);
                    drop(held);
                    true
                })
            };
            match done {
                Ok(true) => {
                    self.collect_inline(self.log_of(number))?;
                    return Ok(before);
                }
                Ok(false) => {}
                // Once: what is garbage in all logs may be room enough.
                Err(Error::Full { .. }) if !collected => {
                    collected = true;
                    self.collect_all()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Appends a record to the log of a leaf and makes it durable. For the holder of the leaf's lock.
    pub(super) fn append(
        &self,
        leaf: u32,
        before: u64,
        content: &Content<'_, K, V>,
        collects: bool,
    ) -> Result<Appended, Error> {
        let space = self.space();
        let number = self.log_of(leaf);
        let bytes = content.bytes();
        let mut guard = self.env.lock(&self.logs[number]);
        let log = &mut *guard;
        if log.at + bytes > self.root.chunk_bytes || log.chunks.is_empty() {
            let chunk = self.env.lock(&self.pool).take(space, &self.root, &self.extents, collects)?;
            space.store_u64(chunk.offset, chunk.word(number));
            space.flush(chunk.offset, 8);
            log.chunks.push_back(chunk);
            log.at = CHUNK_HEAD;
            self.bytes[number].used.fetch_add(self.root.chunk_bytes, Relaxed);
        }
        let Some(chunk) = log.chunks.back().copied() else { return Err(broken(&self.root)) };
        let position = chunk.position(log.at);
        let at = chunk.offset + log.at;
        content.words(&mut log.words, leaf, position, before);
        space.store_words(at, &log.words);
        space.flush(at, bytes);
        if self.options.flaw != Flaw::NotFenced {
            space.fence();
        }
        log.at += bytes;
        Ok(Appended { at, position, bytes })
    }

    /// Writes a leaf as one record. For the holder of its lock.
    pub(super) fn consolidate(
        &self,
        number: u32,
        pairs: &[(K, V)],
        (high, next): (Option<K>, u32),
        collects: bool,
    ) -> Result<(), Error> {
        let record = self.append(number, 0, &Content::Whole { pairs, high, next }, collects)?;
        let leaf = self.leaf(number);
        let live = &self.bytes[self.log_of(number)].live;
        live.fetch_sub(if leaf.exists() { leaf.bytes() } else { 0 }, Relaxed);
        live.fetch_add(record.bytes, Relaxed);
        let keys = pairs.iter().map(|(key, _)| *key);
        leaf.change(|leaf| leaf.restart((record.at, record.position, record.bytes), keys, (high, next)));
        Ok(())
    }

    /// Makes room in the leaf of a key, whose chain names as many items as a leaf has room for: by one record
    /// in place of all, or by a split.
    #[cold]
    fn rewrite(&self, number: u32, key: K, held: Held<'_, H>) -> Result<(), Error> {
        if self.consolidate_if_sparse(number)? {
            return Ok(());
        }
        drop(held);
        let new = {
            let mut numbers = self.env.lock(&self.numbers);
            numbers.free.pop().unwrap_or_else(|| {
                numbers.next += 1;
                numbers.next - 1
            })
        };
        let split = self.split(number, new, key);
        if !matches!(split, Ok(true)) {
            self.env.lock(&self.numbers).free.push(new);
        }
        split.map(drop)
    }

    /// Writes a leaf as one record unless more than three quarters of it are live.
    fn consolidate_if_sparse(&self, number: u32) -> Result<bool, Error> {
        let leaf = self.leaf(number);
        let pairs = self.pairs(leaf).map_err(|_| broken(&self.root))?;
        if 4 * pairs.len() as u64 > 3 * self.root.capacity {
            return Ok(false);
        }
        self.consolidate(number, &pairs, (leaf.high(), leaf.next().unwrap_or(NONE)), false)?;
        Ok(true)
    }

    /// Splits a leaf, if it is still the one of this key and full.
    fn split(&self, number: u32, new: u32, key: K) -> Result<bool, Error> {
        // Whoever finds the new leaf waits for its lock, and so for all that is done here.
        let (a, b) = (number as usize % STRIPES, new as usize % STRIPES);
        let _first = self.env.lock(&self.stripes[a.min(b)]);
        let _second = (a != b).then(|| self.env.lock(&self.stripes[a.max(b)]));
        let leaf = self.leaf(number);
        let is_here = leaf.side(key) == super::Side::Here && leaf.items() >= self.root.capacity;
        if !is_here || self.consolidate_if_sparse(number)? {
            return Ok(false);
        }
        let pairs = self.pairs(leaf).map_err(|_| broken(&self.root))?;
        let (next, high) = (leaf.next().unwrap_or(NONE), leaf.high::<K>());
        // A key above all in the last leaf is likely to be followed by others.
        let ascending = high.is_none() && pairs.last().is_some_and(|(last, _)| *last < key);
        let middle = if ascending { pairs.len() - 1 } else { pairs.len() / 2 };
        let low = pairs[middle].0;
        let (left, right) = pairs.split_at(middle);
        if self.options.flaw == Flaw::LinkedEarly {
            self.consolidate(number, left, (Some(low), new), false)?;
        }
        self.leaf(new).change(|leaf| leaf.set_low(low));
        self.consolidate(new, right, (high, next), false)?;
        if self.options.flaw != Flaw::LinkedEarly
            && let Err(error) = self.consolidate(number, left, (Some(low), new), false)
        {
            self.bytes[self.log_of(new)].live.fetch_sub(self.leaf(new).bytes(), Relaxed);
            self.leaf(new).change(|leaf| leaf.forget());
            return Err(error);
        }
        let mut growth = self.env.lock(&self.growth);
        self.inner.enter(&mut growth, low, new, &|_| (low, new));
        Ok(true)
    }

    /// Fills an empty tree.
    pub(super) fn fill(&self, pairs: &mut dyn Iterator<Item = (K, V)>) -> Result<(), Error> {
        let mut last = None;
        {
            let (number, _held) = self.hold(K::from_words([0; 2]));
            let leaf = self.leaf(number);
            if leaf.next().is_some() || !self.pairs(leaf).map_err(|_| broken(&self.root))?.is_empty() {
                return Err(Error::Options("pairs are loaded into an empty map"));
            }
        }
        for (key, value) in pairs {
            if last.is_some_and(|last| last >= key) {
                return Err(Error::Options("keys are not in ascending order"));
            }
            last = Some(key);
            self.change(key, |_| Wish::Put(value))?;
        }
        Ok(())
    }
}
