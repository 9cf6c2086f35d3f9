//! The library's key-value engines at work on simulated threads: what each operation does to the store's
//! memory, and where it goes to the index and to the allocator, whose data are in ordinary memory and so not
//! in the recording.

use event::{Batch, Definition, Event, Op, Sink, SinkError, SiteId, ThreadId};
use kv::{Engine, Options, Placement, Store};
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, Observer, Recorded, Recording, Space};

use super::choose::{Chooser, Keys};
use crate::StudyError;

/// Threads: the cores of a socket. The source does not say how many it ran.
pub(super) const THREADS: u32 = 28;
/// Operations of a thread before time is taken, at least. Each thread does some more than the one before, so
/// that they do not fill their logs in step: pages of all logs that are equally far are on the same DIMM.
pub(super) const WARM: u64 = 100;
const STAGGER: u64 = 6;

/// Operations of a thread before time is taken.
pub(super) fn warm(thread: u64) -> u64 {
    WARM + STAGGER * thread
}
/// Keys of the largest index.
const LARGEST: u64 = 100_000_000;
/// Bytes of a key.
pub(super) const KEY: u64 = 8;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Read,
    Update,
    Insert,
    Delete,
    Scan,
}

/// How many of a hundred operations do what; the rest are reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mix {
    pub update: u8,
    pub insert: u8,
    pub delete: u8,
    pub scan: u8,
}

/// A store and what is done with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setup {
    pub engine: Engine,
    /// Bytes of a value.
    pub value: u64,
    /// Which keys.
    pub keys: Keys,
    /// Keys that there are: the index has as many. The store has fewer records ([`Setup::records`]).
    pub index: u64,
    pub mix: Mix,
    /// Garbage is collected as fast as it is made; else never.
    pub sustained: bool,
}

/// A step of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// An access to the store; addresses are offsets in its space.
    Access(Op),
    /// The index is searched for a key.
    Find(u64),
    /// It leads elsewhere.
    Point(u64),
    /// A key is added, or taken out.
    Shift(u64),
    /// So many keys behind that one are read.
    Next(u64, u64),
    /// The allocator gives out a slot, or a log's room.
    Take(u64),
    /// It gets a slot back, or counts a record of a log as outdated.
    Give(u64),
}

/// What a thread does, operation by operation.
pub(crate) type Thread = Vec<Vec<Step>>;

/// Records of a scan. The source does not say how many; YCSB's mean.
const SCAN: u64 = 50;

impl Setup {
    /// Records of the store: so many that their bytes are a few times what the threads touch, and no more.
    pub fn records(&self) -> u64 {
        match (self.sustained, self.mix.delete) {
            (false, _) => (16 << 20) / (self.value + 64),
            (true, 0) => 24_000,
            // Half of them are gone before, the threads take out the others.
            (true, _) => 2 * u64::from(THREADS) * (warm(THREADS.into()) + self.operations()),
        }
    }

    /// Measured operations of a thread.
    pub fn operations(&self) -> u64 {
        match () {
            () if self.mix.scan > 0 => 60,
            () if self.sustained => 600,
            () => 300,
        }
    }

    /// What differs in recordings: uniform keys are drawn from so many as the largest index has, of which
    /// smaller ones take the rest of a division.
    pub fn recorded(self) -> Setup {
        match self.keys {
            Keys::Uniform => Setup { index: LARGEST, ..self },
            Keys::Zipf => self,
        }
    }

    fn chooser(&self, seed: u64) -> Chooser {
        Chooser::new(self.keys, self.index, seed)
    }

    fn options(&self) -> Options {
        Options {
            engine: self.engine,
            // Scaled with the records where logs have to fill.
            chunk: if self.sustained { 64 << 10 } else { 1 << 20 },
            lanes: THREADS + 4,
            queue: if self.sustained { 4 } else { u32::MAX },
            ..Options::default()
        }
    }

