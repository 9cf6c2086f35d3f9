//! Ticks of the processor's counter, and how long one is.

use std::time::{Duration, Instant};

use super::cpu;

/// The counter of the processor with its speed.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks_per_ns: f64,
    overhead_ticks: u64,
    spins_per_ns: f64,
    step_ticks: f64,
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
/// Samples of which the counter's step is found,
const STEP_SAMPLES: u64 = 16_384;
/// of this many lengths;
const SPREAD_SPINS: u64 = 64;
/// a difference that occurs less often is an interruption.
const OFTEN: usize = 16;

/// The system's clock and the counter at one moment: the closest of some readings, because the core may be
/// taken away within one.
fn both_clocks() -> (Instant, u64) {
    let reading = || {
        let (before, now, after) = (cpu::ticks(), Instant::now(), cpu::ticks());
        (after - before, (now, before + (after - before) / 2))
    };
    let closest = (0..READINGS).map(|_| reading()).min_by_key(|(width, _)| *width);
    closest.map_or_else(|| (Instant::now(), cpu::ticks()), |(_, clocks)| clocks)
}

/// Short times of all lengths, in ticks.
fn spread_differences() -> Vec<u64> {
    (0..STEP_SAMPLES)
        .map(|sample| {
            let start = cpu::ticks();
            super::spin(sample % SPREAD_SPINS);
            cpu::ticks() - start
        })
        .collect()
}

/// The step in which a counter advances, in ticks, from differences of its readings. Only differences that
/// occur often count. Neighbouring numbers are one step, because a step need not be a whole number of ticks;
/// where all numbers of a range occur, the step is one tick.
#[allow(clippy::cast_precision_loss)]
fn step(differences: &mut [u64]) -> f64 {
    differences.sort_unstable();
    let often: Vec<u64> = differences
        .chunk_by(|a, b| a == b)
        .filter(|equal| equal.len() >= OFTEN)
        .map(|equal| equal[0])
        .collect();
    let steps: Vec<f64> = often
        .chunk_by(|a, b| b - a == 1)
        .map(|neighbours| (neighbours[0] + neighbours[neighbours.len() - 1]) as f64 / 2.0)
        .collect();
    let mut gaps: Vec<f64> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    if gaps.len() < 2 { 1.0 } else { gaps[gaps.len() / 2] }
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
        let overhead_ticks = empty[EMPTY_SAMPLES / 2];
        Clock { ticks_per_ns, overhead_ticks, spins_per_ns, step_ticks: step(&mut spread_differences()) }
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

    /// Turns of the empty loop of [`Access::pause_spins`](super::Access::pause_spins) that take so many
    /// nanoseconds.
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

    /// How far apart two times are, at least, that the counter tells apart, in nanoseconds: many counters
    /// advance by several ticks at once.
    #[must_use]
    pub fn step_ns(&self) -> f64 {
        self.step_ticks / self.ticks_per_ns
    }

    /// Ticks in a second, in GHz.
    #[must_use]
    pub fn ghz(&self) -> f64 {
        self.ticks_per_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences of readings of a counter that advances by `step` ticks.
    fn readings(step: f64) -> Vec<u64> {
        let read = |at: u64| ((at as f64 / step).floor() * step).floor() as u64;
        (0..20_000u64).map(|n| read(n * 7 + 20 + n % 90) - read(n * 7)).collect()
    }

    #[test]
    fn the_step_of_a_counter_is_found() {
        for ticks in [1.0, 20.0, 26.4, 36.0] {
            let found = step(&mut readings(ticks));
            assert!((found - ticks).abs() <= 1.0, "{ticks}: {found}");
        }
        assert_eq!(step(&mut []), 1.0);
        let seen = Clock::calibrate().step_ns();
        assert!(seen > 0.0 && seen < 1_000.0, "{seen}");
    }
}
