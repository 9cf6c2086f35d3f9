//! Cures, tried: the accesses that were kept run on the modelled machine as they are, and as they would be if the remedy were
//! applied. What gains nothing is withdrawn.

use std::collections::{HashMap, HashSet};

use advise::{Finding, Rule};
use event::{Batch, Event, FenceKind, NameId, Op, Sink, SiteId, SiteTable, Source, ThreadId};
use machine::{Config, Simulation, Time, TimedFigures};

use crate::bandwidth;
use crate::cures::cured;
use crate::rules::tier;
use crate::tape::Kept;
use crate::tlb::Tlb;
use crate::watcher::Watcher;

/// Accesses below which nothing is tried.
const KEPT_MIN: usize = 4096;
/// A gain that is none.
const NOTHING: f64 = 0.02;
/// Elements by which a prefetch goes ahead.
pub(crate) const AHEAD: usize = 16;
/// Accesses of all threads that are handed to the machine together.
const CHUNK: usize = 4096;

/// What became of a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// Of which rule.
    pub rule: Rule,
    /// Part of the time of the accesses tried on that the remedy saves, -∞ to 1.
    pub gain: f64,
    /// Accesses tried on.
    pub accesses: usize,
}

/// What all trials gave, and the accesses as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trials {
    /// What became of each finding.
    pub tried: Vec<Tried>,
    /// Accesses that ran on the machine.
    pub accesses: usize,
    /// Nanoseconds that they take.
    pub elapsed_ns: f64,
    /// What cores stood still for, nanoseconds of all of them.
    pub waits: Vec<(&'static str, f64)>,
    /// The same by code.
    pub stalls: Vec<(SiteId, f64)>,
    /// The same by row of [`Watcher::calls`].
    pub by_row: Vec<(u32, f64)>,
}

/// What the machine does to accesses beside carrying them out.
#[derive(Default)]
struct Setting<'a> {
    /// Blocks of these sites lie on DRAM.
    fast: Option<&'a HashSet<u32>>,
    /// Prefetches of these sites, so many accesses ahead.
    prefetch: Option<(HashSet<u32>, usize)>,
    /// Entries of a TLB whose misses take so long, and whether its pages are of 2 MiB.
    walks: Option<(usize, Time, bool)>,
}

/// Tries the remedies of findings on a machine. Findings whose remedy gains nothing are taken out; the results say which.
/// Leaks, lives, nodes and bandwidth have no remedy that moves an access, so these are not tried. Adds what only time shows:
/// phases that are bound by bandwidth.
#[must_use]
pub fn try_out(watcher: &Watcher, findings: &mut Vec<Finding>, config: &Config, sites: &SiteTable) -> Trials {
    let kept = watcher.tape.in_order();
    let mut results = Trials::default();
    if kept.len() < KEPT_MIN {
        return results;
    }
    let mut config = config.clone();
    config.cores.count = config.cores.count.max(2);
    if let Some(sockets) = &config.sockets {
        config.cores.count = config.cores.count.next_multiple_of(sockets.count);
    }
    // A load that waits for the one before is put behind a fence, which itself takes no time.
    config.cores.pipeline.full_fence = Time::ZERO;
    // Stalls are counted by row, and then by the site that it is of.
    let by_row: Vec<Kept> = kept.iter().map(|access| Kept { site: access.row, ..*access }).collect();
    let Some(mut run) = carry_out(&config, &by_row, &Setting::default()) else { return results };
    drop(by_row);
    let before = run.elapsed.0 as f64;
    results.by_row = stalls(&run);
    run.site_stalls = by_site(watcher, &run.site_stalls);
    results.note(&run, kept.len());
    let mut rest = Vec::new();
    for finding in findings.drain(..) {
        let Some(gain) = gain(watcher, &finding, &kept, &config, before) else {
            rest.push(finding);
            continue;
        };
        results.tried.push(Tried { rule: finding.rule, gain, accesses: kept.len() });
        if gain >= NOTHING {
            rest.push(finding);
        }
    }
    rest.extend(bandwidth::check(&run, &config, sites, watcher.options.sites_max));
    *findings = rest;
    results
}

