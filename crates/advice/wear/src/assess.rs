//! A run's wear, assessed: lifetimes, what wears the memory, and what each counter-measure would give.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::estimate::{PageWear, Tally};
use crate::{CopyCost, Endurance, Rates, Reserve, Shuffled, Spread};

/// Points of the curves of page rates.
const POINTS: usize = 100;
/// Numbers of shuffles that are tried: powers of two up to this one.
const SHUFFLES_MAX_LOG: u32 = 17;
/// Shares of the pages that might be kept in DRAM.
const DRAM_SHARES: [f64; 3] = [0.001, 0.01, 0.1];

/// What is asked about a memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Question {
    /// What its cells stand.
    pub endurance: Endurance,
    /// Seconds that it is to last.
    pub goal: f64,
    /// Bytes of memory over which levelling can spread writes; at least what was written to counts.
    pub capacity: Option<u64>,
    /// Seconds that the run took; without them lifetimes are in runs.
    pub seconds: Option<f64>,
    /// Bytes of the media's unit.
    pub unit: u64,
    /// What copying a page counts as.
    pub copies: CopyCost,
}

/// A counter-measure and what it gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Which: `nothing`, `shuffle`, `dram`, `batching`, ...
    pub name: &'static str,
    /// In words.
    pub what: String,
    /// Lifetime with it, in the unit of the assessment.
    pub lifetime: f64,
    /// By the lifetime without any.
    pub gain: f64,
}

/// The writes that a code site causes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SiteWear {
    /// Its number.
    pub site: u32,
    /// Lines written that it had stored to last.
    pub writes: u64,
    /// Of all.
    pub share: f64,
    /// Lifetime without levelling if its writes were not, in the unit of the assessment.
    pub lifetime_without: f64,
}

/// The answer. Lifetimes are in seconds, or in runs where nobody knows how long the run took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assessment {
    /// The question.
    pub question: Question,
    /// `seconds` or `runs`.
    pub unit: &'static str,
    /// Whether only what the program mapped as persistent is assessed.
    pub persistent: bool,
    /// Lines that reached the memory.
    pub writes: u64,
    /// Units that the media wrote for them.
    pub media_writes: u64,
    /// Pages that were written to.
    pub written_pages: u64,
    /// Pages over which writes can be spread.
    pub pages: u64,
    /// Bytes of these.
    pub capacity: u64,
    /// Line writes per second, if time is known.
    pub rate: Option<f64>,
    /// The same per GiB of the capacity.
    pub rate_per_gib: Option<f64>,
    /// What evenly worn memory stands for the goal, per second and GiB.
    pub limit_per_gib: f64,
    /// Until 1 % of the lines are worn out, unlevelled: lines that were never written count as well.
    pub lifetime_lines: f64,
    /// Until the first line is worn out, unlevelled.
    pub lifetime_first: f64,
    /// Until 1 % of the pages are, each write wearing all of its page.
    pub lifetime_pages: f64,
    /// If all pages wore alike.
    pub lifetime_ideal: f64,
    /// By shuffles during the lifetime.
    pub shuffled: Vec<Shuffled>,
    /// The best of them.
    pub best: Shuffled,
    /// Whether a measure reaches the goal; without time nobody knows.
    pub reaches_goal: Option<bool>,
    /// Capacity with which levelling alone reaches the goal; without time nobody knows.
    pub reserve: Option<Reserve>,
    /// Shares of the pages, hottest first, and the writes per page there, by the mean: unlevelled.
    pub before: Vec<(f64, f64)>,
    /// The same with the best number of shuffles.
    pub after: Vec<(f64, f64)>,
    /// What each counter-measure would give.
    pub measures: Vec<Measure>,
    /// The hottest pages.
    pub hottest: Vec<PageWear>,
    /// Sites that wear the memory, by writes.
    pub sites: Vec<SiteWear>,
    /// Sites that allocated what was written, with the lines written to it.
    pub allocations: Vec<(u32, u64)>,
}

