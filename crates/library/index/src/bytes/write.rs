//! Changes of a map.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use space::{Env, Space};

use super::record::{self, LONGEST, Record, bytes_of};
use super::slots::size_of;
use super::{BytesMap, EnvOf, Erased, Flaw, damaged};
use crate::{Error, Extents};

impl<H, X> BytesMap<H, X>
where
    H: Deref<Target: Env> + Send + Sync,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    pub(super) fn erase(&self, slot: u64) {
        self.env.space().store_u64(slot, 0);
        self.env.space().flush(slot, 8);
    }

    /// Before a fence: what the latch's holders erased becomes durable by it.
    pub(super) fn flush_erased(&self, erased: &[Erased]) {
        erased.iter().for_each(|erased| self.env.space().flush(erased.slot, 8));
    }

    /// After that fence.
    pub(super) fn free_erased(&self, erased: &mut Vec<Erased>) {
        if !erased.is_empty() {
            let mut free = self.env.lock(&self.free);
            erased.drain(..).for_each(|erased| free.give(erased.size, erased.slot));
        }
    }

    /// A slot, also one of those that wait to be durably erased.
    fn slot(&self, size: u64, own: &mut Vec<Erased>) -> Result<u64, Error> {
        let take = || self.env.lock(&self.free).take(self.env.space(), self.number, &self.extents, size);
        match take() {
            Err(Error::Full { .. }) if !own.is_empty() => {
                self.flush_erased(own);
                self.env.space().fence();
                self.free_erased(own);
                take()
            }
            other => other,
        }
    }

    /// Sets the value of `key`; the one before.
    ///
    /// # Errors
    /// If there is no room, or key or value are longer than 4 GiB; the map is as before.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.put(key, value, |_| true)
    }

    /// Sets the value of `key` if it has one; the one before.
    ///
    /// # Errors
    /// As [`BytesMap::insert`].
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.put(key, value, |there| there)
    }

    fn put(&self, key: &[u8], value: &[u8], wanted: impl Fn(bool) -> bool) -> Result<Option<Vec<u8>>, Error> {
        if key.len() > LONGEST || value.len() > LONGEST {
            return Err(Error::Options("a key or value is longer than 4 GiB"));
        }
        let space = self.env.space();
        let mut erased = self.env.hold(self.latch(key));
        let before = self.look(key).map_err(damaged)?;
        if !wanted(before.is_some()) {
            return Ok(None);
        }
        let size = size_of(bytes_of(key.len(), value.len()));
        let slot = self.slot(size, &mut erased)?;
        let old = self.keys.get(key).map(|entry| entry.value().load(Ordering::Acquire));
        let old = old.zip(before.as_ref());
        let old = old.map(|(slot, record)| Erased { slot, size: size_of(record.bytes()) });
        if let (Flaw::ErasedEarly, Some(old)) = (self.options.flaw, old) {
            self.erase(old.slot);
        }
        self.flush_erased(&erased);
        self.writers.begin(space, || self.env.lock(&self.free));
        let sequence = before.as_ref().map_or(0, |record| record.sequence + 1);
        record::write(space, self.number, slot, sequence, key, value);
        if self.options.flaw != Flaw::NotFenced {
            space.fence();
        }
        self.writers.end();
        self.free_erased(&mut erased);
        match (self.keys.get(key), old) {
            (Some(entry), Some(old)) => {
                entry.value().store(slot, Ordering::Release);
                self.erase(old.slot);
                if self.options.flaw == Flaw::ReusedEarly {
                    self.env.lock(&self.free).give(old.size, old.slot);
                } else {
                    erased.push(old);
                }
            }
            _ => _ = self.keys.insert(key.into(), AtomicU64::new(slot)),
        }
        Ok(before.map(Record::into_value))
    }

    /// Takes `key` out; the value that it had.
    ///
    /// # Errors
    /// If its record is damaged.
    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut erased = self.env.hold(self.latch(key));
        let Some(record) = self.look(key).map_err(damaged)? else { return Ok(None) };
        if !erased.is_empty() && self.options.flaw != Flaw::OlderKept {
            // One of them may be an older record of this key.
            self.flush_erased(&erased);
            self.env.space().fence();
            self.free_erased(&mut erased);
        }
        let Some(entry) = self.keys.remove(key) else { return Ok(None) };
        let slot = entry.value().load(Ordering::Acquire);
        self.erase(slot);
        self.env.space().fence();
        self.env.lock(&self.free).give(size_of(record.bytes()), slot);
        Ok(Some(record.into_value()))
    }

    /// Fills an empty map, durable once this returns: one fence for all of it. After a crash meanwhile it has
    /// some of them. Others wait.
    ///
    /// # Errors
    /// If the map is not empty, a key is there twice, or there is no room for all of them; the map is empty
    /// again.
    pub fn load<'a>(&self, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Error> {
        let _held: Vec<_> = self.latches.iter().map(|latch| self.env.hold(latch)).collect();
        if !self.keys.is_empty() {
            return Err(Error::Options("pairs are loaded into an empty map"));
        }
        let space = self.env.space();
        self.writers.any(space);
        let mut made = Vec::new();
        let result = self.write_all(pairs, &mut made);
        if result.is_err() {
            made.iter().for_each(|made: &Erased| self.erase(made.slot));
        }
        space.fence();
        match &result {
            Ok(keys) => keys.iter().for_each(|(key, slot)| {
                self.keys.insert((*key).into(), AtomicU64::new(*slot));
            }),
            Err(_) => self.free_erased(&mut made),
        }
        self.writers.none(space);
        result.map(|_| ())
    }

    /// Writes records; where they are by their keys, and all slots that were taken.
    fn write_all<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        made: &mut Vec<Erased>,
    ) -> Result<HashMap<&'a [u8], u64>, Error> {
        let mut keys = HashMap::new();
        // Of a key that is there twice a crash leaves one, so that sequences differ.
        for (sequence, (key, value)) in (0..).zip(pairs) {
            if key.len() > LONGEST || value.len() > LONGEST {
                return Err(Error::Options("a key or value is longer than 4 GiB"));
            }
            let size = size_of(bytes_of(key.len(), value.len()));
            let slot = self.slot(size, &mut Vec::new())?;
            made.push(Erased { slot, size });
            record::write(self.env.space(), self.number, slot, sequence, key, value);
            if keys.insert(key, slot).is_some() {
                return Err(Error::Options("a key is there twice"));
            }
        }
        Ok(keys)
    }
}
