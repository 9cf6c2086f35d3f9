//! From marked regions to what a processor executes: the language mappings of strand persistency (Gogte, thesis, section 5.4).
//!
//! A program marks its failure-atomic regions and stores in place. [`Mapped`] stands before a machine and makes of that the program that a
//! compiler would: for designs that need a software log, an undo log whose order is said by strand marks; for hardware that
//! knows regions, nothing but the marks and stores. Flushes and fences that the program has within regions are left out: what is
//! needed is put there. Events outside regions stay.
//!
//! | | transactions | ATLAS | SFR |
//! |---|---|---|---|
//! | begin | log entry `TX_BEGIN`, flush, join | entry of the lock with what its last release knew, flush, join | entry of the acquire, flush, join |
//! | store of A | entry L, flush L, barrier, store A, flush A, new strand | the same | the same |
//! | end | join, commit | join, entry of the lock's next release, flush | join, entry of the release, flush |
//! | commit | at once: marker, flush, barrier; clear the entries, flush; barrier; head, flush; join | for 16 regions together | for 16 regions together |
//!
//! An entry is a line. `x86` makes store fences of barriers and joins, other designs what their files say. The entry of a store that
//! is wider than the 8 bytes of an entry's value is followed by further entries.
//! The log is a ring of 1,024 lines per thread, outside of what the program maps.

use std::collections::HashMap;

use event::{
    Batch, Capabilities, Definition, Event, FlushKind, Op, RunSink, Sink, SinkError, Source, StrandMark,
    ThreadId,
};

/// How regions of a language become logs and marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Language {
    /// Failure-atomic transactions: committed and durable at their end.
    #[default]
    Transactions,
    /// Outermost critical sections.
    Atlas,
    /// Synchronisation-free regions.
    Sfr,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 3] = [Language::Transactions, Language::Atlas, Language::Sfr];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Language::Transactions => "tx",
            Language::Atlas => "atlas",
            Language::Sfr => "sfr",
        }
    }
}

/// What is made of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Nothing: events pass as they are.
    AsRecorded,
    /// A software log of this language.
    Log(Language),
    /// Marks and stores only: the hardware makes regions atomic.
    Hardware,
}

const LINE: u64 = 64;
/// Where the threads' logs begin, far from what programs map, and the bytes of each: no power of two, or all would go on in
/// the same bank.
const LOGS: u64 = 1 << 46;
const LOG_BYTES: u64 = (RING + 17) * LINE;
/// Lines of a ring, and entries at most before a batch is committed: the ring never holds more than it has lines, which holds for regions
/// of fewer than 512 stores. A longer region writes over its own entries, which costs the same.
const RING: u64 = 1024;
const ENTRIES: u64 = 512;
/// Threads that have a log.
const THREADS: u64 = 256;
/// Regions that are committed together if a language does not commit each.
const BATCH: u32 = 16;

/// A sink before another, with a mapping between.
pub struct Mapped<S> {
    /// What the events go to.
    pub inner: S,
    mapping: Mapping,
    threads: HashMap<ThreadId, Thread>,
    /// Persistent ranges.
    ranges: Vec<(u64, u64)>,
    /// Whether the logs were mapped.
    has_logs: bool,
    out: Vec<Event>,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    depth: u32,
    /// Lines of the log so far.
    next: u64,
    /// The log's first line that is not committed.
    head: u64,
    /// Regions since the last commit.
    regions: u32,
}

/// Addresses of the lines of a thread's log.
pub fn log_lines(thread: u32) -> impl Iterator<Item = u64> {
    let start = LOGS + u64::from(thread) % THREADS * LOG_BYTES;
    (start..start + LOG_BYTES).step_by(LINE as usize)
}

impl<S: Sink> Mapped<S> {
    /// Puts `mapping` before `inner`.
    pub fn new(inner: S, mapping: Mapping) -> Self {
        Mapped {
            inner,
            mapping,
            threads: HashMap::new(),
            ranges: Vec::new(),
            has_logs: false,
            out: Vec::new(),
        }
    }

    fn is_persistent(&self, addr: u64) -> bool {
        self.ranges.iter().any(|&(start, end)| (start..end).contains(&addr))
    }

