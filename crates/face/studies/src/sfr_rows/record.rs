//! What the benchmarks' threads and their pruners do to memory, operation by operation: the library's engine
//! on simulated threads, recorded.

use std::sync::{Mutex, PoisonError};

use sfr::{Design, Options, Pool, Stats, Steps};
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, Observer, Recorded, Recording, Space};

use super::arrays::{Entries, Subscribers, Swaps};
use super::lists::{List, Queue};
use super::orders::Orders;
use super::program::Program;
use super::tree::Tree;
use crate::StudyError;
use crate::pattern::Draw;
use crate::steps::{Kept, Step};

/// Threads of the source.
pub(super) const THREADS: u32 = 12;
/// Bytes of a pool.
const BYTES: u64 = 48 << 20;
/// Instructions of an operation beside its accesses: to draw numbers, the call, the loop.
const PER_OPERATION: u16 = 60;
/// Whose locks are kept: the benchmarks', and the latches of the engine.
const LOCKS: &[&str] = &["sfr_rows/program.rs", "sfr/src/sync.rs", "sfr/src/thread.rs", "sfr/src/commit.rs"];

/// The source's benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Benchmark {
    Cq,
    Sps,
    Pc,
    RbTree,
    Tatp,
    Ll,
    Tpcc,
}

impl Benchmark {
    /// In the order of the source's table 4.1.
    pub const ALL: [Benchmark; 7] = [
        Benchmark::Cq,
        Benchmark::Sps,
        Benchmark::Pc,
        Benchmark::RbTree,
        Benchmark::Tatp,
        Benchmark::Ll,
        Benchmark::Tpcc,
    ];
    /// Those whose stores per SFR are swept: the ones that the source does not quote apart.
    pub const SWEPT: [Benchmark; 4] = [Benchmark::Sps, Benchmark::Pc, Benchmark::Ll, Benchmark::Tatp];

    /// As the source calls it.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Cq => "CQ",
            Benchmark::Sps => "SPS",
            Benchmark::Pc => "PC",
            Benchmark::RbTree => "RB-tree",
            Benchmark::Tatp => "TATP",
            Benchmark::Ll => "LL",
            Benchmark::Tpcc => "TPCC",
        }
    }

    /// Operations of a thread that are recorded, the first fifth to warm up: fewer of those that are long.
    fn operations(self) -> u64 {
        match self {
            Benchmark::Tpcc => 20,
            Benchmark::Ll => 40,
            Benchmark::RbTree => 60,
            _ => 120,
        }
    }

    /// Operations of a thread between two prunings.
    fn between(self) -> u64 {
        self.operations() / 5
    }
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub benchmark: Benchmark,
    pub design: Design,
    /// Words of payload of an operation.
    pub stores: u64,
    pub steps: Steps,
}

impl Setup {
    /// All of a design's steps, with two stores, as in the source.
    pub fn of(benchmark: Benchmark, design: Design) -> Setup {
        Setup { benchmark, design, stores: 2, steps: Steps::Commit }
    }
}

/// A recording.
pub(crate) struct Taken {
    /// Operations of the program's threads.
    pub(super) threads: Vec<Vec<Vec<Step>>>,
    /// Prunings, as many lists as threads.
    pub(super) prunings: Vec<Vec<Vec<Step>>>,
    pub(super) stats: Stats,
}

type Simulated = space::Sim<Recorded<Image, Kept>>;

/// Records what the threads do.
pub(super) fn record(setup: &Setup) -> Result<Taken, StudyError> {
    match setup.benchmark {
        Benchmark::Cq => taken::<Queue<_>>(setup),
        Benchmark::Sps => taken::<Swaps<_>>(setup),
        Benchmark::Pc => taken::<Entries<_>>(setup),
        Benchmark::RbTree => taken::<Tree<_>>(setup),
        Benchmark::Tatp => taken::<Subscribers<_>>(setup),
        Benchmark::Ll => taken::<List<_>>(setup),
        Benchmark::Tpcc => taken::<Orders<_>>(setup),
    }
}

