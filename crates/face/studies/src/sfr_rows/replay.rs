//! The recorded operations on the source's machine, in time.

use std::sync::Arc;

use event::{Event, FlushKind, Op};
use sfr::Design;

use super::record::{Setup, THREADS, Taken, record};
use crate::pattern::{self, Pattern, after, load, store};
use crate::steps::{Step, What};
use crate::{Lab, StudyError};

/// A socket of the source's machine: 14 cores of 2 GHz with two hardware threads each, for which the model
/// has a core each, with its caches; four channels of DRAM, in which the persistent memory is.
pub(super) const MACHINE: &str = "dram cores.count=28 cores.pipeline.cycle=0.5ns l2.size=256KiB l2.ways=8 \
                                  llc.size=35MiB llc.ways=20 memory.dimms=4";

/// Who prunes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pruners {
    /// A thread for each of the program's, which share nothing but the counters; as the source has it.
    Each,
    /// One for all, as the library has it.
    One,
}

/// What operations came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Nanoseconds from the begin until all is durable, over the operations of one thread.
    pub durable: f64,
    /// The same until the program's first thread is done.
    pub program: f64,
    /// Nanoseconds of processors for an operation of any thread, without those waited for locks.
    pub cpu: f64,
    /// Bytes of the longest log that was not committed, in the recording.
    pub live_log: u64,
}

/// Runs a setup's operations.
pub(super) fn measure(lab: &Lab, setup: &Setup, pruners: Pruners) -> Result<Figures, StudyError> {
    let taken = lab.programs(format!("{setup:?}"), || record(setup))?;
    // A design without a pruner, or a helper that is one in the source, has one way to run only.
    let pruners = if setup.design == Design::Decoupled { pruners } else { Pruners::One };
    let run =
        lab.try_pattern(&format!("{setup:?} {pruners:?}"), MACHINE, || Ok(patterns(&taken, pruners)))?;
    #[allow(clippy::cast_precision_loss)]
    let operations = iterations(&taken.threads[0]) as f64 * f64::from(THREADS);
    Ok(Figures {
        durable: run.ns_per_iteration,
        program: run.first_ns_per_iteration,
        cpu: run.busy_ns / operations,
        live_log: taken.stats.live_log_max,
    })
}

/// What is timed of a list.
fn iterations(all: &[Vec<Step>]) -> u64 {
    all.len() as u64 - warm(all)
}

fn warm(all: &[Vec<Step>]) -> u64 {
    all.len() as u64 / 5
}

fn patterns(taken: &Arc<Taken>, pruners: Pruners) -> Vec<Pattern> {
    let of = |operations: Vec<Vec<Step>>, latched: bool| {
        let (warm, iterations) = (warm(&operations), iterations(&operations));
        let mut left = operations.into_iter();
        let step = move |events: &mut Vec<Event>| {
            for step in left.next().unwrap_or_default() {
                add(step, latched, events);
            }
        };
        Pattern::new(iterations, step).warm(warm)
    };
    let mut patterns: Vec<Pattern> = taken.threads.iter().map(|thread| of(thread.clone(), true)).collect();
    let lists = &taken.prunings;
    match pruners {
        Pruners::Each => patterns.extend(lists.iter().map(|list| of(list.clone(), false))),
        Pruners::One => {
            let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
            // In turns, as they were recorded.
            let all: Vec<_> = (0..longest)
                .flat_map(|number| lists.iter().filter_map(move |list| list.get(number).cloned()))
                .collect();
            if !all.is_empty() {
                patterns.push(of(all, true));
            }
        }
    }
    patterns
}

/// Adds the events of a step. A lock or a latch is a line of its own in ordinary memory, read and written to
/// take it, written to give it up. Lines are flushed as the source's processor does it, which has no `clwb`.
fn add(step: Step, latched: bool, events: &mut Vec<Event>) {
    let line = pattern::VOLATILE + u64::from(step.at) * pattern::LINE;
    match step.what {
        What::Lock if latched => {
            events.extend([step.event(0), after(10, load(line, 8)), store(line, 8)]);
        }
        What::Unlock if latched => events.extend([store(line, 8), step.event(0)]),
        What::Lock | What::Unlock => {}
        What::Flush => {
            let addr = pattern::PERSISTENT + step.offset();
            events
                .push(pattern::event(Op::Flush { addr, kind: FlushKind::Clflush }, step.instructions.into()));
        }
        _ => events.push(step.event(pattern::PERSISTENT + step.offset())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Benchmark;
    use super::*;

    #[test]
    fn logging_takes_time_and_is_the_same_each_time() {
        let of = |design| {
            let setup = Setup::of(Benchmark::Tatp, design);
            measure(&Lab::new(None), &setup, Pruners::Each).expect("it runs")
        };
        let (none, coupled, decoupled) = (of(Design::None), of(Design::Coupled), of(Design::Decoupled));
        assert!(coupled.durable > 1.5 * none.durable, "{none:?} {coupled:?}");
        assert!(decoupled.program < coupled.program && decoupled.cpu > none.cpu, "{decoupled:?}");
        let again = of(Design::Coupled);
        assert!((again.durable - coupled.durable).abs() < 1e-9 && (again.cpu - coupled.cpu).abs() < 1e-9);
    }
}
