//! How nodes are split and enter the level above.

use std::ops::Deref;
use std::sync::atomic::Ordering::Release;

use space::{Env, Space};

use super::node::{Discipline, Flaw, HIGH, LEVEL, LOW, NEXT, store};
use super::{EnvOf, Held, Tree, UNIT, Variant};
use crate::nodes::root;
use crate::{Error, Extents, Fixed};

impl<H, K, V, X, D> Tree<H, K, V, X, D>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
    D: Variant,
{
    /// Splits a full node, gives its latch up, and enters the new one above.
    #[cold]
    pub(super) fn split_node<L: Discipline, W: Fixed>(
        &self,
        (node, held): (u64, Held<'_, H>),
        level: u64,
    ) -> Result<(), Error> {
        let desk = self.desk();
        let pairs = L::pairs::<_, K, W>(&desk, node);
        let low = pairs[pairs.len() / 2].0;
        let right = desk.right::<K>(node);
        let new = self.make::<L, W>(level, low, right, &pairs[pairs.len() / 2..])?;
        if D::Leaf::DURABLE && self.options.flaw != Flaw::LinkedEarly {
            desk.space.fence();
        }
        self.version(node).change(|| {
            self.link(node, new, low);
            L::cut::<_, K, W>(&desk, node, low);
        });
        self.pass(new, false);
        drop(held);
        self.enter(level + 1, low, new)
    }

    /// Makes a node that nobody can reach; flushed, not fenced.
    pub(super) fn make<L: Discipline, W: Fixed>(
        &self,
        level: u64,
        low: K,
        right: Option<(u64, K)>,
        pairs: &[(K, W)],
    ) -> Result<u64, Error> {
        let space = self.space();
        let (_, node) = self.env.lock(&self.nodes).take(space, &self.extents)?;
        self.version(node).change(|| {
            space.store_u64(node + NEXT, right.map_or(0, |(right, _)| right));
            space.store_u64(node + LEVEL, level);
            store(space, node + LOW, low);
            if let Some((_, high)) = right {
                store(space, node + HIGH, high);
            }
            L::fill(&self.desk(), node, pairs);
        });
        if D::Leaf::DURABLE && self.options.flaw != Flaw::GroupTrusted {
            space.flush(node, self.options.node);
        }
        Ok(node)
    }

    /// Links a right sibling.
    pub(super) fn link(&self, node: u64, right: u64, low: K) {
        let space = self.space();
        space.store_u64(node + NEXT, right);
        if D::Leaf::DURABLE {
            space.persist(node + NEXT, 8);
        }
        store(space, node + HIGH, low);
    }

    /// Enters a node of the level below a level in that level.
    pub(super) fn enter(&self, level: u64, low: K, child: u64) -> Result<(), Error> {
        if D::SELECTIVE {
            let mut growth = self.env.lock(&self.growth);
            self.inner.enter(&mut growth, low, (child / UNIT) as u32, &|_| unreachable!("nothing is lazy"));
            return Ok(());
        }
        if self.top().1 < level {
            let _one = self.env.lock(&self.rising);
            if self.top().1 < level {
                return self.rise(level, low, child);
            }
        }
        loop {
            let (node, held) = self.hold(low, level);
            if !D::Upper::is_full::<_, K, u64>(&self.desk(), node) {
                self.put::<D::Upper, u64>(node, low, child);
                return Ok(());
            }
            self.split_node::<D::Upper, u64>((node, held), level)?;
        }
    }

    /// Puts a node above the topmost one.
    fn rise(&self, level: u64, low: K, child: u64) -> Result<(), Error> {
        let (space, least) = (self.space(), K::from_words([0; 2]));
        let pairs = [(least, self.top().0), (low, child)];
        // A low that is the least of all is entered in the place of the leftmost node.
        let pairs = if low == least { &pairs[1..] } else { &pairs[..] };
        let top = self.make::<D::Upper, u64>(level, least, None, pairs)?;
        if D::Leaf::DURABLE {
            space.fence();
        }
        space.store_u64(self.root + root::TOP, top);
        if D::Leaf::DURABLE {
            space.persist(self.root + root::TOP, 8);
        }
        self.top.store(top | level, Release);
        self.pass(top, false);
        Ok(())
    }

    /// Fills an empty tree from left to right; what is loaded is durable leaf by leaf.
    pub(super) fn fill(&self, pairs: &mut dyn Iterator<Item = (K, V)>) -> Result<(), Error> {
        let (first, held) = self.hold(K::from_words([0; 2]), 0);
        let empty = D::Leaf::pairs::<_, K, V>(&self.desk(), first).is_empty();
        if !empty || self.desk().right::<K>(first).is_some() {
            return Err(Error::Options("pairs are loaded into an empty map"));
        }
        drop(held);
        let slots = D::Leaf::slots::<K, V>(self.options.node) as usize;
        let mut before = first;
        let mut last = None;
        loop {
            let mut batch: Vec<(K, V)> = Vec::with_capacity(slots);
            for (key, value) in (&mut *pairs).take(slots) {
                if last.is_some_and(|last| last >= key) {
                    return Err(Error::Options("keys are not in ascending order"));
                }
                last = Some(key);
                batch.push((key, value));
            }
            let Some((low, _)) = batch.first().copied() else { return Ok(()) };
            let new = self.make::<D::Leaf, V>(0, low, None, &batch)?;
            if D::Leaf::DURABLE {
                self.space().fence();
            }
            let held = self.latch(before);
            self.version(before).change(|| self.link(before, new, low));
            self.pass(new, false);
            drop(held);
            self.enter(1, low, new)?;
            before = new;
        }
    }
}
