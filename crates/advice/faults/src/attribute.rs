//! Faults by site of allocation: each fault's address and time are held against the log of large blocks.

use std::collections::{BTreeMap, HashSet};

use crate::ahead::{Ahead, Happens, Rates, Use, ahead};
use crate::blocks::Change;
use crate::chunks::{Chunks, Seen};

pub use crate::blocks::Log;

/// Bytes of a page and of a huge one.
pub const PAGE: u64 = 4096;
/// See above.
pub const HUGE: u64 = 2 << 20;
/// The allocator's own bytes before a block.
const HEADER: u64 = 16;

/// How a page came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A load from a page that is not there.
    Read,
    /// A store to one.
    Write,
    /// A store to a page that is shared.
    Copy,
    /// Code.
    Code,
    /// The kernel does not say.
    Unknown,
}

/// What is mapped where a fault was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backing {
    /// The heap that `brk` extends.
    Heap,
    /// Anonymous mappings.
    Anonymous,
    /// A stack.
    Stack,
    /// A file.
    File,
}

/// One fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Process.
    pub pid: u32,
    /// Nanoseconds on the monotonic clock.
    pub time: u64,
    /// What was accessed.
    pub address: u64,
    /// How.
    pub kind: Kind,
    /// What is mapped there.
    pub backing: Backing,
    /// Number of its call stack, if it was taken.
    pub stack: Option<usize>,
    /// How many faults it stands for.
    pub weight: u64,
}

/// Faults by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Kinds {
    /// First loads of anonymous memory.
    pub read: u64,
    /// First stores to it.
    pub write: u64,
    /// Stores to shared pages: of `fork`, of files mapped privately.
    pub copy: u64,
    /// First stores to pages that loads had brought, as the page of zeros.
    pub upgrade: u64,
    /// Faults of mapped files, code included.
    pub file: u64,
    /// First stores that brought a page of 2 MiB.
    pub huge: u64,
    /// Of anonymous memory, the kernel does not say how.
    pub unknown: u64,
}

impl Kinds {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read + self.write + self.copy + self.upgrade + self.file + self.huge + self.unknown
    }

    /// Another's, too.
    pub fn sum(&mut self, other: &Kinds) {
        self.read += other.read;
        self.write += other.write;
        self.copy += other.copy;
        self.upgrade += other.upgrade;
        self.file += other.file;
        self.huge += other.huge;
        self.unknown += other.unknown;
    }

    fn add(&mut self, fault: &Fault, upgrades: bool) {
        *match fault.kind {
            Kind::Copy if upgrades => &mut self.upgrade,
            Kind::Copy => &mut self.copy,
            _ if fault.backing == Backing::File => &mut self.file,
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            Kind::Code => &mut self.file,
            Kind::Unknown => &mut self.unknown,
        } += fault.weight;
    }

    /// A fault that was a first store, or an upgrade, has brought 2 MiB.
    fn was_huge(&mut self, kind: Kind) {
        let from = match kind {
            Kind::Write => &mut self.write,
            Kind::Copy => &mut self.upgrade,
            _ => &mut self.unknown,
        };
        *from = from.saturating_sub(1);
        self.huge += 1;
    }
}

/// The faults of what a site allocates; of everything else for no site.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// Faults.
    pub kinds: Kinds,
    /// Faults by what is mapped there: the heap of `brk`, anonymous, stacks, files.
    pub backing: [u64; 4],
    /// By call stack: faults.
    pub stacks: BTreeMap<usize, u64>,
    /// Blocks that it allocated.
    pub blocks: u64,
    /// Whole pages of all of them, and the most that lived at a time.
    pub pages: u64,
    /// See above.
    pub peak_pages: u64,
    /// Of all pages, those that were in memory when their block was allocated, the allocator having kept them: they can't fault.
    pub resident: u64,
    /// Aligned 2 MiB that lie wholly in a block, and how many of these were touched.
    pub chunks: u64,
    /// See above.
    pub chunks_touched: u64,
    /// Faults in these.
    pub chunk_faults: u64,
    /// What a thread gains that populates pages from the allocation on.
    pub ahead: Ahead,
    pub(crate) live: u64,
}

