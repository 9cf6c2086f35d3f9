//! Which of the ended SFRs may be committed: the most that are closed under happens-before.

use std::collections::HashMap;

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

/// The same where SFRs are committed in groups (critical sections of ATLAS), which may wait for each other in
/// a circle: starts with all whole groups and takes away what waits for something that is not there.
pub fn greatest(logs: &[Vec<End>], released: &mut [u64]) -> Vec<usize> {
    let whole = |ends: &[End]| ends.iter().rposition(|end| end.last).map_or(0, |last| last + 1);
    let mut counts: Vec<usize> = logs.iter().map(|ends| whole(ends)).collect();
    let reached = loop {
        let mut numbers: HashMap<usize, Vec<u64>> = HashMap::new();
        for (ends, &count) in logs.iter().zip(&counts) {
            for end in &ends[..count] {
                if let Order::Release { bucket, number } = end.order {
                    numbers.entry(bucket).or_default().push(number);
                }
            }
        }
        let mut reached: HashMap<usize, u64> = HashMap::new();
        for (bucket, mut numbers) in numbers {
            numbers.sort_unstable();
            let without_gap =
                numbers.iter().zip(released[bucket] + 1..).take_while(|&(&is, next)| is == next);
            reached.insert(bucket, released[bucket] + without_gap.count() as u64);
        }
        let up_to = |bucket: usize| reached.get(&bucket).copied().unwrap_or(released[bucket]);
        let mut removed = false;
        for (ends, count) in logs.iter().zip(&mut counts) {
            let stuck = ends[..*count].iter().position(|end| match end.order {
                Order::Own => false,
                Order::Acquire { bucket, number } | Order::Release { bucket, number } => {
                    up_to(bucket) < number
                }
            });
            if let Some(stuck) = stuck {
                *count = whole(&ends[..stuck]);
                removed = true;
            }
        }
        if !removed {
            break reached;
        }
    };
    for (bucket, number) in reached {
        released[bucket] = number;
    }
    counts
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
        #[test]
        fn both_ways_agree_where_every_end_is_a_place_to_commit(
            steps in prop::collection::vec((0..4_usize, 0..FEW, any::<bool>()), 0..60),
            missing in prop::collection::vec(0..4_usize, 1..5),
        ) {
            let logs = run(&steps, &missing);
            let (mut one, mut other) = ([0; FEW], [0; FEW]);
            prop_assert_eq!(forward(&logs, &mut one), greatest(&logs, &mut other));
            prop_assert_eq!(one, other);
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
        assert_eq!(greatest(&[one.clone(), other.clone()], &mut released), [3, 3]);
        assert_eq!(released, [1, 1, 0]);
        let mut released = [0; FEW];
        assert_eq!(greatest(&[one, other[..2].to_vec()], &mut released), [0, 0]);
        assert_eq!(released, [0; FEW]);
    }
}
