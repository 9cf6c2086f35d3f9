//! Persistent key-value stores (Wu 2026, chapter 2): what it costs to make allocation and index
//! failure-atomic.
//!
//! Both stores update values of 256 B in place of others, by an allocator whose slots are reused in random
//! order, and find them by a B+-tree. They differ in what a crash may leave to be rebuilt:
//!
//! - *minimal*: index and allocator are in DRAM. The new record is written and flushed, the index is pointed at it, the old
//!   record's checksum is cleared, which is how recovery tells that it is free. Threads share nothing that is locked.
//! - *full*: index and allocator are persistent, and an update is a transaction: what it changes of both is written into the
//!   thread's log, which is persisted, then to its place, which is persisted, then the log is marked as done. Nobody may get the
//!   freed slot before that, so the lock of the size class is held for so long. All records are of one class. What is free is written in the allocator's
//!   bits, so no checksum is cleared.

use event::{Event, FenceKind, FlushKind};
use report::Axis;

use super::choose::{Chooser, Keys};
use super::index::Index;
use super::replay::MACHINE;
use crate::pattern::{self, Draw, LINE, Pattern, after, fence, flush, load, lock, store, unlock};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// Result A-R10.
pub const ROWS: &[Row] = &[Row {
    source: Source::Kv,
    id: "A-R10",
    claim: "Full persistence by transactions is 9 times slower than persisting keys and values only; 70 % \
            of the \
            time goes to locks \
            of the allocator's metadata",
    expected: "9; 0.7",
    tolerance: "30 %",
    method: "updates of 10 million records of 280 B, 28 threads (a socket; the source does not name their \
             number) \
             on cascade-lake with \
             four DIMMs: index and allocator in DRAM, against both in transactions with a redo log, the size \
             class locked for a moment to \
             allocate and from the writing of the log until it is done",
    calibration: "",
    note: "The source's transactions are sketched and are as fast as libpmemobj's, whose commit locks \
           what it \
           allocates and frees for that long. The library here takes no such lock (a freed slot is \
           nobody's until \
           the region has \
           ended), which is the curve with nothing locked. When the row was first looked at (11.2 and \
           0.69) a \
           lock went to whoever asked \
           next, mostly the thread that had just given it up, a record was awaited with the log, the lock \
           had no \
           line of its own, \
           and threads did not begin together. That the machine prefetches was added later (3.50 before; \
           docs/calibration.md)",
    means: Means::Model(transactions),
    lacks: "The lock is handed over as soon as it is free; a mutex that puts threads to sleep takes \
            microseconds \
            for it. If the class is locked from the \
            allocation on, which the source may mean as well, it is 7 times slower. Either way 28 threads \
            that \
            want one lock do little else than wait, \
            and the source does not say how many it ran",
}];

/// Cores of a socket.
const THREADS: u32 = 28;
/// Records.
const KEYS: u64 = 10_000_000;
/// A value of 256 B, key, checksum and time stamp, in a slot of its size class.
const RECORD: u64 = 280;
const SLOT: u64 = 320;
/// Slots of the allocator: a tenth are free.
const SLOTS: u64 = KEYS + KEYS / 10;
/// Slots of a superblock of 4 MiB.
const PER_SUPERBLOCK: u64 = (4 << 20) / SLOT;
/// Updates of a thread before time is taken, and while it is.
const WARM: u64 = 1_000;
const UPDATES: u64 = 1_000;

/// What is where, in bytes behind the first of each kind of memory.
const SUPERBLOCKS: u64 = SLOTS * SLOT;
const LOGS: u64 = 16 << 30;
/// A thread's log.
const LOG: u64 = 64 << 10;

/// Instructions: to copy a line, of a call of the allocator, to begin and to commit a transaction.
const PER_LINE: u32 = 8;
const PER_CALL: u32 = 100;
const PER_TRANSACTION: u32 = 200;

/// What a store persists, and who waits for whom in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persistence {
    /// Records.
    Minimal,
    /// Index and allocator as well; nothing is locked, as if threads never wanted the same slot.
    Unlocked,
    /// The same; the size class is locked while a transaction commits.
    Full,
    /// The same, locked from the allocation on.
    FullFromAllocation,
}

