//! The sink that follows the lines.

use std::collections::{BTreeMap, HashMap};

use event::{
    Batch, Capabilities, Definition, Event, FenceKind, FlushKind, Op, Sink, SinkError, SiteId, SiteTable,
    Source, ThreadId,
};

use super::lines::{Flush, LINE, Lines, Stores};
use super::{Kind, Lint};
use crate::Place;
use crate::history::{Numbers, Ranges};

/// What a thread has under way.
#[derive(Debug, Default)]
struct Thread {
    flushed: Vec<Flush>,
    /// Non-temporal stores since the last fence.
    streamed: Vec<Stores>,
    /// Whether an `sfence` would have something to order.
    to_order: bool,
    /// Regions begun and not ended.
    regions: u64,
}

/// A sink that finds what [the module](super) lists.
#[derive(Debug, Default)]
pub struct Lints {
    ranges: Ranges,
    numbers: Numbers,
    table: SiteTable,
    lines: Lines,
    threads: BTreeMap<ThreadId, Thread>,
    /// Live allocations: start and length.
    allocated: BTreeMap<u64, u64>,
    /// Whether batches have values.
    values: bool,
    /// Whether a region has begun.
    regions: bool,
    found: BTreeMap<(Kind, SiteId), Lint>,
}

impl Lints {
    /// A fresh sink.
    #[must_use]
    pub fn new() -> Self {
        Lints::default()
    }

    /// The persistent files, by their number in [`Place::file`].
    #[must_use]
    pub fn files(&self) -> &[String] {
        self.numbers.files()
    }

    /// Code sites and names.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// What was found, as if the run ended now: by kind, then by how often.
    #[must_use]
    pub fn findings(&self) -> Vec<Lint> {
        let mut found = self.found.clone();
        for stores in self.lines.dirty() {
            note(&mut found, Kind::NeverFlushed, *stores, None);
        }
        for flying in self.lines.flying() {
            note(&mut found, Kind::NotFenced, flying.stores, Some(flying.flush));
        }
        for stores in self.threads.values().flat_map(|thread| &thread.streamed) {
            note(&mut found, Kind::NotFenced, *stores, None);
        }
        let mut found = self.by_place_in_the_source(found.into_values());
        found.sort_by_key(|lint| (lint.kind, std::cmp::Reverse(lint.count), lint.site));
        found
    }

    /// Inlined code has many addresses and is one line to its reader.
    fn by_place_in_the_source(&self, found: impl Iterator<Item = Lint>) -> Vec<Lint> {
        let mut merged: Vec<Lint> = Vec::new();
        let mut known: HashMap<(Kind, String), usize> = HashMap::new();
        for lint in found {
            let next = merged.len();
            let at = match self.table.site(lint.site) {
                Some(site) => *known.entry((lint.kind, site.to_string())).or_insert(next),
                None => next,
            };
            match merged.get_mut(at) {
                Some(same) => {
                    same.count += lint.count;
                    same.bytes += lint.bytes;
                }
                None => merged.push(lint),
            }
        }
        merged
    }

    fn note(&mut self, kind: Kind, stores: Stores, flush: Option<SiteId>) {
        note(&mut self.found, kind, stores, flush);
    }

    fn event(&mut self, id: ThreadId, event: &Event, values: &mut &[u8]) -> Result<(), SinkError> {
        let site = event.site;
        match event.op {
            Op::Store { addr, len } => self.store(id, site, addr, len, false),
            Op::StoreNt { addr, len } => self.store(id, site, addr, len, true),
            Op::Flush { addr, kind } => self.flush(id, site, addr, kind),
            Op::Fence(kind) => self.fence(id, site, kind),
            Op::Map { addr, len, name } => {
                let place = Place::new(self.numbers.number(name)?, 0);
                self.ranges.map(id, addr, len, place);
            }
            Op::MapOffset { addr, offset } => {
                self.ranges.relocate(id, addr, offset);
            }
            Op::Unmap { addr, len } => self.ranges.unmap(id, addr, len),
            Op::Spawn { child, .. } => self.ranges.spawn(id, child),
            Op::Process { process } => self.ranges.enter(id, process),
            Op::MapSync { addr, len } => {
                if let Some((from, mapped)) = self.ranges.place(id, addr) {
                    self.sync(id, site, from, Place(from.0 + len.min(mapped)));
                }
            }
            Op::FileRangeSync { file, offset, len, .. } => {
                if let Some(number) = self.numbers.known(file) {
                    let end = offset + u64::from(len);
                    self.sync(id, site, Place::new(number, offset), Place::new(number, end));
                }
            }
            Op::FileSync { file, .. } => {
                if let Some(number) = self.numbers.known(file) {
                    self.sync(id, site, Place::new(number, 0), Place::new(number, (1 << 48) - 1));
                }
            }
            Op::Alloc { addr, len } => {
                self.allocated.insert(addr, len);
            }
            Op::Free { addr } => {
                self.allocated.remove(&addr);
            }
            Op::RegionBegin { .. } => {
                self.regions = true;
                self.threads.entry(id).or_default().regions += 1;
            }
            Op::RegionEnd { .. } => self.region_end(id),
            _ => {}
        }
        if self.values
            && let Some(len) = event.op.value_len()
        {
            let (bytes, rest) = values.split_at_checked(len as usize).ok_or_else(|| {
                SinkError::Other("a batch has fewer stored bytes than its stores say".into())
            })?;
            *values = rest;
            if let (Some((addr, _)), Ok(word)) = (event.op.stored(), bytes.try_into()) {
                self.pointer(id, site, addr, u64::from_le_bytes(word));
            }
        }
        Ok(())
    }

