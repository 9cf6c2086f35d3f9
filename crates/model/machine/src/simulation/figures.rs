//! What a simulation measured.

use serde::{Deserialize, Serialize};

use super::pages::TranslationFigures;
use crate::{CacheFigures, MemoryTiming, Time, Traffic};

/// Everything that a run with time produced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimedFigures {
    /// Name of the machine description.
    pub machine: String,
    /// From the start of the run until its last event had retired and its last store, flush and non-temporal store was
    /// where it had to be.
    pub elapsed: Time,
    /// Each thread that ran, by number.
    pub threads: Vec<ThreadTiming>,
    /// The cache levels from the core outwards, all cores added up.
    pub caches: Vec<CacheFigures>,
    /// Other memory, then persistent memory.
    pub memories: [MemoryTiming; 2],
    /// The run's phases in the order of their beginning; a run without marks has one without a name.
    pub phases: Vec<Phase>,
    /// The run in at most 512 slices of equal time (the last may be shorter).
    pub timeline: Vec<TimedSlice>,
    /// Per code site, indexed by `SiteId`: how long cores stood still because of what it had done.
    pub site_stalls: Vec<Time>,
    /// Lines that prefetchers asked for.
    pub prefetches: u64,
    /// What the persistency design did beside what the program asked for.
    pub persistency: PersistencyFigures,
    /// What became of the lines of a few regions, if it was asked for.
    pub persists: Vec<Persist>,
    /// What TLBs and page walkers did, if the description has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationFigures>,
}

/// What a persistency design did by itself. Bytes are of lines that it wrote to persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistencyFigures {
    /// Failure-atomic regions that ended.
    pub regions: u64,
    /// Lines that these regions stored to, counted once per region.
    pub region_lines: u64,
    /// Pages that they stored to, counted once per region.
    pub region_pages: u64,
    /// Pages of the region that had most.
    pub region_pages_max: u64,
    /// Log entries, journal records, commit records.
    pub logging_bytes: u64,
    /// Of these, what checkpoints of a journal wrote.
    pub checkpoint_bytes: u64,
    /// Lines copied from one page to the other.
    pub consolidation_bytes: u64,
    /// Regions that were too large for the design and went to a software handler.
    pub overflows: u64,
    /// Messages that flip the current copy of a line.
    pub flips: u64,
    /// Translations that had to be fetched for persistent pages.
    pub tlb_misses: u64,
    /// Of these, those whose entry the last-level cache had.
    pub entry_hits: u64,
    /// Lines sent before their turn, on the chance that no crash comes between.
    pub speculative: u64,
}

/// A line on its way to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Persist {
    /// The core.
    pub core: u32,
    /// The line's number, without the mark of persistent memory.
    pub line: u64,
    /// When the core had it ready to leave.
    pub ready: Time,
    /// When it left: between the two it waited for others.
    pub left: Time,
    /// When it was durable.
    pub durable: Time,
    /// What it waited for last, before it was ready or behind that.
    pub why: Awaited,
    /// The place in the list of the line that it waited for, if that is known and in the list.
    pub behind: Option<u32>,
}

/// What a line waited for before it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Awaited {
    /// Nothing: it left when its store was done.
    #[default]
    Nothing,
    /// The core stood at a fence, join or the end of a region until an earlier line was durable.
    Fence,
    /// It exists because an earlier line is durable: a log that is complete, the data behind it.
    Step,
    /// An order within the core's queue: an epoch, a barrier.
    Order,
    /// Lines of another strand buffer or core.
    Others,
    /// An entry of its strand buffer.
    Entry,
    /// One of the slots that a core has for lines under way.
    Slot,
    /// The line before it in its queue, which went elsewhere.
    Path,
    /// A write-back buffer: it was evicted while the core's earlier lines were under way.
    WriteBack,
}

/// One thread. Busy, idle and stalled time add up to the time until it finished, less the time in which other
/// threads had its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTiming {
    /// Its number.
    pub thread: u32,
    /// The core that it ran on.
    pub core: u32,
    /// Events.
    pub events: u64,
    /// Instructions; every event is at least one.
    pub instructions: u64,
    /// In which its instructions entered the window, and in which the kernel handled its page faults.
    pub busy: Time,
    /// In which it had nothing to do, by its own account or because it had not been started.
    pub idle: Time,
    /// In which the window could take nothing.
    pub stalls: Stalls,
    /// When its last event had retired.
    pub finished: Time,
    /// Stores, non-temporal ones not included, by lines.
    pub stores: u64,
    /// From the retirement of these stores until other cores could see them, all of them together.
    pub store_delay: Time,
}