impl Trials {
    fn note(&mut self, run: &TimedFigures, accesses: usize) {
        let ns = |time: Time| time.0 as f64 / 1000.0;
        (self.accesses, self.elapsed_ns) = (accesses, ns(run.elapsed));
        let mut all = machine::Stalls::default();
        run.threads.iter().for_each(|thread| all.add(&thread.stalls));
        self.waits = all
            .each()
            .iter()
            .filter(|wait| wait.1 > Time::ZERO)
            .map(|&(name, time)| (name, ns(time)))
            .collect();
        self.stalls = stalls(run).into_iter().map(|(site, ns)| (SiteId(site), ns)).collect();
    }
}

/// What cores stood still for, by what the accesses have for a site.
fn stalls(run: &TimedFigures) -> Vec<(u32, f64)> {
    let all = (0u32..).zip(&run.site_stalls).filter(|of| *of.1 > Time::ZERO);
    all.map(|(of, time)| (of, time.0 as f64 / 1000.0)).collect()
}

/// Times by row as times by site.
fn by_site(watcher: &Watcher, rows: &[Time]) -> Vec<Time> {
    let mut sites = Vec::new();
    for (row, &time) in watcher.calls.rows.iter().zip(rows) {
        let at = row.site as usize;
        if at >= sites.len() {
            sites.resize(at + 1, Time::ZERO);
        }
        sites[at] += time;
    }
    sites
}

/// Part of the time that a remedy saves; `None` if it can't be tried.
fn gain(watcher: &Watcher, finding: &Finding, kept: &[Kept], config: &Config, before: f64) -> Option<f64> {
    let sites: HashSet<u32> = finding.sites.iter().map(|part| part.site.0).collect();
    let time = |kept: &[Kept], setting: &Setting<'_>| {
        carry_out(config, kept, setting).map(|figures| figures.elapsed.0 as f64)
    };
    let options = &watcher.options;
    match finding.rule {
        Rule::MissingPrefetch | Rule::LatePrefetch => {
            // Those that are there come too late.
            let kept: Vec<Kept> = kept.iter().filter(|access| !access.prefetch).copied().collect();
            let own = kept.iter().filter(|access| sites.contains(&access.site)).count();
            let events = AHEAD * kept.len() / own.max(1);
            let setting = Setting { prefetch: Some((sites, events.min(CHUNK / 4))), ..Setting::default() };
            Some(1.0 - time(&kept, &setting)? / before)
        }
        Rule::TlbReach => {
            let walk = Time((options.walk_ns * 1000.0) as u64);
            let of =
                |large| Setting { walks: Some((options.tlb_entries, walk, large)), ..Setting::default() };
            (walk > Time::ZERO).then_some(())?;
            Some(1.0 - time(kept, &of(true))? / time(kept, &of(false))?)
        }
        Rule::AllocationChurn => {
            // A block that is used again costs nothing; the allocator's own accesses were not recorded.
            let short: u64 =
                sites.iter().filter_map(|site| watcher.heap.sites.get(site)).map(|of| of.short).sum();
            let accesses = before / kept.len() as f64 * watcher.accesses as f64;
            let blocks = short as f64 * options.alloc_ns * 1000.0;
            (options.alloc_ns > 0.0).then(|| blocks / (blocks + accesses))
        }
        Rule::WrongTier => {
            let busy: HashSet<u32> = tier::busy(watcher).iter().map(|of| of.0).collect();
            let config = two_tiers(config)?;
            let setting = Setting { fast: Some(&busy), ..Setting::default() };
            let slow = carry_out(&config, kept, &Setting::default())?.elapsed.0 as f64;
            Some(1.0 - carry_out(&config, kept, &setting)?.elapsed.0 as f64 / slow)
        }
        _ => Some(1.0 - time(&cured(watcher, finding, kept)?, &Setting::default())? / before),
    }
}

/// The machine with DRAM in place of its persistent memory, and all else as slow as it was.
fn two_tiers(config: &Config) -> Option<Config> {
    let dram = Config::preset("dram").ok()?;
    let mut both = config.clone();
    if both.other_memory.is_none() {
        both.other_memory =
            Some(machine::OtherMemory { controller: config.memory.clone(), device: config.device.clone() });
    }
    (both.memory, both.device) = (dram.memory, dram.device);
    both.validate().ok()?;
    Some(both)
}

