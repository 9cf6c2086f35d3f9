//! Where events go.

use crate::{
    AccessKind, AnySink, BlockBatch, BlockItem, Capabilities, Event, NameId, Op, RunSink, Site, SiteId,
    SiteTable, Source, ThreadId,
};

/// Consecutive events of one thread.
///
/// A batch ends at the latest at each fence, lock, acquire, release or clock read, so that a consumer
/// that steers time can. Batches of different threads arrive in an order that respects the global
/// order of synchronisation: an event with `seq` n comes before every event with `seq` n + 1, and with
/// it all that its thread did before. Between synchronisations the order of two threads is the
/// producer's best guess of real time, and the same for the same stream.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Whose events.
    pub thread: ThreadId,
    /// Nanoseconds from the start of the run to the first of the events; 0 if the source has no clock.
    pub time_ns: u64,
    /// The events, in program order.
    pub events: &'a [Event],
    /// The bytes of the batch's stores and writes to files one after the other, if the source has
    /// [`Capabilities::VALUES`]; else empty.
    pub values: &'a [u8],
}

/// A name for a number that later events use.
#[derive(Clone, Copy, Debug)]
pub enum Definition<'a> {
    /// A code site.
    Site(SiteId, &'a Site),
    /// A path or phase.
    Name(NameId, &'a str),
}

/// Why a sink can't go on.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The source does not see what the consumer needs.
    #[error("{consumer} needs {}, which the source ({producer}) does not record", .missing.words())]
    Lacks {
        /// The consumer's name.
        consumer: &'static str,
        /// The source's.
        producer: String,
        /// What is missing.
        missing: Capabilities,
    },
    /// Reading or writing failed; the message names the file.
    #[error("{context}: {source}")]
    Io {
        /// What was being done to which file.
        context: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The consumer can't use the events, for a reason of its own.
    #[error("{0}")]
    Other(String),
}

/// A consumer of events.
///
/// The calls come in this order: `begin` once; any number of `define`, `push` and those of [`RunSink`], each
/// definition before the first batch that uses it; `finish` once, unless an earlier call failed.
pub trait Sink {
    /// The consumer's name, for messages.
    fn name(&self) -> &'static str;

    /// What this consumer can't do without; `begin` is not called on a source that lacks it.
    fn needs(&self) -> Capabilities {
        Capabilities::empty()
    }

    /// The stream starts.
    ///
    /// # Errors
    /// When the consumer can't use this source.
    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        let missing = self.needs() - source.capabilities;
        if missing.is_empty() {
            return Ok(());
        }
        Err(SinkError::Lacks { consumer: self.name(), producer: source.producer.clone(), missing })
    }

    /// A site or name that later batches use. A number is defined once: a relay may give a definition to its
    /// consumers before batches that came before it.
    ///
    /// # Errors
    /// When the consumer can't go on.
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        let _ = definition;
        Ok(())
    }

    /// Events of one thread.
    ///
    /// # Errors
    /// When the consumer can't go on.
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError>;

    /// This sink as one that takes blocks of straight-line code, if it does.
    ///
    /// A wrapper that keeps the default loses speed and nothing else: its events are the same.
    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        None
    }

    /// A hint: no events come for now, perhaps for long. A sink that holds some back may put them where they
    /// are safe.
    ///
    /// # Errors
    /// When that fails.
    fn pause(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// The stream ended.
    ///
    /// # Errors
    /// When the last of the work fails.
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn needs(&self) -> Capabilities {
        (**self).needs()
    }
    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        (**self).begin(source)
    }
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        (**self).define(definition)
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        (**self).push(batch)
    }
    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        (**self).as_runs()
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        (**self).pause()
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        (**self).finish()
    }
}

/// Gives every call to two sinks, the first one first.
#[derive(Debug)]
pub struct Tee<A, B>(
    /// Called first.
    pub A,
    /// Called second.
    pub B,
);

impl<A: Sink, B: Sink> Sink for Tee<A, B> {
    fn name(&self) -> &'static str {
        "tee"
    }
    fn needs(&self) -> Capabilities {
        self.0.needs() | self.1.needs()
    }
    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.0.begin(source)?;
        self.1.begin(source)
    }
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.0.define(definition)?;
        self.1.define(definition)
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.0.push(batch)?;
        self.1.push(batch)
    }
    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        // If neither takes blocks, they are unfolded once.
        if self.0.as_runs().is_some() || self.1.as_runs().is_some() { Some(self) } else { None }
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        self.0.pause()?;
        self.1.pause()
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.finish()?;
        self.1.finish()
    }
}

impl<A: Sink, B: Sink> RunSink for Tee<A, B> {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        AnySink(&mut self.0).push_blocks(batch)?;
        AnySink(&mut self.1).push_blocks(batch)
    }
    fn lend(&mut self, words: &mut Vec<u64>) {
        AnySink(&mut self.1).lend(words);
    }
    fn push_lent(
        &mut self,
        words: &mut Vec<u64>,
        from: usize,
        batch: BlockBatch<'_>,
    ) -> Result<(), SinkError> {
        if batch.count > 0 {
            AnySink(&mut self.0).push_blocks(BlockBatch { words: &words[from..], ..batch })?;
        }
        AnySink(&mut self.1).push_lent(words, from, batch)
    }
}

/// Takes everything and keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl Sink for Discard {
    fn name(&self) -> &'static str {
        "discard"
    }
    fn push(&mut self, _: Batch<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }
}

