//! Battery-backed buffers after BBB (Alshboul et al., HPCA 2021): a small buffer per core that a battery empties.
//!
//! A store to persistent memory enters the buffer when it commits, and is durable from then on: the order of persists is that of
//! visibility, so flushes and marks do nothing and fences wait for no write-back. The buffer keeps lines so that stores coalesce, and
//! sends the oldest when it is three quarters full (published threshold). A full buffer stalls. A line that another core asks for itself
//! moves to that core's buffer, and one that the LLC evicts leaves all buffers: memory has it. The size is `persist_buffer`, 32 as published.

use std::collections::VecDeque;

use event::{Capabilities, FenceKind, FlushKind};

use super::as_tso::as_tso;
use super::persistency::{Notice, Persistency};
use super::tso::Tso;
use crate::interleave::PERSISTENT;
use crate::simulation::{Access, Cause, Later, Shared, TimedCore, Wait};
use crate::{Config, Time};

/// The design, with each core's buffer.
pub(crate) struct Bbb {
    tso: Tso,
    /// Lines that are kept, oldest first. Those that were sent are in the write-back queue.
    kept: Vec<VecDeque<u64>>,
    entries: usize,
}

impl Bbb {
    pub(crate) fn new(config: &Config) -> Self {
        Bbb {
            tso: Tso::new(config),
            kept: vec![VecDeque::new(); config.cores.count as usize],
            entries: config.cores.pipeline.persist_buffer as usize,
        }
    }

    /// Sends the oldest line from `at` on.
    fn send_oldest(&mut self, core: &mut TimedCore, at: Time, shared: &mut Shared) {
        if let Some(oldest) = self.kept[core.number].pop_front() {
            shared.hierarchy.flush(core.number, oldest, true);
            core.outgoing.push(at, shared.hierarchy.below.writes.drain(..));
        }
    }

    /// Waits for an entry.
    fn room(&mut self, core: &mut TimedCore, site: u32, shared: &mut Shared) -> Result<(), Later> {
        core.turn(shared)?;
        while self.kept[core.number].len() + core.outgoing.occupied(core.window.dispatch) >= self.entries {
            match core.outgoing.frees_at(core.window.dispatch) {
                Some(free) => {
                    core.window.stand_still(&Wait::simple(free, Cause::StoreBuffer, site), &mut shared.sites);
                    core.window.retired = core.window.retired.max(free);
                }
                None if core.outgoing.waiting_count() > 0 => {
                    core.send_next(shared)?;
                }
                None => self.send_oldest(core, core.window.dispatch, shared),
            }
        }
        Ok(())
    }
}

impl Persistency for Bbb {
    as_tso!(publish, region, strand);

    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS
    }

    fn write_slots(&self) -> u32 {
        self.entries as u32
    }

    fn leaves_hits_alone(&self) -> bool {
        false
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if line & PERSISTENT == 0 {
            return self.tso.store(core, line, bytes, site, shared);
        }
        core.stores.make_room(&mut core.window, &mut shared.sites);
        let new = !self.kept[core.number].contains(&line);
        if new {
            self.room(core, site, shared)?;
        }
        let arrival = core.access(line, Access::Copied, site, shared)?;
        let commit = core.commit(arrival, site);
        if new {
            self.kept[core.number].push_back(line);
            while self.kept[core.number].len() > self.entries * 3 / 4 {
                self.send_oldest(core, commit, shared);
            }
        }
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
        if line & PERSISTENT != 0 {
            return Ok(());
        }
        self.tso.flush(core, line, kind, site, shared)
    }

    fn fence(
        &mut self,
        core: &mut TimedCore,
        kind: FenceKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        core.turn(shared)?;
        core.drain_combining(shared);
        if core.outgoing.holds_non_temporal() {
            core.send_all(shared)?;
        }
        core.ordered_flush = false;
        core.fence_until(kind, Time::ZERO, site, shared);
        Ok(())
    }

    fn notice(&mut self, _: &mut TimedCore, notice: Notice, _: &mut Shared) {
        let (line, keeper) = match notice {
            Notice::Snooped { line, by, own: true } => (line, Some(by)),
            Notice::LeftCaches { line, .. } => (line, None),
            _ => return,
        };
        for (_, kept) in self.kept.iter_mut().enumerate().filter(|(other, _)| Some(*other) != keeper) {
            kept.retain(|&held| held != line);
        }
    }
}
