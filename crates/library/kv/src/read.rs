//! Reading values.

use std::cell::Cell;

use space::{Env, Space};

use crate::Error;
use crate::handle::Handle;
use crate::record::{self, VALUE_MAX};
use crate::store::Store;

thread_local! {
    /// Where values are copied before they are lent.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The longest buffer that a thread keeps.
const KEPT: usize = 1 << 20;

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// See [`crate::KeyValue::get`].
    ///
    /// # Errors
    /// If the record is damaged.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// See [`crate::KeyValue::get_with`].
    ///
    /// # Errors
    /// If the record is damaged.
    pub fn get_with<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, Error> {
        let mut value = BUFFER.take();
        let found = self.get_into(key, &mut value);
        let result = found.map(|found| found.then(|| read(&value)));
        if value.capacity() <= KEPT {
            BUFFER.set(value);
        }
        result
    }

    /// Copies the value of `key` to `value`; whether there is one.
    ///
    /// # Errors
    /// If the record is damaged.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Error> {
        let hash = self.hash(key);
        let space = self.env.space();
        let shard = self.shard(hash);
        let (location, whole) = shard.read(&self.env, || match self.find(shard, hash, key) {
            Some(location) => (location, self.copy_value(location, value)),
            None => (0, true),
        });
        if !whole {
            let found = space.load_u64(location + 16);
            return Err(Error::damaged(location + 16, "the lengths of a key and its value", found));
        }
        Ok(location != 0)
    }

    /// Copies the value of the record at `location`, if its length can be one.
    #[inline]
    pub(crate) fn copy_value(&self, location: u64, value: &mut Vec<u8>) -> bool {
        let space = self.env.space();
        let lengths = space.load_u64(location + 16);
        let (key, len) = (lengths >> 48, lengths & VALUE_MAX);
        // Where words are being overwritten, the lengths may be any.
        let begin = location + record::bytes_of(key, 0);
        if begin > space.len() || len > space.len() - begin {
            return false;
        }
        value.resize(len as usize, 0);
        space.load(begin, value);
        true
    }

    /// The key of the record at `location`.
    pub(crate) fn key_at(&self, location: u64) -> Vec<u8> {
        let space = self.env.space();
        let mut key = vec![0; (space.load_u64(location + 16) >> 48) as usize];
        space.load(location + record::HEAD, &mut key);
        key
    }
}
