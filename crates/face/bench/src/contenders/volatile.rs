//! The baseline: the standard library's ordered map in ordinary memory, under one lock.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use index::{Error, Fixed, Map, OrderedMap};
use workload::load::{Target, TargetError};

use crate::record::{KeyKind, judge, with_value};

/// A map that does not survive.
pub struct Volatile<K, V>(RwLock<BTreeMap<K, V>>);

impl<K: Ord, V> Volatile<K, V> {
    /// An empty one.
    pub fn new() -> Self {
        Volatile(RwLock::new(BTreeMap::new()))
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<K, V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<K, V>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Fixed, V: Fixed> Map<K, V> for Volatile<K, V> {
    fn get(&self, key: K) -> Option<V> {
        self.read().get(&key).copied()
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        Ok(self.write().insert(key, value))
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        Ok(self.write().get_mut(&key).map(|old| std::mem::replace(old, value)))
    }

    fn replace(&self, key: K, old: V, new: V) -> Result<bool, Error> {
        Ok(self.write().get_mut(&key).is_some_and(|value| {
            let same = (0..V::WORDS).all(|at| value.word(at) == old.word(at));
            if same {
                *value = new;
            }
            same
        }))
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        Ok(self.write().remove(&key))
    }

    fn each(&self, visit: &mut dyn FnMut(K, V) -> bool) {
        _ = self.read().iter().all(|(key, value)| visit(*key, *value));
    }
}

impl<K: Fixed, V: Fixed> OrderedMap<K, V> for Volatile<K, V> {
    fn range(&self, from: K, visit: &mut dyn FnMut(K, V) -> bool) {
        _ = self.read().range(from..).all(|(key, value)| visit(*key, *value));
    }

    fn load_sorted(&self, pairs: &mut dyn Iterator<Item = (K, V)>) -> Result<(), Error> {
        self.write().extend(pairs);
        Ok(())
    }
}

/// The same with keys and values of any length.
pub struct VolatileBytes {
    map: Volatile<Box<[u8]>, Box<[u8]>>,
    key: KeyKind,
    value: usize,
}

impl VolatileBytes {
    /// An empty one.
    pub fn new(key: KeyKind, value: usize) -> Self {
        VolatileBytes { map: Volatile::new(), key, value }
    }

    fn with_key<R>(&self, id: u64, use_it: impl FnOnce(&[u8]) -> R) -> R {
        let (key, bytes) = self.key.of(id);
        use_it(&key[..bytes])
    }
}

impl Target for VolatileBytes {
    fn insert(&self, id: u64, version: u64) -> Result<(), TargetError> {
        let value: Box<[u8]> = with_value(id, version, self.value, |value| value.into());
        self.with_key(id, |key| self.map.write().insert(key.into(), value));
        Ok(())
    }

    fn get(&self, id: u64) -> Result<bool, TargetError> {
        self.with_key(id, |key| match self.map.read().get(key) {
            Some(value) => judge(id, value, self.value).map(|()| true),
            None => Ok(false),
        })
    }

    fn scan(&self, id: u64, count: u32) -> Result<u64, TargetError> {
        let map = self.map.read();
        self.with_key(id, |key| {
            let range = map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded));
            Ok(range.take(count as usize).count() as u64)
        })
    }

    fn delete(&self, id: u64) -> Result<bool, TargetError> {
        Ok(self.with_key(id, |key| self.map.write().remove(key).is_some()))
    }
}