fn taken<P: Program<Simulated>>(setup: &Setup) -> Result<Taken, StudyError> {
    let recording = Recording::persistent("studies", "pool");
    let space = Recorded::new(Image::new(BYTES), Kept::new(PER_OPERATION, LOCKS), &recording)?;
    let schedule = Schedule::walk(1).at_accesses(Accesses::Never);
    let ran = run(space, &schedule, |env| scenario::<P>(env, setup));
    let stats = ran.result.unwrap_or_else(|failure| panic!("{setup:?}: {failure}"))?;
    let (_, kept) = ran.space.finish()?;
    let (mut threads, mut prunings) = (Vec::new(), Vec::new());
    let every = setup.benchmark.between() as usize + 1;
    for all in kept.threads.into_iter().take(THREADS as usize) {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (number, steps) in (1..).zip(all) {
            let pruned = setup.design.is_pruned() && number % every == 0;
            (if pruned { &mut others } else { &mut own }).push(steps);
        }
        threads.push(own);
        prunings.push(others);
    }
    Ok(Taken { threads, prunings, stats })
}

fn scenario<P: Program<Simulated>>(env: &Simulated, setup: &Setup) -> Result<Stats, sfr::Error> {
    let pool = Pool::create(env, &Options::new(Design::None))?;
    let root = P::setup(&mut pool.thread()?, setup.stores)?;
    drop(pool);
    let options = Options { steps: setup.steps, ..Options::new(setup.design) };
    let (pool, _) = Pool::open(env, &options)?;
    let program = P::start(env, root, setup.stores);
    let result = Mutex::new(Ok(()));
    env.threads(THREADS, |number| {
        let done = thread(env, &pool, &program, setup, number);
        if done.is_err() {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
        }
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    Ok(pool.stats())
}

/// A thread's operations. In between it does what a pruner has to do, which a run gives to threads of their
/// own: so a recording has as much of it as operations.
fn thread<P: Program<Simulated>>(
    env: &Simulated,
    pool: &Pool<'_, Simulated>,
    program: &P,
    setup: &Setup,
    number: u32,
) -> Result<(), sfr::Error> {
    let mut thread = pool.thread()?;
    let mut draw = Draw::new(1000 + u64::from(number));
    let observer = env.space().observer();
    for operation in 1..=setup.benchmark.operations() {
        observer.region_begin(operation);
        let done = program.operate(env, &mut thread, &mut draw);
        observer.region_end(operation);
        done?;
        if setup.design.is_pruned() && operation % setup.benchmark.between() == 0 {
            observer.region_begin(operation);
            pool.prune();
            observer.region_end(operation);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::What;

    #[test]
    fn designs_are_recorded_as_they_log() {
        for benchmark in [Benchmark::Sps, Benchmark::Tatp] {
            let of = |design| record(&Setup::of(benchmark, design)).expect("it runs");
            let fences = |taken: &Taken| {
                let steps = taken.threads.iter().flatten().flatten();
                steps.filter(|step| step.what == What::Fence).count() as u64
            };
            let all = u64::from(THREADS) * benchmark.operations();
            let none = of(Design::None);
            assert_eq!((fences(&none), none.stats.entries), (0, 0), "{benchmark:?}");
            let coupled = of(Design::Coupled);
            // A fence per entry, one for the data and one for the head.
            assert_eq!(coupled.stats.entries, 2 * all, "{benchmark:?}");
            assert!(fences(&coupled) >= 4 * all - all / 50, "{benchmark:?}: {}", fences(&coupled));
            let decoupled = of(Design::Decoupled);
            assert!(fences(&decoupled) <= 2 * all + all / 50, "{benchmark:?}: {}", fences(&decoupled));
            assert_eq!(decoupled.prunings.iter().flatten().count(), 5 * THREADS as usize);
            assert!(decoupled.threads.iter().all(|thread| thread.len() as u64 == benchmark.operations()));
        }
    }
}