/// One thread.
struct Client {
    draw: Draw,
    keys: Chooser,
    /// Of a hundred operations; the others read.
    updates: u64,
    index: u64,
    persistence: Persistence,
    /// Its log's first byte, and how much of that was used.
    log: u64,
    logged: u64,
}

impl Client {
    fn operate(&mut self, events: &mut Vec<Event>) {
        let key = self.keys.key();
        if self.updates < 100 && self.draw.below(100) >= self.updates {
            // Reads are not transactional.
            self.index().find(events, key);
            let at = record(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) % SLOTS);
            let lines = (at..at + RECORD).step_by(LINE as usize);
            events.extend(lines.map(|line| after(PER_LINE, load(line, LINE))));
            return;
        }
        // Slots have been freed and used again in random order for long.
        let (new, old) = (self.draw.below(SLOTS), self.draw.below(SLOTS));
        let leaf = self.index().find(events, key);
        match self.persistence {
            Persistence::Minimal => {
                self.slot(events, new);
                persist(events, record(new), RECORD);
                events.push(store(leaf, 8));
                self.slot(events, old);
                events.extend([store(record(old), 8), flush(record(old), FlushKind::Clwb)]);
                events.push(fence(FenceKind::Store));
            }
            Persistence::Unlocked => {
                self.slot(events, new);
                persist(events, record(new), RECORD);
                self.commit(events, [leaf, self.bit(new), self.bit(old)]);
            }
            Persistence::Full | Persistence::FullFromAllocation => {
                take(events);
                self.slot(events, new);
                if self.persistence == Persistence::Full {
                    events.push(unlock(CLASS));
                }
                persist(events, record(new), RECORD);
                if self.persistence == Persistence::Full {
                    take(events);
                }
                self.commit(events, [leaf, self.bit(new), self.bit(old)]);
                events.push(unlock(CLASS));
            }
        }
    }

    /// A transaction that changes these words.
    fn commit(&mut self, events: &mut Vec<Event>, words: [u64; 3]) {
        let header = self.log;
        // Address and value of each, and a checksum: a line.
        self.logged = (self.logged + LINE) % (LOG - LINE);
        events.push(after(PER_TRANSACTION, load(header, 8)));
        persist(events, self.log + LINE + self.logged, LINE);
        for word in words {
            events.extend([store(word, 8), flush(word, FlushKind::Clwb)]);
        }
        events.push(fence(FenceKind::Store));
        events.extend([store(header, 8), flush(header, FlushKind::Clwb), fence(FenceKind::Store)]);
    }

    /// The allocator looks at a slot's superblock and takes or returns it.
    fn slot(&self, events: &mut Vec<Event>, slot: u64) {
        let bit = self.bit(slot);
        events.push(after(PER_CALL, load(bit, 8)));
        if self.persistence == Persistence::Minimal {
            events.push(store(bit, 8));
        }
    }

    /// Where the allocator keeps whether a slot is free.
    fn bit(&self, slot: u64) -> u64 {
        let superblock = slot / PER_SUPERBLOCK;
        self.base() + SUPERBLOCKS + superblock * (2 << 10) + slot % PER_SUPERBLOCK / 64 * 8
    }

    fn index(&self) -> Index {
        Index { keys: self.index, persistent: self.persistence != Persistence::Minimal }
    }

    /// The memory that index and allocator are in.
    fn base(&self) -> u64 {
        if self.persistence == Persistence::Minimal { pattern::VOLATILE } else { pattern::PERSISTENT }
    }
}

/// The lock of the size class.
const CLASS: u64 = pattern::VOLATILE - LINE;

fn record(slot: u64) -> u64 {
    pattern::PERSISTENT + slot * SLOT
}

/// Takes the class's lock, whose line comes from the core that had it before.
fn take(events: &mut Vec<Event>) {
    events.push(lock(CLASS));
    events.extend([load(CLASS, 8), fence(FenceKind::Locked), store(CLASS, 8)]);
}