    fn bytes(&self) -> u64 {
        let chunks = u64::from(THREADS + 8) * self.options().chunk;
        8 * self.records() * (self.value + 64) + 2 * chunks
    }
}

/// The key of a record.
pub(super) fn key(record: u64) -> [u8; KEY as usize] {
    record.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

const KINDS: [Work; 5] = [Work::Read, Work::Update, Work::Insert, Work::Delete, Work::Scan];
/// Where a region's number has the work; below is the key.
const WORK: u32 = 56;

/// Records what the threads do.
pub(super) fn record(setup: &Setup) -> Result<Vec<Thread>, StudyError> {
    let sink = Taken::default();
    let space = Recorded::new(Image::new(setup.bytes()), sink, &Recording::persistent("studies", "store"))?;
    let schedule = Schedule::walk(1).at_accesses(Accesses::Never);
    let ran = run(space, &schedule, |env| {
        let store = Store::create_on(env, &setup.options())?;
        let value = vec![7; usize::try_from(setup.value).unwrap_or_default()];
        fill(&store, setup, &value)?;
        if setup.sustained && setup.mix.delete > 0 {
            let mut others = (0..setup.records()).step_by(2);
            others.try_for_each(|number| store.delete(&key(number)).map(drop))?;
        } else if setup.sustained {
            // As much garbage as there will be.
            let mut chooser = setup.chooser(99);
            for _ in 0..setup.records() {
                store.put(&key(chooser.key() % setup.records()), &value)?;
            }
        }
        let results = std::sync::Mutex::new(Ok(()));
        env.threads(THREADS, |thread| {
            if let Err(error) = work(env, &store, setup, thread.into(), &value)
                && let Ok(mut results) = results.lock()
            {
                *results = Err(error);
            }
        });
        results.into_inner().unwrap_or(Ok(()))
    });
    ran.result.unwrap_or_else(|failure| panic!("{setup:?}: {failure}"))?;
    let (_, sink) = ran.space.finish()?;
    Ok(sink.threads.iter().map(|events| steps(setup, events, &sink.places)).collect())
}

/// Puts the records in, in an order of their own. The allocator's free slots are where other records were: a
/// fifth of all, taken out again.
fn fill<E: Env>(store: &Store<E, &E>, setup: &Setup, value: &[u8]) -> Result<(), kv::Error> {
    let records = setup.records();
    let all = if setup.engine == Engine::Slab { records + records / 4 } else { records };
    // An odd step comes to each of a power of two once.
    let numbers = (0..all.next_power_of_two()).map(|at| at * 0x9e37_79b1 % all.next_power_of_two());
    let numbers = numbers.filter(|number| *number < all);
    numbers.clone().try_for_each(|number| store.put(&key(number), value).map(drop))?;
    numbers.filter(|number| *number >= records).try_for_each(|number| store.delete(&key(number)).map(drop))
}

/// The operations of one thread.
fn work<E: Env>(
    env: &E,
    store: &Store<E, &E>,
    setup: &Setup,
    thread: u64,
    value: &[u8],
) -> Result<(), kv::Error> {
    let mut chooser = setup.chooser(thread);
    let count = warm(thread) + setup.operations();
    let records = setup.records();
    for number in 0..count {
        let work = setup.mix.draw(chooser.below(100));
        let chosen = chooser.key();
        let own = thread * (warm(THREADS.into()) + setup.operations()) + number;
        env.space().observer().region_begin((work as u64) << WORK | chosen);
        match work {
            Work::Read => _ = store.get_with(&key(chosen % records), |_| ())?,
            Work::Update => _ = store.put(&key(chosen % records), value)?,
            Work::Insert => _ = store.put(&key(records + own), value)?,
            Work::Delete if setup.sustained => _ = store.delete(&key(2 * own + 1))?,
            Work::Delete => _ = store.delete(&key(own))?,
            Work::Scan => {
                for next in 0..SCAN {
                    store.get_with(&key((chosen + next) % records), |_| ())?;
                }
            }
        }
        env.space().observer().region_end((work as u64) << WORK | chosen);
    }
    Ok(())
}

impl Mix {
    /// What an operation does, of a number below 100.
    fn draw(self, percentile: u64) -> Work {
        let mut bound = 0;
        let shares = [
            (self.update, Work::Update),
            (self.insert, Work::Insert),
            (self.delete, Work::Delete),
            (self.scan, Work::Scan),
        ];
        for (share, work) in shares {
            bound += u64::from(share);
            if percentile < bound {
                return work;
            }
        }
        Work::Read
    }
}

/// Which of the engine's files an event is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// A latch of the index.
    Index,
    /// Garbage collection.
    Collect,
    /// A key that is read by itself, as recovery does with what a persistent index leads to.
    Record,
    #[default]
    Other,
}