    /// Makes what is executed of one event.
    fn map(&mut self, thread: ThreadId, event: Event) {
        let is_persistent = matches!(event.op, Op::Store { addr, .. } if self.is_persistent(addr));
        let state = self.threads.entry(thread).or_default();
        let mut program = Program { thread, event, out: &mut self.out };
        let Mapping::Log(language) = self.mapping else {
            match event.op {
                Op::RegionBegin { .. } => state.depth += 1,
                Op::RegionEnd { .. } => state.depth = state.depth.saturating_sub(1),
                Op::Flush { .. } | Op::Fence(_) if state.depth > 0 => return,
                _ => {}
            }
            self.out.push(event);
            return;
        };
        match event.op {
            Op::RegionBegin { .. } => {
                state.depth += 1;
                program.pass();
                if state.depth == 1 {
                    program.entry(state);
                    if language == Language::Atlas {
                        // What the lock's last release knew.
                        program.load(program.lock());
                    }
                    program.mark(StrandMark::Join);
                }
            }
            Op::RegionEnd { .. } => {
                // The region is over when its updates are durable; that its log is cleared is none of its stores.
                if state.depth == 1 {
                    program.mark(StrandMark::Join);
                }
                program.pass();
                if state.depth == 1 {
                    program.end(state, language);
                }
                state.depth = state.depth.saturating_sub(1);
            }
            Op::Store { addr, len } if state.depth > 0 && is_persistent => program.logged(state, addr, len),
            Op::Flush { .. } | Op::Fence(_) if state.depth > 0 => {}
            Op::Map { name, .. } if !self.has_logs => {
                self.has_logs = true;
                program.pass();
                program.push(Op::Map { addr: LOGS, len: THREADS * LOG_BYTES, name });
            }
            _ => program.pass(),
        }
    }
}

/// The instructions that are made of one event.
struct Program<'o> {
    thread: ThreadId,
    event: Event,
    out: &'o mut Vec<Event>,
}

impl Program<'_> {
    fn push(&mut self, op: Op) {
        self.out.push(Event { op, site: self.event.site, instructions: 1 });
    }

    fn pass(&mut self) {
        self.out.push(self.event);
    }

    fn mark(&mut self, mark: StrandMark) {
        self.push(Op::Strand(mark));
    }

    fn load(&mut self, addr: u64) {
        self.push(Op::Load { addr, len: 8 });
    }

    fn flush(&mut self, addr: u64) {
        self.push(Op::Flush { addr, kind: FlushKind::Clwb });
    }

    fn log(&self, number: u64) -> u64 {
        LOGS + u64::from(self.thread.0) % THREADS * LOG_BYTES + number * LINE % (RING * LINE)
    }

    /// The log's head.
    fn head(&self) -> u64 {
        LOGS + (u64::from(self.thread.0) % THREADS + 1) * LOG_BYTES - LINE
    }

    /// Where a lock's release leaves what it knows; one for all, as programs with one lock have it.
    fn lock(&self) -> u64 {
        LOGS - LINE
    }

    /// A flushed entry: type, address, value, size in the log's next line.
    fn entry(&mut self, state: &mut Thread) {
        let addr = self.log(state.next);
        state.next += 1;
        self.push(Op::Store { addr, len: 32 });
        self.flush(addr);
    }

    /// A store behind its log entries, on a strand of its own.
    fn logged(&mut self, state: &mut Thread, addr: u64, len: u32) {
        for word in 0..len.div_ceil(8).max(1) {
            self.load(addr + u64::from(word) * 8);
            self.entry(state);
        }
        self.mark(StrandMark::Barrier);
        self.pass();
        let mut line = addr / LINE * LINE;
        while line < addr + u64::from(len) {
            self.flush(line);
            line += LINE;
        }
        self.mark(StrandMark::New);
    }

    /// What follows a region.
    fn end(&mut self, state: &mut Thread, language: Language) {
        state.regions += 1;
        if language != Language::Transactions {
            if language == Language::Atlas {
                self.push(Op::Store { addr: self.lock(), len: 8 });
            }
            self.entry(state);
            if state.regions < BATCH && state.next - state.head < ENTRIES {
                return;
            }
        }
        self.commit(state);
    }

    /// Commit marker, invalidations, head: each durable before the next.
    fn commit(&mut self, state: &mut Thread) {
        let last = self.log(state.next.saturating_sub(1));
        self.push(Op::Store { addr: last, len: 8 });
        self.flush(last);
        self.mark(StrandMark::Barrier);
        for number in state.head..state.next {
            let addr = self.log(number);
            self.push(Op::Store { addr, len: 8 });
            self.flush(addr);
        }
        self.mark(StrandMark::Barrier);
        let head = self.head();
        self.push(Op::Store { addr: head, len: 8 });
        self.flush(head);
        self.mark(StrandMark::Join);
        (state.head, state.regions) = (state.next, 0);
    }
}