impl RunSink for Discard {
    fn push_blocks(&mut self, _: BlockBatch<'_>) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Keeps everything in memory, for tests and small runs.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// The source's header.
    pub source: Option<Source>,
    /// Sites and names.
    pub table: SiteTable,
    /// All events in order of arrival.
    pub events: Vec<(ThreadId, Event)>,
    /// The stored and written bytes, in the order of the operations.
    pub values: Vec<u8>,
}

impl Sink for Collected {
    fn name(&self) -> &'static str {
        "collected"
    }
    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = Some(source.clone());
        Ok(())
    }
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.table.define_site(id, site.clone()),
            Definition::Name(id, name) => self.table.define_name(id, name.to_owned()),
        }
        Ok(())
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.events.extend(batch.events.iter().map(|&event| (batch.thread, event)));
        self.values.extend_from_slice(batch.values);
        Ok(())
    }
}

/// Counts events and bytes by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// All events.
    pub events: u64,
    /// Loads.
    pub loads: u64,
    /// Bytes loaded.
    pub load_bytes: u64,
    /// Stores, non-temporal ones not included.
    pub stores: u64,
    /// Bytes stored by them.
    pub store_bytes: u64,
    /// Non-temporal stores.
    pub nt_stores: u64,
    /// Bytes stored by them.
    pub nt_bytes: u64,
    /// Flushes of all kinds.
    pub flushes: u64,
    /// Demotions.
    pub demotes: u64,
    /// Store and full fences, without the implied ones.
    pub fences: u64,
    /// Acquires, releases, locks, unlocks and thread lives.
    pub syncs: u64,
    /// Allocations.
    pub allocs: u64,
    /// Frees.
    pub frees: u64,
    /// Writes to files.
    pub file_writes: u64,
    /// Bytes written by them.
    pub file_write_bytes: u64,
    /// Syncs of files, folders and mapped files.
    pub file_syncs: u64,
    /// What else was done to files: made, truncated, renamed, removed.
    pub file_changes: u64,
    /// Strand marks.
    pub strand_marks: u64,
    /// Instructions between the events, as far as the source knows them.
    pub instructions: u64,
}

impl Counts {
    /// Adds one event.
    pub fn add(&mut self, event: &Event) {
        self.events += 1;
        self.instructions += u64::from(event.instructions);
        match event.op {
            Op::Load { len, .. } => {
                self.loads += 1;
                self.load_bytes += u64::from(len);
            }
            Op::Store { len, .. } => {
                self.stores += 1;
                self.store_bytes += u64::from(len);
            }
            Op::StoreNt { len, .. } => {
                self.nt_stores += 1;
                self.nt_bytes += u64::from(len);
            }
            Op::Flush { .. } => self.flushes += 1,
            Op::Demote { .. } => self.demotes += 1,
            Op::Fence(crate::FenceKind::Locked) => {}
            Op::Fence(_) => self.fences += 1,
            Op::Alloc { .. } => self.allocs += 1,
            Op::Free { .. } => self.frees += 1,
            Op::FileWrite { len, .. } => {
                self.file_writes += 1;
                self.file_write_bytes += u64::from(len);
            }
            Op::FileSync { .. } | Op::FileRangeSync { .. } | Op::FilesSync { .. } | Op::MapSync { .. } => {
                self.file_syncs += 1
            }
            Op::FileTruncate { .. }
            | Op::FileCollapse { .. }
            | Op::FileInsert { .. }
            | Op::FileCreate { .. }
            | Op::Rename { .. }
            | Op::Exchange { .. }
            | Op::Link { .. }
            | Op::Symlink { .. }
            | Op::Unlink { .. } => {
                self.file_changes += 1;
            }
            Op::Strand(_) => self.strand_marks += 1,
            Op::Prefetch { .. }
            | Op::Context
            | Op::Map { .. }
            | Op::MapOffset { .. }
            | Op::Process { .. }
            | Op::Unmap { .. }
            | Op::RegionBegin { .. }
            | Op::RegionEnd { .. }
            | Op::Phase { .. } => {}
            Op::Acquire { .. }
            | Op::Release { .. }
            | Op::Lock { .. }
            | Op::Unlock { .. }
            | Op::Spawn { .. }
            | Op::ThreadStart { .. }
            | Op::ThreadEnd { .. }
            | Op::Join { .. } => self.syncs += 1,
        }
    }
}

impl Sink for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        // Nearly all events are loads and stores: these are summed up in registers.
        let (mut loads, mut stores) = ((0, 0), (0, 0));
        let mut instructions = 0;
        for event in batch.events {
            let (count, bytes) = match event.op {
                Op::Load { len, .. } => (&mut loads, len),
                Op::Store { len, .. } => (&mut stores, len),
                _ => {
                    self.add(event);
                    continue;
                }
            };
            count.0 += 1;
            count.1 += u64::from(bytes);
            instructions += u64::from(event.instructions);
        }
        self.events += loads.0 + stores.0;
        self.loads += loads.0;
        self.load_bytes += loads.1;
        self.stores += stores.0;
        self.store_bytes += stores.1;
        self.instructions += instructions;
        Ok(())
    }
    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }
}

impl RunSink for Counts {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        let mut carry = batch.carry;
        for item in batch.items() {
            match item {
                BlockItem::Block(_, shape, words) => {
                    shape.accesses(words, &mut carry, |access, _, len, instructions| {
                        let (count, bytes) = match access.kind {
                            AccessKind::Load => (&mut self.loads, &mut self.load_bytes),
                            AccessKind::Store => (&mut self.stores, &mut self.store_bytes),
                            AccessKind::StoreNt => (&mut self.nt_stores, &mut self.nt_bytes),
                        };
                        *count += 1;
                        *bytes += u64::from(len);
                        self.instructions += u64::from(instructions);
                    });
                }
                BlockItem::Event(event) => {
                    self.add(event);
                    self.events -= 1;
                    carry = 0;
                }
            }
        }
        self.events += batch.count as u64;
        Ok(())
    }
}
