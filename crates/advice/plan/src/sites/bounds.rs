//! What may be promised from use of pages alone.
//!
//! A use is not a miss: caches answer most. What holds all the same: if structures with the share `s` of all uses go to memory that
//! is `k` times as slow, a program that did nothing but wait for memory would take `1 + s (k - 1)` times as long, and no program
//! takes longer; and a page that is used `r` times a second costs at most `r` times its 64 lines, each the difference of the
//! latencies. The smaller of the two is the bound. Nothing is said about cache ways, for there is no miss curve.

use serde::Serialize;

use super::SiteUse;
use super::seen::{Rate, Seen};
use crate::phases::{phases, shares};
use crate::prices::Prices;
use crate::tiers::Tier;

const GIB: f64 = (1u64 << 30) as f64;
/// Lines of a page.
const LINES: f64 = 64.0;
/// Samples of misses below which a run was too short.
const SAMPLES_MIN: u64 = 200;
/// Windows below which a run was too short.
const TICKS_MIN: u32 = 6;
/// Change of shares between halves of a run above which it has phases.
const DRIFT_MAX: f64 = 0.5;
/// Bound of the slowest mix below which it does not matter where data lies.
const SAME: f64 = 0.02;

/// A site in the recommended mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteAnswer {
    /// Its number among those seen.
    pub number: usize,
    /// How often its pages are used.
    pub rate: Rate,
    /// Share of all uses: estimate and 90 % interval.
    pub share: f64,
    /// See above.
    pub share_low: f64,
    /// See above.
    pub share_high: f64,
    /// At most so much slower if all of it, and nothing else, is on slow memory.
    pub alone: f64,
    /// Its share on slow memory.
    pub slow: f64,
}

/// A mix of fast and slow memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mix {
    /// Part of the working set on slow memory.
    pub slow: f64,
    /// At most so much slower than all fast.
    pub bound: f64,
    /// GiB by tier.
    pub gib: Vec<f64>,
    /// Price per hour, without cache ways.
    pub hour: f64,
    /// Cost of the run, in millionths: if nothing becomes slower, and at the bound.
    pub cost_low: f64,
    /// See above.
    pub cost_high: f64,
}

/// The plan for a part of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhasePlan {
    /// Seconds from the beginning, about.
    pub from: f64,
    /// See above.
    pub to: f64,
    /// The mix whose cost at its bound is least in this part.
    pub mix: Mix,
    /// The site that is used most, by its number among those seen, and its share of the uses.
    pub hottest: usize,
    /// See above.
    pub share: f64,
    /// Shares of the sites on slow memory, by number.
    pub slow: Vec<f64>,
}

/// The plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SitePlan {
    /// By part on slow memory, none first.
    pub mixes: Vec<Mix>,
    /// The one whose cost at its bound is least.
    pub best: usize,
    /// Plans for parts of the run in which the uses stay alike, if there are several.
    pub phases: Vec<PhasePlan>,
    /// Sites, most used first.
    pub sites: Vec<SiteAnswer>,
    /// Whether it does not matter where data lies.
    pub indifferent: bool,
    /// Weights for interleaving by bandwidth.
    pub weights: Vec<u32>,
    /// What this plan does not say, and why.
    pub refused: Vec<String>,
    /// What a reader has to know.
    pub cautions: Vec<String>,
}

