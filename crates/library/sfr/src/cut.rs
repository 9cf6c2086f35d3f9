//! Which of the ended SFRs may be committed: the most that are closed under happens-before.

use std::collections::{BTreeSet, HashMap};

use crate::order::Order;
use crate::queue::End;

/// For each log, how many of its ends are crossed, where every end is a place to commit at. `released` says
/// how many releases of each bucket were crossed before, and is brought up to date.
///
/// The happens-before order of real runs has no cycle, so crossing whatever can be crossed, again and again,
/// finds the greatest closed set.
pub fn forward(logs: &[Vec<End>], released: &mut [u64]) -> Vec<usize> {
    let mut crossed = vec![0; logs.len()];
    loop {
        let mut progress = false;
        for (ends, crossed) in logs.iter().zip(&mut crossed) {
            while let Some(end) = ends.get(*crossed) {
                match end.order {
                    Order::Own => {}
                    Order::Acquire { bucket, number } if released[bucket] >= number => {}
                    Order::Release { bucket, number } if released[bucket] + 1 == number => {
                        released[bucket] = number;
                    }
                    _ => break,
                }
                *crossed += 1;
                progress = true;
            }
        }
        if !progress {
            return crossed;
        }
    }
}

/// Releases that were crossed although one before them, of the same bucket, was not.
pub type Ahead = HashMap<usize, BTreeSet<u64>>;

/// The same where SFRs are committed in groups (critical sections of ATLAS), which may wait for each other in
/// a circle: starts with all whole groups and takes away what waits for something that is not there.
///
/// An acquire waits for all releases up to its number, since it may have seen any of them. A release waits for
/// none: who posts a semaphore has learned nothing of who posted it before, and that one's section may stay open
/// for long. Those that are crossed early are kept in `ahead`.
pub fn greatest(logs: &[Vec<End>], released: &mut [u64], ahead: &mut Ahead) -> Vec<usize> {
    let whole = |ends: &[End]| ends.iter().rposition(|end| end.last).map_or(0, |last| last + 1);
    let mut counts: Vec<usize> = logs.iter().map(|ends| whole(ends)).collect();
    let numbers = loop {
        let mut numbers = ahead.clone();
        for (ends, &count) in logs.iter().zip(&counts) {
            for end in &ends[..count] {
                if let Order::Release { bucket, number } = end.order {
                    numbers.entry(bucket).or_default().insert(number);
                }
            }
        }
        let reached: HashMap<usize, u64> = numbers
            .iter()
            .map(|(&bucket, numbers)| (bucket, without_gap(released[bucket], numbers)))
            .collect();
        let up_to = |bucket: usize| reached.get(&bucket).copied().unwrap_or(released[bucket]);
        let mut removed = false;
        for (ends, count) in logs.iter().zip(&mut counts) {
            let stuck = ends[..*count].iter().position(|end| match end.order {
                Order::Own | Order::Release { .. } => false,
                Order::Acquire { bucket, number } => up_to(bucket) < number,
            });
            if let Some(stuck) = stuck {
                *count = whole(&ends[..stuck]);
                removed = true;
            }
        }
        if !removed {
            break numbers;
        }
    };
    *ahead = numbers;
    ahead.retain(|&bucket, numbers| {
        released[bucket] = without_gap(released[bucket], numbers);
        *numbers = numbers.split_off(&(released[bucket] + 1));
        !numbers.is_empty()
    });
    counts
}

/// How far releases are crossed without a gap: those up to `released`, and these.
fn without_gap(released: u64, numbers: &BTreeSet<u64>) -> u64 {
    let next = numbers.range(released + 1..).zip(released + 1..).take_while(|&(&is, next)| is == next);
    released + next.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FEW: usize = 3;

    /// Ends of threads that took turns as `steps` say, cut off at the end of the list; some ends of the run
    /// are not queued yet, as `missing` says of each thread.
    fn run(steps: &[(usize, usize, bool)], missing: &[usize]) -> Vec<Vec<End>> {
        let mut released = [0; FEW];
        let mut logs = vec![Vec::new(); missing.len()];
        for (position, &(thread, bucket, release)) in steps.iter().enumerate() {
            let order = if release {
                released[bucket] += 1;
                Order::Release { bucket, number: released[bucket] }
            } else {
                Order::Acquire { bucket, number: released[bucket] }
            };
            logs[thread % missing.len()].push(End { position: position as u64, order, last: true });
        }
        for (log, &missing) in logs.iter_mut().zip(missing) {
            log.truncate(log.len().saturating_sub(missing));
        }
        logs
    }

    proptest! {
        /// It crosses what the other way does, and more only where a release need not wait; and it stays closed.
        #[test]
        fn groups_of_one_are_crossed_as_far_as_what_they_saw(
            steps in prop::collection::vec((0..4_usize, 0..FEW, any::<bool>()), 0..60),
            missing in prop::collection::vec(0..4_usize, 1..5),
        ) {
            let logs = run(&steps, &missing);
            let (mut one, mut other, mut ahead) = ([0; FEW], [0; FEW], Ahead::new());
            let forward = forward(&logs, &mut one);
            let greatest = greatest(&logs, &mut other, &mut ahead);
            let mut crossed = vec![BTreeSet::new(); FEW];
            for (ends, &count) in logs.iter().zip(&greatest) {
                for end in &ends[..count] {
                    if let Order::Release { bucket, number } = end.order {
                        crossed[bucket].insert(number);
                    }
                }
            }
            let allowed = |end: &End| match end.order {
                Order::Acquire { bucket, number } => (1..=number).all(|before| crossed[bucket].contains(&before)),
                Order::Own | Order::Release { .. } => true,
            };
            for ((ends, &few), &many) in logs.iter().zip(&forward).zip(&greatest) {
                prop_assert!(few <= many);
                prop_assert!(ends[..many].iter().all(allowed));
                prop_assert!(ends.get(many).is_none_or(|end| !allowed(end)));
            }
            for bucket in 0..FEW {
                let late = ahead.get(&bucket).cloned().unwrap_or_default();
                prop_assert_eq!((1..=other[bucket]).chain(late).collect::<BTreeSet<_>>(), crossed[bucket].clone());
            }
        }
    }

    #[test]
    fn sections_that_wait_for_each_other_are_committed_together_or_not_at_all() {
        let (a, b) = (0, 1);
        let end = |order, last| End { position: 0, order, last };
        let release = |bucket, number| Order::Release { bucket, number };
        let acquire = |bucket, number| Order::Acquire { bucket, number };
        // Each section takes what the other released within itself.
        let one = vec![end(release(a, 1), false), end(acquire(b, 1), false), end(Order::Own, true)];
        let other = vec![end(release(b, 1), false), end(acquire(a, 1), false), end(Order::Own, true)];
        let mut released = [0; FEW];
        assert_eq!(greatest(&[one.clone(), other.clone()], &mut released, &mut Ahead::new()), [3, 3]);
        assert_eq!(released, [1, 1, 0]);
        let mut released = [0; FEW];
        assert_eq!(greatest(&[one, other[..2].to_vec()], &mut released, &mut Ahead::new()), [0, 0]);
        assert_eq!(released, [0; FEW]);
    }
}
