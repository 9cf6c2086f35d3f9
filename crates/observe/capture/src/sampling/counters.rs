//! What the processor itself counts while a program runs: misses of its caches, lines from other cores' caches.
//!
//! A unit has few counters. If more events are wanted than it has, the kernel lets them take turns, and a count is scaled up
//! by the time in which it ran.

use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::perf::Counter;
use super::{refusal, run_while};
use crate::CaptureError;

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_HW_CACHE` and `PERF_TYPE_RAW`.
const HARDWARE: u32 = 0;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// An event that processors count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorEvent {
    /// Loads that the core's first data cache had not.
    FirstLevelMisses,
    /// Accesses that no cache had (`PERF_COUNT_HW_CACHE_MISSES`).
    LastLevelMisses,
    /// Loads that found their line modified in another core's cache. Known of Intel's cores from Haswell on only
    /// (`MEM_LOAD_L3_HIT_RETIRED.XSNP_HITM`, later `XSNP_FWD`).
    Transfers,
}

impl ProcessorEvent {
    /// Type and number; `None` if this processor counts no such thing by a number that is known here.
    fn number(self) -> Option<(u32, u64)> {
        /// Loads of the first data cache that missed.
        const FIRST: u64 = 1 << 16;
        const MISSES: u64 = 3;
        const TRANSFERS: u64 = 0x04d2;
        match self {
            ProcessorEvent::FirstLevelMisses => Some((CACHE, FIRST)),
            ProcessorEvent::LastLevelMisses => Some((HARDWARE, MISSES)),
            ProcessorEvent::Transfers => {
                let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
                about.contains("GenuineIntel").then_some((RAW, TRANSFERS))
            }
        }
    }
}

/// A run with the processor's counts.
#[derive(Clone, Debug)]
pub struct CounterRun {
    /// Of each event that was asked for, user mode only, threads and children included.
    pub counts: Vec<f64>,
    /// How the program ended.
    pub status: Option<ExitStatus>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// Runs a program and lets the processor count.
///
/// # Errors
/// [`CaptureError::NotPermitted`] or [`CaptureError::NoSampling`] if the kernel does not let us or the processor has no such
/// counter (virtual machines mostly have none); the program has not run then. Others if it can't be run.
pub fn count_events(command: Command, events: &[ProcessorEvent]) -> Result<CounterRun, CaptureError> {
    let none = || CaptureError::NoSampling(std::io::Error::from_raw_os_error(libc::ENOENT));
    let numbers: Option<Vec<_>> = events.iter().map(|event| event.number()).collect();
    count(command, &numbers.ok_or_else(none)?)
}

fn count(command: Command, numbers: &[(u32, u64)]) -> Result<CounterRun, CaptureError> {
    let opened = numbers.iter().map(|&(kind, config)| Counter::open(kind, config));
    let counters: Vec<Counter> = opened.collect::<Result<_, _>>().map_err(refusal)?;
    let (status, elapsed) = run_while(command, None, || {})?;
    let scaled = |counter: &Counter| match counter.read() {
        Ok((count, share)) if share > 0.0 => Ok(count as f64 / share),
        Ok(_) => Err(CaptureError::NoSampling(std::io::Error::from_raw_os_error(libc::EBUSY))),
        Err(error) => Err(refusal(error)),
    };
    let counts = counters.iter().map(scaled).collect::<Result<_, _>>()?;
    Ok(CounterRun { counts, status, elapsed })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel counts faults where the processor counts nothing: by the same calls.
    #[test]
    fn what_a_program_and_its_children_did_is_counted_and_nothing_else() {
        const SOFTWARE: u32 = 1;
        const FAULTS: u64 = 2;
        let run = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            count(command, &[(SOFTWARE, FAULTS)]).map(|run| run.counts[0])
        };
        let touch = "python3 -c 'b = bytearray(64 << 20)'";
        match (run("true"), run(touch), run(&format!("{touch}; {touch}"))) {
            (Ok(none), Ok(one), Ok(two)) => {
                assert!(none < 5000.0 && one > none + 500.0, "{none} {one}");
                assert!((1.5..2.5).contains(&((two - none) / (one - none))), "{none} {one} {two}");
            }
            (Err(error), ..) => println!("skipped: {error}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_event_that_nobody_has_is_refused_before_the_program_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("touch");
        command.arg(folder.path().join("ran"));
        assert!(count(command, &[(0x7fff_ffff, 0)]).is_err());
        assert!(!folder.path().join("ran").exists());
    }
}
