//! Cures, tried: the accesses that were kept run on the modelled machine as they are, and as they would be if the remedy were
//! applied. What gains nothing is withdrawn.

use std::collections::{HashMap, HashSet};

use advise::{Finding, Rule};
use event::{Batch, Event, Op, Sink, SiteId, Source, ThreadId};
use machine::{Config, Simulation};

use crate::tape::Kept;
use crate::watcher::Watcher;

/// Where moved data goes: nothing else is there.
const ELSEWHERE: u64 = 1 << 52;
/// Accesses below which nothing is tried.
const KEPT_MIN: usize = 4096;
/// A gain that is none.
const NOTHING: f64 = 0.02;

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

/// Tries the remedies of findings on a machine. Findings whose remedy gains nothing are taken out; the results say which.
/// Rules whose remedy moves no access (allocations, leaks, pages: they were tried in the TLB) are not tried.
#[must_use]
pub fn try_out(watcher: &Watcher, findings: &mut Vec<Finding>, config: &Config) -> Vec<Tried> {
    let kept = watcher.tape.in_order();
    let mut results: Vec<Tried> = Vec::new();
    if kept.len() < KEPT_MIN || findings.is_empty() {
        return results;
    }
    let mut config = config.clone();
    config.cores.count = config.cores.count.max(8);
    let Some(before) = time(&config, &kept) else { return results };
    let mut rest = Vec::new();
    for finding in findings.drain(..) {
        let after = cured(watcher, &finding, &kept).and_then(|cured| time(&config, &cured));
        let Some(after) = after else {
            rest.push(finding);
            continue;
        };
        let gain = 1.0 - after / before;
        results.push(Tried { rule: finding.rule, gain, accesses: kept.len() });
        if gain >= NOTHING {
            rest.push(finding);
        }
    }
    *findings = rest;
    results
}

