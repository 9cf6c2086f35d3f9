//! Weakly ordered cores (Arm).
//!
//! A store enters a private buffer that nobody else sees. Its line becomes visible when room is needed, at a fence, at a
//! release, at a flush of the line or when the program demotes it; stores to a line that waits coalesce. A line that is
//! asked for keeps its entry until it arrives, and needs no fill buffer besides: the buffer holds the data and goes on
//! answering loads.

use event::{Capabilities, FenceKind, FlushKind, StrandMark};

use super::persistency::{Persistency, RegionMark};
use crate::simulation::{Access, Cause, Later, LineSlots, Shared, TimedCore, Wait};
use crate::{Config, Time};

/// The design, with the private buffer of each core.
pub(crate) struct Weak {
    private: Vec<Private>,
    /// Whether a store of the private buffer is visible only when the LLC has it.
    visible_in_llc: bool,
    write_slots: u32,
}

impl Weak {
    pub(crate) fn new(config: &Config) -> Self {
        let private = Private::new(config.cores.pipeline.private_lines);
        Weak {
            private: vec![private; config.cores.count as usize],
            visible_in_llc: config.cores.pipeline.visible_in_llc,
            write_slots: config.cores.pipeline.flush_slots,
        }
    }
}

impl Persistency for Weak {
    fn needs(&self) -> Capabilities {
        Capabilities::empty()
    }

    fn write_slots(&self) -> u32 {
        self.write_slots
    }

    fn leaves_hits_alone(&self) -> bool {
        false
    }

    fn load(&mut self, core: &mut TimedCore, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        if !self.private[core.number].holds(line) {
            return core.load(line, site, shared);
        }
        core.window.load_room(&mut shared.sites);
        core.window.load_hit(core.window.dispatch + shared.latencies.l1);
        Ok(())
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        _bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let retired = core.window.retired;
        if self.private[core.number].coalesce(line, site, retired) {
            return Ok(());
        }
        if self.private[core.number].is_pressed() {
            let oldest = self.private[core.number].kept[0].line;
            self.publish(core, oldest, shared)?;
        }
        let private = &mut self.private[core.number];
        let room = private.room_at(core.window.dispatch);
        core.window.stand_still(&Wait::simple(room, Cause::StoreBuffer, site), &mut shared.sites);
        private.kept.push(Kept { line, site, stores: 1, retired });
        Ok(())
    }

    fn store_nt(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.publish(core, line, shared)?;
        core.store_nt(line, bytes, site, shared)
    }

    /// Waits for stores to its own line and for nothing else.
    fn flush(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        kind: FlushKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.publish(core, line, shared)?;
        core.order_flush(shared)?;
        while core.outgoing.is_full() {
            let left = core.send_next(shared)?;
            core.window.stand_still(&Wait::simple(left, Cause::StoreBuffer, site), &mut shared.sites);
        }
        core.turn(shared)?;
        shared.hierarchy.flush(core.number, line, kind == FlushKind::Clwb);
        let visible = core.window.retired.max(self.private[core.number].leaving.until(line));
        core.flush_at(visible, shared);
        core.ordered_flush |= kind == FlushKind::Clflush;
        Ok(())
    }

    /// Out of the private buffer, if the line is there; else one level down.
    fn demote(&mut self, core: &mut TimedCore, line: u64, shared: &mut Shared) -> Result<(), Later> {
        if self.private[core.number].holds(line) {
            return self.publish(core, line, shared);
        }
        if self.visible_in_llc {
            // It has been written through.
            return Ok(());
        }
        core.demote(line, shared)
    }

