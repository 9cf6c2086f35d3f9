//! Runs operations on a target.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;
use space::Env;

use super::plan::{Op, Slice};
use super::target::{Kind, Target, TargetError};

/// Longest latency that is kept as it is, 10 minutes; longer ones count as this.
const LONGEST_NS: u64 = 600_000_000_000;
/// Most reads that are handed over in one call.
const MANY_MAX: usize = 64;

/// How operations are timed and waited for.
#[derive(Clone, Copy)]
pub struct Pace<'a> {
    /// In a closed loop one of so many operations is timed, since a look at the clock takes as long as a
    /// cached read. At least 1.
    pub time_one_of: u32,
    /// How many reads of `read-many` are handed over in one call, from 1 to 64.
    pub many: usize,
    /// Called in an open loop while there are so many nanoseconds left until the next operation is due.
    pub idle: &'a (dyn Fn(u64) + Sync),
}

impl Default for Pace<'_> {
    fn default() -> Self {
        Pace { time_one_of: 16, many: 16, idle: &|_| std::hint::spin_loop() }
    }
}

/// What came out of slices.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Operations done.
    pub operations: u64,
    /// Records that reads and scans found.
    pub found: u64,
    /// Latencies in nanoseconds of the operations that were timed, by what they did.
    pub latencies: BTreeMap<Kind, Histogram<u64>>,
}

impl Tally {
    /// Adds what an operation took.
    pub fn record(&mut self, kind: Kind, nanoseconds: u64) {
        let histogram = self.latencies.entry(kind).or_insert_with(|| {
            // Three digits; bounds that do not depend on what comes.
            Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are right")
        });
        histogram.saturating_record(nanoseconds.max(1));
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.found += other.found;
        for (kind, histogram) in &other.latencies {
            match self.latencies.get_mut(kind) {
                Some(own) => own.add(histogram).expect("all have the same bounds"),
                None => _ = self.latencies.insert(*kind, histogram.clone()),
            }
        }
    }
}

/// Runs a slice's operations, one thread of the environment for each list of them; a single one runs on the
/// caller's. The results are added to `tally`.
///
/// # Errors
/// The first error of the target, or a read that did not find what has to be there.
pub fn drive<E: Env>(
    env: &E,
    target: &dyn Target,
    slice: &Slice,
    pace: &Pace<'_>,
    tally: &mut Tally,
) -> Result<(), TargetError> {
    let start = if slice.due_ns.is_empty() { 0 } else { env.now_ns() };
    let mut version = slice.first;
    let threads: Vec<Thread<'_, E>> = slice
        .threads
        .iter()
        .enumerate()
        .map(|(number, ops)| {
            let due = slice.due_ns.get(number).map(Vec::as_slice);
            let thread = Thread { env, target, pace, ops, due, start, version };
            version += ops.len() as u64;
            thread
        })
        .collect();
    if let [only] = &threads[..] {
        tally.add(&only.run()?);
        return Ok(());
    }
    let results = Mutex::new(Ok(std::mem::take(tally)));
    env.threads(u32::try_from(threads.len()).unwrap_or(u32::MAX), |number| {
        let result = threads[number as usize].run();
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *results, result) {
            (Ok(sum), Ok(part)) => sum.add(&part),
            (Ok(_), Err(error)) => *results = Err(error),
            (Err(_), _) => {}
        }
    });
    *tally = results.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    Ok(())
}

/// What one thread does.
struct Thread<'a, E: Env> {
    env: &'a E,
    target: &'a dyn Target,
    pace: &'a Pace<'a>,
    ops: &'a [Op],
    /// In an open loop, when each operation is due after `start`.
    due: Option<&'a [u64]>,
    start: u64,
    version: u64,
}

impl<E: Env> Thread<'_, E> {
    fn run(&self) -> Result<Tally, TargetError> {
        let mut tally = Tally::default();
        match self.due {
            Some(due) => self.open_loop(due, &mut tally)?,
            None => self.closed_loop(&mut tally)?,
        }
        tally.operations = self.ops.len() as u64;
        Ok(tally)
    }

    fn closed_loop(&self, tally: &mut Tally) -> Result<(), TargetError> {
        let one_of = self.pace.time_one_of.max(1) as usize;
        let many = self.pace.many.clamp(1, MANY_MAX);
        let (mut at, mut timed) = (0, 0);
        while at < self.ops.len() {
            let ops = &self.ops[at..];
            let reads = ops.iter().take(many).take_while(|op| op.kind == Kind::ReadMany).count();
            let length = reads.max(1);
            if at >= timed {
                timed += one_of;
                let begin = self.env.now_ns();
                tally.found += self.step(at, length)?;
                tally.record(ops[0].kind, self.env.now_ns().saturating_sub(begin));
            } else {
                tally.found += self.step(at, length)?;
            }
            at += length;
        }
        Ok(())
    }

    fn open_loop(&self, due: &[u64], tally: &mut Tally) -> Result<(), TargetError> {
        for (at, due) in due.iter().enumerate() {
            let due = self.start.saturating_add(*due);
            loop {
                let now = self.env.now_ns();
                if now >= due {
                    break;
                }
                (self.pace.idle)(due - now);
            }
            tally.found += self.step(at, 1)?;
            // From when it should have started, not from when the one before it let it.
            tally.record(self.ops[at].kind, self.env.now_ns().saturating_sub(due));
        }
        Ok(())
    }

    /// One operation, or `length` reads together; how many records it found.
    fn step(&self, at: usize, length: usize) -> Result<u64, TargetError> {
        let op = &self.ops[at];
        let version = self.version + at as u64;
        match op.kind {
            Kind::Insert => self.target.insert(op.id, version).map(|()| 0),
            Kind::Update => self.target.update(op.id, version).map(|()| 0),
            Kind::Read => found(op.id, u64::from(self.target.get(op.id)?), 1),
            Kind::Scan => self.target.scan(op.id, op.count),
            Kind::Modify => {
                let found = found(op.id, u64::from(self.target.get(op.id)?), 1)?;
                self.target.update(op.id, version)?;
                Ok(found)
            }
            Kind::Delete => found(op.id, u64::from(self.target.delete(op.id)?), 1).map(|_| 0),
            Kind::ReadMany => {
                let mut ids = [0; MANY_MAX];
                ids.iter_mut().zip(&self.ops[at..at + length]).for_each(|(id, op)| *id = op.id);
                found(op.id, self.target.get_many(&ids[..length])?, length as u64)
            }
        }
    }
}

/// So many found of so many that have to be there.
fn found(id: u64, found: u64, expected: u64) -> Result<u64, TargetError> {
    if found < expected {
        return Err(TargetError(format!("a record that was put in is not there (from id {id:#x} on)")));
    }
    Ok(found)
}
