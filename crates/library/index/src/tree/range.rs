//! The maps' interface.

use std::ops::Deref;

use space::{Env, LINE, Space};

use super::node::Discipline;
use super::{EnvOf, Tree, Variant};
use crate::{Error, Extents, Fixed, Map, OrderedMap};

/// Lookups at the same time, at most.
pub(super) const BATCH_MAX: usize = 64;

impl<H, K, V, X, D> Tree<H, K, V, X, D>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
    D: Variant,
{
    /// Asks for the lines of a node.
    fn prefetch(&self, node: u64) {
        (node..node + self.options.node).step_by(LINE as usize).for_each(|line| self.space().prefetch(line));
    }

    /// Lookups in turns: each goes one node on, asks for the next one's lines, and lets the others go on
    /// while they arrive.
    fn get_batch(&self, keys: &[K], values: &mut [Option<V>]) {
        let mut at = [(0, 0); BATCH_MAX];
        for (at, key) in at.iter_mut().zip(keys) {
            *at = self.start(*key, 0);
            self.prefetch(at.0);
        }
        let mut moving = true;
        while std::mem::take(&mut moving) {
            for (at, key) in at.iter_mut().zip(keys) {
                let version = self.version(at.0);
                let next = version.begin().and_then(|before| {
                    let next = self.step(*key, 0, *at)?;
                    version.unchanged(before).map(|()| next)
                });
                // Who is disturbed looks alone in the end.
                if let Ok(next) = next
                    && next != *at
                {
                    *at = next;
                    self.prefetch(next.0);
                    moving = true;
                }
            }
        }
        for ((at, key), value) in at.iter().zip(keys).zip(values) {
            let find = |node| D::Leaf::find::<_, K, V>(&self.desk(), node, *key);
            let found = if at.1 == 0 { self.look_in(at.0, *key, find).ok() } else { None };
            *value = found.unwrap_or_else(|| self.get(*key));
        }
    }
}

impl<H, K, V, X, D> Map<K, V> for Tree<H, K, V, X, D>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
    D: Variant,
{
    fn get(&self, key: K) -> Option<V> {
        self.read(key, |node| D::Leaf::find::<_, K, V>(&self.desk(), node, key))
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.set(key, value, |_| true)
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.set(key, value, |before| before.is_some())
    }

    fn replace(&self, key: K, old: V, new: V) -> Result<bool, Error> {
        Ok(self.set(key, new, |before| before == Some(old))? == Some(old))
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        Ok(self.take(key))
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) {
        assert_eq!(keys.len(), values.len(), "as many values as keys");
        for (keys, values) in keys.chunks(self.options.batch).zip(values.chunks_mut(self.options.batch)) {
            self.get_batch(keys, values);
        }
    }

    fn each(&self, visit: &mut dyn FnMut(K, V) -> bool) {
        self.range(K::from_words([0; 2]), visit);
    }
}

impl<H, K, V, X, D> OrderedMap<K, V> for Tree<H, K, V, X, D>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
    D: Variant,
{
    fn range(&self, from: K, visit: &mut dyn FnMut(K, V) -> bool) {
        let mut from = from;
        loop {
            let (pairs, right) = self.read(from, |node| {
                (D::Leaf::pairs::<_, K, V>(&self.desk(), node), self.desk().right::<K>(node))
            });
            for (key, value) in pairs.into_iter().filter(|(key, _)| *key >= from) {
                if !visit(key, value) {
                    return;
                }
            }
            match right {
                Some((_, high)) => from = high,
                None => return,
            }
        }
    }

    fn load_sorted(&self, pairs: &mut dyn Iterator<Item = (K, V)>) -> Result<(), Error> {
        self.fill(pairs)
    }
}