/// Makes a plan for the first two tiers, the fast one first. `footprint` is what is rented, in bytes.
#[must_use]
pub fn plan(seen: &Seen, tiers: &[Tier; 2], prices: &Prices, footprint: Option<u64>) -> SitePlan {
    let rates: Vec<Rate> = seen.sites.iter().map(super::SiteUse::rate).collect();
    // A sampled miss is of one line; a use of a page may be of all of its.
    let lines = if seen.sees_misses() { 1.0 } else { LINES };
    let bound = |slow: &[f64]| bound(&rates, tiers, slow, lines);
    let bytes = seen.bytes();
    let rented = footprint.map_or(bytes, |bytes| bytes as f64);
    let mixes = |rates: &[Rate], seconds: f64| -> Vec<Mix> {
        let one = |tenths| {
            let slow = f64::from(tenths) / 10.0;
            let gib: Vec<f64> = [1.0 - slow, slow].map(|part| part * rented / GIB).into();
            let hour = prices.hour(&gib, 0.0);
            let longer = self::bound(rates, tiers, &placed(seen, rates, slow), lines);
            let cost = hour * seconds / 3_600.0 * 1e6;
            Mix { slow, bound: longer, gib, hour, cost_low: cost, cost_high: cost * (1.0 + longer) }
        };
        (0..=10).map(one).collect()
    };
    let least = |mixes: &[Mix]| {
        let order = |&one: &usize, &two: &usize| mixes[one].cost_high.total_cmp(&mixes[two].cost_high);
        (0..mixes.len()).min_by(order).unwrap_or(0)
    };
    let uses: Vec<Vec<f64>> = seen.sites.iter().map(|site| site.slices.clone()).collect();
    let parts = phases(&uses);
    let slices = parts.last().map_or(0, |last| last.end).max(1) as f64;
    let phase = |part: &std::ops::Range<usize>| {
        let seconds = |slice: usize| slice as f64 / slices * seen.elapsed;
        let rates: Vec<Rate> = seen
            .sites
            .iter()
            .zip(&rates)
            .map(|(site, rate)| in_part(seen, site, *rate, part, slices))
            .collect();
        let mixes = mixes(&rates, seconds(part.len()));
        let mix = mixes[least(&mixes)].clone();
        let of = shares(&uses, part);
        let hottest = (0..of.len()).max_by(|&one, &two| of[one].total_cmp(&of[two])).unwrap_or(0);
        PhasePlan {
            from: seconds(part.start),
            to: seconds(part.end),
            slow: placed(seen, &rates, mix.slow),
            share: of.get(hottest).copied().unwrap_or(0.0),
            hottest,
            mix,
        }
    };
    let phases: Vec<PhasePlan> = if parts.len() > 1 { parts.iter().map(phase).collect() } else { Vec::new() };
    let mixes = mixes(&rates, seen.elapsed);
    let best = least(&mixes);
    let slow = placed(seen, &rates, mixes[best].slow);
    let one = |number: usize| {
        let mut alone = vec![0.0; seen.sites.len()];
        alone[number] = 1.0;
        let others = |of: fn(&Rate) -> f64| -> f64 {
            rates.iter().enumerate().filter(|(at, _)| *at != number).map(|(_, rate)| of(rate)).sum()
        };
        let rate = rates[number];
        let share = |own: f64, rest: f64| if own > 0.0 { own / (own + rest) } else { 0.0 };
        let most: Option<f64> =
            rates.iter().enumerate().map(|(at, one)| if at == number { Some(0.0) } else { one.high }).sum();
        SiteAnswer {
            number,
            rate,
            share: share(rate.per_second, others(|one| one.per_second)),
            share_low: most.map_or(0.0, |most| share(rate.low, most)),
            share_high: rate.high.map_or(1.0, |high| share(high, others(|one| one.low))),
            alone: bound(&alone),
            slow: slow[number],
        }
    };
    let mut sites: Vec<SiteAnswer> = (0..seen.sites.len()).map(one).collect();
    sites.sort_by(|one, two| two.rate.per_second.total_cmp(&one.rate.per_second));
    SitePlan {
        indifferent: mixes.last().is_some_and(|last| last.bound < SAME),
        best,
        mixes,
        phases,
        sites,
        weights: crate::answer::weights(tiers.iter().map(|tier| tier.read_gbps)),
        refused: vec![
            "cache ways: use of pages has no miss curve; rent what you have, or build with `strandline cc`"
                .to_owned(),
            if seen.sees_misses() {
                "run times: how many misses are under way at once is not seen, so only bounds are given"
                    .to_owned()
            } else {
                "run times: caches answer an unknown part of the uses, so only bounds are given".to_owned()
            },
            if seen.sees_misses() {
                "bandwidth: write-backs and prefetched lines are not sampled".to_owned()
            } else {
                "bandwidth: how many lines of a page are used is not seen".to_owned()
            },
        ],
        cautions: cautions(seen),
    }
}

/// A site's rate in a part of the run: the whole run's, by the uses that fall into the part.
fn in_part(seen: &Seen, site: &SiteUse, rate: Rate, part: &std::ops::Range<usize>, slices: f64) -> Rate {
    let all: f64 = site.slices.iter().sum();
    let here: f64 = site.slices.iter().skip(part.start).take(part.len()).sum();
    if all <= 0.0 {
        return rate;
    }
    let times = here / all * slices / part.len().max(1) as f64;
    // Not found used once in so many windows: three uses at most, with 95 %.
    let windows: f64 =
        site.windows.iter().map(|one| one.seconds).sum::<f64>() / site.windows.len().max(1) as f64;
    let looked = windows * f64::from(seen.ticks) * part.len() as f64 / slices;
    let unused = (here <= 0.0 && looked > 0.0).then(|| 3.0 / looked);
    Rate {
        per_second: rate.per_second * times,
        low: rate.low * times,
        high: unused.or_else(|| rate.high.map(|high| high * times)),
    }
}

