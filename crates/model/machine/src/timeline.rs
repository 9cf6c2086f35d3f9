//! Traffic over the run, in slices of equal event counts.
//!
//! Nobody knows beforehand how long a run will be, so slices begin short; when there are [`SLICES`] of them,
//! neighbours are merged and the slice length doubles.

use crate::{Slice, Traffic};

/// Slices at most.
const SLICES: usize = 512;
/// Events of the first slices.
const FIRST_LENGTH: u64 = 1024;

/// The slices so far.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    slices: Vec<Slice>,
    length: u64,
    /// Where the open slice began: events and traffic (other memory, persistent memory).
    start: (u64, [Traffic; 2]),
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { slices: Vec::with_capacity(SLICES), length: FIRST_LENGTH, start: Default::default() }
    }
}

impl Timeline {
    /// The number of events at which the open slice is to be closed.
    pub(crate) fn next_boundary(&self) -> u64 {
        self.start.0 + self.length
    }

    /// Closes the open slice after `events` events in all.
    pub(crate) fn close(&mut self, events: u64, time_ns: u64, totals: [Traffic; 2]) {
        self.slices.push(self.open(events, time_ns, totals));
        self.start = (events, totals);
        if self.slices.len() == SLICES {
            self.slices = self.slices.chunks_exact(2).map(|pair| merge(&pair[0], &pair[1])).collect();
            self.length *= 2;
        }
    }

    /// All slices, the open one included.
    pub(crate) fn slices(&self, events: u64, time_ns: u64, totals: [Traffic; 2]) -> Vec<Slice> {
        let mut slices = self.slices.clone();
        if events > self.start.0 || totals != self.start.1 {
            slices.push(self.open(events, time_ns, totals));
        }
        slices
    }

    fn open(&self, events: u64, time_ns: u64, totals: [Traffic; 2]) -> Slice {
        let [volatile, persistent] = self.start.1;
        Slice {
            events,
            time_ns,
            persistent: totals[1].since(&persistent),
            volatile: totals[0].since(&volatile),
        }
    }
}

fn merge(first: &Slice, second: &Slice) -> Slice {
    let mut merged = *second;
    merged.persistent.add(&first.persistent);
    merged.volatile.add(&first.volatile);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_few_equal_and_complete() {
        let mut timeline = Timeline::default();
        let mut total = Traffic::default();
        for event in 1..=3_000_000u64 {
            total.media_write_bytes += event % 7;
            if event == timeline.next_boundary() {
                timeline.close(event, event * 2, [Traffic::default(), total]);
            }
        }
        let slices = timeline.slices(3_000_000, 6_000_000, [Traffic::default(), total]);
        assert!((SLICES / 2..=SLICES).contains(&slices.len()), "{}", slices.len());
        let lengths: Vec<u64> = slices.windows(2).map(|pair| pair[1].events - pair[0].events).collect();
        assert!(lengths[..lengths.len() - 1].iter().all(|&length| length == slices[0].events));
        assert_eq!(slices.last().map(|slice| (slice.events, slice.time_ns)), Some((3_000_000, 6_000_000)));
        let sum: u64 = slices.iter().map(|slice| slice.persistent.media_write_bytes).sum();
        assert_eq!(sum, total.media_write_bytes);
    }
}
