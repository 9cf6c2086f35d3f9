//! Whole keys over signatures: what a table's user keeps beside it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Accelerator, Change, Error, NONE, Outcome, Shape, Table};

/// A map of 64-bit keys and values. A [`Table`] finds the location of an item; the key there is compared.
/// The few keys whose signature and buckets are those of another key, and those for which the table has no
/// room, are in a map beside the table, so that nothing is lost.
pub struct Store {
    table: Table,
    items: Vec<[AtomicU64; 2]>,
    free: Mutex<Vec<u32>>,
    beside: Mutex<HashMap<u64, u64>>,
    beside_count: AtomicUsize,
}

impl Store {
    /// A store of at most `capacity` keys.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn new(accelerator: Arc<dyn Accelerator>, shape: Shape, capacity: u32) -> Result<Store, Error> {
        let table = Table::new(accelerator, shape)?;
        let items = (0..capacity).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        let free = Mutex::new((0..capacity).rev().collect());
        Ok(Store { table, items, free, beside: Mutex::default(), beside_count: AtomicUsize::new(0) })
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Keys that are beside the table.
    #[must_use]
    pub fn beside(&self) -> usize {
        self.beside_count.load(Ordering::Relaxed)
    }

    fn item(&self, location: u32) -> Option<(u64, u64)> {
        let [key, value] = self.items.get(location as usize)?;
        Some((key.load(Ordering::Relaxed), value.load(Ordering::Relaxed)))
    }

    /// The values of keys, found by the device in one batch.
    ///
    /// # Errors
    /// As [`Table::search`].
    pub fn get_many(&self, keys: &[u64]) -> Result<Vec<Option<u64>>, Error> {
        let hashed: Vec<_> = keys.iter().map(|&key| self.table.shape().hash(key)).collect();
        let locations = self.table.search(&hashed)?;
        Ok(keys.iter().zip(locations).map(|(&key, location)| self.value(key, location)).collect())
    }

    fn value(&self, key: u64, location: u32) -> Option<u64> {
        if let Some((held, value)) = self.item(location).filter(|_| location != NONE)
            && held == key
        {
            return Some(value);
        }
        if self.beside() == 0 {
            return None;
        }
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    /// Inserts or replaces. Calls that change the store must not run at the same time: `&mut` sees to that.
    ///
    /// # Errors
    /// If the store is full (nothing has changed then), or the device is lost.
    pub fn put_many(&mut self, pairs: &[(u64, u64)]) -> Result<(), Error> {
        for &(key, value) in pairs {
            self.put(key, value)?;
        }
        Ok(())
    }

    fn put(&mut self, key: u64, value: u64) -> Result<(), Error> {
        let hashed = self.table.shape().hash(key);
        let beside = self.beside.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = beside.get_mut(&key) {
            *held = value;
            return Ok(());
        }
        let location = self.table.search(&[hashed])?[0];
        if location != NONE {
            let [held, old] = &self.items[location as usize];
            if held.load(Ordering::Relaxed) == key {
                old.store(value, Ordering::Relaxed);
                return Ok(());
            }
            beside.insert(key, value);
            self.beside_count.store(beside.len(), Ordering::Relaxed);
            return Ok(());
        }
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(&location) = free.last() else {
            let got = self.items.len().to_string();
            return Err(Error::Request {
                what: "keys of a store",
                got,
                expected: "fewer keys, or a larger store",
            });
        };
        let [held, new] = &self.items[location as usize];
        held.store(key, Ordering::Relaxed);
        new.store(value, Ordering::Relaxed);
        let answer = self.table.change(&[(hashed, Change::Insert(location))])?[0];
        if answer.outcome == Outcome::Full {
            beside.insert(key, value);
            self.beside_count.store(beside.len(), Ordering::Relaxed);
        } else {
            free.pop();
        }
        Ok(())
    }

    /// Deletes a key. Returns its value.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn delete(&mut self, key: u64) -> Result<Option<u64>, Error> {
        let beside = self.beside.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = beside.remove(&key) {
            self.beside_count.store(beside.len(), Ordering::Relaxed);
            return Ok(Some(value));
        }
        let hashed = self.table.shape().hash(key);
        let location = self.table.search(&[hashed])?[0];
        let Some((held, value)) = self.item(location).filter(|_| location != NONE) else { return Ok(None) };
        if held != key {
            return Ok(None);
        }
        self.table.change(&[(hashed, Change::Delete(location))])?;
        self.free.get_mut().unwrap_or_else(PoisonError::into_inner).push(location);
        Ok(Some(value))
    }
}
