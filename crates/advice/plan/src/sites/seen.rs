//! What was seen of a program: use of pages by allocation site.

use serde::Serialize;

/// 90 % of a normal distribution lie within so many standard errors.
const Z90: f64 = 1.645;
/// Share of a structure's pages used in a window above which the window says nothing more about how often.
const FULL: f64 = 0.95;
/// Uses below which a longer window is taken.
const ENOUGH: f64 = 30.0;

/// Windows of one length, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Window {
    /// Its length in seconds.
    pub seconds: f64,
    /// Pages that were used in it, over all windows of that length.
    pub used: f64,
    /// Pages that were there.
    pub there: f64,
    /// Of those used, pages that were written; 0 if stores can't be seen.
    pub written: f64,
}

/// One allocation site.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SiteUse {
    /// Its number in files of kinds: the same in every run of the same files.
    pub key: u64,
    /// Its name.
    pub name: String,
    /// Most bytes that lived at once.
    pub bytes: f64,
    /// Allocations, and those that were noted one by one.
    pub count: f64,
    /// See above.
    pub noted: u64,
    /// By length, the shortest first.
    pub windows: Vec<Window>,
    /// The keys of all that were joined.
    pub keys: Vec<u64>,
    /// The type that is allocated, if it is known.
    pub type_name: Option<String>,
    /// The name that the program gave it.
    pub tag: Option<String>,
    /// Samples of misses.
    pub sampled: Samples,
    /// First uses of pages without access rights, and the seconds that these had none.
    pub caught: (u64, f64),
    /// Share of the uses that could be kept apart from those of other sites.
    pub exact: f64,
    /// Uses by part of the run.
    pub slices: Vec<f64>,
    /// Whether it is an allocation that can be placed: none of stacks, globals, files.
    pub allocated: bool,
}

/// Samples of loads that no cache answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Samples {
    /// Samples, estimated.
    pub hits: f64,
    /// Each stands for so many misses; 0 if none were taken.
    pub each: f64,
    /// Over so many seconds.
    pub seconds: f64,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Seen {
    /// The source's name.
    pub source: String,
    /// What it could not see, and why other sources were not used.
    pub unseen: Vec<String>,
    /// Seconds.
    pub elapsed: f64,
    /// Seconds of processor time.
    pub cpu: f64,
    /// Windows in all.
    pub ticks: u32,
    /// Samples of misses in all.
    pub samples: u64,
    /// Seconds that looking took, by an estimate.
    pub looking: f64,
    /// Most bytes in memory.
    pub peak: f64,
    /// Most bytes in huge pages.
    pub huge: f64,
    /// Children that were forked.
    pub forks: u64,
    /// Page faults without and with reading.
    pub faults: (u64, u64),
    /// Allocations from this size on were all noted.
    pub from: u64,
    /// Sites.
    pub sites: Vec<SiteUse>,
}

/// How often a site's pages are used: by how many first uses per second a look would find. Where misses were sampled, misses per
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Estimate.
    pub per_second: f64,
    /// 90 % interval.
    pub low: f64,
    /// Its upper end; `None` if every look found the pages used, so that there is none.
    pub high: Option<f64>,
}

impl SiteUse {
    /// Uses per second.
    ///
    /// A page that is used at random times `r` times a second is found unused after `t` seconds with probability `exp(-r t)`. Of the
    /// windows, the shortest with enough uses is the most precise. Uses that come in bursts, as when a page is read from its beginning to
    /// its end, count as about one.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let pages = (self.bytes / 4096.0).max(1.0);
        if self.sampled.each > 0.0 && self.sampled.seconds > 0.0 {
            let (count, times) = (self.sampled.hits, self.sampled.each / self.sampled.seconds);
            let spread = Z90 * (count + 1.0).sqrt();
            return Rate {
                per_second: count * times,
                low: ((count - spread) * times).max(0.0),
                high: Some((count + 1.0 + spread) * times),
            };
        }
        if self.caught.1 > 0.0 {
            let (count, time) = (self.caught.0 as f64, self.caught.1);
            let spread = Z90 * (count + 1.0).sqrt();
            // A signal takes some microseconds: what is used faster than that is only known to be at least so fast.
            let fast = count > 0.0 && time / count < 2e-3;
            return Rate {
                per_second: count / time * pages,
                low: ((count - spread) / time * pages).max(0.0),
                high: (!fast).then_some((count + 1.0 + spread) / time * pages),
            };
        }
        let usable = |one: &&Window| one.there > 0.0 && one.seconds > 0.0;
        let all: Vec<&Window> = self.windows.iter().filter(usable).collect();
        let Some(window) = all.iter().find(|one| one.used >= ENOUGH).or(all.last()) else {
            return Rate { per_second: 0.0, low: 0.0, high: None };
        };
        let of = |used: f64| -> f64 {
            let share = (used / window.there).clamp(0.0, 1.0 - 0.5 / window.there.max(1.0));
            -(1.0 - share).ln() / window.seconds * pages
        };
        let spread = Z90 * (window.used + 1.0).sqrt();
        let full = window.used / window.there > FULL;
        Rate {
            per_second: of(window.used),
            low: of((window.used - spread).max(0.0)),
            high: (!full).then(|| of(window.used + 1.0 + spread)),
        }
    }

    /// Share of the uses that were stores, if stores were seen.
    #[must_use]
    pub fn stores(&self) -> Option<f64> {
        let (written, used) =
            self.windows.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.written, sum.1 + one.used));
        (written > 0.0 && used > 0.0).then(|| (written / used).min(1.0))
    }
}