/// Writes bytes, and waits until they are persistent.
fn persist(events: &mut Vec<Event>, at: u64, bytes: u64) {
    let lines = (at..at + bytes).step_by(LINE as usize);
    events.extend(lines.clone().map(|line| after(PER_LINE, store(line, LINE))));
    events.extend(lines.map(|line| flush(line, FlushKind::Clwb)));
    events.push(fence(FenceKind::Store));
}

/// Runs updates by so many threads.
fn updates(lab: &Lab, persistence: Persistence, threads: u32) -> Result<pattern::Run, StudyError> {
    operations(lab, persistence, threads, 100, Keys::Uniform, KEYS)
}

/// Runs operations of which so many of a hundred are updates, on an index of so many keys.
fn operations(
    lab: &Lab,
    persistence: Persistence,
    threads: u32,
    updates: u64,
    keys: Keys,
    index: u64,
) -> Result<pattern::Run, StudyError> {
    let parameters = [persistence as u64, threads.into(), updates, keys as u64, index];
    lab.pattern("kv update", &parameters, MACHINE, || {
        let thread = |thread: u32| {
            let log = pattern::PERSISTENT + LOGS + u64::from(thread) * LOG;
            let (draw, keys) = (Draw::new(thread.into()), Chooser::new(keys, index, thread.into()));
            let mut client = Client { draw, keys, updates, index, persistence, log, logged: 0 };
            Pattern::new(UPDATES, move |events| client.operate(events)).warm(WARM)
        };
        (0..threads).map(thread).collect()
    })
}

/// How much longer operations take with full persistence than with minimal persistence.
pub(super) fn slower(lab: &Lab, updates: u64, keys: Keys, index: u64) -> Result<f64, StudyError> {
    let time = |persistence| operations(lab, persistence, THREADS, updates, keys, index);
    Ok(time(Persistence::Full)?.ns_per_iteration / time(Persistence::Minimal)?.ns_per_iteration)
}

/// How much slower a store is than the one that persists records alone, by threads, and the share of its time
/// that a thread waits for the lock.
fn by_threads(lab: &Lab, persistence: Persistence) -> Result<(Series, Series), StudyError> {
    const COUNTS: [u32; 5] = [1, 4, 8, 16, THREADS];
    let slower = Series::measure(&COUNTS, |threads| {
        let minimal = updates(lab, Persistence::Minimal, threads)?;
        Ok::<f64, StudyError>(updates(lab, persistence, threads)?.ns_per_iteration / minimal.ns_per_iteration)
    })?;
    let locked = Series::measure(&COUNTS, |threads| {
        Ok::<f64, StudyError>(updates(lab, persistence, threads)?.sync_share)
    })?;
    Ok((slower, locked))
}

fn transactions(lab: &Lab) -> Result<Evidence, StudyError> {
    let (slower, locked) = by_threads(lab, Persistence::Full)?;
    let (longer, _) = by_threads(lab, Persistence::FullFromAllocation)?;
    let (unlocked, _) = by_threads(lab, Persistence::Unlocked)?;
    let most = f64::from(THREADS);
    let checks = vec![
        Check::at_least("full over minimal", 2.0, slower.at(most)),
        Check::at_least("share of its time in the lock", 0.5, locked.at(most)),
        Check::near("full over minimal", 9.0, 0.30, slower.at(most)),
        Check::near("share of its time in the lock", 0.7, 0.30, locked.at(most)),
    ];
    let slower = vec![
        crate::curve("locked while it commits", &slower),
        crate::curve("locked from the allocation on", &longer),
        crate::curve("nothing locked", &unlocked),
    ];
    let threads = || Axis::linear("threads");
    let charts = vec![
        crate::chart(
            "Updates: full over minimal persistence",
            threads(),
            Axis::linear("times slower"),
            slower,
        ),
        crate::chart(
            "Updates with full persistence: time in the lock",
            threads(),
            Axis::linear("share of the time"),
            vec![crate::curve("locked while it commits", &locked)],
        ),
    ];
    Ok(Evidence { checks, charts })
}
