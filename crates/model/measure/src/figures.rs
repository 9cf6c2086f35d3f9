//! What a measurement gives.

use machine::Traffic;
use serde::{Deserialize, Serialize};

use crate::task::Task;

/// One point of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The study that it belongs to.
    pub study: String,
    /// What sets its curve apart from the study's other ones.
    pub series: String,
    /// Where it stands on the study's axis, as a number.
    pub x: f64,
    /// The same in words.
    pub at: String,
    /// What was done.
    pub task: Task,
    /// What came out.
    pub outcome: Outcome,
}

/// What came out of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Figures.
    Done(Box<Figures>),
    /// It can't be done here, and why.
    Skipped(String),
}

impl Measurement {
    /// The figures, unless it was skipped.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Done(figures) => Some(figures),
            Outcome::Skipped(_) => None,
        }
    }
}

/// Figures of one task. What the kind of task, or the memory, does not give is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Figures {
    /// Time in which these figures came about, warm-up excluded; simulated time on a model.
    pub seconds: f64,
    /// Bytes of each thread's region, if there was memory or time for fewer than the task asks for.
    pub region: Option<u64>,
    /// Lines of the region that were used, drawn at random from all of it, where there was not time for every
    /// one. A buffer that can hold so many hits more often than in the whole region.
    pub sampled_lines: Option<u64>,
    /// Bytes that the threads read in it.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub write_bytes: u64,
    /// Both per time, in GB/s (10^9 bytes).
    pub gb_per_s: Option<f64>,
    /// Of repeated runs: the lowest and the highest.
    pub gb_per_s_range: Option<(f64, f64)>,
    /// Times of single accesses.
    pub latency: Option<Latency>,
    /// Mean time per line where whole passes were timed: of the reads if these were timed apart, else of all.
    pub line_ns: Option<f64>,
    /// Mean time per line of the writes, where these were timed apart.
    pub write_ns: Option<f64>,
    /// Accesses that took far longer than the usual one.
    pub stalls: Option<Stalls>,
    /// Mean latency by how many bytes had been accessed by then.
    pub progress: Vec<(u64, f64)>,
    /// Bytes from the controller over bytes to the media.
    pub ewr: Option<f64>,
    /// Media bytes over bytes from the controller.
    pub write_amplification: Option<f64>,
    /// What the memory moved in that time.
    pub traffic: Option<Traffic>,
    /// The same for each DIMM.
    pub dimms: Vec<Traffic>,
}

impl Figures {
    /// The mean time of an access, however it was timed.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        self.line_ns.or(self.latency.as_ref().map(|latency| latency.mean))
    }

    /// Sets the rate from bytes and time.
    pub(crate) fn rate(&mut self) {
        let bytes = (self.read_bytes + self.write_bytes) as f64;
        self.gb_per_s = (self.seconds > 0.0).then(|| bytes / self.seconds / 1e9);
    }
}

/// Times of single accesses, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// How many were timed.
    pub samples: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    #[serde(default)]
    pub deviation: f64,
    /// The shortest.
    pub min: f64,
    /// Half of them took at most this.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// 99.99 %.
    pub p9999: f64,
    /// 99.999 %.
    pub p99999: f64,
    /// The longest.
    pub max: f64,
    /// The step in which the timer advances: single times differ by multiples of it, so that percentiles
    /// closer than that are one value. Absent where time is a model's.
    #[serde(default)]
    pub timer_step: Option<f64>,
}

/// Accesses that took far longer than the usual one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// Accesses from one to the next, the median; absent with fewer than two.
    pub every: Option<u64>,
    /// How long one took, the median, in nanoseconds.
    pub median_ns: f64,
}

/// An access that takes this many times the median is a stall.
const STALL_FACTOR: f64 = 10.0;
/// And at least so many nanoseconds: an interrupted refresh or a busy bank is none.
const STALL_NS_MIN: f64 = 5_000.0;
/// Points of [`Figures::progress`].
const PROGRESS_POINTS: usize = 64;