/// Assesses what was written: to persistent memory if the program mapped any, else to all of it.
#[must_use]
pub fn assess(tally: &Tally, allocations: Vec<(u32, u64)>, question: Question) -> Assessment {
    let persistent = tally.persistent();
    let mut pages = tally.pages(question.endurance.page, persistent);
    let endurance = question.endurance;
    let written = pages.len() as u64;
    let count = question.capacity.map_or(written, |bytes| bytes / endurance.page).max(written).max(1);
    let capacity = count * endurance.page;
    let per = 1.0 / question.seconds.unwrap_or(1.0);
    let rates = Rates::new(pages.iter().map(|page| page.writes as f64 * per)).within(count);
    let lines = tally.lines(persistent).scaled(per).within(capacity / device::LINE_BYTES);
    let counts: Vec<u64> = std::iter::once(0).chain((0..=SHUFFLES_MAX_LOG).map(|log| 1 << log)).collect();
    let shuffled = endurance.shuffled(&rates, &counts, question.copies);
    let best = shuffled.iter().copied().max_by(|a, b| a.net.total_cmp(&b.net));
    let best = best.unwrap_or_else(|| endurance.shuffled(&rates, &[0], question.copies)[0]);
    let rate = question.seconds.map(|_| rates.total());
    let (by_lines, by_pages) = (endurance.without_levelling(&lines), endurance.without_levelling(&rates));
    let gib = capacity as f64 / f64::from(1 << 30);
    pages.sort_by_key(|page| (std::cmp::Reverse(page.writes), page.address));
    let measures = measures(&question, &rates, best, [by_pages, by_lines], &pages);
    // What nothing can do, and another assumption about cells, are no measures.
    let real = measures.iter().filter(|measure| measure.name != "ideal" && measure.name != "lines");
    let reaches = real.into_iter().any(|measure| measure.lifetime >= question.goal);
    Assessment {
        question,
        unit: if question.seconds.is_some() { "seconds" } else { "runs" },
        persistent,
        writes: pages.iter().map(|page| page.writes).sum(),
        media_writes: pages.iter().map(|page| page.units).sum(),
        written_pages: written,
        pages: count,
        capacity,
        rate,
        rate_per_gib: rate.map(|rate| rate / gib),
        limit_per_gib: endurance.rate_limit(1 << 30, question.goal),
        lifetime_lines: by_lines,
        lifetime_first: endurance.writes / lines.hottest(0.0),
        lifetime_pages: by_pages,
        lifetime_ideal: endurance.ideal(&rates),
        best,
        reaches_goal: question.seconds.map(|_| reaches),
        reserve: rate.map(|rate| endurance.reserve(capacity, rate, question.goal)),
        before: relative(&rates.curve(POINTS), rates.mean()),
        after: levelled(&rates, best.shuffles),
        measures,
        sites: sites(&pages, endurance, count, per),
        hottest: pages.into_iter().take(POINTS).collect(),
        shuffled,
        allocations,
    }
}

fn relative(curve: &[(f64, f64)], mean: f64) -> Vec<(f64, f64)> {
    let by = if mean > 0.0 { mean } else { 1.0 };
    curve.iter().map(|&(share, rate)| (share, rate / by)).collect()
}

fn levelled(rates: &Rates, shuffles: u64) -> Vec<(f64, f64)> {
    let mean = Spread::of(rates).mean_of(shuffles.max(1));
    let points = (1..=POINTS).map(|point| point as f64 / POINTS as f64);
    let curve: Vec<(f64, f64)> = points.map(|share| (share, mean.quantile(1.0 - share))).collect();
    relative(&curve, rates.mean())
}

/// What each counter-measure gives, over the lifetime without any.
fn measures(
    question: &Question,
    rates: &Rates,
    best: Shuffled,
    [nothing, by_lines]: [f64; 2],
    pages: &[PageWear],
) -> Vec<Measure> {
    let endurance = question.endurance;
    let measure =
        |name, what: String, lifetime: f64| Measure { name, what, lifetime, gain: lifetime / nothing };
    let mut measures = vec![
        measure("nothing", "pages stay where they are; a write wears its page".to_owned(), nothing),
        measure("lines", "the same; a write wears its line alone".to_owned(), by_lines),
        measure("shuffle", format!("{} shuffles of all pages in the lifetime", best.shuffles), best.seconds),
        measure("ideal", "all pages wear alike, at no cost".to_owned(), endurance.ideal(rates)),
    ];
    for share in DRAM_SHARES {
        let moved = ((pages.len() as f64 * share).ceil() as usize).min(pages.len());
        let left: Vec<f64> = pages[moved..].iter().map(|page| page.writes as f64).collect();
        let scale = 1.0 / question.seconds.unwrap_or(1.0);
        let left = Rates::new(left).scaled(scale).within(rates.parts() - moved as u64);
        let shuffled = endurance.shuffled(&left, &[best.shuffles], question.copies);
        let lifetime = shuffled.first().map_or(f64::INFINITY, |shuffled| shuffled.seconds);
        let what = format!("the hottest {} % of the written pages in DRAM, the rest shuffled", share * 100.0);
        measures.push(measure("dram", what, lifetime));
    }
    let lines: u64 = pages.iter().map(|page| page.writes).sum();
    let units: u64 = pages.iter().map(|page| page.units).sum();
    let whole = (lines * device::LINE_BYTES).div_ceil(question.unit);
    if units > whole && whole > 0 {
        let what = "the lines of a media unit written together, instead of one by one".to_owned();
        measures.push(measure("batching", what, nothing * units as f64 / whole as f64));
    }
    measures
}

