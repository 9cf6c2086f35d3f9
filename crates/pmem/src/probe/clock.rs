//! Ticks of the processor's counter, and how long one is.

use std::time::{Duration, Instant};

use super::cpu;

/// The counter of the processor with its speed.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks_per_ns: f64,
    overhead_ticks: u64,
    spins_per_ns: f64,
}

/// Turns of an empty loop, timed this often; the fastest counts, because others were interrupted.
const SPINS: u64 = 100_000;
const SPIN_RUNS: u32 = 32;

/// Long enough that reading both clocks at its ends is an error of less than one in a hundred thousand.
const CALIBRATION: Duration = Duration::from_millis(30);
/// Readings of both clocks of which the closest counts.
const READINGS: u32 = 16;
/// Empty measurements of which the median is the cost of measuring.
const EMPTY_SAMPLES: usize = 4096;

/// The system's clock and the counter at one moment: the closest of some readings, because the core may be taken away
/// within one.
fn both_clocks() -> (Instant, u64) {
    let reading = || {
        let (before, now, after) = (cpu::ticks(), Instant::now(), cpu::ticks());
        (after - before, (now, before + (after - before) / 2))
    };
    let closest = (0..READINGS).map(|_| reading()).min_by_key(|(width, _)| *width);
    closest.map_or_else(|| (Instant::now(), cpu::ticks()), |(_, clocks)| clocks)
}

impl Clock {
    /// Holds the counter against the system's clock; takes 30 ms.
    #[must_use]
    pub fn calibrate() -> Clock {
        let (start, first) = both_clocks();
        while start.elapsed() < CALIBRATION {}
        let (end, last) = both_clocks();
        let (elapsed, ticks) = (end - start, last - first);
        let mut empty: Vec<u64> = (0..EMPTY_SAMPLES)
            .map(|_| {
                cpu::fence_all();
                let start = cpu::ticks();
                cpu::ticks() - start
            })
            .collect();
        empty.sort_unstable();
        #[allow(clippy::cast_precision_loss)]
        let ticks_per_ns = ticks as f64 / elapsed.as_nanos() as f64;
        let spin_ticks = (0..SPIN_RUNS).map(|_| {
            let start = cpu::ticks();
            super::spin(SPINS);
            cpu::ticks() - start
        });
        #[allow(clippy::cast_precision_loss)]
        let spins_per_ns = SPINS as f64 * ticks_per_ns / spin_ticks.min().unwrap_or(1).max(1) as f64;
        Clock { ticks_per_ns, overhead_ticks: empty[EMPTY_SAMPLES / 2], spins_per_ns }
    }

    /// The counter now, after all loads before.
    #[inline(always)]
    #[must_use]
    pub fn ticks(&self) -> u64 {
        cpu::ticks()
    }

    /// So many ticks in nanoseconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_ns
    }

    /// So many nanoseconds in ticks.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn to_ticks(&self, ns: f64) -> u64 {
        (ns * self.ticks_per_ns).round().max(0.0) as u64
    }

    /// Turns of the empty loop of [`Access::pause_spins`](super::Access::pause_spins) that take so many nanoseconds.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn to_spins(&self, ns: f64) -> u64 {
        (ns * self.spins_per_ns).round().max(0.0) as u64
    }

    /// What a timed sample takes if it does nothing: to be taken off each.
    #[must_use]
    pub fn overhead_ticks(&self) -> u64 {
        self.overhead_ticks
    }

    /// Ticks in a second, in GHz.
    #[must_use]
    pub fn ghz(&self) -> f64 {
        self.ticks_per_ns
    }
}
