//! How often which latency occurred, in buckets that grow with the latency.

use serde::{Deserialize, Serialize};

use crate::Time;

/// Buckets per doubling, as a shift: a bucket is at most 1/32 of its value wide.
const FINE_SHIFT: u32 = 5;

/// Latencies in logarithmic buckets; exact mean and maximum, percentiles to within 3 %.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// By bucket.
    counts: Vec<u64>,
    count: u64,
    sum: Time,
    max: Time,
}

fn bucket(time: Time) -> usize {
    let doublings = (time.0 >> FINE_SHIFT).checked_ilog2().map_or(0, |log| log + 1);
    // Below 2^FINE_SHIFT every value has its own bucket; from there on each doubling has 2^FINE_SHIFT of them.
    ((u64::from(doublings) << FINE_SHIFT) + (time.0 >> doublings.saturating_sub(1)) % (1 << FINE_SHIFT))
        as usize
}

/// The largest latency of a bucket.
fn upper_end(bucket: usize) -> Time {
    let (doublings, fine) = (bucket >> FINE_SHIFT, bucket as u64 % (1 << FINE_SHIFT));
    match doublings {
        0 => Time(fine),
        _ => Time((((1 << FINE_SHIFT) + fine + 1) << (doublings - 1)) - 1),
    }
}

impl Histogram {
    /// A latency occurred.
    pub fn record(&mut self, latency: Time) {
        let bucket = bucket(latency);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += latency;
        self.max = self.max.max(latency);
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; `None` before the first.
    #[must_use]
    pub fn mean(&self) -> Option<Time> {
        self.sum.0.checked_div(self.count).map(Time)
    }

    /// The largest; zero before the first.
    #[must_use]
    pub fn max(&self) -> Time {
        self.max
    }

    /// The latency that the share `quantile` (0 to 1) of all does not exceed, to within a bucket; `None` before the first.
    #[must_use]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn quantile(&self, quantile: f64) -> Option<Time> {
        let wanted = (self.count as f64 * quantile.clamp(0.0, 1.0)).ceil() as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen > 0 && seen >= wanted
        });
        found.map(|bucket| upper_end(bucket).min(self.max))
    }

    /// Takes over what another recorded.
    pub fn add(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_recorded_has_no_mean() {
        let empty = Histogram::default();
        assert_eq!((empty.mean(), empty.quantile(0.5), empty.max()), (None, None, Time::ZERO));
    }

    #[test]
    fn percentiles_are_of_the_recorded() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|ns| histogram.record(Time::from_ns(ns)));
        assert_eq!((histogram.count(), histogram.max()), (1000, Time::from_ns(1000)));
        assert_eq!(histogram.mean(), Some(Time(500_500)));
        let median = histogram.quantile(0.5).unwrap().ns();
        assert!((500.0..516.0).contains(&median), "{median}");
        assert_eq!(histogram.quantile(1.0), Some(Time::from_ns(1000)));
    }

    proptest! {
        #[test]
        fn a_bucket_is_narrow_and_holds_its_value(picoseconds in 0u64..1 << 50) {
            let end = upper_end(bucket(Time(picoseconds))).0;
            prop_assert!(end >= picoseconds && end - picoseconds <= picoseconds / 32, "{picoseconds} in bucket to {end}");
        }

        #[test]
        fn buckets_are_in_order(low in 0u64..1 << 50, more in 0u64..1 << 50) {
            prop_assert!(bucket(Time(low)) <= bucket(Time(low + more)));
        }
    }
}
