//! Which hook of the design each event calls.

use event::{Event, Op, ThreadId};

use super::core::{Later, TimedCore};
use super::figures::Cause;
use super::order;
use super::shared::Shared;
use super::stores::Arrival;
use super::window::Wait;
use crate::core::{Lookup, lines};
use crate::designs::{Persistency, RegionMark};
use crate::{LINE_BYTES, Time};

/// How the attempt to carry out an event went.
pub(crate) enum Flow {
    Done,
    /// It goes on at this time.
    Later(Time),
    /// It goes on after an event of another thread.
    Blocked,
}

impl From<Result<(), Later>> for Flow {
    fn from(result: Result<(), Later>) -> Self {
        match result {
            Ok(()) => Flow::Done,
            Err(Later(time)) => Flow::Later(time),
        }
    }
}

impl TimedCore {
    /// Carries out the leading `events` that are loads and stores within one line that the L1 has, which nearly all
    /// are, while nothing is under way that they could meet. Only for a design that leaves hits alone. Returns how many.
    #[inline]
    pub(crate) fn run_hits(&mut self, events: &[Event], shared: &mut Shared) -> usize {
        if self.progress.is_some() || self.ordered_flush {
            return 0;
        }
        let limit = shared.hits_until();
        let l1 = shared.latencies.l1;
        let caches = &mut shared.hierarchy.cores[self.number];
        let mut done = 0;
        for event in events {
            let (addr, len, store) = match event.op {
                Op::Load { addr, len } => (addr, len, false),
                Op::Store { addr, len } => (addr, len, true),
                _ => break,
            };
            // An empty access wraps around and is left to the general case, too.
            if addr % LINE_BYTES + u64::from(len.wrapping_sub(1)) >= LINE_BYTES
                || self.is_filling()
                || self.window.dispatch > limit
                || (store && self.outgoing.is_busy(self.window.dispatch))
            {
                break;
            }
            let line = shared.ranges.place(addr / LINE_BYTES);
            if caches.hit(line, store, event.site.0) != Lookup::Hit {
                break;
            }
            self.window.enter(u64::from(event.instructions.max(1)), &mut shared.sites);
            if store {
                self.stores.make_room(&mut self.window, &mut shared.sites);
                let retired = self.window.retired;
                let commit = self.stores.push(retired, Arrival::HERE, event.site.0);
                self.window.account.stores += 1;
                self.window.account.store_delay += commit - retired;
            } else {
                self.window.load_room(&mut shared.sites);
                self.window.load_hit(self.window.dispatch + l1);
            }
            done += 1;
        }
        shared.accesses += done as u64;
        done
    }

    /// Carries out any event, or goes on with it.
    pub(crate) fn execute(
        &mut self,
        thread: ThreadId,
        event: &Event,
        design: &mut dyn Persistency,
        shared: &mut Shared,
    ) -> Flow {
        if let Some((place, step)) = order::step(&event.op, thread) {
            return self.synchronise(place, step, thread, event, design, shared);
        }
        if self.progress.is_none() {
            self.window.enter(u64::from(event.instructions.max(1)), &mut shared.sites);
            self.progress = Some((0, true));
        }
        let result = self.perform(event, design, shared);
        if design.wants_notices() {
            while let Some(notice) = shared.next_notice() {
                design.notice(self, notice, shared);
            }
        }
        result.into()
    }

