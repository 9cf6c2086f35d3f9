//! Lines in the write-back buffers of cores, and what the last-level cache evicts of them meanwhile.
//!
//! A line that leaves a core's caches is in the last-level cache at once, as far as its contents go. Where a design keeps it in a
//! write-back buffer until the core's earlier lines are accepted, a real last-level cache does not have it before, and can't evict it. So
//! what is evicted of such a line here leaves for memory when the buffer would have let it go, and not before.

use std::collections::VecDeque;

use super::persists::Persists;
use crate::Time;
use crate::below::{Cause, Write};

/// A line in a write-back buffer.
#[derive(Clone, Debug)]
struct Held {
    line: u64,
    core: usize,
    /// So many lines of each lane of the core must be accepted before it goes.
    tails: Vec<u64>,
}

impl Held {
    /// When all these are accepted; `None` if some have not been sent.
    fn let_go(&self, persists: &Persists) -> Option<Time> {
        self.tails.iter().enumerate().try_fold(Time::ZERO, |latest, (lane, &count)| {
            let (sent, accepted) = persists.of_lane(self.core, lane);
            match count {
                0 => Some(latest),
                _ => (count <= sent).then_some(latest.max(accepted)),
            }
        })
    }
}

/// All cores' write-back buffers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Withheld {
    lines: VecDeque<Held>,
    /// Evicted, with the time at which they would have left; oldest first.
    evicted: Vec<(Time, Write)>,
}

impl Withheld {
    /// `line` left the caches of `core` at `now` and waits for its lanes.
    pub(crate) fn hold(&mut self, line: u64, core: usize, tails: Vec<u64>, now: Time, persists: &Persists) {
        // What has gone on is forgotten, but not a line whose eviction waits: a later one comes behind it.
        self.lines.retain(|held| held.let_go(persists).is_none_or(|at| at > now));
        self.lines.push_back(Held { line, core, tails });
    }

    /// When all buffers have let `line` go: `None` if that is not known yet.
    fn let_go(&self, line: u64, persists: &Persists) -> Option<Time> {
        let mut held = self.lines.iter().filter(|held| held.line == line);
        held.try_fold(Time::ZERO, |latest, held| Some(latest.max(held.let_go(persists)?)))
    }

    /// When a line that the caches give up at `at` leaves. `None`: not yet; [`Withheld::next`] has it in time.
    pub(crate) fn leaves(&mut self, at: Time, write: Write, persists: &Persists) -> Option<Time> {
        if self.lines.is_empty() || write.cause != Cause::Eviction {
            return Some(at);
        }
        let let_go = self.let_go(write.line, persists);
        if let_go.is_none() {
            self.evicted.push((at, write));
        }
        let_go.map(|let_go| at.max(let_go))
    }

    /// The next of the evicted lines that can go, and when.
    pub(crate) fn next(&mut self, persists: &Persists) -> Option<(Time, Write)> {
        let known = |(_, write): &(Time, Write)| self.let_go(write.line, persists);
        let (number, let_go) =
            self.evicted.iter().enumerate().find_map(|(at, one)| Some((at, known(one)?)))?;
        let (at, write) = self.evicted.remove(number);
        Some((at.max(let_go), write))
    }

    /// Evicted lines that wait.
    pub(crate) fn evicted_count(&self) -> usize {
        self.evicted.len()
    }

    /// What `line` waits for in write-back buffers: cores, lanes, and so many lines of each.
    pub(crate) fn awaits(&self, line: u64, now: Time, persists: &Persists) -> Vec<(usize, usize, u64)> {
        let held = self.lines.iter().filter(|held| held.line == line);
        let waiting = held.filter(|held| held.let_go(persists).is_none_or(|at| at > now));
        let tails = waiting
            .flat_map(|held| held.tails.iter().enumerate().map(|(lane, &count)| (held.core, lane, count)));
        tails.filter(|&(.., count)| count > 0).collect()
    }
}
