//! The run cut into phases and into slices of time.

use super::figures::{Phase, Span, TimedSlice};
use crate::Time;

/// Slices at most.
const SLICES: usize = 512;
/// Length of the first slices.
const FIRST_LENGTH: Time = Time(1_000_000);
/// Phases at most; later marks are taken for part of the last.
const PHASES: usize = 65_536;

/// Phases and slices so far.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    phases: Vec<Phase>,
    /// State of the counters when the open phase began.
    phase_start: Span,
    slices: Vec<TimedSlice>,
    length: Time,
    /// State of the counters when the open slice began.
    slice_start: Span,
    /// When it ends.
    pub(crate) slice_end: Time,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            phases: vec![Phase::default()],
            phase_start: Span::default(),
            slices: Vec::with_capacity(SLICES),
            length: FIRST_LENGTH,
            slice_start: Span::default(),
            slice_end: FIRST_LENGTH,
        }
    }
}

impl Progress {
    /// A phase begins.
    pub(crate) fn mark(&mut self, name: String, now: Time, totals: Span) {
        if self.phases.len() == PHASES {
            return;
        }
        self.close_phase(now, totals);
        let only_begun = self.phases.len() == 1 && self.phases[0].name.is_empty() && totals.events == 0;
        if only_begun {
            self.phases.clear();
        } else {
            self.phase_start = totals;
        }
        self.phases.push(Phase { name, begin: now, ..Phase::default() });
    }

    fn close_phase(&mut self, now: Time, totals: Span) {
        if let Some(open) = self.phases.last_mut() {
            open.end = now.max(open.begin);
            open.span = totals.since(&self.phase_start);
        }
    }

    /// Time went on to `now`, at least to the end of the open slice.
    pub(crate) fn pass(&mut self, now: Time, totals: Span) {
        while self.slice_end <= now {
            // What happened is counted in the first slice that it may have happened in.
            let span = totals.since(&self.slice_start);
            self.slices.push(TimedSlice { end: self.slice_end, span });
            self.slice_start = totals;
            if self.slices.len() == SLICES {
                self.slices = self.slices.chunks_exact(2).map(|pair| merge(&pair[0], &pair[1])).collect();
                self.length = self.length * 2;
            }
            self.slice_end = self.slices.last().map_or(Time::ZERO, |last| last.end) + self.length;
        }
    }

    /// All phases, the open one included.
    pub(crate) fn phases(&self, now: Time, totals: Span) -> Vec<Phase> {
        let mut closed = self.clone();
        closed.close_phase(now, totals);
        closed.phases
    }

    /// All slices, the open one included.
    pub(crate) fn slices(&self, now: Time, totals: Span) -> Vec<TimedSlice> {
        let mut closed = self.clone();
        closed.pass(now, totals);
        let span = totals.since(&closed.slice_start);
        if span != Span::default() {
            closed.slices.push(TimedSlice { end: now, span });
        }
        closed.slices
    }
}

fn merge(first: &TimedSlice, second: &TimedSlice) -> TimedSlice {
    let mut merged = *second;
    merged.span.add(&first.span);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(events: u64) -> Span {
        Span { events, ..Span::default() }
    }

    #[test]
    fn slices_stay_few_equal_and_complete() {
        let mut progress = Progress::default();
        for at in 1..=3000 {
            let now = Time::from_ns(at * 1000);
            if now >= progress.slice_end {
                progress.pass(now, events(at * 3));
            }
        }
        let slices = progress.slices(Time::from_ns(3_000_500), events(9002));
        assert!((SLICES / 2..=SLICES).contains(&slices.len()), "{}", slices.len());
        assert!(slices.windows(2).rev().skip(1).all(|pair| pair[1].end - pair[0].end == slices[0].end));
        assert_eq!(slices.iter().map(|slice| slice.span.events).sum::<u64>(), 9002);
        assert_eq!(slices.last().map(|slice| slice.end), Some(Time::from_ns(3_000_500)));
    }

    #[test]
    fn a_phase_lasts_until_the_next_mark_and_an_empty_beginning_is_none() {
        let mut progress = Progress::default();
        progress.mark("load".to_owned(), Time::ZERO, events(0));
        progress.mark("run".to_owned(), Time(50), events(7));
        let phases = progress.phases(Time(80), events(10));
        let seen: Vec<_> = phases.iter().map(|p| (p.name.as_str(), p.begin, p.end, p.span.events)).collect();
        assert_eq!(seen, [("load", Time(0), Time(50), 7), ("run", Time(50), Time(80), 3)]);
    }
}
