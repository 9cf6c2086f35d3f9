//! The strategies.

use super::rng::{Rng, Use};
use super::schedule::{Schedule, Strategy};

/// A strategy at work: which of the threads that can go on does.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    strategy: Strategy,
    random: Rng,
    /// By thread, for [`Strategy::Pct`]; higher goes first.
    priorities: Vec<i64>,
    /// Decisions before which the running thread's priority changes, and to what; the next one last.
    changes: Vec<(u64, i64)>,
    /// Below all priorities.
    lowest: i64,
}

/// What there is to choose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    /// Number of the decision.
    pub decision: u64,
    /// The thread that ran up to here.
    pub current: u32,
    /// Those that can go on, at least one, in the order of their numbers.
    pub candidates: &'a [u32],
}

impl Chooser {
    pub fn new(schedule: &Schedule) -> Self {
        let mut random = Rng::new(schedule.seed, Use::Choices);
        let mut changes = Vec::new();
        if let Strategy::Pct { depth, decisions } = schedule.strategy {
            let places = i64::from(depth.saturating_sub(1));
            changes = (1..=places).map(|priority| (random.below(decisions.max(1)), priority)).collect();
            changes.sort_unstable_by(|a, b| b.cmp(a));
        }
        Chooser { strategy: schedule.strategy, random, priorities: Vec::new(), changes, lowest: 0 }
    }

    /// Another thread exists.
    pub fn add_thread(&mut self) {
        if let Strategy::Pct { .. } = self.strategy {
            // Above the priorities of the changes.
            let priority = (1 << 40) + (self.random.next() >> 24) as i64;
            self.priorities.push(priority);
        }
    }

    /// The thread gets nowhere at present.
    pub fn falls_behind(&mut self, thread: u32) {
        if let Strategy::Pct { .. } = self.strategy {
            self.lowest -= 1;
            self.priorities[thread as usize] = self.lowest;
        }
    }

    /// One of the candidates.
    pub fn choose(&mut self, choice: &Choice<'_>) -> u32 {
        match self.strategy {
            Strategy::Walk => {
                let at = self.random.below(choice.candidates.len() as u64);
                choice.candidates[at as usize]
            }
            Strategy::Pct { .. } => self.by_priority(choice),
            Strategy::Turns => next(choice),
            Strategy::Stay => stay(choice),
        }
    }

    fn by_priority(&mut self, choice: &Choice<'_>) -> u32 {
        let current = choice.current as usize;
        while let Some(&(decision, priority)) = self.changes.last()
            && decision <= choice.decision
        {
            self.changes.pop();
            self.priorities[current] = priority;
        }
        let highest = choice.candidates.iter().max_by_key(|&&thread| self.priorities[thread as usize]);
        *highest.unwrap_or(&choice.current)
    }
}

/// The current thread if it can go on, else the next one.
pub(super) fn stay(choice: &Choice<'_>) -> u32 {
    if choice.candidates.contains(&choice.current) { choice.current } else { next(choice) }
}

/// The first candidate after the current thread, or the first of all.
fn next(choice: &Choice<'_>) -> u32 {
    let after = choice.candidates.iter().find(|&&thread| thread > choice.current);
    *after.unwrap_or(&choice.candidates[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chooser(strategy: Strategy, threads: usize) -> Chooser {
        let mut chooser = Chooser::new(&Schedule::new(strategy, 5));
        (0..threads).for_each(|_| chooser.add_thread());
        chooser
    }

    fn choice(decision: u64, current: u32, candidates: &[u32]) -> Choice<'_> {
        Choice { decision, current, candidates }
    }

    #[test]
    fn turns_go_round_and_stay_stays() {
        let mut turns = chooser(Strategy::Turns, 4);
        assert_eq!(turns.choose(&choice(0, 1, &[0, 1, 3])), 3);
        assert_eq!(turns.choose(&choice(1, 3, &[0, 1, 3])), 0);
        let mut stays = chooser(Strategy::Stay, 4);
        assert_eq!(stays.choose(&choice(0, 1, &[0, 1, 3])), 1);
        assert_eq!(stays.choose(&choice(1, 2, &[0, 1, 3])), 3);
        assert_eq!(stays.choose(&choice(2, 3, &[0, 1])), 0);
    }

    #[test]
    fn a_walk_takes_each_about_as_often() {
        let mut walk = chooser(Strategy::Walk, 3);
        let mut taken = [0; 3];
        (0..3000).for_each(|n| taken[walk.choose(&choice(n, 0, &[0, 1, 2])) as usize] += 1);
        assert!(taken.iter().all(|&count| (900..1100).contains(&count)), "{taken:?}");
    }

    #[test]
    fn priorities_change_as_often_as_the_depth_says() {
        for depth in 1..6 {
            let mut pct = chooser(Strategy::Pct { depth, decisions: 1000 }, 8);
            let all: Vec<u32> = (0..8).collect();
            let (mut current, mut changes) = (pct.choose(&choice(0, 0, &all)), 0);
            for decision in 1..2000 {
                let next = pct.choose(&choice(decision, current, &all));
                changes += u32::from(next != current);
                current = next;
            }
            assert_eq!(changes, depth - 1);
        }
    }

    #[test]
    fn whoever_gets_nowhere_falls_behind_all_others() {
        let mut pct = chooser(Strategy::Pct { depth: 1, decisions: 10 }, 3);
        let first = pct.choose(&choice(0, 0, &[0, 1, 2]));
        pct.falls_behind(first);
        let second = pct.choose(&choice(1, first, &[0, 1, 2]));
        assert_ne!(second, first);
        pct.falls_behind(second);
        assert_eq!(pct.choose(&choice(2, second, &[0, 1, 2])), 3 - first - second);
        assert_eq!(pct.choose(&choice(3, second, &[first, second])), first);
    }
}
