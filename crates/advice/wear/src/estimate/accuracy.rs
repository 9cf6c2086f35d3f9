//! How near an estimate comes to exact counts.

use event::map::Map;
use serde::Serialize;

/// The difference between estimated and exact counts of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Accuracy {
    /// Of the hottest tenth of the pages, the share that the estimate has in its hottest tenth.
    pub hottest: f64,
    /// Root of the mean square of the differences, in write-backs per page.
    pub rms: f64,
    /// The same by the mean exact count.
    pub relative: f64,
    /// The same after both are scaled to the same sum: the error of the ranking alone.
    pub scaled: f64,
}

/// Compares an estimate, times `factor`, with exact counts by page.
#[must_use]
pub fn accuracy(exact: &Map<u64, u64>, estimate: &Map<u64, u64>, factor: f64) -> Accuracy {
    let mut pages: Vec<u64> = exact.keys().chain(estimate.keys()).copied().collect();
    pages.sort_unstable();
    pages.dedup();
    if pages.is_empty() {
        return Accuracy::default();
    }
    let of = |counts: &Map<u64, u64>, page: &u64| counts.get(page).copied().unwrap_or(0) as f64;
    let sum = |counts: &Map<u64, u64>| counts.values().sum::<u64>() as f64;
    let error = |factor: f64| {
        let square = |page: &u64| (of(estimate, page) * factor - of(exact, page)).powi(2);
        (pages.iter().map(square).sum::<f64>() / pages.len() as f64).sqrt()
    };
    let mean = sum(exact) / pages.len() as f64;
    let rms = error(factor);
    let same_sum = if sum(estimate) > 0.0 { sum(exact) / sum(estimate) } else { 0.0 };
    Accuracy {
        hottest: overlap(&pages, exact, estimate),
        rms,
        relative: if mean > 0.0 { rms / mean } else { 0.0 },
        scaled: if mean > 0.0 { error(same_sum) / mean } else { 0.0 },
    }
}

/// The share of the hottest tenth of `pages` that both agree on. Pages as hot as the last of the tenth are as
/// good as it.
fn overlap(pages: &[u64], exact: &Map<u64, u64>, estimate: &Map<u64, u64>) -> f64 {
    let tenth = pages.len().div_ceil(10);
    let of = |counts: &Map<u64, u64>, page: u64| counts.get(&page).copied().unwrap_or(0);
    let mut truly: Vec<u64> = pages.iter().map(|&page| of(exact, page)).collect();
    truly.sort_unstable_by(|a, b| b.cmp(a));
    let least = truly[tenth - 1].max(1);
    let mut chosen = pages.to_vec();
    chosen.sort_by_key(|&page| (std::cmp::Reverse(of(estimate, page)), page));
    let right = chosen[..tenth].iter().filter(|&&page| of(exact, page) >= least).count();
    right as f64 / tenth as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[u64]) -> Map<u64, u64> {
        (0..).zip(counts.iter().copied()).collect()
    }

    #[test]
    fn a_scaled_copy_ranks_as_well() {
        let exact = counts(&[100, 10, 10, 10, 10, 10, 10, 10, 10, 10]);
        let tenth = counts(&[10, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let found = accuracy(&exact, &tenth, 10.0);
        assert_eq!((found.hottest, found.rms, found.scaled), (1.0, 0.0, 0.0));
        assert!(accuracy(&exact, &tenth, 1.0).rms > 25.0);
        let wrong = accuracy(&exact, &counts(&[1, 9, 1, 1, 1, 1, 1, 1, 1, 1]), 10.0);
        assert_eq!(wrong.hottest, 0.0);
        assert_eq!(accuracy(&counts(&[]), &counts(&[]), 1.0), Accuracy::default());
    }
}