/// Sites by what they write, each with the lifetime that the memory would have without it.
fn sites(pages: &[PageWear], endurance: Endurance, count: u64, per: f64) -> Vec<SiteWear> {
    const SITES_MAX: usize = 64;
    let mut writes: BTreeMap<u32, u64> = BTreeMap::new();
    for (site, count) in pages.iter().flat_map(|page| &page.sites) {
        *writes.entry(*site).or_default() += count;
    }
    let total: u64 = writes.values().sum();
    let mut sites: Vec<(u32, u64)> = writes.into_iter().collect();
    sites.sort_unstable_by_key(|&(site, writes)| (std::cmp::Reverse(writes), site));
    sites.truncate(SITES_MAX);
    let without = |site: u32| {
        let of = |page: &PageWear| page.sites.iter().find(|own| own.0 == site).map_or(0, |own| own.1);
        let left = pages.iter().map(|page| (page.writes - of(page)) as f64 * per);
        endurance.without_levelling(&Rates::new(left).within(count))
    };
    let one = |(site, writes): (u32, u64)| SiteWear {
        site,
        writes,
        share: writes as f64 / total as f64,
        lifetime_without: without(site),
    };
    sites.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::YEAR;
    use machine::WriteLog;

    fn tally(lines: impl IntoIterator<Item = (u64, u32)>) -> Tally {
        let lines: Vec<(u64, u32)> = lines.into_iter().collect();
        let units = lines.iter().map(|line| line.0 & !3).collect();
        let mut tally = Tally::default();
        tally.take(&mut WriteLog { lines, units }, 0, |_, _| {});
        tally
    }

    fn question(seconds: Option<f64>) -> Question {
        Question {
            endurance: Endurance::new(1e6),
            goal: 4.0 * YEAR,
            capacity: None,
            seconds,
            unit: 256,
            copies: CopyCost::Lines,
        }
    }

    #[test]
    fn one_hot_line_kills_its_memory_and_levelling_saves_it() {
        let mut asked = question(Some(10.0));
        asked.capacity = Some(1 << 20);
        let found = assess(&tally((0..10_000).map(|_| (5, 7))), Vec::new(), asked);
        assert_eq!((found.written_pages, found.pages, found.writes), (1, 256, 10_000));
        // One of 256 pages is the hundredth, rounded up to three; so no page but the first counts, which has
        // no rate.
        assert_eq!((found.lifetime_pages, found.lifetime_first), (f64::INFINITY, 1000.0));
        assert_eq!(found.lifetime_ideal, 1e6 / (1000.0 / 256.0));
        assert!(found.best.net > 0.8, "{:?}", found.best);
        assert_eq!(found.sites.len(), 1);
        assert_eq!((found.sites[0].site, found.sites[0].share), (7, 1.0));
        let alone = assess(&tally((0..10_000).map(|_| (5, 7))), Vec::new(), question(Some(10.0)));
        assert_eq!((alone.lifetime_pages, alone.lifetime_lines), (1000.0, 1000.0), "1000 writes a second");
    }

    #[test]
    fn uniform_writes_are_worn_alike() {
        let found = assess(&tally((0..64_000).map(|at| (at % 6400, 1))), Vec::new(), question(None));
        assert_eq!(found.unit, "runs");
        assert_eq!((found.lifetime_pages, found.lifetime_ideal), (1e6 / 640.0, 1e6 / 640.0));
        assert_eq!(found.best.shuffles, 0);
        assert_eq!((found.rate, found.reaches_goal, found.reserve), (None, None, None));
        assert!(found.before.iter().all(|point| point.1 == 1.0));
        let batching = found.measures.iter().find(|measure| measure.name == "batching").expect("split units");
        assert_eq!(batching.gain, 4.0);
    }
}