/// Keeps the events of all threads but the first, which fills the store.
#[derive(Default)]
pub(super) struct Taken {
    places: Vec<Place>,
    threads: Vec<Vec<Event>>,
}

impl Sink for Taken {
    fn name(&self) -> &'static str {
        "studies"
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        if let Definition::Site(SiteId(number), site) = definition {
            let file = site.frame().map_or("", |frame| frame.file.as_str());
            let place = match file {
                _ if file.ends_with("kv/src/shard.rs") => Place::Index,
                _ if file.ends_with("kv/src/collect.rs") => Place::Collect,
                _ if file.ends_with("kv/src/read.rs") => Place::Record,
                _ => Place::Other,
            };
            let at = number as usize;
            self.places.resize(self.places.len().max(at + 1), Place::Other);
            self.places[at] = place;
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let ThreadId(number) = batch.thread;
        if number > 0 {
            let at = number as usize - 1;
            self.threads.resize_with(self.threads.len().max(at + 1), Vec::new);
            self.threads[at].extend_from_slice(batch.events);
        }
        Ok(())
    }
}

/// Where an operation is.
struct Reading {
    work: Work,
    key: u64,
    /// The latch of the key's part of the index, while it is held.
    held: Option<u64>,
    /// The collector's lock, while it is held.
    collecting: Option<u64>,
    /// Whether a record was written, or cleared, since.
    stored: bool,
    /// The record that the key had.
    old: Option<u64>,
    others: Chooser,
}

/// One thread's events as operations.
fn steps(setup: &Setup, events: &[Event], places: &[Place]) -> Thread {
    let mut thread = Thread::new();
    let others = Chooser::new(Keys::Uniform, setup.index, 7);
    let mut reading =
        Reading { work: Work::Read, key: 0, held: None, collecting: None, stored: false, old: None, others };
    for event in events {
        if let Op::RegionBegin { region } = event.op {
            thread.push(Vec::new());
            reading.work = KINDS[(region >> WORK) as usize % KINDS.len()];
            reading.key = region & ((1 << WORK) - 1);
        }
        // What a thread does before its first operation is nothing.
        let Some(steps) = thread.last_mut() else { continue };
        let place = places.get(event.site.0 as usize).copied().unwrap_or_default();
        reading.take(setup, event.op, place, steps);
    }
    thread
}

/// What one thread that opened a store did. A record that is found goes into the index, where that is
/// volatile: each time a latch of it is held. Where it is persistent, the record goes onto a list of what is
/// reached: each time that its lengths are read.
pub(super) fn recovery(index: Placement, taken: &Taken) -> Vec<Step> {
    let (mut steps, mut keys) = (Vec::new(), 0..);
    for event in taken.threads.iter().flatten() {
        let place = taken.places.get(event.site.0 as usize).copied().unwrap_or_default();
        match event.op {
            Op::Lock { .. } if place == Place::Index => {
                let key = keys.next().unwrap_or_default();
                steps.extend([Step::Find(key), Step::Shift(key)]);
            }
            Op::Load { addr, len } => {
                if index == Placement::Persistent && place == Place::Record && len == KEY as u32 {
                    steps.push(Step::Give(addr - BASE));
                }
                push_load(&mut steps, addr - BASE, len);
            }
            Op::Store { addr, len } => steps.push(Step::Access(Op::Store { addr: addr - BASE, len })),
            Op::StoreNt { addr, len } => steps.push(Step::Access(Op::StoreNt { addr: addr - BASE, len })),
            Op::Flush { addr, kind } => steps.push(Step::Access(Op::Flush { addr: addr - BASE, kind })),
            Op::Fence(_) => steps.push(Step::Access(event.op)),
            _ => {}
        }
    }
    steps
}

