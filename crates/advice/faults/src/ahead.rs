//! A thread that populates a site's blocks ahead of the program, beside the program's faults as they were
//! observed.
//!
//! The thread takes blocks in the order in which they are allocated, page by page, at the pace at which this
//! machine populates. A page that it has reached before the program needs it costs the program no fault.
//! Where the program is first, it has its fault, which then costs what it costs beside a thread of the
//! process that is at work: a store to a page of zeros makes the kernel interrupt the other processor. So a
//! program that touches pages as fast as the thread populates them gains nothing, however long the thread
//! works.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Serialize;

use crate::cost::Costs;

/// What a fault is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A first load.
    Load,
    /// A first store.
    Store,
    /// A store to a page that a load had brought.
    Upgrade,
    /// A first store that brings 2 MiB.
    Huge,
}

/// What happens to the blocks of a site, in order. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Happens {
    /// A block begins to live: its number, when, its pages, and those of them that are in memory.
    Begins {
        /// Number.
        block: usize,
        /// When.
        time: f64,
        /// Pages.
        pages: u64,
        /// In memory.
        resident: u64,
    },
    /// A fault, which stands for `weight` faults that end with it.
    Fault {
        /// Number.
        block: usize,
        /// When.
        time: f64,
        /// Page of the block.
        page: u64,
        /// What it is of.
        what: Use,
        /// Faults.
        weight: u64,
    },
    /// The block is gone.
    Ends {
        /// Number.
        block: usize,
        /// When.
        time: f64,
    },
}

/// Nanoseconds of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// A first store, a first load, a store to a page that a load had brought, a first store that brings 2
    /// MiB.
    pub store: f64,
    /// See above.
    pub load: f64,
    /// See above.
    pub upgrade: f64,
    /// See above.
    pub huge: f64,
    /// A first store while the thread populates the pages around it.
    pub store_beside: f64,
    /// A store to a page that a load had brought, while the thread is at work.
    pub upgrade_beside: f64,
    /// The thread, per page; and while the program has faults at the same place.
    pub populate: f64,
    /// See above.
    pub populate_beside: f64,
    /// The thread, per page that is there.
    pub again: f64,
    /// The first use of a page that another processor has zeroed, more than of one's own.
    pub other: f64,
    /// Waking the thread: for the program, and until it runs.
    pub wake: (f64, f64),
    /// Giving a page back.
    pub unmap: f64,
}

impl Rates {
    /// From measured costs; `huge`: blocks get huge pages unasked.
    #[must_use]
    pub fn of(costs: &Costs, huge: bool) -> Rates {
        let populate = costs.populate.unwrap_or(costs.write.mean);
        let whole = costs.huge.as_ref().map_or(populate * 512.0, |times| times.mean);
        let pace = if huge { whole / 512.0 } else { populate };
        let (program, thread) = costs.chase.unwrap_or((costs.write.mean, populate));
        Rates {
            store: costs.write.mean,
            load: costs.read.mean,
            upgrade: costs.copy.mean,
            huge: whole,
            store_beside: program.max(costs.write.mean),
            upgrade_beside: costs.upgrade_beside.unwrap_or(costs.copy.mean).max(costs.copy.mean),
            populate: pace,
            populate_beside: if huge { pace } else { thread.max(pace) },
            again: costs.populate_again,
            other: costs.other,
            wake: costs.wake,
            unmap: costs.unmap,
        }
    }
}

/// What the thread gains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ahead {
    /// Nanoseconds of the program; negative if it costs.
    pub gain: f64,
    /// Faults that it forestalls.
    pub forestalled: u64,
}

/// Pages around the thread within which it and the program wait for the same locks: those that it populates
/// at a time.
const NEAR: u64 = 64;

#[derive(Default)]
struct Block {
    pages: u64,
    /// Pages that the thread has reached.
    reached: u64,
    /// Pages that are there without the thread, by the program: whether as the page of zeros.
    touched: BTreeMap<u64, bool>,
    /// Pages in memory from the start, at the front.
    resident: u64,
    used: u64,
}

struct Thread<'a> {
    rates: &'a Rates,
    /// Until when it has worked.
    time: f64,
    /// Blocks to populate, and when they were given to it.
    queue: VecDeque<(usize, f64)>,
    blocks: HashMap<usize, Block>,
    /// The program has faults of its own at the same place.
    contended: bool,
}

