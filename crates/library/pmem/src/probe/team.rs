//! Threads that each stay on one core and start together.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// States of the gate behind which a team waits.
const SHUT: u8 = 0;
const OPEN: u8 = 1;
const ABANDONED: u8 = 2;

/// Why a team can't work.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    /// The system did not let a thread onto its core.
    #[error("can't pin a thread to CPU {cpu}: {source}")]
    Pin {
        /// The core.
        cpu: usize,
        /// The system's error.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("can't start thread {index}: {source}")]
    Start {
        /// Which one, from 0.
        index: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// Lets the others go if its thread ends, in whatever way, before the gate is open.
struct Abandon<'a>(&'a AtomicU8);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        // Fails if the gate is open, or abandoned already.
        let _ = self.0.compare_exchange(SHUT, ABANDONED, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// The CPUs on which this process may run, in order of their numbers.
#[must_use]
pub fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return vec![0] };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Runs `body` once on each of `cpus`, on a thread that stays there, all at the same time; `body` gets which of
/// them it is. Returns what they return, in the order of `cpus`.
///
/// # Errors
/// If a thread can't be started or pinned; then none runs `body`.
pub fn on_cpus<T: Send>(cpus: &[usize], body: impl Fn(usize) -> T + Sync) -> Result<Vec<T>, TeamError> {
    if let Some(&cpu) = cpus.iter().find(|cpu| **cpu >= CpuSet::MAX_CPU) {
        let text = format!("CPUs have numbers below {}", CpuSet::MAX_CPU);
        return Err(TeamError::Pin { cpu, source: io::Error::new(io::ErrorKind::InvalidInput, text) });
    }
    let (arrived, gate) = (&AtomicUsize::new(0), &AtomicU8::new(SHUT));
    let body = &body;
    let member = move |index: usize, cpu: usize| -> Result<Option<T>, TeamError> {
        let _abandon = Abandon(gate);
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(|errno| TeamError::Pin { cpu, source: errno.into() })?;
        arrived.fetch_add(1, Ordering::Release);
        // Not a lock of the system: waking up from one takes longer than some measurements.
        while gate.load(Ordering::Acquire) == SHUT {
            thread::yield_now();
        }
        Ok((gate.load(Ordering::Acquire) == OPEN).then(|| body(index)))
    };
    let results: Vec<Result<Option<T>, TeamError>> = thread::scope(|scope| {
        let started: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(index, &cpu)| {
                let thread = thread::Builder::new().spawn_scoped(scope, move || member(index, cpu));
                thread.map_err(|source| {
                    gate.store(ABANDONED, Ordering::Release);
                    TeamError::Start { index, source }
                })
            })
            .collect();
        while gate.load(Ordering::Acquire) == SHUT && arrived.load(Ordering::Acquire) < cpus.len() {
            thread::yield_now();
        }
        // Fails if the team was abandoned, which is then what stands.
        let _ = gate.compare_exchange(SHUT, OPEN, Ordering::AcqRel, Ordering::Acquire);
        let joined = started
            .into_iter()
            .map(|thread| thread?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    });
    results.into_iter().filter_map(Result::transpose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_run_where_they_are_put() {
        let here = cpus();
        assert!(!here.is_empty());
        let ran = on_cpus(&here, |index| (index, rustix::thread::sched_getcpu())).expect("a team");
        assert_eq!(ran, here.into_iter().enumerate().collect::<Vec<_>>());
    }

    #[test]
    fn a_team_that_can_not_be_pinned_does_nothing() {
        let first = cpus()[0];
        let ran = AtomicUsize::new(0);
        let refused = on_cpus(&[first, CpuSet::MAX_CPU - 1], |_| ran.fetch_add(1, Ordering::Relaxed));
        assert!(matches!(refused, Err(TeamError::Pin { .. })), "{refused:?}");
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        let refused =
            on_cpus(&[first, 1 << 20], |_| ran.fetch_add(1, Ordering::Relaxed)).expect_err("no such CPU");
        assert!(refused.to_string().contains("CPU 1048576: CPUs have numbers below"), "{refused}");
        assert_eq!(ran.load(Ordering::Relaxed), 0);
    }
}
