//! Where a run changes: parts of it in which the structures' shares of the uses stay alike.

use std::ops::Range;

/// Difference of shares between two parts, 0 to 1, above which they are phases of their own.
const DIFFERENT: f64 = 0.5;
/// Phases, at most: what changes more often has no steady ones.
const PHASES_MAX: usize = 4;
/// Slices of a phase, at least.
const SLICES_MIN: usize = 2;

/// The phases of a run that was cut into slices: `uses[structure][slice]`. One if it does not change. A missing slice counts as unused.
#[must_use]
pub fn phases(uses: &[Vec<f64>]) -> Vec<Range<usize>> {
    let slices = uses.iter().map(Vec::len).max().unwrap_or(0);
    let mut found: Vec<Range<usize>> = std::iter::once(0..slices).collect();
    while found.len() < PHASES_MAX {
        let cuts = found.iter().enumerate().filter_map(|(at, part)| Some((at, cut(uses, part)?)));
        let Some((at, (cut, _))) = cuts.max_by(|one, two| one.1.1.total_cmp(&two.1.1)) else { break };
        let part = found[at].clone();
        found.splice(at..=at, [part.start..cut, cut..part.end]);
    }
    found
}

/// Where a part is best cut in two, and how different these are; `None` if they are alike.
fn cut(uses: &[Vec<f64>], part: &Range<usize>) -> Option<(usize, f64)> {
    let last = part.end.checked_sub(SLICES_MIN)?;
    let each = (part.start + SLICES_MIN..=last).map(|at| {
        let difference = difference(&shares(uses, &(part.start..at)), &shares(uses, &(at..part.end)));
        (at, difference)
    });
    each.filter(|(_, difference)| *difference > DIFFERENT).max_by(|one, two| one.1.total_cmp(&two.1))
}

/// Each structure's share of the uses in a part.
#[must_use]
pub fn shares(uses: &[Vec<f64>], part: &Range<usize>) -> Vec<f64> {
    let sums: Vec<f64> =
        uses.iter().map(|one| one.iter().skip(part.start).take(part.len()).sum::<f64>()).collect();
    let all = sums.iter().sum::<f64>().max(1e-9);
    sums.into_iter().map(|sum| sum / all).collect()
}

fn difference(one: &[f64], two: &[f64]) -> f64 {
    one.iter().zip(two).map(|(one, two)| (one - two).abs()).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_cut_where_its_uses_go_elsewhere() {
        let mut uses = vec![vec![9.0; 10], vec![1.0; 10]];
        assert_eq!(phases(&uses).len(), 1);
        uses[0][6..].fill(0.0);
        uses[1][6..].fill(9.0);
        assert_eq!(phases(&uses), [0..6, 6..10]);
        let third = vec![vec![1.0, 1.0, 1.0], vec![0.0], vec![0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]];
        assert_eq!(phases(&third), [0..3, 3..7]);
        assert_eq!(phases(&[]).len(), 1);
    }
}
