//! Faults by site of allocation: each fault's address and time are held against the log of large blocks.

use std::collections::{BTreeMap, HashMap, HashSet};

/// Bytes of a page and of a huge one.
pub const PAGE: u64 = 4096;
/// See above.
pub const HUGE: u64 = 2 << 20;

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
    /// Number of its call stack.
    pub stack: usize,
}

/// What happened to a block.
#[derive(Clone, Copy, Debug)]
enum Change {
    Begins { start: u64, end: u64, key: u64, resident: u64 },
    Ends { start: u64, end: u64 },
}

/// The log of a process: which large block lived when.
#[derive(Clone, Debug, Default)]
pub struct Log(Vec<(u64, Change)>);

impl Log {
    /// From the library's lines; damaged ones, as at the end of a killed process's log, are left out.
    #[must_use]
    pub fn read(text: &str) -> Log {
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let hex = |at: usize| u64::from_str_radix(words.get(at)?, 16).ok();
            let time = words.get(1)?.parse().ok()?;
            match (*words.first()?, words.len()) {
                ("+", 5 | 6) => {
                    let (start, len) = (hex(2)?, hex(3)?);
                    let (end, resident) = (start.checked_add(len)?, hex(5).unwrap_or(0));
                    Some((time, Change::Begins { start, end, key: hex(4)?, resident }))
                }
                ("-", 4) => Some((time, Change::Ends { start: hex(2)?, end: hex(3)? })),
                _ => None,
            }
        };
        let mut changes: Vec<_> = text.lines().filter_map(line).collect();
        changes.sort_by_key(|(time, _)| *time);
        Log(changes)
    }

    /// What a child of `fork` has of it: all until then.
    #[must_use]
    pub fn until(&self, time: u64) -> Log {
        Log(self.0.iter().copied().take_while(|(at, _)| *at <= time).collect())
    }
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
        } += 1;
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
    /// Faults that a thread would have forestalled that populates pages from the allocation on.
    pub forestalled: u64,
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

    /// Share of these pages that were touched. Above 1 where the allocator gave pages back and had them again meanwhile.
    #[must_use]
    pub fn density(&self) -> f64 {
        (self.stores() + self.kinds.read) as f64 / self.fresh().max(1) as f64
    }

    fn add(&mut self, fault: &Fault, upgrades: bool) {
        self.kinds.add(fault, upgrades);
        self.backing[fault.backing as usize] += 1;
        *self.stacks.entry(fault.stack).or_default() += 1;
    }
}

/// What is assumed of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// Whether the kernel gives pages of 2 MiB unasked.
    pub huge_always: bool,
    /// Nanoseconds of a first store.
    pub write: f64,
    /// Nanoseconds in which a thread populates a page.
    pub populate: f64,
}

#[derive(Clone, Copy)]
struct Lives {
    end: u64,
    key: u64,
    number: usize,
    began: u64,
    /// When the thread would get to it.
    ahead_from: f64,
    forestalled: u64,
}

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
        process(&faults, &log, assumed, if own { &mut sites } else { &mut of_child });
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

fn process(faults: &[Fault], log: &Log, assumed: Assumed, sites: &mut BTreeMap<Option<u64>, Site>) {
    let mut living: BTreeMap<u64, Lives> = BTreeMap::new();
    let mut changes = log.0.iter().peekable();
    let mut number = 0;
    let mut thread_free = 0.0f64;
    // Faults by block and chunk, for pages of 2 MiB.
    let mut touched: HashMap<(usize, u64), u64> = HashMap::new();
    let mut firsts: HashMap<(usize, u64), (u64, usize)> = HashMap::new();
    let mut seen: HashSet<(usize, u64)> = HashSet::new();
    // Pages that are the page of zeros.
    let mut zeros: HashSet<u64> = HashSet::new();
    for fault in faults {
        let upgrades = match fault.kind {
            Kind::Read if fault.backing != Backing::File => {
                zeros.insert(fault.address / PAGE);
                false
            }
            Kind::Copy => zeros.remove(&(fault.address / PAGE)),
            _ => false,
        };
        while let Some((time, change)) = changes.next_if(|(time, _)| *time <= fault.time) {
            step(*time, *change, &mut living, sites, &mut number, &mut thread_free, assumed);
        }
        let found =
            living.range_mut(..=fault.address).next_back().filter(|(_, block)| fault.address < block.end);
        let Some((start, block)) = found else {
            sites.entry(None).or_default().add(fault, upgrades);
            continue;
        };
        let site = sites.entry(Some(block.key)).or_default();
        site.add(fault, upgrades);
        let page = (fault.address - start) / PAGE;
        // Forestalled faults make the program come sooner to the next.
        let at = fault.time.saturating_sub(block.began) as f64 - block.forestalled as f64 * assumed.write;
        if block.ahead_from + page as f64 * assumed.populate < at {
            block.forestalled += 1;
            site.forestalled += 1;
        }
        let chunk = fault.address / HUGE;
        if chunk * HUGE >= *start && (chunk + 1) * HUGE <= block.end {
            let key = (block.number, chunk);
            site.chunk_faults += 1;
            site.chunks_touched += u64::from(seen.insert(key));
            if fault.kind == Kind::Write || fault.kind == Kind::Unknown {
                *touched.entry(key).or_default() += 1;
                firsts.entry(key).or_insert((block.key, fault.stack));
            }
        }
    }
    for (time, change) in changes {
        step(*time, *change, &mut living, sites, &mut number, &mut thread_free, assumed);
    }
    if assumed.huge_always {
        // A whole 2 MiB that faulted once came as one page.
        for (key, _) in touched.into_iter().filter(|(_, count)| *count == 1) {
            if let Some(site) = firsts.get(&key).and_then(|(site, _)| sites.get_mut(&Some(*site))) {
                let from = if site.kinds.write > 0 { &mut site.kinds.write } else { &mut site.kinds.unknown };
                *from = from.saturating_sub(1);
                site.kinds.huge += 1;
            }
        }
    }
}

fn step(
    time: u64,
    change: Change,
    living: &mut BTreeMap<u64, Lives>,
    sites: &mut BTreeMap<Option<u64>, Site>,
    number: &mut usize,
    thread_free: &mut f64,
    assumed: Assumed,
) {
    match change {
        Change::Begins { start, end, key, resident } => {
            let pages = (end / PAGE).saturating_sub(start.div_ceil(PAGE));
            let site = sites.entry(Some(key)).or_default();
            site.blocks += 1;
            site.pages += pages;
            site.resident += resident.min(pages);
            site.live += pages;
            site.peak_pages = site.peak_pages.max(site.live);
            site.chunks += (end / HUGE).saturating_sub(start.div_ceil(HUGE));
            let begins = thread_free.max(time as f64);
            *thread_free = begins + pages as f64 * assumed.populate;
            let ahead_from = begins - time as f64;
            *number += 1;
            living
                .insert(start, Lives { end, key, number: *number, began: time, ahead_from, forestalled: 0 });
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
                for (start, end) in [(from, start.min(block.end)), (end.max(from), block.end)] {
                    if start < end {
                        living.insert(start, Lives { end, ..block });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMED: Assumed = Assumed { huge_always: false, write: 1000.0, populate: 500.0 };

    fn fault(time: u64, address: u64, kind: Kind) -> Fault {
        Fault { pid: 1, time, address, kind, backing: Backing::Anonymous, stack: 0 }
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
        assert_eq!(sites(&early, log, ASSUMED)[&Some(0xa)].forestalled, 0);
        assert_eq!(sites(&late, log, ASSUMED)[&Some(0xa)].forestalled, 1);
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
