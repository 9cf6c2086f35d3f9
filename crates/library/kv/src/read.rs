//! Reading values.

use std::cell::Cell;

use space::{Env, Space};

use crate::Error;
use crate::handle::Handle;
use crate::record::{self, Record, VALUE_MAX};
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
        let number = self.shard_number(hash);
        let shard = &self.shards[number];
        self.ready(shard, number)?;
        let found = shard.read(&self.env, || {
            let found = self.find(shard, hash, key);
            found.map(|found| found.map(|location| (location, self.copy_value(location, value))))
        });
        match found? {
            Some((location, false)) => {
                Err(Error::damaged(location, "a record that its checksum confirms", space.load_u64(location)))
            }
            Some((_, true)) => Ok(true),
            None => Ok(false),
        }
    }

    /// Copies the value of the record at `location`, if it is whole. Where opening read and confirmed all
    /// records, only the length has to be one; else the checksum confirms it now.
    #[inline]
    pub(crate) fn copy_value(&self, location: u64, value: &mut Vec<u8>) -> bool {
        if self.confirms() {
            return self.copy_confirmed(location, value);
        }
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

    /// Whether nobody has confirmed the records that the index leads to.
    #[inline]
    pub(crate) fn confirms(&self) -> bool {
        self.is_indexed() || self.left.get().is_some()
    }

    /// The record at `location` if it is whole; its bytes are in `buffer` then.
    pub(crate) fn confirmed(&self, location: u64, buffer: &mut Vec<u8>) -> Option<Record> {
        let space = self.env.space();
        let generation = self.chunks.of(location).1.head().generation;
        let seed = record::seed(self.layout().id, generation, location);
        Record::whole_at(space, location, space.len(), seed, self.covers(), buffer)
    }

    fn copy_confirmed(&self, location: u64, value: &mut Vec<u8>) -> bool {
        let Some(record) = self.confirmed(location, value) else { return false };
        let begin = (record.bytes() - record::bytes_of(0, record.value) + record::HEAD) as usize;
        value.copy_within(begin.., 0);
        value.truncate(record.value as usize);
        true
    }

    /// The key of the record at `location`; if it is damaged, as much of it as there is.
    pub(crate) fn key_at(&self, location: u64) -> Vec<u8> {
        let space = self.env.space();
        let len = (space.load_u64(location + 16) >> 48).min(space.len() - location - record::HEAD);
        let mut key = vec![0; len as usize];
        space.load(location + record::HEAD, &mut key);
        key
    }
}