impl Site {
    /// Anonymous first stores and, where the kernel does not tell them apart, first loads.
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.kinds.write + self.kinds.unknown
    }

    /// Pages that were not in memory when their block was allocated.
    #[must_use]
    pub fn fresh(&self) -> u64 {
        self.pages.saturating_sub(self.resident)
    }

    /// Share of these pages that were touched; of those that came as 2 MiB, each counts. Above 1 where the
    /// allocator gave pages back and had them again meanwhile.
    #[must_use]
    pub fn density(&self) -> f64 {
        let touched = self.stores() + self.kinds.read + self.kinds.huge * (HUGE / PAGE);
        touched as f64 / self.fresh().max(1) as f64
    }

    fn add(&mut self, fault: &Fault, upgrades: bool) {
        self.kinds.add(fault, upgrades);
        self.backing[fault.backing as usize] += fault.weight;
        if let Some(stack) = fault.stack {
            *self.stacks.entry(stack).or_default() += fault.weight;
        }
    }
}

/// What is assumed of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// Whether the kernel gives pages of 2 MiB unasked.
    pub huge_always: bool,
    /// What a thread that populates takes, and the program beside it.
    pub rates: Rates,
    /// What reports took the program.
    pub reports: Reporting,
}

/// Nanoseconds that reports took the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reporting {
    /// Of each fault, where each is reported with its call stack.
    pub each: f64,
    /// Of each fault, where one in many is.
    pub many: f64,
    /// From when on one in many was.
    pub many_from: Option<u64>,
}

impl Reporting {
    /// Of a fault and those that it stands for.
    #[must_use]
    pub fn of(&self, time: u64, weight: u64) -> f64 {
        let each = self.many_from.is_none_or(|from| time <= from);
        if each { self.each } else { weight as f64 * self.many }
    }
}

#[derive(Clone, Copy)]
struct Lives {
    end: u64,
    key: u64,
    number: usize,
    /// When the call that allocated it had ended.
    logged: u64,
}

/// What happened to the blocks of each site of a process.
type Stories = BTreeMap<u64, Vec<Happens>>;

/// Faults by site's key; `None` for those of no large block. `forks` are new processes with their parents and times: a child
/// that has no log of its own has its parent's blocks.
#[must_use]
pub fn attribute(
    faults: &[Fault],
    logs: &BTreeMap<u32, Log>,
    forks: &[(u32, u32, u64)],
    assumed: Assumed,
) -> BTreeMap<Option<u64>, Site> {
    let mut sites: BTreeMap<Option<u64>, Site> = BTreeMap::new();
    let mut by_process: BTreeMap<u32, Vec<Fault>> = BTreeMap::new();
    faults.iter().for_each(|fault| by_process.entry(fault.pid).or_default().push(*fault));
    for (pid, mut faults) in by_process {
        faults.sort_by_key(|fault| fault.time);
        let log = logs.get(&pid).cloned().unwrap_or_else(|| inherited(pid, logs, forks));
        // A child's blocks were allocated by its parent, and count there.
        let mut of_child = BTreeMap::new();
        let own = logs.contains_key(&pid);
        let forked = forks.iter().any(|(child, parent, _)| *child == pid || *parent == pid);
        process(&faults, &log, forked, assumed, if own { &mut sites } else { &mut of_child });
        for (key, site) in of_child {
            let into: &mut Site = sites.entry(key).or_default();
            into.kinds.sum(&site.kinds);
            (0..4).for_each(|at| into.backing[at] += site.backing[at]);
            site.stacks.iter().for_each(|(stack, count)| *into.stacks.entry(*stack).or_default() += count);
        }
    }
    // Processes without a fault in a block have allocated all the same.
    for site in sites.values_mut() {
        site.live = 0;
    }
    sites
}

/// What a process without a log of its own has from the parents of `fork`.
fn inherited(pid: u32, logs: &BTreeMap<u32, Log>, forks: &[(u32, u32, u64)]) -> Log {
    let (mut at, mut until) = (pid, u64::MAX);
    for _ in 0..=forks.len() {
        let Some((_, parent, time)) = forks.iter().rev().find(|(child, _, _)| *child == at) else { break };
        until = until.min(*time);
        if let Some(log) = logs.get(parent) {
            return log.until(until);
        }
        at = *parent;
    }
    Log::default()
}