    fn store(&mut self, id: ThreadId, site: SiteId, addr: u64, len: u32, past_cache: bool) {
        if past_cache {
            self.threads.entry(id).or_default().to_order = true;
        }
        let (mut addr, mut left) = (addr, u64::from(len));
        while left > 0 {
            let Some((first, mapped)) = self.ranges.place(id, addr) else { return };
            let bytes = left.min(mapped).min(LINE - first.0 % LINE);
            let stores = Stores { site, count: 1, bytes, first };
            let thread = self.threads.entry(id).or_default();
            let outside = self.regions && thread.regions == 0;
            if past_cache {
                Stores::add(&mut thread.streamed, stores);
            } else {
                self.lines.store(stores);
            }
            if outside {
                self.note(Kind::OutsideRegion, stores, None);
            }
            addr = addr.wrapping_add(bytes);
            left -= bytes;
        }
    }

    /// An 8-byte store: is it a pointer into memory that does not survive?
    fn pointer(&mut self, id: ThreadId, site: SiteId, addr: u64, value: u64) {
        let Some((first, _)) = self.ranges.place(id, addr) else { return };
        let allocation = self.allocated.range(..=value).next_back();
        let inside = allocation.is_some_and(|(&start, &len)| value - start < len);
        if inside && self.ranges.place(id, value).is_none() {
            self.note(Kind::VolatilePointer, Stores { site, count: 1, bytes: 8, first }, None);
        }
    }

    fn flush(&mut self, id: ThreadId, site: SiteId, addr: u64, kind: FlushKind) {
        self.threads.entry(id).or_default().to_order = true;
        let Some((place, _)) = self.ranges.place(id, addr) else { return };
        let line = place.line();
        let (flush, redundant) = self.lines.flush(id, site, line);
        if redundant {
            self.note(Kind::RedundantFlush, Stores { site, count: 1, bytes: LINE, first: line }, None);
        }
        if kind == FlushKind::Clflush {
            // It waits for itself.
            self.lines.complete(flush);
        } else {
            self.threads.entry(id).or_default().flushed.push(flush);
        }
    }

    /// `msync` or `fsync`: a flush of what has changed, and a fence.
    fn sync(&mut self, id: ThreadId, site: SiteId, from: Place, to: Place) {
        for line in self.lines.pending(from, to) {
            let (flush, _) = self.lines.flush(id, site, line);
            self.lines.complete(flush);
        }
        self.drain(id);
    }

    fn fence(&mut self, id: ThreadId, site: SiteId, kind: FenceKind) {
        self.drain(id);
        let thread = self.threads.entry(id).or_default();
        if kind == FenceKind::Store && !thread.to_order {
            let lint = self.found.entry((Kind::RedundantFence, site)).or_insert(Lint {
                kind: Kind::RedundantFence,
                site,
                count: 0,
                bytes: 0,
                example: None,
                flush: None,
            });
            lint.count += 1;
        }
        // A fence behind a locked instruction is not called needless.
        thread.to_order &= kind == FenceKind::Locked;
    }

    /// What the thread has under way is durable.
    fn drain(&mut self, id: ThreadId) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.streamed.clear();
        for flush in std::mem::take(&mut thread.flushed) {
            self.lines.complete(flush);
        }
    }

    fn region_end(&mut self, id: ThreadId) {
        let thread = self.threads.entry(id).or_default();
        thread.regions = thread.regions.saturating_sub(1);
        let streamed = std::mem::take(&mut thread.streamed);
        let flushed = std::mem::take(&mut thread.flushed);
        for stores in streamed {
            self.note(Kind::NotFenced, stores, None);
        }
        for flush in flushed {
            for flying in self.lines.complete(flush) {
                self.note(Kind::NotFenced, flying.stores, Some(flying.flush));
            }
        }
    }
}

fn note(found: &mut BTreeMap<(Kind, SiteId), Lint>, kind: Kind, stores: Stores, flush: Option<SiteId>) {
    let Stores { site, count, bytes, first } = stores;
    let fresh = Lint { kind, site, count: 0, bytes: 0, example: Some(first), flush };
    let lint = found.entry((kind, site)).or_insert(fresh);
    lint.count += count;
    lint.bytes += bytes;
}

impl Sink for Lints {
    fn name(&self) -> &'static str {
        "the persistence lints"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::STORES
            | Capabilities::NON_TEMPORAL
            | Capabilities::FLUSHES
            | Capabilities::FENCES
            | Capabilities::MAPPINGS
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        let missing = self.needs() - source.capabilities;
        if !missing.is_empty() {
            return Err(SinkError::Lacks {
                consumer: self.name(),
                producer: source.producer.clone(),
                missing,
            });
        }
        if source.sampling.is_some() {
            return Err(SinkError::Other(format!(
                "{} need every event, and {} recorded only bursts",
                self.name(),
                source.producer
            )));
        }
        self.values = source.capabilities.contains(Capabilities::VALUES);
        Ok(())
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.table.define_site(id, site.clone()),
            Definition::Name(id, name) => {
                self.numbers.define(id, name);
                self.table.define_name(id, name.to_owned());
            }
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let mut values = batch.values;
        for event in batch.events {
            self.event(batch.thread, event, &mut values)?;
        }
        Ok(())
    }
}