    fn fence(
        &mut self,
        core: &mut TimedCore,
        kind: FenceKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if kind != FenceKind::Store {
            // It comes after the loads before it, and nobody knows of it earlier.
            core.window.empty(&mut shared.sites);
        }
        self.publish_all(core, shared)?;
        core.turn(shared)?;
        core.drain_combining(shared);
        // Arm's atomic operations and `dmb` order accesses; that a clean is complete only `dsb` waits for, which is a full fence.
        let cleans = kind != FenceKind::Locked;
        if cleans || core.outgoing.holds_non_temporal() {
            core.send_all(shared)?;
        }
        core.ordered_flush = false;
        let flushes = if cleans { core.outgoing.flush_done } else { Time::ZERO };
        core.fence_until(kind, flushes, site, shared);
        Ok(())
    }

    fn publish(&mut self, core: &mut TimedCore, line: u64, shared: &mut Shared) -> Result<(), Later> {
        let kept = &self.private[core.number].kept;
        let Some(at) = kept.iter().position(|kept| kept.line == line) else { return Ok(()) };
        let Kept { site, stores, retired, .. } = kept[at];
        let arrival = core.access(line, Access::Buffered, site, shared)?;
        let private = &mut self.private[core.number];
        private.kept.remove(at);
        let way = if self.visible_in_llc { shared.latencies.way() } else { shared.latencies.l1 };
        let visible = arrival.done.max(core.request_time() + way).max(private.leaving.until(line));
        private.leaving.take(line, visible);
        core.stores.committed = core.stores.committed.max(visible);
        core.window.account.stores += stores;
        core.window.account.store_delay += (visible * stores).since(retired);
        Ok(())
    }

    fn publish_all(&mut self, core: &mut TimedCore, shared: &mut Shared) -> Result<(), Later> {
        while let Some(oldest) = self.private[core.number].kept.first() {
            let line = oldest.line;
            self.publish(core, line, shared)?;
        }
        Ok(())
    }

    fn region(
        &mut self,
        _: &mut TimedCore,
        mark: RegionMark,
        _site: u32,
        _: &mut Shared,
    ) -> Result<(), Later> {
        match mark {
            // The program's own flushes and fences make the region durable.
            RegionMark::Begin(_) | RegionMark::End(_) => Ok(()),
        }
    }

    fn strand(
        &mut self,
        _: &mut TimedCore,
        mark: StrandMark,
        _site: u32,
        _: &mut Shared,
    ) -> Result<(), Later> {
        match mark {
            // No instructions of this processor.
            StrandMark::Barrier | StrandMark::New | StrandMark::Join => Ok(()),
        }
    }
}

/// A line that nobody else knows to be changed.
#[derive(Clone, Copy, Debug)]
struct Kept {
    line: u64,
    /// Site of the last store.
    site: u32,
    /// Stores that it holds.
    stores: u64,
    /// Their times of retirement, added up.
    retired: Time,
}

/// The private buffer of a core.
#[derive(Clone, Debug)]
struct Private {
    /// In the order of their first stores.
    kept: Vec<Kept>,
    /// Those whose lines were asked for and have not arrived.
    leaving: LineSlots,
    capacity: usize,
}

impl Private {
    fn new(capacity: u32) -> Self {
        Private { kept: Vec::new(), leaving: LineSlots::new(capacity), capacity: capacity as usize }
    }

    /// Adds a store of `site`, retired at `retired`, to a line that is kept already. False if it is not.
    fn coalesce(&mut self, line: u64, site: u32, retired: Time) -> bool {
        let Some(kept) = self.kept.iter_mut().find(|kept| kept.line == line) else { return false };
        kept.site = site;
        kept.stores += 1;
        kept.retired += retired;
        true
    }

    fn holds(&self, line: u64) -> bool {
        self.kept.iter().any(|kept| kept.line == line)
    }

    /// Whether the oldest should make room for one more: half of the buffer is for those that are leaving.
    fn is_pressed(&self) -> bool {
        self.kept.len() > self.capacity / 2
    }

    /// When there is room for one more.
    fn room_at(&self, now: Time) -> Time {
        let free = self.capacity - self.kept.len();
        self.leaving.when_at_most(free.saturating_sub(1), now)
    }
}
