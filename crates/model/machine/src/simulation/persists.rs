//! What memory has accepted of each core's lines, for cores whose lines must come behind them.

use std::collections::BTreeMap;

use crate::Time;

/// Lanes of a core at most.
pub(crate) const LANES_MAX: usize = 16;

/// That so many lines of a core are accepted; known once they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Promise(u64);

#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// Core and lane.
    queue: usize,
    count: u64,
    /// Whether it is enough that they have left.
    left: bool,
    kept: Option<Time>,
}

/// All cores' sent lines, and the promises that somebody waits for.
#[derive(Clone, Debug)]
pub(crate) struct Persists {
    /// By core and lane: lines sent, and when all of them are accepted.
    sent: Vec<(u64, Time)>,
    awaited: BTreeMap<Promise, Awaited>,
    next: u64,
    /// A promise was kept since the scheduler looked.
    pub(crate) news: bool,
}

impl Persists {
    pub(crate) fn new(cores: usize) -> Self {
        Persists {
            sent: vec![(0, Time::ZERO); cores * LANES_MAX],
            awaited: BTreeMap::new(),
            next: 0,
            news: false,
        }
    }

    /// Lines that `core` has sent by its first lane, and when all of them are accepted.
    pub(crate) fn of(&self, core: usize) -> (u64, Time) {
        self.of_lane(core, 0)
    }

    /// Lines that `core` has sent by a lane, and when all of them are accepted.
    pub(crate) fn of_lane(&self, core: usize, lane: usize) -> (u64, Time) {
        self.sent[core * LANES_MAX + lane]
    }

    /// `core` has sent one more line by `lane`, at `at`, which is accepted at `accepted`.
    pub(crate) fn sent(&mut self, core: usize, lane: usize, at: Time, accepted: Time) {
        let queue = core * LANES_MAX + lane;
        let (count, last) = &mut self.sent[queue];
        *count += 1;
        *last = accepted.max(*last);
        for awaited in self.awaited.values_mut() {
            if awaited.queue == queue && awaited.count == *count {
                awaited.kept = Some(if awaited.left { at } else { *last });
                self.news = true;
            }
        }
    }

    /// That the first `count` lines of `core` are accepted.
    pub(crate) fn promise(&mut self, core: usize, count: u64) -> Promise {
        self.promise_of_lane(core, 0, count)
    }

    /// That the first `count` lines of a lane of `core` have left: what follows them to the same address comes behind them.
    pub(crate) fn promise_left(&mut self, core: usize, lane: usize, count: u64) -> Promise {
        let (sent, _) = self.of_lane(core, lane);
        let promise = self.promise_of_lane(core, lane, count);
        if let Some(awaited) = self.awaited.get_mut(&promise) {
            awaited.left = true;
            awaited.kept = (count <= sent).then_some(Time::ZERO);
        }
        promise
    }

    /// That the first `count` lines of a lane of `core` are accepted.
    pub(crate) fn promise_of_lane(&mut self, core: usize, lane: usize, count: u64) -> Promise {
        let queue = core * LANES_MAX + lane;
        let (sent, accepted) = self.sent[queue];
        let promise = Promise(self.next);
        self.next += 1;
        self.awaited.insert(
            promise,
            Awaited { queue, count, left: false, kept: (count <= sent).then_some(accepted) },
        );
        promise
    }

    /// When it is kept, if that is known. One that was forgotten was kept long ago.
    pub(crate) fn kept(&self, promise: Promise) -> Option<Time> {
        self.awaited.get(&promise).map_or(Some(Time::ZERO), |awaited| awaited.kept)
    }

    /// Nobody waits for it any longer.
    pub(crate) fn forget(&mut self, promise: Option<Promise>) {
        if let Some(promise) = promise {
            self.awaited.remove(&promise);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_when_the_last_of_its_lines_is_accepted() {
        let mut persists = Persists::new(2);
        let promise = persists.promise(1, 2);
        persists.sent(1, 0, Time(50), Time(50));
        persists.sent(0, 0, Time(60), Time(60));
        assert_eq!((persists.kept(promise), persists.news), (None, false));
        persists.sent(1, 0, Time(40), Time(40));
        persists.sent(1, 0, Time(90), Time(90));
        assert_eq!((persists.kept(promise), persists.news), (Some(Time(50)), true));
        let late = persists.promise(1, 2);
        assert_eq!(persists.kept(late), Some(Time(90)), "all that was sent, once it is past");
    }
}
