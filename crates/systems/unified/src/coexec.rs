//! CPU and accelerator look keys up at the same time: the source's approaches 1, 2 and 3.
//!
//! 1. Some workers submit batches and wait for them, the others look up on the CPU.
//! 2. A worker that submitted a batch asks whether it has ended, without blocking, and looks up on the CPU until then.
//! 3. As 2, but the CPU reads one copy of the table and the accelerator another. [`change_both`] keeps copies equal.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{Answer, Change, CpuTable, Error, Hashed, Mix, Table};

/// Keys that a CPU worker looks up between two questions whether a batch has ended.
const PIECE: usize = 256;

/// How CPU and accelerator share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approach {
    /// Submitters wait.
    One,
    /// Submitters look up meanwhile.
    Two,
    /// As two, on two copies.
    Three,
}

/// A run of workers.
#[derive(Clone, Copy, Debug)]
pub struct CoExecution {
    /// How the work is shared.
    pub approach: Approach,
    /// All workers.
    pub workers: usize,
    /// Those that submit batches.
    pub submitters: usize,
    /// Keys of a batch.
    pub batch: usize,
    /// How far ahead CPU lookups prefetch.
    pub ahead: usize,
    /// How long it runs.
    pub duration: Duration,
    /// Seed of the choice of keys.
    pub seed: u64,
}

/// What was looked up.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rates {
    /// Lookups by CPU workers per microsecond.
    pub cpu: f64,
    /// Lookups by the accelerator per microsecond.
    pub accelerator: f64,
    /// Mean time that a submitter waits for a batch, in microseconds; 0 without batches.
    pub batch_us: f64,
    /// Lookups that gave another location than expected.
    pub wrong: u64,
}

impl Rates {
    /// All lookups per microsecond.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.cpu + self.accelerator
    }
}

/// Counters of all workers.
#[derive(Default)]
struct Counts {
    cpu: AtomicU64,
    accelerator: AtomicU64,
    batches: AtomicU64,
    waited_ns: AtomicU64,
    wrong: AtomicU64,
    stop: AtomicBool,
}

impl CoExecution {
    /// Runs it. `keys` are in the tables with their index as location. `copy` is the CPU's table for
    /// approach 3.
    ///
    /// # Errors
    /// If the CPU can't use its table's memory, or the device fails.
    ///
    /// # Panics
    /// If there are no keys or more submitters than workers.
    pub fn run(&self, table: &Table, copy: Option<&Table>, keys: &[Hashed]) -> Result<Rates, Error> {
        assert!(!keys.is_empty() && self.submitters <= self.workers, "keys, and workers for all submitters");
        let on_cpu = match self.approach {
            Approach::Three => copy.unwrap_or(table),
            _ => table,
        };
        // Submitters of approach 1 never look up, so that a device whose memory is not mapped can be
        // measured alone.
        let looks_up = self.approach != Approach::One || self.submitters < self.workers;
        let cpu = if looks_up { Some(on_cpu.cpu()?) } else { None };
        let counts = Counts::default();
        let start = Instant::now();
        let failed = thread::scope(|scope| {
            let running: Vec<_> = (0..self.workers)
                .map(|number| {
                    let mut worker = Worker {
                        own: *self,
                        table,
                        cpu,
                        region: on_cpu,
                        keys,
                        counts: &counts,
                        random: Mix::seeded(self.seed ^ (number as u64) << 32),
                    };
                    let submits = number < self.submitters;
                    scope.spawn(move || worker.run(submits))
                })
                .collect();
            thread::sleep(self.duration);
            counts.stop.store(true, Ordering::Relaxed);
            let panicked = |cause| std::panic::resume_unwind(cause);
            running.into_iter().find_map(|worker| worker.join().unwrap_or_else(panicked).err())
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let microseconds = start.elapsed().as_secs_f64() * 1e6;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        Ok(Rates {
            cpu: load(&counts.cpu) / microseconds,
            accelerator: load(&counts.accelerator) / microseconds,
            batch_us: load(&counts.waited_ns) / 1e3 / load(&counts.batches).max(1.0),
            wrong: counts.wrong.load(Ordering::Relaxed),
        })
    }
}

struct Worker<'a> {
    own: CoExecution,
    table: &'a Table,
    cpu: Option<CpuTable<'a>>,
    region: &'a Table,
    keys: &'a [Hashed],
    counts: &'a Counts,
    random: Mix,
}

impl Worker<'_> {
    fn run(&mut self, submits: bool) -> Result<(), Error> {
        let users = if submits && self.own.approach == Approach::One { 0 } else { 1 };
        self.region.region().used(users);
        let mut result = Ok(());
        while result.is_ok() && !self.counts.stop.load(Ordering::Relaxed) {
            if submits {
                result = self.batch();
            } else {
                self.look_up();
            }
        }
        self.region.region().used(-users);
        result
    }

    fn choose(&mut self, count: usize) -> (Vec<usize>, Vec<Hashed>) {
        let numbers: Vec<usize> =
            (0..count).map(|_| self.random.below(self.keys.len() as u64) as usize).collect();
        let keys = numbers.iter().map(|&number| self.keys[number]).collect();
        (numbers, keys)
    }

    fn judge(&self, numbers: &[usize], found: &[u32]) {
        let wrong =
            numbers.iter().zip(found).filter(|&(&number, &location)| location as usize != number).count();
        if wrong > 0 {
            self.counts.wrong.fetch_add(wrong as u64, Ordering::Relaxed);
        }
    }

    fn look_up(&mut self) {
        let Some(cpu) = self.cpu else { return };
        let (numbers, keys) = self.choose(PIECE);
        let mut found = [0; PIECE];
        cpu.search_batch(&keys, &mut found, self.own.ahead);
        self.judge(&numbers, &found);
        self.counts.cpu.fetch_add(PIECE as u64, Ordering::Relaxed);
    }

    fn batch(&mut self) -> Result<(), Error> {
        let (numbers, keys) = self.choose(self.own.batch);
        let begin = Instant::now();
        let mut search = self.table.submit_search(&keys)?;
        if self.own.approach != Approach::One {
            while !search.done()? {
                self.look_up();
            }
        }
        let found = search.wait()?;
        self.counts.waited_ns.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.counts.batches.fetch_add(1, Ordering::Relaxed);
        self.judge(&numbers, &found);
        self.counts.accelerator.fetch_add(keys.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Changes two copies of a table from CPU threads. `stripes` are locks by block, at least one: changes of a
/// block take the same order in both copies, so that both have the same bytes whenever no change is under
/// way.
///
/// # Errors
/// If the location to insert is [`crate::NONE`]; nothing has changed then.
///
/// # Panics
/// If there are no stripes.
pub fn change_both(
    one: &CpuTable<'_>,
    two: &CpuTable<'_>,
    stripes: &[Mutex<()>],
    key: Hashed,
    change: Change,
) -> Result<Answer, Error> {
    let stripe = &stripes[one.shape().block_of(key) as usize % stripes.len()];
    let _held = stripe.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let answer = one.change(key, change)?;
    two.change(key, change)?;
    Ok(answer)
}