impl Reading {
    fn take(&mut self, setup: &Setup, op: Op, place: Place, steps: &mut Vec<Step>) {
        match op {
            Op::RegionBegin { .. } => match self.work {
                Work::Read => steps.push(Step::Find(self.key)),
                Work::Scan => steps.extend([Step::Find(self.key), Step::Next(self.key, SCAN)]),
                _ => {}
            },
            Op::Lock { lock, .. } => {
                steps.push(Step::Access(op));
                if place == Place::Index && self.held.is_none() {
                    // Garbage collection finds a record's key in the index, whichever key that is.
                    if self.collecting.is_some() {
                        self.key = self.others.key();
                    }
                    steps.push(Step::Find(self.key));
                    (self.held, self.stored, self.old) = (Some(lock), false, None);
                } else if place == Place::Collect && self.collecting.is_none() {
                    self.collecting = Some(lock);
                }
            }
            Op::Unlock { lock, .. } => {
                if self.held == Some(lock) {
                    self.held = None;
                    self.changed(setup, steps);
                } else if self.collecting == Some(lock) {
                    self.collecting = None;
                }
                steps.push(Step::Access(op));
            }
            Op::Load { addr, len } => {
                let offset = addr - BASE;
                if self.held.is_some() && self.old.is_none() {
                    // Lengths are looked at first.
                    self.old = Some(offset.saturating_sub(16));
                }
                push_load(steps, offset, len);
            }
            Op::Store { addr, len } | Op::StoreNt { addr, len } => {
                if self.held.is_some() && !self.stored {
                    self.stored = true;
                    if len > 8 {
                        steps.push(Step::Take(addr - BASE));
                    }
                }
                let addr = addr - BASE;
                let nt = matches!(op, Op::StoreNt { .. });
                steps.push(Step::Access(if nt {
                    Op::StoreNt { addr, len }
                } else {
                    Op::Store { addr, len }
                }));
            }
            Op::Flush { addr, kind } => steps.push(Step::Access(Op::Flush { addr: addr - BASE, kind })),
            Op::Fence(_) => steps.push(Step::Access(op)),
            _ => {}
        }
    }

    /// The index changes for what was written.
    fn changed(&self, setup: &Setup, steps: &mut Vec<Step>) {
        if !self.stored {
            return;
        }
        let collecting = self.collecting.is_some();
        if let Some(old) = self.old.filter(|_| !collecting && self.work != Work::Insert) {
            steps.push(Step::Give(old));
        }
        let shifts = match self.work {
            _ if collecting => false,
            Work::Insert => true,
            Work::Delete => setup.engine == Engine::Slab,
            _ => false,
        };
        steps.push(if shifts { Step::Shift(self.key) } else { Step::Point(self.key) });
    }
}

/// Offset 0 in a recording.
const BASE: u64 = Recorded::<Image, Taken>::BASE;

/// Loads of words that follow each other are one, within a line.
fn push_load(steps: &mut Vec<Step>, offset: u64, len: u32) {
    if let Some(Step::Access(Op::Load { addr, len: before })) = steps.last_mut()
        && *addr + u64::from(*before) == offset
        && *addr / space::LINE == (offset + u64::from(len) - 1) / space::LINE
    {
        *before += len;
        return;
    }
    steps.push(Step::Access(Op::Load { addr: offset, len }));
}
