//! Total store order (x86).
//!
//! A store enters the store queue and becomes visible in program order. A flush leaves when the stores before it are in the
//! cache. A store fence holds back retirement until stores are visible and flushed and non-temporal lines are accepted; a
//! full fence also waits for loads.

use event::{Capabilities, FenceKind, FlushKind, StrandMark};

use super::persistency::{Persistency, RegionMark};
use crate::simulation::{Access, Arrival, Later, Shared, TimedCore};
use crate::{Config, Time};

/// The design, with what it knows of each core.
pub(crate) struct Tso {
    /// By core: when a store behind the flushes so far can be in the cache.
    behind_flush: Vec<Time>,
    /// Whether stores wait for the flush of a dirty line before them.
    stores_wait: bool,
    /// Whether they wait for a flush of their own line.
    own_flush: bool,
    write_slots: u32,
}

impl Tso {
    pub(crate) fn new(config: &Config) -> Self {
        Tso {
            behind_flush: vec![Time::ZERO; config.cores.count as usize],
            stores_wait: config.cores.pipeline.stores_behind_flushes,
            own_flush: config.cores.pipeline.stores_wait_for_own_flush,
            write_slots: config.cores.pipeline.flush_slots,
        }
    }
}

impl Persistency for Tso {
    fn needs(&self) -> Capabilities {
        Capabilities::empty()
    }

    fn write_slots(&self) -> u32 {
        self.write_slots
    }

    fn leaves_hits_alone(&self) -> bool {
        true
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        _bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        core.order_flush(shared)?;
        core.stores.make_room(&mut core.window, &mut shared.sites);
        let access = if self.own_flush { Access::Store } else { Access::Copied };
        let mut arrival = core.access(line, access, site, shared)?;
        arrival.done = arrival.done.max(self.behind_flush[core.number]);
        core.commit(arrival, site);
        Ok(())
    }

    fn flush(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        kind: FlushKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        core.order_flush(shared)?;
        core.stores.make_room(&mut core.window, &mut shared.sites);
        core.room_to_wait(shared)?;
        core.turn(shared)?;
        shared.hierarchy.flush(core.number, line, kind == FlushKind::Clwb);
        let commit = core.stores.push(core.window.retired, Arrival::HERE, site);
        if core.flush_at(commit, shared) && self.stores_wait {
            self.behind_flush[core.number] = commit + core.outgoing.way(line);
        }
        core.ordered_flush |= kind == FlushKind::Clflush;
        Ok(())
    }

    fn fence(
        &mut self,
        core: &mut TimedCore,
        kind: FenceKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let start = core.turn(shared)?;
        if kind == FenceKind::Store {
            core.ask_ahead(start, shared);
        }
        core.drain_combining(shared);
        core.send_all(shared)?;
        core.ordered_flush = false;
        core.fence_until(kind, core.outgoing.flush_done, site, shared);
        Ok(())
    }

    fn publish(&mut self, _: &mut TimedCore, _line: u64, _: &mut Shared) -> Result<(), Later> {
        // Stores become visible by themselves.
        Ok(())
    }

    fn publish_all(&mut self, _: &mut TimedCore, _: &mut Shared) -> Result<(), Later> {
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
