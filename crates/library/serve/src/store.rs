//! The records in a key-value store of crate `kv`.

use std::ops::Bound;
use std::path::Path;

use keyspace::{Change, Records, Trouble};
use kv::{Batch, Durable, Engine};
use region::Ticket;

use crate::server::error::Error;

/// Bytes of a log: no command changes more at once.
const LOG: u64 = 16 << 20;

/// A store in a file.
pub struct Store {
    store: kv::Store,
    slow: bool,
}

/// What an engine is called.
fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Log => "log",
        Engine::Slab => "slab",
    }
}

impl Store {
    /// Opens the store at `path`, or makes one. `engine` is that of a new store; an old one
    /// must have it, too.
    ///
    /// # Errors
    /// If the store can't be opened or made, or has another engine.
    pub fn open(path: &Path, engine: Option<Engine>) -> Result<Store, Error> {
        let mut options = kv::Options { engine: engine.unwrap_or(Engine::Log), ..kv::Options::default() };
        if options.engine == Engine::Log {
            options.chunk = LOG;
        }
        let store = match path.try_exists() {
            Ok(false) => kv::Store::create(path, &options)?,
            _ => kv::Store::open(path, &options)?,
        };
        let found = store.stats();
        if engine.is_some_and(|engine| engine != found.engine) {
            return Err(Error::Engine { path: path.to_owned(), found: name(found.engine) });
        }
        Ok(Store { slow: found.durable == Durable::WhenWaited, store })
    }

    /// The engine's name.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        name(self.store.stats().engine)
    }

    /// Makes everything durable and leaves nothing for recovery to do.
    ///
    /// # Errors
    /// If the disk failed.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.store.close()?)
    }
}

fn trouble(error: kv::Error) -> Trouble {
    Trouble(error.to_string())
}

impl Records for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        self.store.get(key).map_err(trouble)
    }

    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Trouble> {
        self.store.scan((Bound::Included(from), Bound::Unbounded), visit).map_err(trouble)
    }

    fn scan_back(&self, end: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Trouble> {
        self.store.scan_back((Bound::Unbounded, Bound::Excluded(end)), visit).map_err(trouble)
    }

    fn write(&self, changes: &[Change]) -> Result<u64, Trouble> {
        let ticket = match changes {
            [(key, Some(value))] => self.store.put(key, value),
            [(key, None)] => self.store.delete(key).map(|ticket| ticket.unwrap_or(Ticket::DUE)),
            _ => {
                let mut batch = Batch::new();
                for (key, value) in changes {
                    match value {
                        Some(value) => batch.put(key, value),
                        None => batch.delete(key),
                    };
                }
                self.store.write(&batch)
            }
        };
        ticket.map(Ticket::number).map_err(trouble)
    }

    fn wait(&self, ticket: u64) -> Result<(), Trouble> {
        self.store.wait(Ticket::new(ticket)).map_err(trouble)
    }

    fn is_slow(&self) -> bool {
        self.slow
    }

    fn tidy_up(&self) -> Result<bool, Trouble> {
        self.store.collect().map_err(trouble)
    }

    fn bytes(&self) -> (u64, u64) {
        let stats = self.store.stats();
        ((stats.chunks - stats.free_chunks) * stats.chunk, stats.bytes)
    }
}
