//! Which accesses of the space ask for a decision.

use super::rng::{Rng, Use};
use super::schedule::{Accesses, Schedule};

/// Events of one thread after which it is taken to wait for another, though it does not say so: a reader that
/// tries again and again. Then others go on, whatever the strategy says.
const PATIENCE: u64 = 10_000;

/// Draws the accesses. Times are events of the run.
#[derive(Debug)]
pub(super) struct Sampling {
    accesses: Accesses,
    events_max: u64,
    random: Rng,
    /// The next event that asks, as long as others are ready.
    due: u64,
    /// When the running thread began to keep others waiting.
    since: u64,
}

impl Sampling {
    pub fn new(schedule: &Schedule) -> Self {
        Sampling {
            accesses: schedule.accesses,
            events_max: schedule.events_max.unwrap_or(u64::MAX),
            random: Rng::new(schedule.seed, Use::Accesses),
            due: u64::MAX,
            since: 0,
        }
    }

    /// The number of events that are allowed, if these are more.
    pub fn over(&self, clock: u64) -> Option<u64> {
        (clock > self.events_max).then_some(self.events_max)
    }

    /// Whether the others can wait a little longer.
    pub fn patient(&self, clock: u64) -> bool {
        clock.saturating_sub(self.since) < PATIENCE
    }

    /// Another thread goes on now.
    pub fn switched(&mut self, clock: u64) {
        self.since = clock;
    }

    /// The first access from now on that asks. A thread with no others to go on in its place runs
    /// undisturbed.
    pub fn plan(&mut self, clock: u64, others_ready: bool) -> u64 {
        let end = self.events_max.saturating_add(1);
        if !others_ready {
            (self.due, self.since) = (u64::MAX, clock);
            return end;
        }
        // What lies ahead stays, so that frequent locks do not put accesses off for ever.
        if self.due <= clock || self.due == u64::MAX {
            self.due = match self.accesses {
                Accesses::Never => u64::MAX,
                Accesses::Every => clock + 1,
                Accesses::OneIn(n) => clock + 1 + self.random.below(2 * u64::from(n) - 1),
            };
        }
        self.due.min(self.since + PATIENCE).min(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(accesses: Accesses) -> Sampling {
        Sampling::new(&Schedule::walk(3).at_accesses(accesses))
    }

    #[test]
    fn every_access_or_one_in_so_many() {
        let mut every = sampling(Accesses::Every);
        assert_eq!((1..5).map(|clock| every.plan(clock, true)).collect::<Vec<_>>(), [2, 3, 4, 5]);
        let mut some = sampling(Accesses::OneIn(16));
        let (mut clock, mut points) = (0, 0);
        while clock < 100_000 {
            let next = some.plan(clock, true);
            assert_eq!(some.plan(clock, true), next, "a lock in between changes nothing");
            assert!((1..=31).contains(&(next - clock)));
            (clock, points) = (next, points + 1);
            some.switched(clock);
        }
        assert!((5800..6700).contains(&points), "{points}");
    }

    #[test]
    fn patience_has_an_end() {
        let mut never = sampling(Accesses::Never);
        assert_eq!(never.plan(50, false), u64::MAX);
        assert_eq!(never.plan(60, true), 50 + PATIENCE);
        assert!(never.patient(60) && !never.patient(50 + PATIENCE));
        never.switched(70);
        assert_eq!(never.plan(70, true), 70 + PATIENCE);
    }

    #[test]
    fn a_limit_counts_whoever_is_ready() {
        let mut limited = Sampling::new(&Schedule::walk(3).at_accesses(Accesses::Never).at_most(100));
        assert_eq!((limited.plan(1, false), limited.plan(1, true)), (101, 101));
        assert_eq!((limited.over(100), limited.over(101)), (None, Some(100)));
    }
}