impl Latency {
    /// From samples in nanoseconds, in any order; `None` if there are none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Latency> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        // The smallest sample that so large a share does not exceed.
        let quantile = |share: f64| {
            let rank = (share * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
            sorted[rank.min(sorted.len()) - 1]
        };
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let squares = sorted.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
        Some(Latency {
            samples: sorted.len() as u64,
            mean,
            deviation: (squares / sorted.len() as f64).sqrt(),
            min: first,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            p99999: quantile(0.99999),
            max: last,
            timer_step: None,
        })
    }
}

impl Stalls {
    /// Of samples in nanoseconds in the order in which they were taken.
    pub(crate) fn of(samples: &[f64], median: f64) -> Stalls {
        let limit = (median * STALL_FACTOR).max(STALL_NS_MIN);
        let at: Vec<usize> = (0..samples.len()).filter(|&sample| samples[sample] >= limit).collect();
        let mut lengths: Vec<f64> = at.iter().map(|&sample| samples[sample]).collect();
        lengths.sort_unstable_by(f64::total_cmp);
        let mut gaps: Vec<u64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as u64).collect();
        gaps.sort_unstable();
        Stalls {
            count: at.len() as u64,
            every: gaps.get(gaps.len() / 2).copied(),
            median_ns: lengths.get(lengths.len() / 2).copied().unwrap_or(0.0),
        }
    }
}

/// Figures of accesses of `access` bytes that were timed one by one.
pub(crate) fn timed(samples: &[f64], access: u64, writes: bool) -> Figures {
    let mut figures = Figures { latency: Latency::of(samples), ..Figures::default() };
    figures.seconds = samples.iter().sum::<f64>() / 1e9;
    let bytes = access * samples.len() as u64;
    *(if writes { &mut figures.write_bytes } else { &mut figures.read_bytes }) = bytes;
    figures.stalls = figures.latency.as_ref().map(|latency| Stalls::of(samples, latency.p50));
    let chunk = samples.len().div_ceil(PROGRESS_POINTS).max(1);
    let mut bytes = 0;
    for part in samples.chunks(chunk) {
        bytes += access * part.len() as u64;
        figures.progress.push((bytes, part.iter().sum::<f64>() / part.len() as f64));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_samples() {
        let samples: Vec<f64> = (1..=100_000).rev().map(f64::from).collect();
        let latency = Latency::of(&samples).expect("samples");
        assert_eq!((latency.min, latency.max, latency.samples), (1.0, 100_000.0, 100_000));
        assert_eq!((latency.p50, latency.p90, latency.p999), (50_000.0, 90_000.0, 99_900.0));
        assert_eq!((latency.p9999, latency.p99999), (99_990.0, 99_999.0));
        assert!((latency.mean - 50_000.5).abs() < 1e-6);
        assert!((latency.deviation - 100_000.0 / 12f64.sqrt()).abs() < 1.0, "{}", latency.deviation);
        assert_eq!(Latency::of(&[]), None);
        assert_eq!(Latency::of(&[3.0]).map(|one| (one.min, one.p50, one.max)), Some((3.0, 3.0, 3.0)));
    }

    #[test]
    fn stalls_are_found_with_their_period() {
        let samples: Vec<f64> =
            (1..=100_000).map(|n: u32| if n.is_multiple_of(16_000) { 50_000.0 } else { 100.0 }).collect();
        let figures = timed(&samples, 256, true);
        assert_eq!(figures.stalls, Some(Stalls { count: 6, every: Some(16_000), median_ns: 50_000.0 }));
        assert_eq!(figures.write_bytes, 256 * 100_000);
        assert_eq!(figures.progress.len(), 64);
        assert_eq!(figures.progress.last().map(|point| point.0), Some(256 * 100_000));
    }
}