/// Adds the faults of one process. Unless it has `forked`, or is a child, a store to a page that is there can
/// only be to the page of zeros.
fn process(
    faults: &[Fault],
    log: &Log,
    forked: bool,
    assumed: Assumed,
    sites: &mut BTreeMap<Option<u64>, Site>,
) {
    let mut living: BTreeMap<u64, Lives> = BTreeMap::new();
    let mut changes = log.0.iter().peekable();
    let mut number = 0;
    let mut stories = Stories::new();
    let mut chunks = Chunks::default();
    // Pages that are the page of zeros.
    let mut zeros: HashSet<u64> = HashSet::new();
    // What reports took so far.
    let mut reports = 0.0;
    for fault in faults {
        let upgrades = upgrades(fault, forked, &mut zeros);
        while let Some((time, change)) = changes.next_if(|(time, _)| *time <= fault.time) {
            step((*time, reports), *change, &mut living, sites, &mut number, &mut stories);
        }
        let time = fault.time as f64 - reports;
        reports += assumed.reports.of(fault.time, fault.weight);
        let at = |address: u64| {
            let (start, block) = living.range(..=address).next_back()?;
            (address < block.end).then_some((*start, *block))
        };
        let Some((start, block)) = at(fault.address).or_else(|| at(fault.address.saturating_add(HEADER)))
        else {
            sites.entry(None).or_default().add(fault, upgrades);
            continue;
        };
        let site = sites.entry(Some(block.key)).or_default();
        site.add(fault, upgrades);
        let what = used(fault.kind, upgrades);
        if fault.time < block.logged {
            // The call itself stored to it, and found it in memory at its end.
            let first = what.is_some_and(|what| what != Use::Upgrade);
            site.resident = site.resident.saturating_sub(if first { fault.weight } else { 0 });
        }
        let story = stories.entry(block.key).or_default();
        let chunk = fault.address / HUGE;
        if chunk * HUGE >= start && (chunk + 1) * HUGE <= block.end {
            site.chunk_faults += fault.weight;
            let stores = what.is_some_and(|what| what != Use::Load);
            let first = stores.then_some((fault.kind, story.len()));
            chunks.add((block.number, chunk), block.key, fault.weight, first);
        }
        if let Some(what) = what.filter(|_| fault.time >= block.logged) {
            let (block, page) = (block.number, fault.address.saturating_sub(start) / PAGE);
            story.push(Happens::Fault { block, time, page, what, weight: fault.weight });
        }
    }
    for (time, change) in changes {
        step((*time, reports), *change, &mut living, sites, &mut number, &mut stories);
    }
    if assumed.huge_always {
        huge(&chunks, sites, &mut stories);
    }
    for (key, story) in &stories {
        let site = sites.entry(Some(*key)).or_default();
        site.chunks_touched += chunks.touched(*key).min(site.chunks);
        let found = ahead(story, &assumed.rates);
        site.ahead.gain += found.gain;
        site.ahead.forestalled += found.forestalled;
    }
}

/// Whether a fault replaces the page of zeros; `zeros` has the pages that are it.
fn upgrades(fault: &Fault, forked: bool, zeros: &mut HashSet<u64>) -> bool {
    let (page, anonymous) = (fault.address / PAGE, fault.backing != Backing::File);
    match fault.kind {
        Kind::Read if anonymous => {
            zeros.insert(page);
            false
        }
        Kind::Copy => zeros.remove(&page) || !forked && anonymous,
        _ => false,
    }
}

/// What a program does at a fault of a page that it wants to have.
fn used(kind: Kind, upgrades: bool) -> Option<Use> {
    match kind {
        Kind::Read => Some(Use::Load),
        Kind::Write | Kind::Unknown => Some(Use::Store),
        Kind::Copy if upgrades => Some(Use::Upgrade),
        Kind::Copy | Kind::Code => None,
    }
}

/// A whole 2 MiB that was stored to in one fault came as one page.
fn huge(chunks: &Chunks, sites: &mut BTreeMap<Option<u64>, Site>, stories: &mut Stories) {
    for Seen { key, kind, at } in chunks.single_stores() {
        if let Some(site) = sites.get_mut(&Some(key)) {
            site.kinds.was_huge(kind);
        }
        if let Some(Happens::Fault { what, .. }) = stories.get_mut(&key).and_then(|story| story.get_mut(at)) {
            *what = Use::Huge;
        }
    }
}