/// Time in which a core stood still, by what it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Data of a load, while window or load queue were full, or at a fence.
    pub load_miss: Time,
    /// A free line-fill buffer or other miss register.
    pub fill_buffers: Time,
    /// Room in the LLC's write-back queue, because a miss needs to evict.
    pub write_back: Time,
    /// Room in the store queue.
    pub store_buffer: Time,
    /// A fence that waited for ordinary stores.
    pub fence_store: Time,
    /// A fence that waited for flushes.
    pub fence_flush: Time,
    /// A fence that waited for non-temporal stores.
    pub fence_nt: Time,
    /// Another thread's release, unlock, start or end.
    pub sync: Time,
}

/// What a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    LoadMiss,
    FillBuffers,
    WriteBack,
    StoreBuffer,
    FenceStore,
    FenceFlush,
    FenceNt,
    Sync,
}

impl Stalls {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Time {
        self.each().iter().map(|(_, time)| *time).sum()
    }

    /// The causes by name, with their times.
    #[must_use]
    pub fn each(&self) -> [(&'static str, Time); 8] {
        [
            ("load miss", self.load_miss),
            ("fill buffers", self.fill_buffers),
            ("write-back queue", self.write_back),
            ("store buffer", self.store_buffer),
            ("fence: stores", self.fence_store),
            ("fence: flushes", self.fence_flush),
            ("fence: non-temporal stores", self.fence_nt),
            ("other threads", self.sync),
        ]
    }

    /// Adds another's times to these.
    pub fn add(&mut self, other: &Stalls) {
        *self = self.combine(other, |one, two| one + two);
    }

    /// What came on top of `before`, an earlier state of the same times.
    #[must_use]
    pub fn since(&self, before: &Stalls) -> Stalls {
        self.combine(before, Time::since)
    }

    pub(crate) fn charge(&mut self, cause: Cause, time: Time) {
        let account = match cause {
            Cause::LoadMiss => &mut self.load_miss,
            Cause::FillBuffers => &mut self.fill_buffers,
            Cause::WriteBack => &mut self.write_back,
            Cause::StoreBuffer => &mut self.store_buffer,
            Cause::FenceStore => &mut self.fence_store,
            Cause::FenceFlush => &mut self.fence_flush,
            Cause::FenceNt => &mut self.fence_nt,
            Cause::Sync => &mut self.sync,
        };
        *account += time;
    }

    fn combine(&self, other: &Stalls, with: fn(Time, Time) -> Time) -> Stalls {
        Stalls {
            load_miss: with(self.load_miss, other.load_miss),
            fill_buffers: with(self.fill_buffers, other.fill_buffers),
            write_back: with(self.write_back, other.write_back),
            store_buffer: with(self.store_buffer, other.store_buffer),
            fence_store: with(self.fence_store, other.fence_store),
            fence_flush: with(self.fence_flush, other.fence_flush),
            fence_nt: with(self.fence_nt, other.fence_nt),
            sync: with(self.sync, other.sync),
        }
    }
}

/// What happened between two points in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Events of all threads.
    pub events: u64,
    /// Their instructions.
    pub instructions: u64,
    /// Stalls of all threads.
    pub stalls: Stalls,
    /// Traffic of other memory, then of persistent memory.
    pub traffic: [Traffic; 2],
}

/// A phase of the program, from its mark to the next mark of any thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name; empty before the first mark.
    pub name: String,
    /// When it began.
    pub begin: Time,
    /// When it ended.
    pub end: Time,
    /// What happened in it.
    pub span: Span,
}

/// A slice of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedSlice {
    /// Its end.
    pub end: Time,
    /// What happened in it.
    pub span: Span,
}

impl Span {
    pub(crate) fn since(&self, before: &Span) -> Span {
        Span {
            events: self.events - before.events,
            instructions: self.instructions - before.instructions,
            stalls: self.stalls.since(&before.stalls),
            traffic: [0, 1].map(|memory| self.traffic[memory].since(&before.traffic[memory])),
        }
    }

    pub(crate) fn add(&mut self, other: &Span) {
        self.events += other.events;
        self.instructions += other.instructions;
        self.stalls.add(&other.stalls);
        (0..2).for_each(|memory| self.traffic[memory].add(&other.traffic[memory]));
    }
}
