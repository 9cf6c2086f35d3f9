//! Stores in files, and every store as [`KeyValue`].

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use pmem::{MapError, Os, Synced};
use region::Ticket;
use space::Env;

use crate::handle::Handle;
use crate::layout::{CHUNKS, Layout, SECOND};
use crate::store::Store;
use crate::{Batch, Error, KeyValue, Options, Snapshot, Stats};

/// Chunks of a new file, at least: a few of them are a reserve.
const CHUNKS_MIN: u64 = 4;

fn grow(env: &Os<Synced>, bytes: u64) -> Result<(), Error> {
    Ok(env.space().grow(bytes)?)
}

impl Store {
    /// Makes a store in a new file, which grows as it is needed.
    ///
    /// # Errors
    /// If there is such a file, no room for it, or the options make no store. No file is left then.
    pub fn create(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::create_as(path, options, Os::new, grow)
    }

    /// Opens the store in a file, after recovery if it was not closed in order.
    ///
    /// # Errors
    /// If there is no such file, another process has it open, or there is no store in it, or a damaged one.
    pub fn open(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::open_as(path, options, Os::new, grow)
    }
}

impl<E: Env + Send> Store<E> {
    /// As [`Store::create`], in an environment that the caller makes of the file's memory. `grow` makes that
    /// so many bytes long.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn create_as(
        path: &Path,
        options: &Options,
        env: impl FnOnce(Synced) -> E,
        grow: fn(&E, u64) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let least = CHUNKS + CHUNKS_MIN * options.chunk;
        if options.max_bytes.is_some_and(|most| most < least) {
            return Err(Error::Options("max_bytes has no room for the smallest store, which is four chunks"));
        }
        let bytes =
            options.bytes.min(options.max_bytes.unwrap_or(u64::MAX)).max(least).next_multiple_of(4096);
        let memory = Synced::new(mapped(options).create_or_take(path, bytes)?);
        let env = Arc::new(env(memory));
        let made = Layout::new(options, options.number(&*env))
            .and_then(|layout| Store::create_growing(env, options, layout, Some(grow)));
        if made.is_err() && path.is_file() {
            // The first error is the one to report; what can't be removed is a file of zeros.
            _ = std::fs::remove_file(path);
        }
        made.map_err(|error| error.of_file(path))
    }

    /// As [`Store::open`], in such an environment.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_as(
        path: &Path,
        options: &Options,
        env: impl FnOnce(Synced) -> E,
        grow: fn(&E, u64) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let memory = mapped(options).open(path).map_err(|error| match error {
            // A crash came before there was more.
            MapError::Length { bytes: 0, .. } => {
                Error::NotAStore { second: SECOND, empty: true }.of_file(path)
            }
            other => other.into(),
        })?;
        let memory = Synced::new(memory);
        // What a killed process wrote reads as if it were there to stay.
        memory.confirm()?;
        let store = Store::open_growing(Arc::new(env(memory)), options, Some(grow));
        store.map_err(|error| error.of_file(path))
    }
}

fn mapped(options: &Options) -> pmem::Options {
    match options.max_bytes {
        Some(bytes) => pmem::Options::new().max_len(bytes.next_multiple_of(4096)),
        None => pmem::Options::new(),
    }
}

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// See [`KeyValue::close`].
    ///
    /// # Errors
    /// If the disk failed.
    pub fn close(mut self) -> Result<(), Error> {
        self.sync()?;
        self.finish_all_replaced()?;
        self.end_lanes()?;
        if let Some(tree) = self.tree.take() {
            tree.close()?;
        }
        self.leave()
    }
}

impl<E: Env, H: Handle<E>> KeyValue for Store<E, H>
where
    Store<E, H>: Send + Sync,
{
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get(key)
    }

    fn get_with(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        Ok(self.get_with(key, read)?.is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<Ticket, Error> {
        self.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<Option<Ticket>, Error> {
        self.delete(key)
    }

    fn write(&self, batch: &Batch) -> Result<Ticket, Error> {
        self.write(batch)
    }

    fn scan(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        self.scan(range, visit)
    }

    fn scan_back(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        self.scan_back(range, visit)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, Error> {
        Ok(Box::new(self.moment()?))
    }

    fn wait(&self, ticket: Ticket) -> Result<(), Error> {
        self.wait(ticket)
    }

    fn sync(&self) -> Result<(), Error> {
        self.sync()
    }

    fn collect(&self) -> Result<bool, Error> {
        self.collect()
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Store::close(*self)
    }
}