impl Thread<'_> {
    fn works(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Works until then.
    fn work(&mut self, until: f64) {
        while let Some(&(number, given)) = self.queue.front() {
            self.time = self.time.max(given);
            let Some(block) = self.blocks.get_mut(&number).filter(|block| block.reached < block.pages) else {
                self.queue.pop_front();
                continue;
            };
            if self.time >= until {
                return;
            }
            let fresh = if self.contended { self.rates.populate_beside } else { self.rates.populate };
            let next = block.touched.range(block.reached..).next().map(|(page, zeros)| (*page, *zeros));
            let (pace, to) = match next {
                _ if block.reached < block.resident => (self.rates.again, block.resident),
                Some((page, true)) if page == block.reached => (self.rates.upgrade_beside, page + 1),
                Some((page, false)) if page == block.reached => (self.rates.again, page + 1),
                Some((page, _)) => (fresh, page),
                None => (fresh, block.pages),
            };
            // The page that it is at is finished.
            let fit = ((until - self.time) / pace.max(0.01)).ceil().max(1.0);
            let done = fit.min((to.min(block.pages) - block.reached) as f64);
            block.reached += done as u64;
            self.time += done * pace;
        }
    }

    /// Pages that the thread populated for nobody have to be given back.
    fn wasted(&self, block: &Block) -> f64 {
        block.reached.saturating_sub(block.used + block.resident) as f64 * self.rates.unmap
    }
}