/// The idle latency of a machine's memory, nanoseconds.
fn latency(config: &Config) -> Option<f64> {
    let load = |at: u64| {
        let of = |op| Event { op, site: SiteId(0), instructions: 1 };
        [of(Op::Load { addr: (at * 7919 % 4096) << 16, len: 8 }), of(Op::Fence(FenceKind::Full))]
    };
    let mut config = config.clone();
    config.cores.pipeline.full_fence = Time::ZERO;
    let events: Vec<Event> = (1..=500).flat_map(load).collect();
    let mut machine = Simulation::new(&config).ok()?;
    machine.begin(&Source::synthetic("trial")).ok()?;
    machine.push(Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] }).ok()?;
    machine.finish().ok()?;
    Some(machine.figures().elapsed.0 as f64 / 500_000.0)
}

/// Whether ordinary memory of a machine is so much slower than DRAM that it pays to ask what should lie on which.
#[must_use]
pub fn is_slow(config: &Config) -> bool {
    let of = |config: &Config| {
        let mut plain = config.clone();
        if let Some(other) = plain.other_memory.take() {
            (plain.memory, plain.device) = (other.controller, other.device);
        }
        latency(&plain)
    };
    let dram = Config::preset("dram").ok();
    dram.and_then(|dram| Some(of(config)? > of(&dram)? * 1.5)).unwrap_or(false)
}

/// Runs accesses on a machine.
fn carry_out(config: &Config, accesses: &[Kept], setting: &Setting<'_>) -> Option<TimedFigures> {
    let mut machine = Simulation::new(config).ok()?;
    machine.begin(&Source::synthetic("trial")).ok()?;
    if let Some((sites, events)) = &setting.prefetch {
        machine.prefetch(sites.iter().map(|&site| SiteId(site)).collect(), *events);
    }
    let mut threads: HashMap<u32, Vec<Event>> = HashMap::new();
    let mut tlbs: HashMap<u32, Tlb> = HashMap::new();
    // Instructions that take as long as a walk does.
    let step = (config.cores.pipeline.cycle.0 / u64::from(config.cores.pipeline.issue_width)).max(1);
    if let Some(fast) = setting.fast {
        let maps = ranges(accesses, fast);
        let of = |(addr, len): (u64, u64)| Event {
            op: Op::Map { addr, len, name: NameId(0) },
            site: SiteId(0),
            instructions: 1,
        };
        threads.insert(0, maps.into_iter().map(of).collect());
    }
    for slice in accesses.chunks(CHUNK) {
        for access in slice {
            let mut instructions = access.instructions;
            if let Some((entries, walk, large)) = setting.walks {
                let tlb = tlbs.entry(access.thread).or_insert_with(|| Tlb::new(entries));
                let (before, small) = (tlb.large_misses, tlb.touch(access.addr));
                if if large { tlb.large_misses > before } else { small } {
                    instructions = instructions.saturating_add((walk.0 / step) as u32);
                }
            }
            let events = threads.entry(access.thread).or_default();
            add(events, access, instructions);
        }
        let mut numbers: Vec<u32> = threads.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let events = threads.get_mut(&number)?;
            if !events.is_empty() {
                machine.push(Batch { thread: ThreadId(number), time_ns: 0, events, values: &[] }).ok()?;
                events.clear();
            }
        }
    }
    machine.finish().ok()?;
    let figures = machine.figures();
    (figures.elapsed > Time::ZERO).then_some(figures)
}

fn add(events: &mut Vec<Event>, access: &Kept, instructions: u32) {
    let site = SiteId(access.site);
    let fence = |kind| Event { op: Op::Fence(kind), site, instructions: 0 };
    if access.hop {
        events.push(fence(FenceKind::Full));
    }
    let (addr, len) = (access.addr, access.len);
    let op = match (access.prefetch, access.store) {
        (true, _) => Op::Prefetch { addr },
        (false, true) => Op::Store { addr, len },
        (false, false) => Op::Load { addr, len },
    };
    events.push(Event { op, site, instructions });
    if access.locked {
        events.push(fence(FenceKind::Locked));
    }
}

/// Pages of the blocks of some sites.
fn ranges(accesses: &[Kept], sites: &HashSet<u32>) -> Vec<(u64, u64)> {
    let own = accesses.iter().filter(|access| sites.contains(&access.block));
    let mut pages: Vec<u64> = own.map(|access| access.addr >> 12).collect();
    pages.sort_unstable();
    pages.dedup();
    let mut found: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        match found.last_mut() {
            Some((start, len)) if *start + *len == page << 12 => *len += 4096,
            _ => found.push((page << 12, 4096)),
        }
    }
    found
}
