//! What each event does to its core's time.

use event::{Event, FenceKind, FlushKind, Op, ThreadId};

use super::core::{Later, TimedCore};
use super::eager::EagerStores;
use super::figures::Cause;
use super::order;
use super::outgoing::Leaving;
use super::shared::Shared;
use super::stores::{Arrival, Kept};
use super::window::Wait;
use crate::config::{Eager, Ordering};
use crate::core::{Lookup, lines};
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
    /// are, while nothing is under way that they could meet. Returns how many.
    #[inline]
    pub(crate) fn run_hits(&mut self, events: &[Event], shared: &mut Shared) -> usize {
        let plain = self.ordering == Ordering::Tso && self.eager.is_none();
        if !plain || self.progress.is_some() || self.ordered_flush {
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
    pub(crate) fn execute(&mut self, thread: ThreadId, event: &Event, shared: &mut Shared) -> Flow {
        if let Some((place, step)) = order::step(&event.op, thread) {
            return self.synchronise(place, step, thread, event, shared);
        }
        if self.progress.is_none() {
            self.window.enter(u64::from(event.instructions.max(1)), &mut shared.sites);
            self.progress = Some((0, true));
        }
        let site = event.site.0;
        match event.op {
            Op::Load { addr, len } => {
                self.each_line(addr, len, shared, |core, line, _, shared| core.load(line, site, shared))
            }
            Op::Store { addr, len } => self.each_line(addr, len, shared, |core, line, bytes, shared| {
                core.store(line, site, shared)?;
                if let Some(eager) = &mut core.eager {
                    eager.stored(line, bytes);
                }
                Ok(())
            }),
            Op::StoreNt { addr, len } => self.each_line(addr, len, shared, |core, line, bytes, shared| {
                core.store_nt(line, bytes, site, shared)
            }),
            Op::Flush { .. } if shared.caches_persist => Ok(()),
            Op::Flush { addr, kind } => {
                self.flush(shared.ranges.place(addr / LINE_BYTES), kind, site, shared)
            }
            Op::Demote { addr } => self.demote(shared.ranges.place(addr / LINE_BYTES), shared),
            Op::Fence(kind) => self.fence(kind, site, shared),
            Op::Map { addr, len, .. } => {
                shared.ranges.map(addr, len);
                Ok(())
            }
            Op::Unmap { addr, len } => {
                shared.ranges.unmap(addr, len);
                Ok(())
            }
            _ => Ok(()),
        }
        .into()
    }

    /// Does something with each line of an access, and goes on where it stopped.
    fn each_line(
        &mut self,
        addr: u64,
        len: u32,
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
            let line = shared.ranges.place(line);
            access(self, line, bytes, shared)?;
            self.progress = Some((at + 1, false));
            entered = false;
        }
        Ok(())
    }

    fn load(&mut self, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        self.send_due(shared)?;
        self.window.load_room(&mut shared.sites);
        if self.ordering == Ordering::Weak && self.private.holds(line) {
            self.window.load_hit(self.window.dispatch + shared.latencies.l1);
            return Ok(());
        }
        let arrival = self.access(line, false, site, shared)?;
        let hit = self.window.dispatch + shared.latencies.l1;
        if arrival.done <= hit {
            self.window.load_hit(hit);
        } else {
            self.window.load_miss(arrival.wait(Cause::LoadMiss, site));
        }
        Ok(())
    }

    fn store(&mut self, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        if let Some(eager) = &mut self.eager {
            eager.storing(line);
            self.send_due(shared)?;
        }
        if self.ordering == Ordering::Weak {
            return self.store_privately(line, site, shared);
        }
        self.order_flush(shared)?;
        self.stores.make_room(&mut self.window, &mut shared.sites);
        let mut arrival = self.access(line, true, site, shared)?;
        let retired = self.window.retired;
        arrival.done = arrival.done.max(self.behind_flush);
        let commit = self.stores.push(retired, arrival, site);
        self.window.account.stores += 1;
        self.window.account.store_delay += commit - retired;
        Ok(())
    }

    /// Sends on what the core does by itself. It is no instruction, and nobody waits for it but a fence.
    fn send_due(&mut self, shared: &mut Shared) -> Result<(), Later> {
        while let Some((line, what)) = self.eager.as_ref().and_then(EagerStores::due) {
            self.publish(line, shared)?;
            if what == Eager::Clean {
                self.room_to_wait(shared)?;
                self.turn(shared)?;
                shared.hierarchy.flush(self.number, line, true);
                let left = self.stores.committed.max(self.window.retired);
                self.outgoing.push(left, shared.hierarchy.below.writes.drain(..));
            }
            if let Some(eager) = &mut self.eager {
                eager.done();
            }
        }
        Ok(())
    }

    /// A weakly ordered store: nobody hears of it yet.
    fn store_privately(&mut self, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        let retired = self.window.retired;
        if self.private.melt(line, site, retired) {
            return Ok(());
        }
        if self.private.is_pressed() {
            let oldest = self.private.kept[0].line;
            self.publish(oldest, shared)?;
        }
        let room = self.private.room_at(self.window.dispatch);
        let wait = Wait::simple(room, Cause::StoreBuffer, site);
        self.window.stand_still(&wait, &mut shared.sites);
        self.private.kept.push(Kept { line, site, stores: 1, retired });
        Ok(())
    }

    /// A line of the private buffer, if it is there, becomes visible as soon as it can be had.
    fn publish(&mut self, line: u64, shared: &mut Shared) -> Result<(), Later> {
        let Some(at) = self.private.kept.iter().position(|kept| kept.line == line) else { return Ok(()) };
        let Kept { site, stores, retired, .. } = self.private.kept[at];
        let arrival = self.access(line, true, site, shared)?;
        self.private.kept.remove(at);
        let way = if self.visible_in_llc { shared.latencies.way() } else { shared.latencies.l1 };
        let visible = arrival.done.max(self.request_time() + way).max(self.private.leaving.until(line));
        self.private.leaving.take(line, visible);
        self.stores.committed = self.stores.committed.max(visible);
        self.window.account.stores += stores;
        self.window.account.store_delay += (visible * stores).since(retired);
        Ok(())
    }

    fn publish_all(&mut self, shared: &mut Shared) -> Result<(), Later> {
        while let Some(oldest) = self.private.kept.first() {
            let line = oldest.line;
            self.publish(line, shared)?;
        }
        Ok(())
    }

    fn store_nt(&mut self, line: u64, bytes: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        self.publish(line, shared)?;
        self.order_flush(shared)?;
        self.stores.make_room(&mut self.window, &mut shared.sites);
        self.room_to_wait(shared)?;
        self.turn(shared)?;
        shared.hierarchy.store_nt(self.number, line, bytes, site);
        let commit = self.stores.push(self.window.retired, Arrival::HERE, site);
        self.outgoing.push(commit, shared.hierarchy.below.writes.drain(..));
        Ok(())
    }

    fn flush(&mut self, line: u64, kind: FlushKind, site: u32, shared: &mut Shared) -> Result<(), Later> {
        self.publish(line, shared)?;
        self.order_flush(shared)?;
        if self.ordering == Ordering::Weak {
            return self.flush_when_visible(line, kind, site, shared);
        }
        self.stores.make_room(&mut self.window, &mut shared.sites);
        self.room_to_wait(shared)?;
        self.turn(shared)?;
        shared.hierarchy.flush(self.number, line, kind == FlushKind::Clwb);
        let commit = self.stores.push(self.window.retired, Arrival::HERE, site);
        if shared.hierarchy.below.writes.is_empty() {
            let looked_up = commit + shared.latencies.way();
            self.outgoing.flush_done = self.outgoing.flush_done.max(looked_up);
        } else if self.stores_wait {
            self.behind_flush = commit + self.outgoing.way(line);
        }
        self.outgoing.push(commit, shared.hierarchy.below.writes.drain(..));
        self.ordered_flush |= kind == FlushKind::Clflush;
        Ok(())
    }

    /// A weakly ordered core's flush waits for what was stored to its own line and for nothing else.
    fn flush_when_visible(
        &mut self,
        line: u64,
        kind: FlushKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        while self.outgoing.is_full() {
            let left = self.send_next(shared)?;
            self.window.stand_still(&Wait::simple(left, Cause::StoreBuffer, site), &mut shared.sites);
        }
        self.turn(shared)?;
        shared.hierarchy.flush(self.number, line, kind == FlushKind::Clwb);
        let visible = self.window.retired.max(self.private.leaving.until(line));
        if shared.hierarchy.below.writes.is_empty() {
            let looked_up = visible + shared.latencies.way();
            self.outgoing.flush_done = self.outgoing.flush_done.max(looked_up);
        }
        self.outgoing.push(visible, shared.hierarchy.below.writes.drain(..));
        self.ordered_flush |= kind == FlushKind::Clflush;
        Ok(())
    }

    /// After a `clflush`, the next store or flush waits for it.
    fn order_flush(&mut self, shared: &mut Shared) -> Result<(), Later> {
        if self.ordered_flush {
            self.send_all(shared)?;
            self.stores.committed = self.stores.committed.max(self.outgoing.flush_done);
            self.ordered_flush = false;
        }
        Ok(())
    }

    /// Out of the private buffer, if the line is there; else one level down.
    fn demote(&mut self, line: u64, shared: &mut Shared) -> Result<(), Later> {
        if self.private.holds(line) {
            return self.publish(line, shared);
        }
        if self.ordering == Ordering::Weak && self.visible_in_llc {
            // It has been written through.
            return Ok(());
        }
        let start = self.turn(shared)?;
        shared.evicts_at(start);
        shared.hierarchy.demote(self.number, line);
        shared.write_back(start + shared.latencies.way());
        Ok(())
    }

    fn fence(&mut self, kind: FenceKind, site: u32, shared: &mut Shared) -> Result<(), Later> {
        if let Some(eager) = &mut self.eager {
            eager.fence();
            self.send_due(shared)?;
        }
        if self.ordering == Ordering::Weak && kind != FenceKind::Store {
            // It comes after the loads before it, and nobody knows of it earlier.
            self.window.empty(&mut shared.sites);
        }
        self.publish_all(shared)?;
        let start = self.turn(shared)?;
        if kind == FenceKind::Store {
            self.ask_ahead(start, shared);
        }
        shared.hierarchy.drain_combining(self.number);
        let left = self.stores.committed.max(self.window.retired);
        self.outgoing.push(left, shared.hierarchy.below.writes.drain(..));
        // Arm's atomic operations and `dmb` order accesses; that a clean is complete only `dsb` waits for, which is a full fence.
        let cleans = self.ordering == Ordering::Tso || kind != FenceKind::Locked;
        if cleans || self.outgoing.waiting.iter().any(Leaving::non_temporal) {
            self.send_all(shared)?;
        }
        self.ordered_flush = false;
        let flushes = if cleans { self.outgoing.flush_done } else { Time::ZERO };
        let (stores, nt) = (self.stores.committed, self.outgoing.nt_done);
        let done = stores.max(flushes).max(nt);
        let cause = if done == stores {
            Cause::FenceStore
        } else if done == flushes {
            Cause::FenceFlush
        } else {
            Cause::FenceNt
        };
        let wait = Wait::simple(done, cause, site);
        if kind == FenceKind::Store {
            self.window.hold(wait);
        } else {
            self.window.empty(&mut shared.sites);
            self.window.stand_still(&wait, &mut shared.sites);
            if kind == FenceKind::Full {
                let after = Wait::simple(self.window.dispatch + self.full_fence, cause, site);
                self.window.stand_still(&after, &mut shared.sites);
            }
            self.window.retired = self.window.retired.max(self.window.dispatch);
        }
        Ok(())
    }

    fn synchronise(
        &mut self,
        place: order::Place,
        step: order::Step,
        thread: ThreadId,
        event: &Event,
        shared: &mut Shared,
    ) -> Flow {
        let publishes = matches!(step, order::Step::Publish | order::Step::Unlock);
        let ready = if publishes { self.publish_all(shared) } else { Ok(()) };
        if let Err(Later(time)) = ready.and_then(|()| self.turn(shared).map(|_| ())) {
            return Flow::Later(time);
        }
        let ticket = self.tickets.front().copied();
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
