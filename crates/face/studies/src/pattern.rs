//! Threads that do one thing over and over, for results that are a listing or a structure's habit rather than
//! a measurement task.

use std::sync::{Arc, Mutex, PoisonError};

use event::{Event, FenceKind, FlushKind, NameId, Op, SiteId, ThreadId};
use machine::{Config, Next, Program, Simulation, Time, Traffic};

use crate::StudyError;

/// Bytes of a cache line.
pub const LINE: u64 = machine::LINE_BYTES;
/// First byte of the persistent range.
pub const PERSISTENT: u64 = 1 << 40;
/// Bytes of it.
const PERSISTENT_BYTES: u64 = 1 << 36;
/// First byte of ordinary memory.
pub const VOLATILE: u64 = 1 << 30;
/// Events that a thread makes at a time, at least.
const BATCH: usize = 256;

/// One thread: a step, and how often it is done.
pub struct Pattern {
    warm: u64,
    iterations: u64,
    step: Box<Step>,
}

/// Appends the events of one iteration.
type Step = dyn FnMut(&mut Vec<Event>) + Send;

/// What the measured part of a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Time over the iterations of one thread.
    pub ns_per_iteration: f64,
    /// Of it, what the first thread stood still at fences.
    pub fence_ns: f64,
    /// Share of the threads' time until each was done that they waited for locks.
    pub sync_share: f64,
    /// What the persistent memory moved.
    pub traffic: Traffic,
    /// Instructions of an iteration of the first thread.
    pub instructions: f64,
    /// Nanoseconds that it stood still in an iteration, for whatever reason.
    pub stall_ns: f64,
    /// Iterations of all threads.
    pub iterations: u64,
    /// Time until the first thread was done, over its iterations.
    pub first_ns_per_iteration: f64,
    /// Nanoseconds that all threads together ran until each was done, without waiting for locks.
    pub busy_ns: f64,
}

impl Pattern {
    /// A thread that does `step` so often, each of which appends its events.
    pub fn new(iterations: u64, step: impl FnMut(&mut Vec<Event>) + Send + 'static) -> Pattern {
        Pattern { warm: iterations / 10, iterations, step: Box::new(step) }
    }

    /// Does it so often before time is taken (a tenth of the iterations if not given).
    #[must_use]
    pub fn warm(self, warm: u64) -> Pattern {
        Pattern { warm, ..self }
    }
}

/// Runs the threads on a machine: first warm, then for the record.
///
/// # Errors
/// If the machine has no time or can't go on.
pub fn run(config: &Config, threads: Vec<Pattern>) -> Result<Run, StudyError> {
    let mut simulation = Simulation::new(config)?;
    let iterations = threads.first().map_or(1, |thread| thread.iterations);
    let all = threads.iter().map(|thread| thread.iterations).sum();
    let threads: Vec<_> = threads.into_iter().map(|thread| Arc::new(Mutex::new(thread))).collect();
    let part = |warm: bool, start: Time| {
        let programs = (0u32..).zip(&threads).map(|(number, thread)| {
            let pattern = thread.lock().unwrap_or_else(PoisonError::into_inner);
            let left = if warm { pattern.warm } else { pattern.iterations };
            let part = Part { pattern: Arc::clone(thread), left, start, maps: warm && number == 0 };
            (ThreadId(number), Box::new(part) as Box<dyn Program>)
        });
        programs.collect()
    };
    simulation.run(part(true, Time::ZERO))?;
    let (warm, start) = (simulation.figures(), simulation.now());
    simulation.run(part(false, start))?;
    let (figures, end) = (simulation.figures(), simulation.now());
    let first = |figures: &machine::TimedFigures| figures.threads.first().copied().unwrap_or_default();
    let (thread_before, thread_after) = (first(&warm), first(&figures));
    let (before, after) = (thread_before.stalls, thread_after.stalls);
    let fences =
        |stalls: &machine::Stalls| stalls.fence_store.ns() + stalls.fence_flush.ns() + stalls.fence_nt.ns();
    let sync = |figures: &machine::TimedFigures| {
        figures.threads.iter().map(|thread| thread.stalls.sync.ns()).sum::<f64>()
    };
    let alive = figures.threads.iter().map(|thread| thread.finished.since(start).ns()).sum::<f64>();
    let waited = sync(&figures) - sync(&warm);
    // Counts of iterations are far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    Ok(Run {
        ns_per_iteration: end.since(start).ns() / iterations as f64,
        fence_ns: (fences(&after) - fences(&before)) / iterations as f64,
        sync_share: waited / alive,
        traffic: figures.memories[1].total.since(&warm.memories[1].total),
        instructions: (thread_after.instructions - thread_before.instructions) as f64 / iterations as f64,
        stall_ns: (after.total().ns() - before.total().ns()) / iterations as f64,
        iterations: all,
        first_ns_per_iteration: thread_after.finished.since(start).ns() / iterations as f64,
        busy_ns: alive - waited,
    })
}

