//! Lifetimes: equations 3.1 to 3.5 of Gogte's thesis, with its error corrected.
//!
//! A page wears at the rate of its write-backs, as if each one wore all of it; a memory is worn out when 1 %
//! of its pages are. Shuffling puts pages onto random frames, so a frame's rate over N shuffles is the mean
//! of N independent draws of a page's rate. (The thesis prints an equation that averages 2^N draws after N
//! steps. Its figures are those of N draws; [`Reading::Printed`] is the other reading.)

use device::Rng;
use serde::{Deserialize, Serialize};

use crate::Rates;
use crate::spread::{Powers, Spread};

/// Seconds of a year.
pub const YEAR: f64 = 365.25 * 86_400.0;
/// Share of the pages whose wear ends a memory's life.
pub const WORN_SHARE: f64 = 0.01;

/// What a memory stands and what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Endurance {
    /// Writes that a cell survives.
    pub writes: f64,
    /// Bytes of a page: what is moved together.
    pub page: u64,
    /// Share of the pages that may be worn out.
    pub share: f64,
}

impl Endurance {
    /// The source's: pages of 4 KiB, a hundredth of them.
    #[must_use]
    pub fn new(writes: f64) -> Self {
        Endurance { writes, page: 4096, share: WORN_SHARE }
    }

    /// Equation 3.4: the write-backs per second at which evenly worn memory of so many bytes lasts for
    /// `seconds`.
    #[must_use]
    pub fn rate_limit(&self, bytes: u64, seconds: f64) -> f64 {
        self.writes * (bytes / self.page) as f64 / seconds
    }

    /// Equation 3.5: bytes of memory over which `rate` write-backs per second have to be spread to last for
    /// `seconds`. This is the total; what is needed besides memory of `bytes` is the rest.
    #[must_use]
    pub fn reserve(&self, bytes: u64, rate: f64, seconds: f64) -> Reserve {
        let total = bytes as f64 * rate / self.rate_limit(bytes, seconds);
        Reserve { total: total / bytes as f64, extra: (total / bytes as f64 - 1.0).max(0.0) }
    }

    /// Time until the share is worn out if `rates` are those of physical memory: nothing is levelled.
    #[must_use]
    pub fn without_levelling(&self, rates: &Rates) -> f64 {
        self.writes / rates.hottest(self.share)
    }

    /// Time until it is if all parts wear alike.
    #[must_use]
    pub fn ideal(&self, rates: &Rates) -> f64 {
        self.writes / rates.mean()
    }

    /// Lifetime by shuffles, for each number of them.
    #[must_use]
    pub fn shuffled(&self, rates: &Rates, shuffles: &[u64], cost: CopyCost) -> Vec<Shuffled> {
        let mut powers = Powers::of(Spread::of(rates));
        shuffles.iter().map(|&count| self.one(rates, &mut powers, count, cost)).collect()
    }

    fn one(&self, rates: &Rates, powers: &mut Powers, shuffles: u64, cost: CopyCost) -> Shuffled {
        let hottest = match shuffles {
            0 | 1 => rates.hottest(self.share),
            draws => powers.mean_of(draws).quantile(1.0 - self.share).max(rates.mean()),
        };
        // The writes of a page's life are the endurance; of these, each shuffle takes its part.
        let copied = cost.writes(self.page) * shuffles as f64;
        let amplification = 1.0 + copied / self.writes;
        let seconds = self.writes / (hottest + rates.mean() * (amplification - 1.0));
        Shuffled {
            shuffles,
            hottest,
            amplification,
            normalised: rates.mean() / hottest,
            seconds,
            net: seconds / self.ideal(rates),
        }
    }
}

/// What a page's copying counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyCost {
    /// A write-back per line, as the source counts: consistent with its assumption that each wears the whole
    /// page.
    Lines,
    /// One write of each location, which is what a copy does to cells.
    Location,
}

impl CopyCost {
    /// Writes per page and shuffle.
    #[must_use]
    pub fn writes(self, page: u64) -> f64 {
        match self {
            CopyCost::Lines => (page / device::LINE_BYTES) as f64,
            CopyCost::Location => 1.0,
        }
    }
}

/// How equation 3.3 is read: how many draws a number of its steps averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// As many as there are shuffles.
    Corrected,
    /// Twice as many with each step, as printed.
    Printed,
}

impl Reading {
    /// Draws after so many steps.
    #[must_use]
    pub fn draws(self, steps: u32) -> u64 {
        match self {
            Reading::Corrected => u64::from(steps).max(1),
            Reading::Printed => 1u64.checked_shl(steps).unwrap_or(u64::MAX),
        }
    }
}

/// Capacity as a multiple of the memory's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reserve {
    /// In all.
    pub total: f64,
    /// Beside the memory that is there.
    pub extra: f64,
}

/// Lifetime with a number of shuffles in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shuffled {
    /// Shuffles of all pages during the lifetime.
    pub shuffles: u64,
    /// Lowest expected rate among the hottest share of the frames, without the copies.
    pub hottest: f64,
    /// Writes with those of copying, by writes without.
    pub amplification: f64,
    /// Lifetime without the cost of copying, by the ideal one.
    pub normalised: f64,
    /// Lifetime in seconds, with that cost.
    pub seconds: f64,
    /// The same by the ideal one.
    pub net: f64,
}

