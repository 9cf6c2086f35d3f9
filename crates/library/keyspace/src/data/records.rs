//! What everything rests on: an ordered map of byte strings with atomic batches, whose durability can be
//! waited for.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why a store can't do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

/// A change of one record: its key, and its new value or none.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// Records in the order of their keys.
pub trait Records: Send + Sync {
    /// The value of `key`.
    ///
    /// # Errors
    /// If the store is damaged, or can't be read.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble>;

    /// Hands out the records from `from` on in order, until `visit` returns false. `visit` must not use the
    /// records.
    ///
    /// # Errors
    /// If the store is damaged, or can't be read.
    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Trouble>;

    /// Hands out the records below `end`, the last first, until `visit` returns false.
    ///
    /// # Errors
    /// If the store is damaged, or can't be read.
    fn scan_back(&self, end: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Trouble>;

    /// Makes all changes, or none: a crash never leaves a part. The ticket to wait for.
    ///
    /// # Errors
    /// If there is no room; nothing is changed.
    fn write(&self, changes: &[Change]) -> Result<u64, Trouble>;

    /// Returns once everything up to this ticket is durable.
    ///
    /// # Errors
    /// If it could not be made durable.
    fn wait(&self, ticket: u64) -> Result<(), Trouble>;

    /// Whether waiting takes so long that a thread of its own should do it.
    fn is_slow(&self) -> bool;

    /// Brings back a piece of room that nobody needs any more, while others go on; whether there was one.
    ///
    /// # Errors
    /// If the store is damaged, or has no room.
    fn tidy_up(&self) -> Result<bool, Trouble>;

    /// Bytes of the file that are in use, and its length, for `INFO`.
    fn bytes(&self) -> (u64, u64);
}

/// Records in ordinary memory, for tests: durable at no time.
#[derive(Debug, Default)]
pub struct InMemory {
    records: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl InMemory {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Records for InMemory {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        Ok(self.locked().get(key).cloned())
    }

    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Trouble> {
        let records = self.locked();
        let all = records.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        for (key, value) in all {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn scan_back(&self, end: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Trouble> {
        let records = self.locked();
        let all = records.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(end)));
        for (key, value) in all.rev() {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, changes: &[Change]) -> Result<u64, Trouble> {
        let mut records = self.locked();
        for (key, value) in changes {
            match value {
                Some(value) => records.insert(key.clone(), value.clone()),
                None => records.remove(key),
            };
        }
        Ok(0)
    }

    fn wait(&self, _: u64) -> Result<(), Trouble> {
        Ok(())
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn tidy_up(&self) -> Result<bool, Trouble> {
        Ok(false)
    }

    fn bytes(&self) -> (u64, u64) {
        (0, 0)
    }
}