/// One part of a thread's run.
struct Part {
    pattern: Arc<Mutex<Pattern>>,
    left: u64,
    /// When all threads begin; their parts before did not end together.
    start: Time,
    maps: bool,
}

impl Program for Part {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        if now < self.start {
            return Next::Idle(self.start);
        }
        if std::mem::take(&mut self.maps) {
            events.push(event(Op::Map { addr: PERSISTENT, len: PERSISTENT_BYTES, name: NameId(0) }, 1));
        }
        let mut pattern = self.pattern.lock().unwrap_or_else(PoisonError::into_inner);
        while self.left > 0 && events.len() < BATCH {
            self.left -= 1;
            (pattern.step)(events);
        }
        if self.left == 0 { Next::Done } else { Next::Run }
    }
}

/// An event of that many instructions.
pub(crate) fn event(op: Op, instructions: u32) -> Event {
    Event { op, site: SiteId::UNKNOWN, instructions }
}

/// Lengths here are at most a line.
fn len(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Work of so many instructions before an access.
#[must_use]
pub fn after(instructions: u32, event: Event) -> Event {
    Event { instructions: event.instructions + instructions, ..event }
}

/// A load and its share of the loop.
#[must_use]
pub fn load(addr: u64, bytes: u64) -> Event {
    event(Op::Load { addr, len: len(bytes) }, 2)
}

/// A store.
#[must_use]
pub fn store(addr: u64, bytes: u64) -> Event {
    event(Op::Store { addr, len: len(bytes) }, 2)
}

/// A non-temporal store.
#[must_use]
pub fn store_nt(addr: u64, bytes: u64) -> Event {
    event(Op::StoreNt { addr, len: len(bytes) }, 2)
}

/// A write-back.
#[must_use]
pub fn flush(addr: u64, kind: FlushKind) -> Event {
    event(Op::Flush { addr, kind }, 1)
}

/// A move down the hierarchy.
#[must_use]
pub fn demote(addr: u64) -> Event {
    event(Op::Demote { addr }, 1)
}

/// A fence.
#[must_use]
pub fn fence(kind: FenceKind) -> Event {
    event(Op::Fence(kind), 1)
}

/// Waits until nobody has the lock, and takes it.
#[must_use]
pub fn lock(lock: u64) -> Event {
    event(Op::Lock { lock, shared: false, seq: 0 }, 1)
}

/// Gives the lock up.
#[must_use]
pub fn unlock(lock: u64) -> Event {
    event(Op::Unlock { lock, seq: 0 }, 1)
}

/// Draws numbers: the same for the same seed.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Begins with `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lab;

    const LOCK: u64 = VOLATILE;

    /// Two threads that do nothing but load from memory, under a lock or not; the second one warms up for
    /// longer.
    fn two(locked: bool) -> Run {
        let thread = |number: u64| {
            let mut draw = Draw::new(number);
            let step = move |events: &mut Vec<Event>| {
                let at = PERSISTENT + draw.below(1 << 24) * LINE;
                events.extend(locked.then(|| lock(LOCK)));
                events.extend([load(at, 8), fence(FenceKind::Full)]);
                events.extend(locked.then(|| unlock(LOCK)));
            };
            Pattern::new(1_000, step).warm(100 + 2_000 * number)
        };
        let config = Lab::default().config("cascade-lake", None).unwrap();
        run(&config, vec![thread(0), thread(1)]).unwrap()
    }

    #[test]
    fn who_holds_a_lock_keeps_the_other_waiting() {
        let (free, held) = (two(false), two(true));
        assert!(free.sync_share < 1e-9, "{free:?}");
        assert!((0.4..0.6).contains(&held.sync_share), "{held:?}");
        assert!((1.8..2.4).contains(&(held.ns_per_iteration / free.ns_per_iteration)), "{free:?} {held:?}");
    }
}
