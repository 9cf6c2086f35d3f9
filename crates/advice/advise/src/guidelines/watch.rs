//! Which stores are looked at: all, or those of bursts.
//!
//! Finding the run that a store belongs to costs more than all else that a profile does with it. Where memory
//! is persistent, or lines are flushed or stores fenced, each store may matter, so all are looked at. A
//! program that does none of this is judged by how its runs are distributed over sizes and sites. A sample
//! tells that: the first [`WHOLE`] events are looked at, and from then on a [`PART`]th, in bursts of
//! [`BURST`]. A run seen in a burst counts as [`PART`].

/// Events at the beginning that are all looked at.
const WHOLE: u64 = 8 << 20;
/// Events of a burst. Runs are short beside it: the ends of a burst cut few.
const BURST: u64 = 1 << 17;
/// A burst is this part of the events from its beginning to that of the next one.
const PART: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Whole,
    Burst,
    Gap,
}

/// Says when to look.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    phase: Phase,
    /// Whether it stays as it is.
    settled: bool,
    /// Events until the phase ends.
    left: u64,
    /// Events of the phase.
    events: u64,
    /// Events of all phases, and of those that were looked at.
    all: u64,
    watched: u64,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { phase: Phase::Whole, settled: false, left: WHOLE, events: 0, all: 0, watched: 0 }
    }
}

impl Watch {
    /// Whether stores are passed over.
    #[inline]
    pub(super) fn idle(&self) -> bool {
        self.phase == Phase::Gap
    }

    /// From now on each store matters.
    pub(super) fn look_at_all(&mut self) {
        (self.phase, self.settled) = (Phase::Whole, true);
    }

    /// As how many a run counts.
    pub(super) fn weight(&self) -> u64 {
        if self.phase == Phase::Burst { PART } else { 1 }
    }

    /// Events that were looked at, as a part of all.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn watched(&self) -> f64 {
        if self.all == 0 { 1.0 } else { self.watched as f64 / self.all as f64 }
    }

    /// So many events went by. Whether the next ones are the first of a gap if it says so; [`Watch::leave`]
    /// then.
    pub(super) fn count(&mut self, events: usize) -> bool {
        let events = events as u64;
        self.all += events;
        self.events += events;
        if !self.idle() {
            self.watched += events;
        }
        self.left = self.left.saturating_sub(events);
        !self.settled && self.left == 0 && !self.begin_burst()
    }

    /// A burst begins if a gap, or the beginning, has ended.
    fn begin_burst(&mut self) -> bool {
        let begins = self.phase != Phase::Burst;
        if begins {
            (self.phase, self.left, self.events) = (Phase::Burst, BURST, 0);
        }
        begins
    }

    /// A gap begins. Batches stay whole, so the burst may have been longer than meant, and the gap is in
    /// proportion.
    pub(super) fn leave(&mut self) {
        (self.phase, self.left, self.events) = (Phase::Gap, self.events * (PART - 1), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_long_stream_is_looked_at_and_weighs_as_much_as_all() {
        let mut watch = Watch::default();
        let (mut events, mut weighed) = (0_u64, 0);
        for batch in 0..1_000_000_usize {
            let count = 100 + batch % 300;
            events += count as u64;
            weighed += if watch.idle() { 0 } else { watch.weight() * count as u64 };
            if watch.count(count) {
                watch.leave();
            }
        }
        assert!(events > 20 * WHOLE && weighed.abs_diff(events) <= PART * BURST, "{weighed} of {events}");
        assert!((0.12..0.20).contains(&watch.watched()), "{}", watch.watched());
    }

    #[test]
    fn a_short_stream_and_one_where_each_store_matters_are_looked_at_whole() {
        let mut watch = Watch::default();
        assert!(!watch.count(WHOLE as usize - 1));
        assert!((watch.watched() - 1.0).abs() < f64::EPSILON);
        watch.look_at_all();
        assert!((0..100).all(|_| !watch.count(BURST as usize)));
        assert!(!watch.idle() && watch.weight() == 1);
        assert!((watch.watched() - 1.0).abs() < f64::EPSILON);
    }
}