/// What the thread gains in all that happens to a site.
#[must_use]
pub fn ahead(happens: &[Happens], rates: &Rates) -> Ahead {
    let mut thread =
        Thread { rates, time: 0.0, queue: VecDeque::new(), blocks: HashMap::new(), contended: false };
    let mut found = Ahead::default();
    for one in happens {
        match *one {
            Happens::Begins { block, time, pages, resident } => {
                found.gain -= rates.wake.0;
                thread.queue.push_back((block, time - found.gain + rates.wake.1));
                thread
                    .blocks
                    .insert(block, Block { pages, resident: resident.min(pages), ..Block::default() });
            }
            Happens::Fault { block, time, page, what, weight } => {
                let now = time - found.gain;
                thread.work(now);
                let works = thread.works();
                // The page that the thread is at is not there yet: both bring it, and the program waits for
                // itself.
                let current = thread.queue.front().is_some_and(|(number, _)| *number == block);
                let begun = current && thread.time > now;
                let Some(at) = thread.blocks.get_mut(&block) else { continue };
                let first = what != Use::Upgrade;
                at.used += if first { weight } else { 0 };
                let cost = match what {
                    Use::Load => rates.load,
                    Use::Store => rates.store,
                    Use::Upgrade => rates.upgrade,
                    Use::Huge => rates.huge,
                };
                if page + u64::from(begun) < at.reached {
                    let pages = if what == Use::Huge { 512.0 } else { 1.0 };
                    let other = if first { rates.other * pages } else { 0.0 };
                    found.gain += weight as f64 * (cost - other);
                    found.forestalled += weight;
                    thread.contended = false;
                    continue;
                }
                let near = page.saturating_sub(at.reached) < NEAR;
                let beside = match what {
                    _ if !works => cost,
                    Use::Upgrade => rates.upgrade_beside,
                    Use::Store if near => rates.store_beside,
                    Use::Store | Use::Load | Use::Huge => cost,
                };
                found.gain -= weight as f64 * (beside - cost).max(0.0);
                let pages = if what == Use::Huge { 512 } else { weight };
                for page in page.max(at.reached)..(page + pages).min(at.pages) {
                    at.touched.insert(page, what == Use::Load);
                }
                thread.contended = near;
            }
            Happens::Ends { block, time } => {
                thread.work(time - found.gain);
                if let Some(gone) = thread.blocks.remove(&block) {
                    found.gain -= thread.wasted(&gone);
                    // Whoever unmaps waits until what is being populated is.
                    if thread.queue.front().is_some_and(|(number, _)| *number == block) {
                        found.gain -= NEAR as f64 / 2.0 * rates.populate;
                    }
                }
            }
        }
    }
    thread.work(f64::MAX);
    found.gain -= thread.blocks.values().map(|block| thread.wasted(block)).sum::<f64>();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates {
        store: 1000.0,
        load: 500.0,
        upgrade: 1200.0,
        huge: 100_000.0,
        store_beside: 1100.0,
        upgrade_beside: 12_000.0,
        populate: 800.0,
        populate_beside: 1000.0,
        again: 100.0,
        other: 50.0,
        wake: (0.0, 0.0),
        unmap: 0.0,
    };

    /// A program that stores to 10,000 pages, each so many nanoseconds after the one before, its fault
    /// included.
    fn stores(gap: f64) -> Vec<Happens> {
        let fault = |page: u64| {
            let time = page as f64 * (gap + RATES.store);
            Happens::Fault { block: 1, time, page, what: Use::Store, weight: 1 }
        };
        let begins = Happens::Begins { block: 1, time: 0.0, pages: 10_000, resident: 0 };
        std::iter::once(begins).chain((0..10_000).map(fault)).collect()
    }

    #[test]
    fn a_slow_program_gains_each_fault() {
        let found = ahead(&stores(2000.0), &RATES);
        assert!(found.forestalled > 9_900, "{found:?}");
        assert!((found.gain / (10_000.0 * 950.0) - 1.0).abs() < 0.02, "{found:?}");
    }

    /// Without its faults the program would be faster than the thread: it gains what the thread is faster
    /// than its faults.
    #[test]
    fn a_fast_program_gains_no_more_than_the_thread_is_ahead() {
        let found = ahead(&stores(0.0), &RATES);
        assert!(found.gain < 10_000.0 * 250.0, "{found:?}");
        let between = ahead(&stores(400.0), &RATES);
        // The thread's pace is the least that a page takes.
        assert!(between.gain <= 10_000.0 * (1400.0 - 800.0) * 1.02, "{between:?}");
        assert!(between.gain > found.gain);
    }

    #[test]
    fn a_program_that_loads_first_interrupts_itself() {
        let mut all = vec![Happens::Begins { block: 1, time: 0.0, pages: 10_000, resident: 0 }];
        for page in 0..10_000 {
            let time = page as f64 * 1700.0;
            all.push(Happens::Fault { block: 1, time, page, what: Use::Load, weight: 1 });
            all.push(Happens::Fault { block: 1, time: time + 500.0, page, what: Use::Upgrade, weight: 1 });
        }
        let with = ahead(&all, &RATES);
        let without = ahead(&all, &Rates { upgrade_beside: RATES.upgrade, ..RATES });
        assert!(with.gain < without.gain, "{with:?} {without:?}");
    }

    #[test]
    fn memory_that_is_there_takes_the_thread_time_and_saves_nothing() {
        let fault = Happens::Fault { block: 2, time: 2e6, page: 10, what: Use::Store, weight: 1 };
        let begins = |block, resident| Happens::Begins { block, time: 0.0, pages: 20_000, resident };
        let late = ahead(&[begins(1, 20_000), begins(2, 0), fault], &RATES);
        assert_eq!(late.forestalled, 0, "the thread is at the first block: {late:?}");
        let early =
            ahead(&[begins(1, 0), Happens::Ends { block: 1, time: 1.0 }, begins(2, 0), fault], &RATES);
        assert_eq!(early.forestalled, 1, "{early:?}");
    }

    #[test]
    fn what_stands_for_many_counts_as_many() {
        let sampled: Vec<Happens> = stores(2000.0)
            .into_iter()
            .filter_map(|one| match one {
                Happens::Fault { block, time, page, what, .. } if page % 17 == 16 => {
                    Some(Happens::Fault { block, time, page, what, weight: 17 })
                }
                Happens::Fault { .. } => None,
                other => Some(other),
            })
            .collect();
        let (few, all) = (ahead(&sampled, &RATES), ahead(&stores(2000.0), &RATES));
        assert!((few.gain / all.gain - 1.0).abs() < 0.02, "{few:?} {all:?}");
    }

    #[test]
    fn pages_for_nobody_are_given_back() {
        let rates = Rates { unmap: 10.0, ..RATES };
        let begins = Happens::Begins { block: 1, time: 0.0, pages: 1000, resident: 0 };
        assert_eq!(ahead(&[begins, Happens::Ends { block: 1, time: 1e9 }], &rates).gain, -10_000.0);
    }
}