/// A change at a time of the run, when reports had taken so much.
fn step(
    (time, reports): (u64, f64),
    change: Change,
    living: &mut BTreeMap<u64, Lives>,
    sites: &mut BTreeMap<Option<u64>, Site>,
    number: &mut usize,
    stories: &mut Stories,
) {
    match change {
        Change::Begins { start, end, key, resident, logged } => {
            let pages = (end / PAGE).saturating_sub(start.div_ceil(PAGE));
            let site = sites.entry(Some(key)).or_default();
            site.blocks += 1;
            site.pages += pages;
            site.resident += resident.min(pages);
            site.live += pages;
            site.peak_pages = site.peak_pages.max(site.live);
            site.chunks += (end / HUGE).saturating_sub(start.div_ceil(HUGE));
            *number += 1;
            let time = logged as f64 - reports;
            let begins = Happens::Begins { block: *number, time, pages, resident };
            stories.entry(key).or_default().push(begins);
            living.insert(start, Lives { end, key, number: *number, logged });
        }
        Change::Ends { start, end } => {
            let gone: Vec<u64> = living
                .range(..end)
                .rev()
                .take_while(|(from, block)| block.end > start || **from >= start)
                .map(|(from, _)| *from)
                .collect();
            for from in gone {
                let Some(block) = living.remove(&from) else { continue };
                let pages = |start: u64, end: u64| (end / PAGE).saturating_sub(start.div_ceil(PAGE));
                let site = sites.entry(Some(block.key)).or_default();
                site.live = site.live.saturating_sub(pages(from.max(start), block.end.min(end)));
                let mut rest = false;
                for (start, end) in [(from, start.min(block.end)), (end.max(from), block.end)] {
                    if start < end {
                        rest = true;
                        living.insert(start, Lives { end, ..block });
                    }
                }
                if !rest {
                    let ends = Happens::Ends { block: block.number, time: time as f64 - reports };
                    stories.entry(block.key).or_default().push(ends);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates {
        store: 1000.0,
        load: 500.0,
        upgrade: 1000.0,
        huge: 100_000.0,
        store_beside: 1000.0,
        upgrade_beside: 1000.0,
        populate: 500.0,
        populate_beside: 500.0,
        again: 100.0,
        other: 0.0,
        wake: (0.0, 0.0),
        unmap: 0.0,
    };
    const ASSUMED: Assumed = Assumed { huge_always: false, rates: RATES, reports: NO_REPORTS };
    const NO_REPORTS: Reporting = Reporting { each: 0.0, many: 0.0, many_from: None };

    fn fault(time: u64, address: u64, kind: Kind) -> Fault {
        Fault { pid: 1, time, address, kind, backing: Backing::Anonymous, stack: Some(0), weight: 1 }
    }

    fn sites(faults: &[Fault], log: &str, assumed: Assumed) -> BTreeMap<Option<u64>, Site> {
        attribute(faults, &BTreeMap::from([(1, Log::read(log))]), &[(2, 1, 100)], assumed)
    }

    #[test]
    fn a_fault_is_of_the_block_that_lived_then() {
        let log = "+ 10 10000 4000 a\n- 50 10000 14000\n+ 60 10000 8000 b\n+ damaged\n+ 70 zz";
        let faults = [
            fault(5, 0x10000, Kind::Write),
            fault(20, 0x11000, Kind::Write),
            fault(55, 0x11000, Kind::Read),
            fault(65, 0x17fff, Kind::Copy),
            fault(66, 0x18000, Kind::Write),
        ];
        let sites = sites(&faults, log, ASSUMED);
        let of = |key| sites[&key].kinds;
        assert_eq!(of(Some(0xa)), Kinds { write: 1, ..Kinds::default() });
        assert_eq!(of(Some(0xb)), Kinds { copy: 1, ..Kinds::default() });
        assert_eq!(of(None), Kinds { write: 2, read: 1, ..Kinds::default() });
        assert_eq!((sites[&Some(0xa)].blocks, sites[&Some(0xa)].pages, sites[&Some(0xb)].pages), (1, 4, 8));
    }

    #[test]
    fn what_lives_at_a_time_is_not_what_lives_in_all() {
        let log = "+ 1 100000 10000 a\n- 2 100000 110000\n+ 3 100000 10000 a\n+ 4 200000 10000 a";
        let sites = sites(&[fault(9, 0, Kind::Read)], log, ASSUMED);
        assert_eq!((sites[&Some(0xa)].pages, sites[&Some(0xa)].peak_pages), (48, 32));
    }

    #[test]
    fn a_part_that_is_unmapped_leaves_the_rest() {
        let log = "+ 1 100000 10000 a\n- 2 104000 108000";
        let faults = [0x103fff, 0x104000, 0x108000].map(|address| fault(5, address, Kind::Write));
        let sites = sites(&faults, log, ASSUMED);
        assert_eq!((sites[&Some(0xa)].kinds.write, sites[&None].kinds.write), (2, 1));
    }

    #[test]
    fn one_fault_in_two_mebibytes_is_a_huge_page_where_the_kernel_gives_them() {
        let log = "+ 1 200000 400000 a";
        let mut faults = vec![fault(5, 0x20_1000, Kind::Write)];
        faults.extend((0..3).map(|page| fault(6, 0x40_0000 + page * PAGE, Kind::Write)));
        let always = Assumed { huge_always: true, ..ASSUMED };
        let kinds = sites(&faults, log, always)[&Some(0xa)].kinds;
        assert_eq!((kinds.huge, kinds.write), (1, 3));
        let site = &sites(&faults, log, ASSUMED)[&Some(0xa)];
        assert_eq!((site.kinds.huge, site.chunks, site.chunks_touched, site.chunk_faults), (0, 2, 2, 4));
    }

    #[test]
    fn a_thread_forestalls_what_comes_late() {
        let log = "+ 1000 100000 10000 a";
        // Page 8 is populated after 4,000 ns.
        let early = [fault(2000, 0x10_8000, Kind::Write)];
        let late = [fault(9000, 0x10_8000, Kind::Write)];
        assert_eq!(sites(&early, log, ASSUMED)[&Some(0xa)].ahead.forestalled, 0);
        assert_eq!(sites(&late, log, ASSUMED)[&Some(0xa)].ahead.forestalled, 1);
    }

    #[test]
    fn memory_that_the_allocator_kept_is_not_sparse() {
        // Sixteen pages each time, all of them in memory from the second time on.
        let log = "+ 1 100000 10000 a 0\n- 20 100000 110000\n+ 30 100000 10000 a 10\n- 40 100000 110000";
        let faults: Vec<Fault> = (0..16).map(|page| fault(5, 0x10_0000 + page * PAGE, Kind::Write)).collect();
        let site = &sites(&faults, log, ASSUMED)[&Some(0xa)];
        assert_eq!((site.pages, site.resident, site.fresh(), site.density()), (32, 16, 16, 1.0));
        let sparse = &sites(&faults[..2], log, ASSUMED)[&Some(0xa)];
        assert!(sparse.density() < 0.2);
    }

    /// `realloc` copies, `calloc` stores zeros, and `malloc` stores its own bytes before the block.
    #[test]
    fn what_the_allocating_call_stores_to_is_of_its_block() {
        let log = "+ 50 100010 3ff0 a 3 10";
        let faults: Vec<Fault> =
            (0..4).map(|page| fault(20 + page, 0x10_0008 + page * PAGE, Kind::Write)).collect();
        let sites = sites(&faults, log, ASSUMED);
        let site = &sites[&Some(0xa)];
        assert_eq!((site.kinds.write, site.pages, site.resident), (4, 3, 0));
        assert!(!sites.contains_key(&None));
        let before = self::sites(&[fault(9, 0x10_1000, Kind::Write)], log, ASSUMED);
        assert_eq!(before[&None].kinds.write, 1);
    }

    #[test]
    fn a_first_store_to_a_page_of_zeros_is_no_copy() {
        let log = "+ 1 100000 10000 a 0";
        let faults = [
            fault(5, 0x10_0000, Kind::Read),
            fault(6, 0x10_0008, Kind::Copy),
            fault(7, 0x10_1000, Kind::Copy),
        ];
        let kinds = sites(&faults, log, ASSUMED)[&Some(0xa)].kinds;
        assert_eq!((kinds.read, kinds.upgrade, kinds.copy, kinds.total()), (1, 1, 1, 3));
    }

    #[test]
    fn a_child_has_its_parents_blocks() {
        let log = "+ 1 100000 10000 a 0\n+ 200 200000 10000 b 0";
        let of = |address| Fault { pid: 2, ..fault(150, address, Kind::Copy) };
        let sites = sites(&[of(0x10_0000), of(0x20_0000)], log, ASSUMED);
        assert_eq!((sites[&Some(0xa)].kinds.copy, sites[&None].kinds.copy), (1, 1));
        assert_eq!(sites[&Some(0xa)].pages, 0, "they are counted where they were allocated");
    }
}