impl Seen {
    /// How much the sites' shares of the uses change between the halves of the run, 0 to 1.
    #[must_use]
    pub fn drift(&self) -> f64 {
        let parts = self.sites.iter().map(|site| site.slices.len()).max().unwrap_or(0);
        if parts < 4 {
            return 0.0;
        }
        let half = |from: usize, to: usize| -> Vec<f64> {
            let of = |site: &SiteUse| site.slices.iter().skip(from).take(to - from).sum::<f64>();
            let sums: Vec<f64> = self.sites.iter().map(of).collect();
            let all = sums.iter().sum::<f64>().max(1e-9);
            sums.into_iter().map(|sum| sum / all).collect()
        };
        // What a program does before its first look is its own beginning.
        let (first, second) = (half(0, parts / 2), half(parts / 2, parts));
        first.iter().zip(&second).map(|(one, two)| (one - two).abs()).sum::<f64>() / 2.0
    }

    /// Whether misses were sampled, and not use of pages.
    #[must_use]
    pub fn sees_misses(&self) -> bool {
        self.sites.iter().any(|site| site.sampled.each > 0.0)
    }

    /// Bytes of all sites.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.sites.iter().map(|site| site.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(bytes: f64, windows: &[(f64, f64, f64)]) -> SiteUse {
        let window =
            |&(seconds, used, there): &(f64, f64, f64)| Window { seconds, used, there, written: 0.0 };
        SiteUse { bytes, windows: windows.iter().map(window).collect(), ..SiteUse::default() }
    }

    /// 1,000 pages, each used 5 times a second: 0.5 % in a millisecond, 4.9 % in ten, 39 % in 100.
    #[test]
    fn the_rate_is_found_from_the_share_of_pages_used() {
        let pages = 1_000.0;
        let used = |seconds: f64| 10.0 * pages * (1.0 - (-5.0 * seconds).exp());
        let windows = [0.001, 0.01, 0.1].map(|seconds| (seconds, used(seconds), 10.0 * pages));
        let rate = site(pages * 4096.0, &windows).rate();
        assert!((rate.per_second / 5_000.0 - 1.0).abs() < 0.01, "{rate:?}");
        assert!(rate.low < 5_000.0 && rate.high.is_some_and(|high| high > 5_000.0));
    }

    #[test]
    fn pages_that_are_always_used_have_no_upper_bound_and_pages_never_used_a_small_one() {
        let hot = site(4096.0 * 100.0, &[(0.001, 1_000.0, 1_000.0)]).rate();
        assert_eq!(hot.high, None);
        let cold = site(4096.0 * 100.0, &[(0.001, 0.0, 1_000.0), (0.1, 0.0, 1_000.0)]).rate();
        assert!(cold.high.is_some_and(|high| high < 10.0), "{cold:?}");
        assert_eq!(site(4096.0, &[]).rate().high, None, "what was not looked at may be anything");
    }

    #[test]
    fn samples_of_misses_give_misses_by_time() {
        let sampled = Samples { hits: 400.0, each: 10_007.0, seconds: 4.0 };
        let rate = SiteUse { bytes: 4096.0, sampled, ..SiteUse::default() }.rate();
        assert!((rate.per_second - 1_000_700.0).abs() < 1e-6, "{rate:?}");
        assert!(rate.low < rate.per_second && rate.high.is_some_and(|high| high < 1.1 * rate.per_second));
    }

    #[test]
    fn protected_pages_give_uses_by_exposed_time() {
        let one = SiteUse { bytes: 4096.0 * 10.0, caught: (100, 20.0), ..SiteUse::default() };
        assert!((one.rate().per_second - 50.0).abs() < 1e-9, "{:?}", one.rate());
    }
}
