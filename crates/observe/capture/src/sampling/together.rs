//! First uses of memory while another thread of the process runs, or populates the same memory, and while
//! faults are reported.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapMut, MmapRaw};

use super::bpf::{Mode, Recorder};
use super::perf::{Event, Ring};
use super::tracing::{EVERY, tracepoint};
use super::{open_each, refusal};
use crate::CaptureError;

const PAGE: usize = 4096;
/// Bytes that a thread populates at a time.
const PIECE: usize = 256 << 10;

/// Anonymous memory without huge pages that threads share.
struct Shared(MmapRaw);

impl Shared {
    fn new(pages: usize) -> std::io::Result<Shared> {
        let map = MmapMut::map_anon(pages.max(1) * PAGE)?;
        // Kernels without huge pages refuse the advice.
        map.advise(Advice::NoHugePage).ok();
        Ok(Shared(MmapRaw::from(map)))
    }

    /// A byte that no other thread stores to but by atomic accesses.
    fn byte(&self, at: usize) -> &std::sync::atomic::AtomicU8 {
        assert!(at < self.0.len());
        // SAFETY: inside the mapping, which lives as long as the reference; all accesses are atomic.
        unsafe { &*self.0.as_ptr().add(at).cast() }
    }

    fn populate(&self) -> std::io::Result<()> {
        let len = self.0.len();
        (0..len)
            .step_by(PIECE)
            .try_for_each(|at| self.0.advise_range(Advice::PopulateWrite, at, PIECE.min(len - at)))
    }
}

/// Nanoseconds of a first store to each page that a load has brought, as the page of zeros, while another
/// thread of the process runs: its processor's translations have to go.
///
/// # Errors
/// If there is no such memory.
pub fn time_upgrades_beside(pages: usize) -> std::io::Result<Vec<f64>> {
    let memory = Shared::new(pages)?;
    let (runs, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    Ok(std::thread::scope(|scope| {
        scope.spawn(|| {
            runs.store(true, Ordering::Release);
            while !ends.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
        while !runs.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let each = |page: usize| {
            let byte = memory.byte(page * PAGE);
            std::hint::black_box(byte.load(Ordering::Relaxed));
            let began = Instant::now();
            byte.store(1, Ordering::Relaxed);
            began.elapsed().as_nanos() as f64
        };
        let times = (0..pages).map(each).collect();
        ends.store(true, Ordering::Release);
        times
    }))
}

/// A thread that populates memory, and a program that stores to its pages in the same order at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chase {
    /// Nanoseconds per page of the program.
    pub program: f64,
    /// Nanoseconds per page of the thread.
    pub thread: f64,
}

/// Both begin at the same time.
///
/// # Errors
/// If there is no such memory, or the kernel populates none.
pub fn time_chase(pages: usize) -> std::io::Result<Chase> {
    let memory = Shared::new(pages)?;
    let begins = AtomicBool::new(false);
    let per_page = |began: Instant| began.elapsed().as_nanos() as f64 / pages.max(1) as f64;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            begins.store(true, Ordering::Release);
            let began = Instant::now();
            memory.populate().map(|()| per_page(began))
        });
        while !begins.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let began = Instant::now();
        (0..pages).for_each(|page| memory.byte(page * PAGE).store(1, Ordering::Relaxed));
        let program = per_page(began);
        let thread = thread.join().map_err(|_| std::io::Error::other("a thread panicked"))??;
        Ok(Chase { program, thread })
    })
}

/// Nanoseconds per page of storing to each line of memory that was populated, `elsewhere` by another thread.
///
/// # Errors
/// If there is no such memory, or the kernel populates none.
pub fn time_populated_use(pages: usize, elsewhere: bool) -> std::io::Result<f64> {
    let memory = Shared::new(pages)?;
    if elsewhere {
        std::thread::scope(|scope| scope.spawn(|| memory.populate()).join())
            .map_err(|_| std::io::Error::other("a thread panicked"))??;
    } else {
        memory.populate()?;
    }
    let began = Instant::now();
    (0..pages * PAGE).step_by(64).for_each(|at| memory.byte(at).store(1, Ordering::Relaxed));
    Ok(began.elapsed().as_nanos() as f64 / pages.max(1) as f64)
}

