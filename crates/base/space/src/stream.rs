//! The shared end of a recording: numbers for sites, names, threads and synchronisations, and the sink.

use std::collections::BTreeMap;
use std::panic::Location;

use event::{Batch, Definition, NameId, Op, Sink, SinkError, SiteId, ThreadId};

use crate::local::Buffer;
use crate::sites;

/// What the threads of a recording share; behind a mutex.
#[derive(Debug)]
pub(crate) struct Stream<K> {
    sink: K,
    sites: BTreeMap<(&'static str, u32), SiteId>,
    names: BTreeMap<String, NameId>,
    threads: u32,
    seq: u64,
    locks: u64,
    regions: u64,
    /// The sink's first error; nothing is given to it any more.
    error: Option<SinkError>,
}

impl<K: Sink> Stream<K> {
    pub fn new(sink: K) -> Self {
        Stream {
            sink,
            sites: BTreeMap::new(),
            names: BTreeMap::new(),
            threads: 0,
            seq: 0,
            locks: 0,
            regions: 0,
            error: None,
        }
    }

    /// The next position in the global order of synchronisation.
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub fn next_thread(&mut self) -> ThreadId {
        self.threads += 1;
        ThreadId(self.threads - 1)
    }

    /// Numbers of locks count from 0.
    pub fn next_lock(&mut self) -> u64 {
        self.locks += 1;
        self.locks - 1
    }

    /// Numbers of regions count from 1.
    pub fn next_region(&mut self) -> u64 {
        self.regions += 1;
        self.regions
    }

    /// The number of the source line that `location` names.
    pub fn site(&mut self, location: &'static Location<'static>) -> SiteId {
        let next = SiteId(u32::try_from(self.sites.len() + 1).unwrap_or(SiteId::UNKNOWN.0));
        let key = (location.file(), location.line());
        if let Some(&site) = self.sites.get(&key) {
            return site;
        }
        self.sites.insert(key, next);
        self.define(Definition::Site(next, &sites::resolve(location)));
        next
    }

    /// The number of `name`.
    pub fn name(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        let id = NameId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.insert(name.to_owned(), id);
        self.define(Definition::Name(id, name));
        id
    }

    /// Gives the buffer's events to the sink and empties it.
    pub fn push(&mut self, buffer: &mut Buffer) {
        if !buffer.events.is_empty() && self.error.is_none() {
            let batch =
                Batch { thread: buffer.thread, time_ns: 0, events: &buffer.events, values: &buffer.values };
            self.error = self.sink.push(batch).err();
        }
        buffer.events.clear();
        buffer.values.clear();
    }

    /// Adds a synchronisation to the buffer, at the next position, and sends all of it.
    pub fn synchronise(&mut self, buffer: &mut Buffer, site: SiteId, op: impl FnOnce(u64) -> Op) {
        let op = op(self.next_seq());
        buffer.events.push(event::Event { op, site, instructions: 0 });
        self.push(buffer);
    }

    /// Ends the stream.
    pub fn finish(mut self) -> Result<K, SinkError> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.sink.finish().map(|()| self.sink),
        }
    }

    fn define(&mut self, definition: Definition<'_>) {
        if self.error.is_none() {
            self.error = self.sink.define(definition).err();
        }
    }
}
