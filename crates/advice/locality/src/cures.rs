//! Remedies, applied to the accesses that were kept.

use std::collections::{HashMap, HashSet};

use advise::{Finding, Rule};

use crate::tape::Kept;
use crate::watcher::Watcher;

/// Where moved data goes: nothing else is there.
const ELSEWHERE: u64 = 1 << 52;

/// The accesses with the remedy applied, if it can be.
pub(crate) fn cured(watcher: &Watcher, finding: &Finding, kept: &[Kept]) -> Option<Vec<Kept>> {
    let sites: HashSet<u32> = finding.sites.iter().map(|part| part.site.0).collect();
    let first = finding.sites.first()?.site.0;
    let state = *watcher.sites.0.get(first as usize)?;
    match finding.rule {
        Rule::FalseSharing | Rule::TrueSharing | Rule::ContendedLock => Some(apart(watcher, &sites, kept)),
        Rule::AgainstTheRows => {
            exchanged(kept, first, (state.walk_stride, state.walk_step), state.walk_range?)
        }
        Rule::UnusedBytes => by_field(kept, first, state.stride().0),
        Rule::PointerChase => Some(in_order_of_use(kept, &sites)),
        Rule::ConflictMisses => Some(padded(kept, &sites)),
        Rule::DeadStore | Rule::OverwrittenUnread => Some(without_dead(kept, &sites)),
        Rule::StraddledLines => Some(aligned(watcher, kept)),
        Rule::SilentStore => Some(compared(kept, &sites)),
        _ => None,
    }
}

/// Elements on two lines, each on a line of its own.
fn aligned(watcher: &Watcher, kept: &[Kept]) -> Vec<Kept> {
    let moved = |access: &Kept| match watcher.straddled.of(access.addr) {
        Some((line, start)) => Kept { addr: ELSEWHERE + (line << 6) + (access.addr - start), ..*access },
        None => *access,
    };
    kept.iter().map(moved).collect()
}

/// Stores of what was there are loads: it is compared first.
fn compared(kept: &[Kept], sites: &HashSet<u32>) -> Vec<Kept> {
    let moved = |access: &Kept| Kept {
        store: access.store && !(access.silent && sites.contains(&access.site)),
        ..*access
    };
    kept.iter().map(moved).collect()
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
            // A copy of all of it for each thread, so that lines meet in no other sets than before.
            ELSEWHERE + (u64::from(access.thread & 0x3f) << 44) + access.addr % (1 << 44)
        } else {
            access.addr
        };
        Kept { addr, ..*access }
    };
    kept.iter().map(moved).collect()
}

/// A matrix walked along its rows: addresses exchange rows and columns. What the same line of code does
/// elsewhere stays.
fn exchanged(
    kept: &[Kept],
    site: u32,
    (stride, step): (u64, u64),
    (base, end): (u64, u64),
) -> Option<Vec<Kept>> {
    let rows = (end - base) / stride.max(1) + 1;
    // The last columns may not have been counted.
    let end = end + stride;
    let moved = |access: &Kept| {
        if access.site != site || stride == 0 || step == 0 || !(base..end).contains(&access.addr) {
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
    let mut left: Vec<Kept> = Vec::with_capacity(kept.len());
    let mut later: HashMap<u32, usize> = HashMap::new();
    for access in kept.iter().rev() {
        if access.prefetch {
            left.push(*access);
            continue;
        }
        let words = (access.addr >> 3)..=((access.addr + u64::from(access.len.max(1)) - 1) >> 3);
        let words = words.take(4096);
        if access.store {
            let all = words.clone().count();
            let over = words.clone().filter(|word| stored.contains(word)).count();
            if sites.contains(&access.site) && access.len >= 32 && over * 2 >= all && over < all {
                // The rest is left to be zeroed.
                let gone = over as u32 * 8;
                let rest = Kept {
                    addr: access.addr + u64::from(gone),
                    len: access.len.saturating_sub(gone).max(1),
                    ..*access
                };
                stored.extend(words);
                later.insert(access.thread, left.len());
                left.push(rest);
                continue;
            }
            if sites.contains(&access.site) && over == all {
                // What computed it stays: the value that is final takes the same work.
                if let Some(&next) = later.get(&access.thread) {
                    let next: &mut Kept = &mut left[next];
                    next.instructions =
                        next.instructions.saturating_add(access.instructions.saturating_sub(1));
                }
                continue;
            }
            stored.extend(words);
        } else {
            words.for_each(|word| {
                stored.remove(&word);
            });
        }
        later.insert(access.thread, left.len());
        left.push(*access);
    }
    left.reverse();
    left
}
