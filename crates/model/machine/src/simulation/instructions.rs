//! What designs build their instructions of: loads and stores of a line, flushes, waits of fences.

use event::FenceKind;

use super::core::{Access, Later, TimedCore};
use super::figures::Cause;
use super::shared::Shared;
use super::stores::Arrival;
use super::window::Wait;
use crate::Time;

impl TimedCore {
    /// A load of `line`: it takes an entry of the load queue, and holds up retirement if the L1 does not have the line.
    pub(crate) fn load(&mut self, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        self.window.load_room(&mut shared.sites);
        let arrival = self.access(line, Access::Load, site, shared)?;
        let hit = self.window.dispatch + shared.latencies.l1;
        if arrival.done <= hit {
            self.window.load_hit(hit);
        } else {
            self.window.load_miss(arrival.wait(Cause::LoadMiss, site));
        }
        Ok(())
    }

    /// A store whose line arrives so enters the store queue, which has room. Returns when the cache has it.
    pub(crate) fn commit(&mut self, arrival: Arrival, site: u32) -> Time {
        let retired = self.window.retired;
        let commit = self.stores.push(retired, arrival, site);
        self.window.account.stores += 1;
        self.window.account.store_delay += commit - retired;
        commit
    }

    /// A non-temporal store of `bytes` (a mask) of `line`: into the store queue, then into a combining buffer.
    pub(crate) fn store_nt(
        &mut self,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.order_flush(shared)?;
        self.stores.make_room(&mut self.window, &mut shared.sites);
        self.room_to_wait(shared)?;
        self.turn(shared)?;
        shared.hierarchy.store_nt(self.number, line, bytes, site);
        let commit = self.stores.push(self.window.retired, Arrival::HERE, site);
        self.outgoing.push(commit, shared.hierarchy.below.writes.drain(..));
        Ok(())
    }

    /// Lines that the hierarchy has just given up for a flush leave from `at` on; if there are none, the flush has only
    /// looked the line up. Returns whether there are.
    pub(crate) fn flush_at(&mut self, at: Time, shared: &mut Shared) -> bool {
        let dirty = !shared.hierarchy.below.writes.is_empty();
        if !dirty {
            self.outgoing.flush_done = self.outgoing.flush_done.max(at + shared.latencies.way());
        }
        self.outgoing.push(at, shared.hierarchy.below.writes.drain(..));
        dirty
    }

    /// After a `clflush`, the next store or flush waits for it.
    pub(crate) fn order_flush(&mut self, shared: &mut Shared) -> Result<(), Later> {
        if self.ordered_flush {
            self.send_all(shared)?;
            self.stores.committed = self.stores.committed.max(self.outgoing.flush_done);
            self.ordered_flush = false;
        }
        Ok(())
    }

    /// Moves `line` one level down.
    pub(crate) fn demote(&mut self, line: u64, shared: &mut Shared) -> Result<(), Later> {
        let start = self.turn(shared)?;
        shared.evicts_at(start);
        shared.hierarchy.demote(self.number, line);
        shared.write_back(start + shared.latencies.way());
        Ok(())
    }

    /// Whether combining buffers hold anything.
    pub(crate) fn combines(&self, shared: &Shared) -> bool {
        !shared.hierarchy.cores[self.number].combining.is_empty()
    }

    /// Combining buffers queue what they hold for memory, to leave when the stores so far are in the cache.
    pub(crate) fn drain_combining(&mut self, shared: &mut Shared) {
        shared.hierarchy.drain_combining(self.number);
        let left = self.stores.committed.max(self.window.retired);
        self.outgoing.push(left, shared.hierarchy.below.writes.drain(..));
    }

    /// A fence of x86 or Arm: waits for the stores so far, for flushes until `flushes` and for non-temporal lines.
    pub(crate) fn fence_until(&mut self, kind: FenceKind, flushes: Time, site: u32, shared: &mut Shared) {
        let (done, cause) = self.fence_done(flushes);
        shared.chronicle.fenced(self.number, flushes);
        if kind == FenceKind::Store {
            self.window.hold(Wait::simple(done, cause, site));
            return;
        }
        self.window.empty(&mut shared.sites);
        self.window.stand_still(&Wait::simple(done, cause, site), &mut shared.sites);
        if kind == FenceKind::Full {
            let after = Wait::simple(self.window.dispatch + self.full_fence, cause, site);
            self.window.stand_still(&after, &mut shared.sites);
        }
        self.window.retired = self.window.retired.max(self.window.dispatch);
    }

    /// Nothing goes on until all before is retired, the stores so far are in the cache, flushes are done until `flushes` and
    /// non-temporal lines are accepted.
    pub(crate) fn stall_for_fence(&mut self, flushes: Time, site: u32, shared: &mut Shared) {
        let (done, cause) = self.fence_done(flushes);
        shared.chronicle.fenced(self.number, flushes);
        self.stall(done, cause, site, shared);
    }

    /// Nothing goes on until all before is retired and the stores so far are in the cache.
    pub(crate) fn stall_for_stores(&mut self, site: u32, shared: &mut Shared) {
        self.stall(self.stores.committed, Cause::FenceStore, site, shared);
    }

    fn stall(&mut self, done: Time, cause: Cause, site: u32, shared: &mut Shared) {
        self.window.empty(&mut shared.sites);
        self.window.stand_still(&Wait::simple(done, cause, site), &mut shared.sites);
        self.window.retired = self.window.retired.max(self.window.dispatch);
    }

    /// When all that a fence waits for is done, and what of it is last.
    fn fence_done(&self, flushes: Time) -> (Time, Cause) {
        let (stores, nt) = (self.stores.committed, self.outgoing.nt_done);
        let done = stores.max(flushes).max(nt);
        let cause = if done == stores {
            Cause::FenceStore
        } else if done == flushes {
            Cause::FenceFlush
        } else {
            Cause::FenceNt
        };
        (done, cause)
    }
}
