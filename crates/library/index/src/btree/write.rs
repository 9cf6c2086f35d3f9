//! What changes a map.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use space::{Env, Space};

use super::leaf::{Leaf, NONE, Shape, bits, print_of};
use super::{BTree, EnvOf, Flaw};
use crate::sealed::{self, Sealed};
use crate::{Error, Extents, Fixed};

/// Leaves that a search for a left neighbour goes through.
const WALK_MAX: u32 = 8;

impl<H, K, V, X> BTree<H, K, V, X>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    /// Sets the value of `key` if `wanted` says so of the one that it has; that one.
    #[inline]
    pub(super) fn put(
        &self,
        key: K,
        value: V,
        wanted: impl Fn(Option<V>) -> bool,
    ) -> Result<Option<V>, Error> {
        let (space, shape) = (self.space(), self.shape);
        loop {
            let (number, held) = self.hold(key)?;
            let leaf = self.leaf(number);
            let Ok(found) = leaf.find(space, shape, key) else { return Err(leaf.unsealed()) };
            let before = found.map(|(_, held)| held.value);
            if !wanted(before) || before == Some(value) {
                return Ok(before);
            }
            let live = leaf.live();
            let free = !live & shape.all();
            if free == 0 {
                self.split(number, key)?;
                drop(held);
                continue;
            }
            let slot = free.trailing_zeros();
            let at = shape.slot(leaf.node(), slot);
            let sequence = found.map_or(0, |(_, held)| held.sequence + 1);
            if self.options.flaw == Flaw::ConstantTag {
                Sealed::write_tagged(space, at, 1, key, value, sequence);
            } else {
                Sealed::write(space, at, key, value, sequence);
            }
            space.flush(at, Sealed::<K, V>::BYTES);
            self.flush_pending(leaf);
            if self.options.flaw != Flaw::NotFenced {
                space.fence();
            }
            let old = found.map_or(0, |(slot, _)| 1 << slot);
            leaf.change(|leaf| {
                leaf.set_print(slot, print_of(key));
                leaf.set_live(live & !old | 1 << slot);
                leaf.set_pending(old);
            });
            if let Some((slot, _)) = found {
                Sealed::<K, V>::erase(space, shape.slot(leaf.node(), slot));
            }
            return Ok(before);
        }
    }

    /// Flushes slots of which it is not known that they are durably erased.
    #[inline(always)]
    fn flush_pending(&self, leaf: Leaf<'_>) {
        for slot in bits(leaf.pending()) {
            self.space().flush(self.shape.slot(leaf.node(), slot), 8);
        }
    }

    /// Takes out a key.
    pub(super) fn take(&self, key: K) -> Result<Option<V>, Error> {
        let (space, shape) = (self.space(), self.shape);
        let (number, held) = self.hold(key)?;
        let leaf = self.leaf(number);
        let Ok(found) = leaf.find(space, shape, key) else { return Err(leaf.unsealed()) };
        let Some((slot, found)) = found else { return Ok(None) };
        if leaf.pending() != 0 && self.options.flaw != Flaw::OlderKept {
            // One of them may be an older pair of this key.
            self.flush_pending(leaf);
            space.fence();
            leaf.set_pending(0);
        }
        let at = shape.slot(leaf.node(), slot);
        Sealed::<K, V>::erase(space, at);
        space.flush(at, 8);
        space.fence();
        let live = leaf.live() & !(1 << slot);
        leaf.change(|leaf| leaf.set_live(live));
        drop(held);
        if live == 0 && number != 0 {
            self.unlink(number, leaf.low());
        }
        Ok(Some(found.value))
    }

    /// Splits a full leaf, whose latch is held, for a key that is to come.
    #[cold]
    fn split(&self, number: u32, key: K) -> Result<(), Error> {
        let (space, shape, leaf) = (self.space(), self.shape, self.leaf(number));
        let mut pairs = Vec::with_capacity(shape.slots as usize);
        if leaf.pairs(space, shape, &mut pairs).is_err() {
            return Err(leaf.unsealed());
        }
        pairs.sort_unstable_by_key(|(_, held)| held.key);
        let node = leaf.node();
        let (next, high) = (leaf.next(), leaf.high::<K>());
        // A key above all in the last leaf is likely to be followed by others.
        let ascending = high.is_none() && pairs.last().is_some_and(|(_, last)| last.key < key);
        let from = if ascending { pairs.len() - 1 } else { pairs.len() / 2 };
        let moved = &pairs[from..];
        let low = moved[0].1.key;
        let (new, to) = self.env.lock(&self.nodes).take(space, &self.extents)?;
        let copies = moved.iter().map(|(_, held)| *held);
        self.write_leaf(to, space.load_u64(node), low, copies);
        if self.options.flaw != Flaw::LinkedEarly {
            space.fence();
        }
        space.store_u64(node, to);
        space.persist(node, 8);
        self.publish(new, to, next, (low, high), moved.iter().map(|(_, held)| held.key));
        let gone = moved.iter().fold(0, |gone, (slot, _)| gone | 1 << slot);
        leaf.change(|leaf| {
            leaf.set_live(leaf.live() & !gone);
            leaf.set_high(low);
            leaf.set_place(node, Some(new));
        });
        self.changed.store(true, Relaxed);
        let mut growth = self.env.lock(&self.growth);
        self.inner.enter(&mut growth, low, new, &|at| self.entry(at));
        Ok(())
    }

    /// Writes and flushes a leaf that nobody can reach.
    pub(super) fn write_leaf(
        &self,
        node: u64,
        next: u64,
        low: K,
        mut pairs: impl Iterator<Item = sealed::Held<K, V>>,
    ) {
        let space = self.space();
        Shape::<K, V>::write_head(space, node, next, low);
        for slot in 0..self.shape.slots {
            let at = self.shape.slot(node, slot);
            match pairs.next() {
                Some(held) => Sealed::write(space, at, held.key, held.value, held.sequence),
                None => _ = Sealed::<K, V>::erase(space, at),
            }
        }
        space.flush(node, self.shape.node);
    }

    /// Says what is in a leaf that nobody can reach, in its first slots.
    pub(super) fn publish(
        &self,
        number: u32,
        node: u64,
        next: Option<u32>,
        (low, high): (K, Option<K>),
        keys: impl ExactSizeIterator<Item = K>,
    ) {
        self.leaf(number).change(|leaf| {
            leaf.set_live(if keys.len() == 0 { 0 } else { u64::MAX >> (64 - keys.len()) });
            for (slot, key) in (0..).zip(keys) {
                leaf.set_print(slot, print_of(key));
            }
            leaf.set_pending(0);
            leaf.set_low(low);
            if let Some(high) = high {
                leaf.set_high(high);
            }
            leaf.set_place(node, Some(next.unwrap_or(NONE)));
        });
        self.pass(number, false);
    }

    /// Takes an empty leaf with that low out of the chain, unless somebody uses it again, or is at work
    /// beside it.
    #[cold]
    fn unlink(&self, number: u32, low: K) {
        let mut left = self.before(low);
        for _ in 0..WALK_MAX {
            match left {
                Some(at) if at != number => left = self.unlink_behind(at, number, low),
                _ => return,
            }
        }
    }

    /// A leaf left of the one with that low.
    fn before(&self, low: K) -> Option<u32> {
        let less = match (low.word(0), low.word(1)) {
            (0, 0) => return None,
            (first, _) if K::WORDS == 1 => [first.checked_sub(1)?, 0],
            (first, 0) => [first - 1, u64::MAX],
            (first, second) => [first, second - 1],
        };
        Some(self.locate(K::from_words(less)))
    }

    /// Takes out the leaf if it is the one behind `left`; else the one to look behind next, if any.
    fn unlink_behind(&self, left: u32, number: u32, low: K) -> Option<u32> {
        let (a, b) = (left as usize % self.latches.len(), number as usize % self.latches.len());
        let first = self.env.hold(&self.latches[a.min(b)]);
        let second = (a != b).then(|| self.env.hold(&self.latches[a.max(b)]));
        for at in [left, number] {
            if self.leaf(at).node() == 0 {
                // A damaged leaf is reported by whoever needs it.
                self.load_leaf(at).ok()?;
            }
        }
        let (space, shape) = (self.space(), self.shape);
        let (leaf, empty) = (self.leaf(left), self.leaf(number));
        let gone = empty.next().is_none() || empty.live() != 0 || empty.low::<K>() != low;
        let follows = leaf.next().filter(|next| *next != NONE && leaf.low::<K>() < low);
        match follows {
            Some(next) if !gone && next != number => return Some(next),
            Some(_) if !gone => {}
            _ => return None,
        }
        let node = leaf.node();
        if self.options.flaw != Flaw::StaleKept {
            for slot in bits(!leaf.live() & shape.all()) {
                Sealed::<K, V>::erase(space, shape.slot(node, slot));
            }
            space.persist(node, shape.node);
        }
        space.store_u64(node, space.load_u64(empty.node()));
        space.persist(node, 8);
        let mut growth = self.env.lock(&self.growth);
        let high = empty.high::<K>();
        leaf.change(|leaf| {
            if let Some(high) = high {
                leaf.set_high(high);
            }
            leaf.set_pending(0);
            leaf.set_place(node, empty.next());
        });
        empty.change(|empty| empty.set_place(empty.node(), None));
        self.inner.retire(&mut growth, (low, high), (number, left), &|at| self.entry(at));
        self.changed.store(true, Relaxed);
        drop((growth, second, first));
        self.env.lock(&self.nodes).free.push(number);
        None
    }

    /// Fills an empty map.
    pub(super) fn fill(&self, pairs: &mut dyn Iterator<Item = (K, V)>) -> Result<(), Error> {
        let space = self.space();
        let _held = self.hold_leaf(0)?;
        let head = self.leaf(0);
        if head.live() != 0 || head.next() != Some(NONE) {
            return Err(Error::Options("pairs are loaded into an empty map"));
        }
        // The head stays empty, so that each leaf appears whole.
        let mut made: Vec<(K, u32, Vec<K>)> = vec![(head.low(), 0, Vec::new())];
        let mut last = None;
        let mut result = Ok(());
        let mut batch: Vec<sealed::Held<K, V>> = Vec::new();
        loop {
            batch.clear();
            for (key, value) in (&mut *pairs).take(self.shape.slots as usize) {
                if last.is_some_and(|last| last >= key) {
                    result = Err(Error::Options("keys are not in ascending order"));
                    break;
                }
                last = Some(key);
                batch.push(sealed::Held { key, value, sequence: 0 });
            }
            if !batch.is_empty() && result.is_ok() {
                result = self.append_leaf(&mut made, &batch);
            }
            if batch.len() < self.shape.slots as usize || result.is_err() {
                break;
            }
        }
        space.fence();
        // From the last to the first, so that nobody comes to one that is not there.
        let mut behind: Option<(K, u32)> = None;
        for (low, number, keys) in made.iter().rev() {
            let node = self.env.lock(&self.nodes).offset(*number);
            let (next, high) = (behind.map(|(_, next)| next), behind.map(|(high, _)| high));
            self.publish(*number, node, next, (*low, high), keys.iter().copied());
            behind = Some((*low, *number));
        }
        self.changed.store(true, Relaxed);
        let mut growth = self.env.lock(&self.growth);
        self.inner.build(&mut growth, made.iter().map(|(low, number, _)| (*low, *number)));
        result
    }

    /// Writes a leaf for [`BTree::fill`]; its predecessor's link is durable with the next fence.
    fn append_leaf(
        &self,
        made: &mut Vec<(K, u32, Vec<K>)>,
        batch: &[sealed::Held<K, V>],
    ) -> Result<(), Error> {
        let space = self.space();
        let keys = batch.iter().map(|held| held.key).collect();
        let before = made.last().map_or(0, |(_, number, _)| *number);
        let mut nodes = self.env.lock(&self.nodes);
        let (new, to) = nodes.take(space, &self.extents)?;
        let node = nodes.offset(before);
        drop(nodes);
        let low = batch[0].key;
        self.write_leaf(to, 0, low, batch.iter().copied());
        space.fence();
        space.store_u64(node, to);
        space.flush(node, 8);
        made.push((low, new, keys));
        Ok(())
    }
}
