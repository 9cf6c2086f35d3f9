//! Whole keys over signatures: what a table's user keeps beside it, and what a lost device can't take.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::accelerator::room;
use crate::{Accelerator, Batch, BatchOptions, Change, Error, Hashed, NONE, Outcome, Shape, Table};

/// A map of 64-bit keys and values. A [`Table`] finds the location of an item; the key there is compared.
/// The few keys whose signature and buckets are those of another key, and those for which the table has no
/// room, are in a map beside the table, so that nothing is lost.
///
/// Items are in the CPU's memory. If the device is lost in the middle of a batch, whatever it left in the
/// table is thrown away: the table is built again from the items on the CPU's threads, the batch is done
/// there, and [`Store::lost`] says so from then on.
pub struct Store {
    /// Replaced once, by the CPU's, when its device is lost.
    table: RwLock<Arc<Table>>,
    shape: Shape,
    items: Vec<[AtomicU64; 2]>,
    /// Locations without an item.
    free: Mutex<Vec<u32>>,
    beside: Mutex<HashMap<u64, u64>>,
    beside_count: AtomicUsize,
    lost: Mutex<Option<String>>,
}

impl Store {
    /// A store of at most `capacity` keys.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn new(accelerator: Arc<dyn Accelerator>, shape: Shape, capacity: u32) -> Result<Store, Error> {
        let table = RwLock::new(Arc::new(Table::new(accelerator, shape)?));
        room(u64::from(capacity) * 20)?;
        let (mut items, mut free) = (Vec::new(), Vec::new());
        let reserved = items.try_reserve_exact(capacity as usize);
        reserved.and_then(|()| free.try_reserve_exact(capacity as usize)).map_err(|error| {
            let (device, reason) = ("the CPU".to_owned(), error.to_string());
            Error::OutOfMemory { device, bytes: u64::from(capacity) * 20, reason }
        })?;
        items.extend((0..capacity).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]));
        free.extend((0..capacity).rev());
        let free = Mutex::new(free);
        let (beside, beside_count, lost) = (Mutex::default(), AtomicUsize::new(0), Mutex::default());
        Ok(Store { table, shape, items, free, beside, beside_count, lost })
    }

    /// The table: the device's, or the CPU's after the device was lost.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keys that are beside the table.
    #[must_use]
    pub fn beside(&self) -> usize {
        self.beside_count.load(Ordering::Relaxed)
    }

    /// Why the CPU does the device's work, if it does.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn item(&self, location: u32) -> Option<(u64, u64)> {
        let [key, value] = self.items.get(location as usize)?;
        Some((key.load(Ordering::Relaxed), value.load(Ordering::Relaxed)))
    }

    /// The values of keys, found by the device in one batch, or by the CPU if the device is lost.
    ///
    /// # Errors
    /// If the batch is too large or there is no room for it.
    pub fn get_many(&self, keys: &[u64]) -> Result<Vec<Option<u64>>, Error> {
        let locations = self.search(keys)?;
        Ok(keys.iter().zip(locations).map(|(&key, location)| self.value(key, location)).collect())
    }

    fn search(&self, keys: &[u64]) -> Result<Vec<u32>, Error> {
        let hashed: Vec<_> = keys.iter().map(|&key| self.shape.hash(key)).collect();
        let table = self.table();
        match table.search(&hashed) {
            Err(error @ Error::Lost { .. }) => self.fall_back(&table, &error)?.search(&hashed),
            result => result,
        }
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

    /// Inserts or replaces, in the batch's order. Calls that change the store must not run at the same time:
    /// `&mut` sees to that. An empty batch changes nothing.
    ///
    /// # Errors
    /// If the store has no room for all of it, the batch is too large or there is no memory for it: nothing
    /// has changed then.
    pub fn put_many(&mut self, pairs: &[(u64, u64)]) -> Result<(), Error> {
        let mut last = HashMap::with_capacity(pairs.len());
        for &(key, value) in pairs {
            last.insert(key, value);
        }
        let keys: Vec<u64> = last.keys().copied().collect();
        let found = self.search(&keys)?;
        let beside = self.beside.get_mut().unwrap_or_else(PoisonError::into_inner);
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<u64> = (keys.iter().zip(&found))
            .filter(|&(key, &location)| location == NONE && !beside.contains_key(key))
            .map(|(&key, _)| key)
            .collect();
        if new.len() > free.len() {
            let got = format!("{} new beside {}", new.len(), self.items.len() - free.len());
            let expected = "at most as many as it was made for";
            return Err(Error::Request { what: "keys of a store", got, expected });
        }
        let placed: Vec<(u64, u32)> = new.into_iter().zip(free.iter().rev().copied()).collect();
        for &(key, location) in &placed {
            let [held, value] = &self.items[location as usize];
            held.store(key, Ordering::Relaxed);
            value.store(last[&key], Ordering::Relaxed);
        }
        free.truncate(free.len() - placed.len());
        if let Err(error) = self.place(&placed) {
            let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
            free.extend(placed.iter().rev().map(|&(_, location)| location));
            return Err(error);
        }
        let beside = self.beside.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (&key, &location) in keys.iter().zip(&found) {
            let value = last[&key];
            if let Some(held) = beside.get_mut(&key) {
                *held = value;
            } else if let Some([held, old]) = self.items.get(location as usize).filter(|_| location != NONE) {
                if held.load(Ordering::Relaxed) == key {
                    old.store(value, Ordering::Relaxed);
                } else {
                    beside.insert(key, value);
                }
            }
        }
        self.beside_count.store(beside.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Puts items into the table, and beside it those that it can't hold.
    fn place(&mut self, placed: &[(u64, u32)]) -> Result<(), Error> {
        let changes: Vec<(Hashed, Change)> =
            placed.iter().map(|&(key, location)| (self.shape.hash(key), Change::Insert(location))).collect();
        let table = self.table();
        let answers = match table.change(&changes) {
            Ok(answers) => answers,
            // The new table has the items, these among them.
            Err(error @ Error::Lost { .. }) => return self.fall_back(&table, &error).map(|_| ()),
            Err(error) => return Err(error),
        };
        for (&(_, location), answer) in placed.iter().zip(answers) {
            match answer.outcome {
                Outcome::Full => self.set_beside(location),
                // Two keys of the batch have one signature and one pair of buckets.
                Outcome::Replaced => self.set_beside(answer.former),
                _ => {}
            }
        }
        Ok(())
    }

    /// Moves an item beside the table.
    fn set_beside(&mut self, location: u32) {
        let Some((key, value)) = self.item(location) else { return };
        let beside = self.beside.get_mut().unwrap_or_else(PoisonError::into_inner);
        beside.insert(key, value);
        self.beside_count.store(beside.len(), Ordering::Relaxed);
        self.free.get_mut().unwrap_or_else(PoisonError::into_inner).push(location);
    }

    /// Deletes a key. Returns its value.
    ///
    /// # Errors
    /// If there is no room for the batch; nothing has changed then.
    pub fn delete(&mut self, key: u64) -> Result<Option<u64>, Error> {
        let beside = self.beside.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = beside.remove(&key) {
            self.beside_count.store(beside.len(), Ordering::Relaxed);
            return Ok(Some(value));
        }
        let location = self.search(&[key])?[0];
        let Some((held, value)) = self.item(location).filter(|_| location != NONE) else { return Ok(None) };
        if held != key {
            return Ok(None);
        }
        let table = self.table();
        self.free.get_mut().unwrap_or_else(PoisonError::into_inner).push(location);
        let deleted = match table.change(&[(self.shape.hash(key), Change::Delete(location))]) {
            // The new table is built without it, since its location is free.
            Err(error @ Error::Lost { .. }) => self.fall_back(&table, &error).map(|_| ()),
            result => result.map(|_| ()),
        };
        if deleted.is_err() {
            self.free.get_mut().unwrap_or_else(PoisonError::into_inner).pop();
        }
        deleted.map(|()| Some(value))
    }

    /// Builds the table of a lost device again on the CPU. Another caller may have done so before.
    fn fall_back(&self, gone: &Arc<Table>, error: &Error) -> Result<Arc<Table>, Error> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&table, gone) {
            return Ok(table.clone());
        }
        let fresh = Table::new(Arc::new(Batch::new(BatchOptions::default())), self.shape)?;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut live = vec![true; self.items.len()];
        free.iter().for_each(|&location| live[location as usize] = false);
        let held: Vec<(u32, (u64, u64))> = (0..self.items.len() as u32)
            .filter(|&location| live[location as usize])
            .filter_map(|location| Some((location, self.item(location)?)))
            .collect();
        let changes: Vec<(Hashed, Change)> = held
            .iter()
            .map(|&(location, (key, _))| (self.shape.hash(key), Change::Insert(location)))
            .collect();
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        for (&(location, _), answer) in held.iter().zip(fresh.change(&changes)?) {
            let set = match answer.outcome {
                Outcome::Full => location,
                Outcome::Replaced => answer.former,
                _ => continue,
            };
            beside.extend(self.item(set));
            free.push(set);
        }
        self.beside_count.store(beside.len(), Ordering::Relaxed);
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        *table = Arc::new(fresh);
        Ok(table.clone())
    }
}