/// Shares of the sites on slow memory, coldest first; the one that does not fit is divided.
fn placed(seen: &Seen, rates: &[Rate], part: f64) -> Vec<f64> {
    let heat = |number: usize| {
        let rate = rates[number];
        // What is used in every window is hotter than what is not, whatever the estimates say.
        (rate.high.is_none(), rate.per_second / seen.sites[number].bytes.max(4096.0))
    };
    let mut order: Vec<usize> = (0..rates.len()).filter(|&at| seen.sites[at].bytes > 0.0).collect();
    order.sort_by(|&one, &two| {
        let (one, two) = (heat(one), heat(two));
        one.0.cmp(&two.0).then(one.1.total_cmp(&two.1))
    });
    let mut room = part * seen.bytes();
    let mut slow = vec![0.0; rates.len()];
    for number in order {
        let bytes = seen.sites[number].bytes;
        let here = bytes.min(room);
        slow[number] = here / bytes;
        room -= here;
    }
    slow
}

fn bound(rates: &[Rate], tiers: &[Tier; 2], slow: &[f64], lines: f64) -> f64 {
    let each = || rates.iter().zip(slow);
    let moved: Option<f64> = each()
        .map(|(rate, &slow)| if slow > 0.0 { rate.high.map(|high| high * slow) } else { Some(0.0) })
        .sum();
    let stays: f64 = each().map(|(rate, &slow)| rate.low * (1.0 - slow)).sum();
    let share = match moved {
        Some(moved) if moved > 0.0 => moved / (moved + stays),
        Some(_) => 0.0,
        // Something that is always used: at most all uses, less what is known to stay.
        None => 1.0,
    };
    let times = (tiers[1].latency_ns / tiers[0].latency_ns.max(1.0) - 1.0).max(0.0);
    let longer = (tiers[1].latency_ns - tiers[0].latency_ns).max(0.0) * 1e-9;
    let by_rate = moved.map_or(f64::INFINITY, |moved| moved * lines * longer);
    (share * times).min(by_rate)
}