impl<S: Sink> Sink for Mapped<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn needs(&self) -> Capabilities {
        match self.mapping {
            Mapping::AsRecorded => self.inner.needs(),
            Mapping::Log(_) | Mapping::Hardware => {
                self.inner.needs() | Capabilities::REGIONS | Capabilities::MAPPINGS
            }
        }
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        if self.mapping == Mapping::AsRecorded {
            return self.inner.begin(source);
        }
        let missing = self.needs() - source.capabilities;
        if !missing.is_empty() {
            return Err(SinkError::Lacks {
                consumer: self.name(),
                producer: source.producer.clone(),
                missing,
            });
        }
        let mut source = source.clone();
        source.capabilities.remove(Capabilities::VALUES);
        self.inner.begin(&source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.inner.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        if self.mapping == Mapping::AsRecorded {
            return self.inner.push(batch);
        }
        self.out.clear();
        for &event in batch.events {
            match event.op {
                Op::Map { addr, len, .. } => self.ranges.push((addr, addr + len)),
                Op::Unmap { addr, len } => {
                    self.ranges.retain(|&(start, end)| end <= addr || start >= addr + len);
                }
                _ => {}
            }
            self.map(batch.thread, event);
        }
        let events = std::mem::take(&mut self.out);
        let result = self.inner.push(Batch { events: &events, values: &[], ..batch });
        self.out = events;
        result
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        match self.mapping {
            Mapping::AsRecorded => self.inner.as_runs(),
            _ => None,
        }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.inner.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{FenceKind, NameId, SiteId};

    #[derive(Default)]
    struct Words(Vec<String>);

    impl Sink for Words {
        fn name(&self) -> &'static str {
            "words"
        }

        fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
            let word = |event: &Event| match event.op {
                Op::Map { .. } => "map".to_owned(),
                Op::Store { addr, .. } if addr >= LOGS => "L".to_owned(),
                Op::Store { addr, .. } => format!("S{addr}"),
                Op::Load { .. } => "l".to_owned(),
                Op::Flush { addr, .. } if addr >= LOGS => "fL".to_owned(),
                Op::Flush { addr, .. } => format!("f{addr}"),
                Op::Fence(_) => "fence".to_owned(),
                Op::Strand(StrandMark::Barrier) => "PB".to_owned(),
                Op::Strand(StrandMark::New) => "NS".to_owned(),
                Op::Strand(StrandMark::Join) => "JS".to_owned(),
                Op::RegionBegin { .. } => "begin".to_owned(),
                Op::RegionEnd { .. } => "end".to_owned(),
                _ => "?".to_owned(),
            };
            self.0.extend(batch.events.iter().map(word));
            Ok(())
        }
    }

    fn mapped(mapping: Mapping) -> String {
        let ops = [
            Op::Map { addr: 0, len: 4096, name: NameId(1) },
            Op::RegionBegin { region: 1 },
            Op::Store { addr: 64, len: 8 },
            Op::Store { addr: 8192, len: 8 },
            Op::Flush { addr: 64, kind: FlushKind::Clwb },
            Op::Fence(FenceKind::Store),
            Op::RegionEnd { region: 1 },
            Op::Fence(FenceKind::Store),
        ];
        let events = ops.map(|op| Event { op, site: SiteId(1), instructions: 1 });
        let mut sink = Mapped::new(Words::default(), mapping);
        let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] };
        sink.push(batch).expect("no sink fails");
        sink.inner.0.join(" ")
    }

    #[test]
    fn a_transaction_logs_each_store_on_a_strand_and_commits_in_three_steps() {
        assert_eq!(
            mapped(Mapping::Log(Language::Transactions)),
            "map map begin L fL JS l L fL PB S64 f64 NS S8192 JS end L fL PB L fL L fL PB L fL JS fence"
        );
    }

    #[test]
    fn sfrs_commit_later() {
        let sfr = mapped(Mapping::Log(Language::Sfr));
        assert_eq!(sfr, "map map begin L fL JS l L fL PB S64 f64 NS S8192 JS end L fL fence");
    }

    #[test]
    fn hardware_needs_marks_and_stores() {
        assert_eq!(mapped(Mapping::Hardware), "map begin S64 S8192 end fence");
        assert_eq!(mapped(Mapping::AsRecorded), "map begin S64 S8192 f64 fence end fence");
    }
}
