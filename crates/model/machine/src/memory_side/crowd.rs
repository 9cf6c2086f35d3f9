//! Reads that find a full read queue.
//!
//! They wait at the slices of the last-level cache. Each slice asks for an entry for a few of its own, again and again; who gets
//! the next one is chance. So under load the lines of one unit or row, asked for by one core one after the other, come to the device far apart, with
//! other cores' lines in between.
//!
//! Every read gets its completion time at once, so the order can't be drawn when an entry becomes free. What is drawn
//! instead is the line: who waits longest has the next entry, and the device is asked for the line of anyone who waits. With many
//! alike waiting, that is the same. While the crowd grows, somebody is let in for whom no line is asked; its answer is the mean time
//! in the queue of those before. His line is asked for when the crowd gets smaller.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use device::Rng;

use crate::Time;

/// Of a mean that goes along: the newest counts for one in so many.
const MEAN_OF: u64 = 32;

/// Who waits in front of one read queue.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    /// When the reads that were answered have their entries, if that is still to come.
    entering: BinaryHeap<Reverse<Time>>,
    /// Lines that the device was not asked for, in the order of arrival.
    lines: Vec<u64>,
    /// Of these, how many ask for an entry.
    asking: usize,
    rng: Rng,
    /// Mean time in the queue.
    held: Time,
}

impl Crowd {
    /// Of those who wait, the first `asking` ask for an entry.
    pub(super) fn new(asking: u32, rng: Rng) -> Self {
        Crowd {
            entering: BinaryHeap::new(),
            lines: Vec::new(),
            asking: asking as usize,
            rng,
            held: Time::ZERO,
        }
    }

    /// Somebody comes at `arrived` and will have an entry at `entered`. Returns whether he waits.
    pub(super) fn comes(&mut self, arrived: Time, entered: Time) -> bool {
        while self.entering.peek().is_some_and(|Reverse(entered)| *entered <= arrived) {
            self.entering.pop();
        }
        let waits = entered > arrived;
        if waits {
            self.entering.push(Reverse(entered));
        }
        waits
    }

    /// Gives `line`, for the line that is to be asked for instead; none while the crowd grows.
    pub(super) fn swap(&mut self, line: u64) -> Option<u64> {
        self.lines.push(line);
        // Some slack, or the crowd would grow and shrink with every other read.
        if self.lines.len() * 4 <= self.entering.len() * 3 {
            return None;
        }
        let chosen = self.rng.below(self.lines.len().min(self.asking));
        Some(self.lines.remove(chosen))
    }

    /// A line that there are no longer enough waiting for.
    pub(super) fn surplus(&mut self) -> Option<u64> {
        if self.lines.len() > self.entering.len() { Some(self.lines.remove(0)) } else { None }
    }

    /// Lines that are still to be asked for.
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Nobody waits any more.
    pub(super) fn leave(&mut self) -> std::vec::Drain<'_, u64> {
        self.entering.clear();
        self.lines.drain(..)
    }

    /// A read had its entry for so long.
    pub(super) fn took(&mut self, held: Time) {
        self.held = Time((self.held.0 * (MEAN_OF - 1) + held.0) / MEAN_OF);
    }

    /// How long reads have their entries, as a mean.
    pub(super) fn held(&self) -> Time {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_gives_every_line_once_and_keeps_no_order() {
        let mut crowd = Crowd::new(8, Rng::new(1));
        let mut asked = Vec::new();
        for line in 0..1000 {
            // Ten wait at a time.
            assert!(crowd.comes(Time(line), Time(line + 10)));
            asked.extend(crowd.swap(line));
            asked.extend(crowd.surplus());
        }
        assert!(crowd.lines() >= 5, "{}", crowd.lines());
        assert!(asked.windows(2).any(|pair| pair[0] > pair[1]));
        asked.extend(crowd.leave());
        asked.sort_unstable();
        assert_eq!(asked, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn who_finds_an_entry_waits_for_nobody() {
        let mut crowd = Crowd::new(8, Rng::new(1));
        assert!(crowd.comes(Time(0), Time(5)));
        assert!(!crowd.comes(Time(9), Time(9)));
        assert_eq!(crowd.surplus(), None);
    }
}
