//! The sink that follows the lines.

use std::collections::{BTreeMap, HashMap};

use event::{
    Batch, Capabilities, Definition, Event, FenceKind, FlushKind, Frame, Op, Sink, SinkError, Site, SiteId,
    SiteTable, Source, ThreadId,
};

use super::lines::{Flush, LINE, Lines, Stores};
use super::volatile::{Target, Volatile};
use super::{Kind, Lint};
use crate::Place;
use crate::history::{Numbers, Ranges};

/// Lints by what they are about.
type Found = BTreeMap<(Kind, SiteId), Lint>;

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
    volatile: Volatile,
    threads: BTreeMap<ThreadId, Thread>,
    /// Live allocations: start and length.
    allocated: BTreeMap<u64, u64>,
    /// Whether batches have values.
    values: bool,
    /// Whether a region has begun.
    regions: bool,
    found: Found,
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

    /// What was found, as if the run ended now: by kind, then by how often. What is no danger is left out where `libstrandline` does it:
    /// its own order of work is not the program's to change.
    #[must_use]
    pub fn findings(&self) -> Vec<Lint> {
        let mut found = self.found.clone();
        for stores in self.lines.dirty() {
            // A flush that missed them is a lint that names them.
            let missed = stores.meant.and_then(|flush| found.get_mut(&(Kind::FlushedPointer, flush)));
            match missed {
                Some(lint) => lint.missed.push((stores.site, stores.first)),
                None => note(&mut found, Kind::NeverFlushed, *stores, None),
            }
        }
        for flying in self.lines.flying() {
            note(&mut found, Kind::NotFenced, flying.stores, Some(flying.flush));
        }
        for stores in self.threads.values().flat_map(|thread| &thread.streamed) {
            note(&mut found, Kind::NotFenced, *stores, None);
        }
        let own = |lint: &Lint| {
            let frame = self.table.site(lint.site).and_then(Site::frame);
            !lint.kind.is_danger() && frame.is_some_and(Frame::is_own_library)
        };
        let mut found = self.by_place_in_the_source(found.into_values().filter(|lint| !own(lint)));
        found.sort_by_key(|lint| (lint.kind, std::cmp::Reverse(lint.count), lint.site));
        found
    }

    /// Inlined code has many addresses, and is one line to its reader for each of its callers.
    fn by_place_in_the_source(&self, found: impl Iterator<Item = Lint>) -> Vec<Lint> {
        let mut merged: Vec<Lint> = Vec::new();
        let mut known: HashMap<(Kind, String), usize> = HashMap::new();
        for lint in found {
            let next = merged.len();
            let at = match self.table.site(lint.site) {
                Some(_) => *known.entry((lint.kind, self.table.chain(lint.site))).or_insert(next),
                None => next,
            };
            match merged.get_mut(at) {
                Some(same) => {
                    same.count += lint.count;
                    same.bytes += lint.bytes;
                    same.missed.extend(lint.missed);
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
            Op::FilesSync { .. } => self.sync(id, site, Place(0), Place(u64::MAX)),
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
            // The rules are those of x86: strand marks order nothing. The bytes of a write to a file are skipped below.
            Op::Load { .. }
            | Op::Demote { .. }
            | Op::Prefetch { .. }
            | Op::Context
            | Op::Strand(_)
            | Op::Phase { .. }
            | event::synchronizations!()
            | event::file_operations!() => {}
        }
        if self.values { self.values_of(id, event, values) } else { Ok(()) }
    }

    /// Takes the event's bytes, if it has any, and looks whether they are a pointer.
    fn values_of(&mut self, id: ThreadId, event: &Event, values: &mut &[u8]) -> Result<(), SinkError> {
        if let Some(len) = event.op.value_len() {
            let (bytes, rest) = values.split_at_checked(len as usize).ok_or_else(|| {
                SinkError::Other("a batch has fewer stored bytes than its stores say".into())
            })?;
            *values = rest;
            let Some((addr, _)) = event.op.stored() else { return Ok(()) };
            match self.ranges.place(id, addr) {
                None => self.volatile.store(id, addr, bytes, &mut self.ranges),
                Some((first, _)) => {
                    if let Ok(word) = bytes.try_into() {
                        self.pointer(id, event.site, first, u64::from_le_bytes(word));
                    }
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, id: ThreadId, site: SiteId, addr: u64, len: u32, non_temporal: bool) {
        if non_temporal {
            self.threads.entry(id).or_default().to_order = true;
        }
        let (mut addr, mut left) = (addr, u64::from(len));
        while left > 0 {
            let Some((first, mapped)) = self.ranges.place(id, addr) else { return };
            let bytes = left.min(mapped).min(LINE - first.0 % LINE);
            let stores = Stores { site, count: 1, bytes, first, meant: None };
            let thread = self.threads.entry(id).or_default();
            let outside = self.regions && thread.regions == 0;
            if non_temporal {
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
    fn pointer(&mut self, id: ThreadId, site: SiteId, first: Place, value: u64) {
        let allocation = self.allocated.range(..=value).next_back();
        let inside = allocation.is_some_and(|(&start, &len)| value - start < len);
        if inside && self.ranges.place(id, value).is_none() {
            self.note(Kind::VolatilePointer, Stores { site, count: 1, bytes: 8, first, meant: None }, None);
        }
    }

    fn flush(&mut self, id: ThreadId, site: SiteId, addr: u64, kind: FlushKind) {
        self.threads.entry(id).or_default().to_order = true;
        let Some((place, _)) = self.ranges.place(id, addr) else {
            return self.flush_volatile(id, site, addr);
        };
        let line = place.line();
        let (flush, redundant) = self.lines.flush(id, site, line);
        if redundant {
            let stores = Stores { site, count: 1, bytes: LINE, first: line, meant: None };
            self.note(Kind::RedundantFlush, stores, None);
        }
        if kind == FlushKind::Clflush {
            // It waits for itself.
            self.lines.complete(flush);
        } else {
            self.threads.entry(id).or_default().flushed.push(flush);
        }
    }

    /// A flush of memory that does not survive. It was meant for what a pointer there leads to if the flush
    /// names the pointer, or if something unflushed is there.
    fn flush_volatile(&mut self, id: ThreadId, site: SiteId, addr: u64) {
        let targets = self.volatile.flush(id, addr, &mut self.ranges);
        let mut meant: Option<Target> = None;
        for target in targets {
            if self.lines.mean(target.place, site) || target.exact {
                meant.get_or_insert(target);
            }
        }
        let kind = if meant.is_some() { Kind::FlushedPointer } else { Kind::VolatileFlush };
        if meant.is_some() {
            self.volatile.means(id);
        }
        let lint = lint(&mut self.found, kind, site, meant.map(|target| target.place), None);
        // A call is counted once.
        lint.count += u64::from(meant.is_none_or(|target| !target.further));
        lint.bytes += LINE;
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
            lint(&mut self.found, Kind::RedundantFence, site, None, None).count += 1;
        }
        // A fence behind a locked instruction is not called needless.
        thread.to_order &= kind == FenceKind::Locked;
    }

    /// What the thread has under way is durable.
    fn drain(&mut self, id: ThreadId) {
        self.volatile.fence(id);
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

fn note(found: &mut Found, kind: Kind, stores: Stores, flush: Option<SiteId>) {
    let lint = lint(found, kind, stores.site, Some(stores.first), flush);
    lint.count += stores.count;
    lint.bytes += stores.bytes;
}

/// The lint of this code, which is fresh if there is none.
fn lint(
    found: &mut Found,
    kind: Kind,
    site: SiteId,
    example: Option<Place>,
    flush: Option<SiteId>,
) -> &mut Lint {
    let fresh = Lint { kind, site, count: 0, bytes: 0, example, flush, missed: Vec::new() };
    found.entry((kind, site)).or_insert(fresh)
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
