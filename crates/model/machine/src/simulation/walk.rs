//! Translation: TLB, page walk through the caches, page faults by the kernel or by the walker itself.
//!
//! A core has one walker. A walk reads an entry of the page tables per level, each through the caches and each after the one
//! before; misses of the core behind it begin no sooner than its last read. A page that is not there is a fault. By
//! the kernel: the window empties, the page-table lock is taken, the page is zeroed by stores through the core's caches, and
//! the core goes on when the given time is over. By the offload engine: the walker locks the entry (a store to it), reads the
//! table's tail (4 B) and entry (8 B), and stores the entry of the page tables, the table's entry (16 B) and its tail (4 B);
//! where the table is empty, the kernel handles the fault. All pages are taken to be marked when they are first used.

use super::core::{Access, Later, TimedCore};
use super::mmu::{Mmu, Step, Walk};
use super::pages::There;
use super::shared::Shared;
use super::tlb::{Found, ring_line, table_line};
use crate::{LINE_BYTES, Time};

/// Lines of 4 KiB, which the kernel zeroes last and which are in the caches then. Of larger pages the rest is not modelled.
const ZEROED: u64 = 64;

/// How a fault goes on that the walker completes.
enum Next {
    Part,
    Kernel,
    Done,
}

impl TimedCore {
    /// Translates an address: what follows begins no sooner than that is done.
    pub(crate) fn translate(
        &mut self,
        address: u64,
        store: bool,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let Some(mut mmu) = self.mmu.take() else { return Ok(()) };
        let done = self.translate_by(&mut mmu, address, store, site, shared);
        self.mmu = Some(mmu);
        done
    }

    /// The access whose address was translated is made.
    pub(crate) fn accessed(&mut self) {
        if let Some(mmu) = &mut self.mmu {
            mmu.translated = false;
        }
    }

    fn translate_by(
        &mut self,
        mmu: &mut Mmu,
        address: u64,
        store: bool,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if mmu.translated {
            return Ok(());
        }
        let page = mmu.levels.page(address);
        if mmu.walk.is_none() {
            self.not_before = Time::ZERO;
            let Some(pages) = &mut shared.pages else { return Ok(()) };
            if pages.stolen > Time::ZERO && pages.worker() == Some(self.number as u32) {
                let stolen = std::mem::take(&mut pages.stolen);
                self.window.idle(self.window.dispatch + stolen);
            }
            if mmu.epoch != pages.epoch {
                mmu.epoch = pages.epoch;
                mmu.levels.clear();
            }
            match mmu.levels.look_up(page, store) {
                Found::Level(level, latency) => {
                    pages.figures.hits[level] += 1;
                    if latency > Time::ZERO {
                        self.not_before = self.window.dispatch + latency;
                    }
                    mmu.translated = true;
                    return Ok(());
                }
                Found::Nowhere(latency) => {
                    pages.figures.walks += 1;
                    let at = self.request_time() + latency;
                    let step = Step::Read(mmu.levels.walk_from(address));
                    mmu.walk = Some(Walk { address, began: at, at, step });
                }
            }
        }
        while let Some(walk) = mmu.walk {
            let next = self.step(mmu, walk, store, site, shared)?;
            mmu.walk = next.0;
            self.not_before = next.1;
        }
        mmu.translated = true;
        Ok(())
    }