    fn perform(
        &mut self,
        event: &Event,
        design: &mut dyn Persistency,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let site = event.site.0;
        match event.op {
            Op::Load { addr, len } => {
                self.each_line(addr, len, site, false, shared, |core, line, _, shared| {
                    design.load(core, line, site, shared)
                })
            }
            Op::Store { addr, len } => {
                self.each_line(addr, len, site, true, shared, |core, line, bytes, shared| {
                    design.store(core, line, bytes, site, shared)
                })
            }
            Op::StoreNt { addr, len } => {
                self.each_line(addr, len, site, true, shared, |core, line, bytes, shared| {
                    design.store_nt(core, line, bytes, site, shared)
                })
            }
            Op::Flush { .. } if shared.caches_persist => Ok(()),
            Op::Flush { addr, kind } => {
                design.flush(self, shared.ranges.place(addr / LINE_BYTES), kind, site, shared)
            }
            Op::Demote { addr } => design.demote(self, shared.ranges.place(addr / LINE_BYTES), shared),
            Op::Prefetch { addr } => self.prefetch_line(addr, site, shared),
            Op::Fence(kind) => design.fence(self, kind, site, shared),
            Op::RegionBegin { region } => design.region(self, RegionMark::Begin(region), site, shared),
            Op::RegionEnd { region } => design.region(self, RegionMark::End(region), site, shared),
            Op::Strand(mark) => design.strand(self, mark, site, shared),
            Op::Map { addr, len, .. } => {
                shared.ranges.map(addr, len);
                Ok(())
            }
            Op::Unmap { addr, len } => {
                if let Some(pages) = &mut shared.pages {
                    pages.unmap(addr, len);
                }
                shared.ranges.unmap(addr, len);
                Ok(())
            }
            // Synchronisation is carried out by `synchronise`, phases by the caller. The rest is no access to memory.
            event::synchronizations!()
            | Op::Phase { .. }
            | Op::Context
            | Op::Alloc { .. }
            | Op::Free { .. }
            | Op::MapOffset { .. }
            | Op::MapSync { .. }
            | Op::Process { .. }
            | event::file_operations!() => Ok(()),
        }
    }

    /// Does something with each line of an access, and goes on where it stopped.
    fn each_line(
        &mut self,
        addr: u64,
        len: u32,
        site: u32,
        store: bool,
        shared: &mut Shared,
        mut access: impl FnMut(&mut Self, u64, u64, &mut Shared) -> Result<(), Later>,
    ) -> Result<(), Later> {
        let (begun, mut entered) = self.progress.unwrap_or((0, true));
        for (at, (line, bytes)) in lines(addr, len).enumerate().skip(begun) {
            if !entered {
                // No instruction accesses more than a line.
                self.window.enter(1, &mut shared.sites);
                self.progress = Some((at, true));
            }
            if self.mmu.is_some() {
                self.translate(line * LINE_BYTES, store, site, shared)?;
            }
            let line = shared.ranges.place(line);
            access(self, line, bytes, shared)?;
            self.accessed();
            self.progress = Some((at + 1, false));
            entered = false;
        }
        Ok(())
    }

    fn synchronise(
        &mut self,
        place: order::MeetingPoint,
        step: order::Step,
        thread: ThreadId,
        event: &Event,
        design: &mut dyn Persistency,
        shared: &mut Shared,
    ) -> Flow {
        let publishes = matches!(step, order::Step::Publish | order::Step::Unlock);
        let ready = if publishes { design.publish_all(self, shared) } else { Ok(()) };
        if let Err(Later(time)) = ready.and_then(|()| self.turn(shared).map(|_| ())) {
            return Flow::Later(time);
        }
        let ticket = self.tickets.front().copied().flatten();
        if !shared.order.may_go(place, step, ticket) {
            self.blocked = Some(place);
            return Flow::Blocked;
        }
        self.tickets.pop_front();
        self.window.enter(u64::from(event.instructions.max(1)), &mut shared.sites);
        let visible = self.window.retired.max(self.stores.committed);
        let after = shared.order.serve(place, step, visible, thread);
        shared.published = true;
        if matches!(event.op, Op::ThreadStart { .. }) {
            self.window.idle(after);
        } else {
            let wait = Wait::simple(after, Cause::Sync, event.site.0);
            self.window.stand_still(&wait, &mut shared.sites);
            self.window.retired = self.window.retired.max(self.window.dispatch);
        }
        Flow::Done
    }
}
