//! The kernel thread that refills the tables of the offload engine.

use super::shared::Shared;
use super::tlb::ring_line;
use crate::Time;
use crate::core::Lookup;
use crate::memory_side::{NO_THREAD, Request};

impl Shared {
    /// What the thread has done until `now`: it fills the tables, and its stores take the tables' lines to its core's caches.
    pub(crate) fn refill(&mut self, now: Time) {
        let Some(mut pages) = self.pages.take() else { return };
        while let Some(offload) = pages.offload().cloned().filter(|_| pages.refill_at <= now) {
            let worker = offload.worker.map_or(self.core_count as usize - 1, |worker| worker as usize);
            let mut at = pages.refill_at;
            for core in 0..pages.rings.len() {
                let room = u64::from(offload.ring) - pages.rings[core].pages.len() as u64;
                let wanted = room.min(pages.free.unwrap_or(u64::MAX));
                pages.free = pages.free.map(|free| free - wanted);
                let mut line = None;
                for _ in 0..wanted {
                    at += offload.refill;
                    let ring = &mut pages.rings[core];
                    ring.pages.push_back(at);
                    let next = ring_line(core, ring.head);
                    ring.head = if ring.head == u64::from(offload.ring) { 1 } else { ring.head + 1 };
                    if line.replace(next) != Some(next) {
                        self.store_of_kernel(worker, next, now);
                    }
                }
            }
            let work = at.since(pages.refill_at);
            pages.figures.background += work;
            if offload.worker.is_some() {
                pages.stolen += work;
            }
            pages.refill_at += offload.period.max(work);
        }
        self.pages = Some(pages);
    }

    fn store_of_kernel(&mut self, core: usize, line: u64, at: Time) {
        self.hierarchy.reach(core);
        let line = self.ranges.place(line);
        self.accesses += 1;
        let found = self.hierarchy.cores[core].hit(line, true, 0);
        if found != Lookup::Hit {
            self.evicts_at(at);
            let answer = self.hierarchy.miss(core, line, true, 0, found);
            self.fetched(at, answer, true, Request { line, thread: NO_THREAD, core: core as u32 });
        }
    }
}