    /// One step; the next, if there is one, and when what was done is over.
    fn step(
        &mut self,
        mmu: &mut Mmu,
        walk: Walk,
        store: bool,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(Option<Walk>, Time), Later> {
        let page = mmu.levels.page(walk.address);
        match walk.step {
            Step::Read(level) => {
                let at = self.touch(table_line(walk.address, level), Access::Load, walk.at, site, shared)?;
                mmu.levels.keep(walk.address, level);
                let Some(pages) = &mut shared.pages else { return Ok((None, at)) };
                pages.figures.walk_reads += 1;
                if level > mmu.levels.leaf() {
                    return Ok((Some(Walk { at, step: Step::Read(level - 1), ..walk }), at));
                }
                pages.figures.walk_time += at.since(walk.began);
                match pages.there(page) {
                    Some(there) if there.own || !store => {
                        mmu.levels.fill(page, there.own);
                        Ok((None, at.max(there.since)))
                    }
                    None if pages.offloads() => {
                        let entry = pages.tail(self.number);
                        shared.refill(at);
                        Ok((Some(Walk { at, began: at, step: Step::Offload { part: 0, entry }, ..walk }), at))
                    }
                    _ => Ok(self.trap(walk, at, store, shared)),
                }
            }
            Step::Offload { part, entry } => {
                let (next, at) = self.offload(mmu, walk, part, entry, store, site, shared)?;
                let step = Step::Offload { part: part + 1, entry };
                Ok(match next {
                    Next::Part => (Some(Walk { at, step, ..walk }), at),
                    Next::Kernel => self.trap(walk, at, store, shared),
                    Next::Done => (None, at),
                })
            }
            Step::Zero { line, until, begun } => {
                let at = walk.address / 4096 * (4096 / LINE_BYTES) + line;
                let done = if line < ZEROED && store {
                    Some(self.touch(at, Access::Copied, walk.at, site, shared)?)
                } else {
                    None
                };
                let until = done.map_or(until, |done| until.max(done));
                if line + 1 < ZEROED && store {
                    let step = Step::Zero { line: line + 1, until, begun };
                    return Ok((Some(Walk { step, ..walk }), walk.at));
                }
                self.window.occupied(until);
                if let Some(pages) = &mut shared.pages {
                    pages.figures.kernel_time += until.since(begun);
                    pages.appears(page, There { since: until, own: store });
                }
                mmu.levels.fill(page, store);
                Ok((None, until))
            }
        }
    }

    /// The exception: everything in the window leaves it, and the kernel begins.
    fn trap(&mut self, walk: Walk, at: Time, store: bool, shared: &mut Shared) -> (Option<Walk>, Time) {
        self.window.empty(&mut shared.sites);
        let at = at.max(self.window.dispatch);
        let Some(pages) = &mut shared.pages else { return (None, at) };
        let page = pages.page(walk.address);
        let copies = pages.there(page).is_some();
        let count = match (store, copies) {
            (true, true) => &mut pages.figures.kernel_copies,
            (true, false) => &mut pages.figures.kernel_writes,
            (false, _) => &mut pages.figures.kernel_reads,
        };
        *count += 1;
        let (begins, takes) = pages.kernel(at, store);
        // Another core that comes to the page meanwhile waits for it.
        pages.appears(page, There { since: begins + takes, own: store });
        let step = Step::Zero { line: 0, until: begins + takes, begun: at };
        (Some(Walk { at: begins, step, ..walk }), begins)
    }

    #[allow(clippy::too_many_arguments)]
    fn offload(
        &mut self,
        mmu: &mut Mmu,
        walk: Walk,
        part: u32,
        entry: u64,
        store: bool,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(Next, Time), Later> {
        let leaf = table_line(walk.address, mmu.levels.leaf());
        let (header, entry) = (ring_line(self.number, 0), ring_line(self.number, entry));
        let page = mmu.levels.page(walk.address);
        Ok(match part {
            0 => (Next::Part, self.touch(leaf, Access::Copied, walk.at, site, shared)?),
            1 => (Next::Part, self.touch(header, Access::Load, walk.at, site, shared)?),
            2 => {
                let at = self.touch(entry, Access::Load, walk.at, site, shared)?;
                let Some(pages) = &mut shared.pages else { return Ok((Next::Done, at)) };
                if !pages.take(self.number, at) {
                    return Ok((Next::Kernel, at));
                }
                let figures = &mut pages.figures;
                figures.offloaded += 1;
                figures.offloaded_reads += u64::from(!store);
                figures.offload_bytes += 4 + 8 + 16 + 4;
                pages.appears(page, There { since: at, own: true });
                (Next::Part, at)
            }
            // The stores do not wait for each other; the last one publishes the page.
            3 => {
                self.touch(entry, Access::Copied, walk.at, site, shared)?;
                (Next::Part, walk.at)
            }
            4 => {
                self.touch(header, Access::Copied, walk.at, site, shared)?;
                (Next::Part, walk.at)
            }
            _ => {
                let at = self.touch(leaf, Access::Copied, walk.at, site, shared)?;
                mmu.levels.fill(page, true);
                if let Some(pages) = &mut shared.pages {
                    pages.figures.offload_time += at.since(walk.began);
                }
                (Next::Done, at)
            }
        })
    }

    /// An access of the walker or of the kernel from `at` on. Returns when it is done.
    fn touch(
        &mut self,
        line: u64,
        access: Access,
        at: Time,
        site: u32,
        shared: &mut Shared,
    ) -> Result<Time, Later> {
        self.not_before = at;
        let line = shared.ranges.place(line);
        let arrival = self.access(line, access, site, shared)?;
        Ok(arrival.done.max(at + shared.latencies.l1))
    }
}