/// Nanoseconds to wake a thread that sleeps: of the thread that wakes it, and until it runs.
#[must_use]
pub fn time_wakes(rounds: usize) -> Vec<(f64, f64)> {
    let began = Instant::now();
    let now = || began.elapsed().as_nanos() as u64;
    let (asked, woken, ran) = (Mutex::new(0usize), Condvar::new(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
                while *asked < round {
                    asked = woken.wait(asked).unwrap_or_else(PoisonError::into_inner);
                }
                ran.store(now(), Ordering::Release);
            }
        });
        let each = |round: usize| {
            std::thread::sleep(Duration::from_micros(300));
            ran.store(0, Ordering::Release);
            let from = now();
            *asked.lock().unwrap_or_else(PoisonError::into_inner) = round;
            woken.notify_one();
            let caller = now() - from;
            let mut at = ran.load(Ordering::Acquire);
            while at == 0 {
                std::thread::yield_now();
                at = ran.load(Ordering::Acquire);
            }
            (caller as f64, at.saturating_sub(from) as f64)
        };
        (1..=rounds).map(each).collect()
    })
}

/// By how many nanoseconds a fault of user mode takes longer while each is reported with its call stack, and
/// while one in [`EVERY`] is: medians of `rounds`, in this thread.
///
/// # Errors
/// As of `sample_faults`.
pub fn time_reports(pages: usize, rounds: usize) -> Result<(f64, f64), CaptureError> {
    let recorder = Recorder::new(true).ok();
    let tracepoint = if recorder.is_none() { tracepoint() } else { None };
    let timed = |every: u64| -> std::io::Result<f64> {
        if let Some(recorder) = &recorder {
            match every {
                0 => recorder.leave_out_own()?,
                _ => recorder.take_in_own()?,
            }
            recorder.record(if every == 1 { Mode::Stacks } else { Mode::Each })?;
            let times = super::time_first_uses(pages, true);
            recorder.drain(|_| ());
            return Ok(mean_of_most(times?));
        }
        let open = |tracepoint| open_each(Event::Faults { tracepoint, maps: false }, every);
        let rings = match every {
            0 => Vec::new(),
            _ => tracepoint.and_then(|id| open(Some(id)).ok()).map_or_else(|| open(None), Ok)?,
        };
        rings.iter().try_for_each(Ring::begin)?;
        Ok(mean_of_most(super::time_first_uses(pages, true)?))
    };
    let mut gaps = [Vec::new(), Vec::new()];
    for _ in 0..rounds.max(1) {
        let without = timed(0).map_err(refusal)?;
        for (gaps, every) in gaps.iter_mut().zip([1, EVERY]) {
            gaps.push((timed(every).map_err(refusal)? - without).max(0.0));
        }
    }
    gaps.iter_mut().for_each(|gaps| gaps.sort_by(f64::total_cmp));
    Ok((gaps[0][rounds / 2], gaps[1][rounds / 2]))
}

/// The same share is left out of all: interrupts and other processes.
fn mean_of_most(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.truncate((times.len() * 9).div_ceil(10));
    times.iter().sum::<f64>() / times.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured() {
        assert_eq!(time_upgrades_beside(64).expect("there is memory").len(), 64);
        assert!(time_wakes(5).iter().all(|(caller, runs)| *caller > 0.0 && *runs > 0.0));
        match (time_chase(256), time_populated_use(256, false), time_populated_use(256, true)) {
            (Ok(chase), Ok(own), Ok(other)) => {
                assert!(chase.program > 0.0 && chase.thread > 0.0 && own > 0.0 && other > 0.0);
            }
            failed => println!("skipped: the kernel does not populate memory: {failed:?}"),
        }
    }
}
