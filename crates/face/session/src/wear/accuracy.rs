//! Estimates from samples beside exact counts.

use ::wear::estimate::{Accuracy, Algorithm, BASE_PAGE, Sampled, Tally, accuracy};
use event::map::Map;
use event::{Batch, Capabilities, Sink, SinkError};
use serde::Serialize;

/// One interval's estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AccuracyAt {
    /// Every so many-th store was a sample.
    pub interval: u32,
    /// Samples taken.
    pub samples: u64,
    /// With the filters that stand for the caches.
    pub filtered: Accuracy,
    /// If every sample were a write-back.
    pub unfiltered: Accuracy,
}

/// Estimates at several intervals, on one thread.
pub(super) struct Samplers(Vec<Sampled>);

impl Samplers {
    pub(super) fn new(intervals: &[u32], algorithm: Algorithm) -> Self {
        let at = |interval: &u32| Sampled::new(Algorithm { interval: *interval, ..algorithm }).ok();
        Samplers(intervals.iter().filter_map(at).collect())
    }
}

impl Sink for Samplers {
    fn name(&self) -> &'static str {
        "sampled wear"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::STORES
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|sampled| sampled.push(batch))
    }
}

/// Each estimate beside the exact counts of all memory.
pub(super) fn compare(tally: &Tally, samplers: &Samplers) -> Vec<AccuracyAt> {
    let mut exact: Map<u64, u64> = Map::default();
    for page in [false, true].into_iter().flat_map(|persistent| tally.pages(BASE_PAGE, persistent)) {
        *exact.entry(page.address / BASE_PAGE).or_default() += page.writes;
    }
    let one = |sampled: &Sampled| {
        let interval = sampled.algorithm().interval;
        AccuracyAt {
            interval,
            samples: sampled.samples().1,
            filtered: accuracy(&exact, sampled.counts(), f64::from(interval)),
            unfiltered: accuracy(&exact, sampled.without_filters(), f64::from(interval)),
        }
    };
    samplers.0.iter().map(one).collect()
}