/// Nanoseconds that accesses take.
fn time(config: &Config, accesses: &[Kept]) -> Option<f64> {
    let mut machine = Simulation::new(config).ok()?;
    machine.begin(&Source::synthetic("trial")).ok()?;
    let mut threads: HashMap<u32, Vec<Event>> = HashMap::new();
    for slice in accesses.chunks(256) {
        for access in slice {
            let (addr, len) = (access.addr, access.len);
            let op = if access.store { Op::Store { addr, len } } else { Op::Load { addr, len } };
            let event = Event { op, site: SiteId(access.site), instructions: access.instructions };
            threads.entry(access.thread).or_default().push(event);
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
    let picoseconds = machine.now().0;
    (picoseconds > 0).then_some(picoseconds as f64)
}

/// The accesses with the remedy applied, if it can be.
fn cured(watcher: &Watcher, finding: &Finding, kept: &[Kept]) -> Option<Vec<Kept>> {
    let sites: HashSet<u32> = finding.sites.iter().map(|part| part.site.0).collect();
    let first = finding.sites.first()?.site.0;
    let state = *watcher.sites.0.get(first as usize)?;
    match finding.rule {
        Rule::FalseSharing | Rule::TrueSharing | Rule::ContendedLock => Some(apart(watcher, &sites, kept)),
        Rule::AgainstTheRows => exchanged(kept, first, state.walk_stride, state.walk_step),
        Rule::UnusedBytes => by_field(kept, first, state.stride.unsigned_abs()),
        Rule::PointerChase => Some(in_order_of_use(kept, &sites)),
        Rule::ConflictMisses => Some(padded(kept, &sites)),
        Rule::DeadStore | Rule::OverwrittenUnread => Some(without_dead(kept, &sites)),
        _ => None,
    }
}

/// Each thread's part of contested lines on lines of its own.
fn apart(watcher: &Watcher, sites: &HashSet<u32>, kept: &[Kept]) -> Vec<Kept> {
    let moved = |access: &Kept| {
        let line = access.addr >> 6;
        let contested = watcher
            .contests
            .0
            .get(&line)
            .is_some_and(|contest| contest.parties.iter().any(|party| sites.contains(&party.site)));
        let addr = if contested {
            ELSEWHERE + ((line << 8 | u64::from(access.thread & 0xff)) << 7) % (1 << 50) + (access.addr & 63)
        } else {
            access.addr
        };
        Kept { addr, ..*access }
    };
    kept.iter().map(moved).collect()
}

/// A matrix walked along its rows: addresses exchange rows and columns.
fn exchanged(kept: &[Kept], site: u32, stride: u64, step: u64) -> Option<Vec<Kept>> {
    let own = || kept.iter().filter(|access| access.site == site);
    let base = own().map(|access| access.addr).min()?;
    let rows = (own().map(|access| access.addr).max()? - base) / stride.max(1) + 1;
    let moved = |access: &Kept| {
        if access.site != site || stride == 0 || step == 0 {
            return *access;
        }
        let offset = access.addr - base;
        let (row, column) = (offset / stride, offset % stride / step);
        Kept { addr: ELSEWHERE + (column * rows + row) * step, ..*access }
    };
    Some(kept.iter().map(moved).collect())
}

/// An array for each field of eight bytes.
fn by_field(kept: &[Kept], site: u32, element: u64) -> Option<Vec<Kept>> {
    if element < 16 {
        return None;
    }
    let own = || kept.iter().filter(|access| access.site == site);
    let (base, end) = (own().map(|access| access.addr).min()?, own().map(|access| access.addr).max()?);
    let count = (end - base) / element + 1;
    let moved = |access: &Kept| {
        if access.addr < base || access.addr > end {
            return *access;
        }
        let (at, within) = ((access.addr - base) / element, (access.addr - base) % element);
        Kept { addr: ELSEWHERE + (within / 8) * count * 8 + at * 8 + within % 8, ..*access }
    };
    Some(kept.iter().map(moved).collect())
}

/// Lines of a chain one behind the other, in the order in which they were visited first.
fn in_order_of_use(kept: &[Kept], sites: &HashSet<u32>) -> Vec<Kept> {
    let mut order: HashMap<u64, u64> = HashMap::new();
    for access in kept.iter().filter(|access| sites.contains(&access.site)) {
        let next = order.len() as u64;
        order.entry(access.addr >> 6).or_insert(next);
    }
    let moved = |access: &Kept| match order.get(&(access.addr >> 6)) {
        Some(at) => Kept { addr: ELSEWHERE + (at << 6) + (access.addr & 63), ..*access },
        None => *access,
    };
    kept.iter().map(moved).collect()
}

/// A line of padding behind every 4 KiB.
fn padded(kept: &[Kept], sites: &HashSet<u32>) -> Vec<Kept> {
    let own = || kept.iter().filter(|access| sites.contains(&access.site)).map(|access| access.addr);
    let (from, to) = (own().min().unwrap_or(0), own().max().unwrap_or(0));
    let moved = |access: &Kept| {
        let inside = (from..=to).contains(&access.addr);
        let more = if inside { (access.addr - from) >> 12 << 6 } else { 0 };
        Kept {
            addr: if inside { ELSEWHERE + (from & 0xfff) + (access.addr - from) + more } else { access.addr },
            ..*access
        }
    };
    kept.iter().map(moved).collect()
}

/// Without the stores of these sites that are stored over before they are read.
fn without_dead(kept: &[Kept], sites: &HashSet<u32>) -> Vec<Kept> {
    // Words whose next access, seen from behind, is a store.
    let mut stored: HashSet<u64> = HashSet::new();
    let mut left = Vec::with_capacity(kept.len());
    for access in kept.iter().rev() {
        let words = (access.addr >> 3)..=((access.addr + u64::from(access.len.max(1)) - 1) >> 3);
        let words = words.take(4096);
        if access.store {
            let over = words.clone().filter(|word| stored.contains(word)).count();
            // Of a large one the rest may be left to be zeroed.
            let part = if access.len >= 32 { 3 } else { 4 };
            if sites.contains(&access.site) && over * 4 >= words.clone().count() * part {
                continue;
            }
            stored.extend(words);
        } else {
            words.for_each(|word| {
                stored.remove(&word);
            });
        }
        left.push(*access);
    }
    left.reverse();
    left
}
