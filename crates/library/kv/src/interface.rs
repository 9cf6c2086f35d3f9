//! What every store can do, chosen at run time.

use std::ops::Bound;

use region::Ticket;

use crate::{Batch, Error, Stats};

/// A key-value store for any number of threads, whatever its engine.
///
/// Keys and values are bytes. A change that returned is seen by all threads. It survives a crash once its
/// ticket is due: at once on persistent memory, after [`KeyValue::wait`] or [`KeyValue::sync`] on an ordinary
/// file ([`crate::Options::durable`]). A change that had not become durable is there after a crash, or is
/// not; of one key never an older state than one that was durable.
pub trait KeyValue: Send + Sync {
    /// The value of `key`.
    ///
    /// # Errors
    /// If the record is damaged.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Lends the value of `key` to `read`; whether there is one. `read` is called at most once.
    ///
    /// # Errors
    /// If the record is damaged.
    fn get_with(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, Error>;

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// If there is no room, or key or value are too long; nothing has changed then.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<Ticket, Error>;

    /// Takes `key` out. `None` if it was not there.
    ///
    /// # Errors
    /// If there is no room for what has to be written to do so; nothing has changed then.
    fn delete(&self, key: &[u8]) -> Result<Option<Ticket>, Error>;

    /// Makes all changes of `batch`, or after a crash none of them. Other threads may see some before others.
    ///
    /// # Errors
    /// If there is no room, or a key, a value or the batch is too long; nothing has changed then.
    fn write(&self, batch: &Batch) -> Result<Ticket, Error>;

    /// Hands out keys with their values in the order of keys, until `visit` returns false. Keys that change
    /// meanwhile are seen before or after their change; all others are seen once.
    ///
    /// The first call puts all keys in order, which takes time and memory for each of them; later ones do
    /// not.
    ///
    /// # Errors
    /// If a record is damaged.
    fn scan(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error>;

    /// The same from the last key of the range to the first.
    ///
    /// # Errors
    /// If a record is damaged.
    fn scan_back(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error>;

    /// All keys and values of this moment, whatever changes afterwards.
    ///
    /// # Errors
    /// If the index is damaged.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, Error>;

    /// Waits until the change with that ticket, and all earlier ones, are durable.
    ///
    /// # Errors
    /// If the disk failed.
    fn wait(&self, ticket: Ticket) -> Result<(), Error>;

    /// Waits until all changes that returned are durable.
    ///
    /// # Errors
    /// If the disk failed.
    fn sync(&self) -> Result<(), Error>;

    /// Collects garbage of one log; whether there was one that waited for it. Without effect on slabs.
    /// A thread of its own that calls this again and again takes the work from those who write.
    ///
    /// # Errors
    /// If there is no room for what is still in use, or a record is damaged.
    fn collect(&self) -> Result<bool, Error>;

    /// Figures of this moment.
    fn stats(&self) -> Stats;

    /// Makes everything durable and leaves nothing for recovery to do.
    ///
    /// # Errors
    /// If the disk failed.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// The state of a store at one moment. As long as there is one, no room that it needs is used again.
pub trait Snapshot: Send {
    /// How many keys there were.
    fn len(&self) -> usize;

    /// Whether there were none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands out keys with their values in the order of keys, until `visit` returns false.
    ///
    /// # Errors
    /// If a record is damaged.
    fn scan(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error>;
}