fn cautions(seen: &Seen) -> Vec<String> {
    let mut cautions = Vec::new();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    if seen.sees_misses() && seen.samples < SAMPLES_MIN {
        cautions.push(format!(
            "only {} misses were sampled in {:.1} s: the program hardly waits for memory, or ended too soon",
            seen.samples, seen.elapsed
        ));
    } else if !seen.sees_misses() && seen.ticks < TICKS_MIN {
        cautions.push(format!(
            "the program ended after {:.1} s, {} looks at its pages: sizes of allocations are known, how often they are used hardly; \
             give it a longer input",
            seen.elapsed, seen.ticks
        ));
    } else if seen.drift() > DRIFT_MAX {
        cautions.push(format!(
            "the program changes: {} of its uses go to other sites in the second half of the run; plans for its parts stand beside that for the whole",
            percent(seen.drift())
        ));
    }
    if seen.forks > 0 {
        cautions.push(format!(
            "it forked {} times: memory of children that run no other program is not seen; plan for a worker of its own",
            seen.forks
        ));
    }
    if seen.huge > 0.0 {
        cautions.push(format!(
            "{:.0} MiB lie in huge pages, each of which counts as used as a whole: hot and cold data in one can't be kept apart; run with \
             huge pages off (prctl PR_SET_THP_DISABLE) to see them",
            seen.huge / f64::from(1 << 20)
        ));
    }
    let unowned: f64 = seen.sites.iter().filter(|site| !site.allocated).map(|site| site.bytes).sum();
    if unowned > 0.5 * seen.bytes() && seen.bytes() > 0.0 {
        cautions.push(format!(
            "{} of the memory was not allocated by malloc or mmap of the C library: static data, or an allocator of its own; it is one \
             structure here. A program built with `strandline cc`, or linked with the C library's allocator, shows more",
            percent(unowned / seen.bytes())
        ));
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::Window;

    fn tier(latency_ns: f64, read_gbps: f64) -> Tier {
        Tier { name: String::new(), latency_ns, read_gbps, write_gbps: read_gbps, loaded: Vec::new() }
    }

    fn site(mib: f64, share: f64) -> SiteUse {
        let there = 10.0 * mib * 256.0;
        SiteUse {
            bytes: mib * f64::from(1 << 20),
            windows: vec![Window { seconds: 0.01, used: share * there, there, written: 0.0 }],
            allocated: true,
            ..SiteUse::default()
        }
    }

    fn seen(sites: Vec<SiteUse>) -> Seen {
        Seen { elapsed: 10.0, cpu: 10.0, ticks: 30, sites, ..Seen::default() }
    }

    #[test]
    fn what_is_hardly_used_goes_and_what_is_hot_stays() {
        let seen = seen(vec![site(10.0, 0.99), site(90.0, 0.0)]);
        let plan = plan(&seen, &[tier(100.0, 100.0), tier(300.0, 25.0)], &Prices::default(), Some(1 << 40));
        assert!((plan.mixes[plan.best].slow - 0.9).abs() < 1e-9, "{:?}", plan.mixes);
        assert_eq!(plan.sites[0].number, 0);
        assert!(plan.sites[0].slow < 1e-9 && plan.sites[1].slow > 1.0 - 1e-9);
        assert!(
            (plan.mixes[10].bound - 2.0).abs() < 1e-6,
            "at most three times as long: {:?}",
            plan.mixes[10]
        );
        assert!(plan.mixes[9].bound < 0.01);
        assert_eq!(plan.weights, [4, 1]);
        assert!(plan.refused[0].starts_with("cache ways"));
    }

    #[test]
    fn each_phase_has_a_plan_of_its_own() {
        let (mut one, mut two) = (site(50.0, 0.5), site(50.0, 0.5));
        (one.slices, two.slices) = (vec![9.0, 9.0, 9.0, 9.0, 0.0, 0.0, 0.0, 0.0], vec![0.0; 4]);
        two.slices.extend([9.0; 4]);
        let seen = seen(vec![one, two]);
        let plan = plan(&seen, &[tier(100.0, 100.0), tier(300.0, 25.0)], &Prices::default(), Some(1 << 40));
        let [first, second] = &plan.phases[..] else { panic!("{:?}", plan.phases) };
        assert_eq!((first.hottest, second.hottest), (0, 1));
        assert!(first.slow[1] > 0.9 && first.slow[0] < 0.1, "{first:?}");
        assert!(second.slow[0] > 0.9 && second.slow[1] < 0.1, "{second:?}");
        assert!((first.to - 5.0).abs() < 1e-9 && second.mix.bound < plan.mixes[5].bound, "{second:?}");
    }

    #[test]
    fn tiers_that_are_alike_do_not_matter_and_prices_upside_down_move_nothing() {
        let seen = seen(vec![site(10.0, 0.5), site(90.0, 0.1)]);
        let same = [tier(100.0, 100.0), tier(101.0, 100.0)];
        assert!(plan(&seen, &same, &Prices::default(), None).indifferent);
        let dear = Prices { gib: vec![0.002, 0.005], ..Prices::default() };
        let plan = plan(&seen, &[tier(100.0, 100.0), tier(300.0, 25.0)], &dear, Some(1 << 40));
        assert_eq!(plan.best, 0);
    }

    #[test]
    fn a_sampled_miss_costs_one_line_and_a_page_up_to_all_of_its() {
        let sampled = |hits| crate::sites::Samples { hits, each: 10_007.0, seconds: 10.0 };
        let site =
            |hits| SiteUse { bytes: 1e8, sampled: sampled(hits), allocated: true, ..SiteUse::default() };
        let mut seen = seen(vec![site(1_000.0), site(10.0)]);
        seen.samples = 1_010;
        let plan = plan(&seen, &[tier(100.0, 100.0), tier(300.0, 25.0)], &Prices::default(), Some(1 << 40));
        // The hot site has a million misses a second, each 200 ns longer: a fifth of the time.
        assert!((plan.sites[0].alone - 0.21).abs() < 0.02, "{:?}", plan.sites);
        assert!(plan.refused[1].contains("under way at once"), "{:?}", plan.refused);
        seen.samples = 9;
        let few = super::plan(&seen, &[tier(100.0, 100.0), tier(300.0, 25.0)], &Prices::default(), None);
        assert!(few.cautions[0].contains("only 9 misses"), "{:?}", few.cautions);
    }

    #[test]
    fn a_run_that_was_not_looked_at_promises_nothing() {
        let mut seen = seen(vec![SiteUse { bytes: 1e9, allocated: true, ..SiteUse::default() }]);
        (seen.ticks, seen.elapsed, seen.forks, seen.huge) = (0, 0.01, 2, 1e9);
        let plan = plan(&seen, &[tier(100.0, 100.0), tier(300.0, 25.0)], &Prices::default(), None);
        assert!(plan.mixes[1].bound > 1.0);
        let text = plan.cautions.join("\n");
        assert!(
            text.contains("ended after") && text.contains("forked 2") && text.contains("huge pages"),
            "{text}"
        );
    }
}