/// Shuffles a small memory page by page, and returns the rate of the hottest `share` of its frames: what the
/// convolution predicts.
#[must_use]
pub fn brute_force(rates: &[f64], shuffles: u64, share: f64, seed: u64) -> f64 {
    let mut rng = Rng::new(seed);
    let mut pages: Vec<usize> = (0..rates.len()).collect();
    let mut worn = vec![0.0; rates.len()];
    for _ in 0..shuffles {
        for last in (1..pages.len()).rev() {
            pages.swap(last, rng.below(last + 1));
        }
        worn.iter_mut().zip(&pages).for_each(|(worn, &page)| *worn += rates[page]);
    }
    Rates::new(worn.iter().map(|worn| worn / shuffles as f64)).hottest(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A memory of 1 GiB whose hottest hundredth takes 31 times its share.
    fn skewed() -> Rates {
        Rates::counted([(31.0, 2622), (0.7, 259_522)])
    }

    #[test]
    fn limits_are_those_of_the_source() {
        let endurance = Endurance::new(1e7);
        let limit = |years: f64| endurance.rate_limit(1 << 30, years * YEAR);
        assert_eq!(limit(4.0).round(), 20_767.0, "the source says 20K");
        assert!((limit(6.0) / 13_333.0 - 1.0).abs() < 0.05);
        let huge = Endurance { page: 2 << 20, ..endurance };
        assert_eq!((huge.rate_limit(1 << 30, 4.0 * YEAR) * 512.0).round(), 20_767.0);
    }

    #[test]
    fn a_reserve_has_two_readings() {
        let endurance = Endurance::new(1e7);
        let limit = endurance.rate_limit(1 << 30, 6.0 * YEAR);
        let reserve = endurance.reserve(1 << 30, 2.7 * limit, 6.0 * YEAR);
        assert!((reserve.total - 2.7).abs() < 1e-9 && (reserve.extra - 1.7).abs() < 1e-9);
        assert_eq!(endurance.reserve(1 << 30, limit / 2.0, 6.0 * YEAR).extra, 0.0);
    }

    #[test]
    fn shuffling_agrees_with_the_closed_form() {
        let (rates, endurance) = (skewed(), Endurance::new(1e7));
        for shuffled in endurance.shuffled(&rates, &[1024, 8192, 65_536], CopyCost::Lines) {
            let variation = rates.deviation() / rates.mean();
            let expected = 1.0 / (1.0 + 2.326 * variation / (shuffled.shuffles as f64).sqrt());
            assert!((shuffled.normalised / expected - 1.0).abs() < 0.01, "{shuffled:?} for {expected}");
        }
    }

    #[test]
    fn the_net_lifetime_has_a_peak() {
        let endurance = Endurance::new(1e7);
        let counts: Vec<u64> = (0..=18).map(|power| 1 << power).collect();
        let curve = endurance.shuffled(&skewed(), &counts, CopyCost::Lines);
        let amplifications = [8192u64, 16_384, 65_536].map(|shuffles| {
            curve.iter().find(|point| point.shuffles == shuffles).expect("a point").amplification
        });
        let rounded = amplifications.map(|value| (value * 100.0).round());
        assert_eq!(rounded, [105.0, 110.0, 142.0], "64 lines a shuffle");
        let best = curve.iter().max_by(|a, b| a.net.total_cmp(&b.net)).expect("a peak");
        assert!((1024..=8192).contains(&best.shuffles), "{best:?}");
        assert!(curve.windows(2).all(|pair| pair[1].normalised >= pair[0].normalised - 1e-9));
        let gentle = endurance.shuffled(&skewed(), &counts, CopyCost::Location);
        assert!(gentle.iter().zip(&curve).all(|(gentle, strict)| gentle.net >= strict.net));
    }

    #[test]
    fn a_small_memory_shuffled_page_by_page_agrees() {
        let rates: Vec<f64> =
            (0..2000).map(|page| if page < 40 { 100.0 } else { f64::from(page % 7) }).collect();
        let spread = Spread::of(&Rates::new(rates.iter().copied()));
        for shuffles in [4, 31, 64, 500] {
            let brute = (0..3).map(|seed| brute_force(&rates, shuffles, 0.01, seed)).sum::<f64>() / 3.0;
            let convolved = spread.mean_of(shuffles).quantile(0.99);
            assert!((brute / convolved - 1.0).abs() < 0.06, "{shuffles}: {brute} for {convolved}");
        }
    }

    #[test]
    fn uniform_rates_need_no_levelling() {
        let (rates, endurance) = (Rates::counted([(2.0, 1000)]), Endurance::new(1e6));
        assert_eq!(endurance.without_levelling(&rates), endurance.ideal(&rates));
        let shuffled = endurance.shuffled(&rates, &[0, 4096], CopyCost::Location);
        assert_eq!((shuffled[0].net, shuffled[0].amplification), (1.0, 1.0));
        assert!(shuffled[1].net < 1.0, "copies wear for nothing");
    }

    #[test]
    fn the_two_readings_differ() {
        assert_eq!((Reading::Corrected.draws(13), Reading::Printed.draws(13)), (13, 8192));
    }
}
