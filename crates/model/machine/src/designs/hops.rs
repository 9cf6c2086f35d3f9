//! Epoch persistency after HOPS (Nalli et al., ASPLOS 2017): persist buffers, a light fence that orders and a heavy one that
//! waits.
//!
//! Each store to persistent memory puts a copy of its line into the core's persist buffer when it commits. The buffer sends
//! copies to memory in the background: those of one epoch together, those of the next when all before them are accepted.
//! Stores to a line of the current epoch that still waits coalesce. So caches hold no dirty persistent line that memory
//! will not get, flushes do nothing, and only a full buffer or a `dfence` stalls.
//!
//! | in HOPS | here |
//! |---|---|
//! | `ofence`: ends the epoch, never waits | a store fence (`sfence`), a strand mark that orders (barrier, join) |
//! | `dfence`: waits until the buffer is empty | a full fence (`mfence`), the end of a failure-atomic region |
//! | a dependence between threads, seen by coherence | a request for a line that another core's buffer holds |
//!
//! A locked instruction waits for its core's stores to be visible, as on x86, and ends the epoch. A dependence closes the
//! epoch of the core that has the line, and orders what the other stores from then on behind it. A new strand orders less
//! than HOPS can express: the design goes on in the same order. Lines of other memory behave as with total store order.

use std::collections::VecDeque;

use event::{Capabilities, FenceKind, FlushKind, StrandMark};

use super::as_tso::as_tso;
use super::persistency::{Notice, Persistency, RegionMark};
use super::tso::Tso;
use crate::interleave::PERSISTENT;
use crate::simulation::{Access, Cause, Later, Shared, TimedCore, Wait};
use crate::{Config, Time};

/// The design, with the persist buffer of each core.
pub(crate) struct Hops {
    buffers: Vec<Buffer>,
    entries: u32,
    /// Whether copies leave before the epochs before theirs are accepted (ASAP).
    speculative: bool,
    /// For lines of other memory.
    tso: Tso,
}

/// Epoch persistency after ASAP (Abulila et al., ISCA 2022): persist buffers as in HOPS that do not wait.
///
/// A copy leaves as soon as its store has committed, whatever epoch it is of. If one of an earlier epoch is still on its way, the
/// controller reads what the copy overwrites and keeps it, to put it back after a crash. A `dfence` waits until all is accepted and
/// one more way, in which the epochs commit in their order. Dependences between cores hold up commits and nothing else.
pub(crate) struct Asap;

impl Asap {
    /// The list of designs makes each by this name.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(config: &Config) -> Hops {
        Hops { speculative: true, ..Hops::new(config) }
    }
}

/// What a core's persist buffer holds. The copies themselves wait in the core's write-back queue.
#[derive(Clone, Debug, Default)]
struct Buffer {
    /// Copies that may not be accepted yet, in order.
    copies: VecDeque<Held>,
    epoch: u64,
    /// The next copy begins a new epoch,
    new_epoch: bool,
    /// behind so many copies of these cores.
    behind: Vec<(usize, u64)>,
    /// Copies left before their turn since the last `dfence`.
    uncommitted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    line: u64,
    epoch: u64,
    /// Its number in the core's write-back queue.
    number: u64,
}

impl Hops {
    pub(crate) fn new(config: &Config) -> Self {
        Hops {
            buffers: vec![Buffer::default(); config.cores.count as usize],
            entries: config.cores.pipeline.persist_buffer,
            speculative: false,
            tso: Tso::new(config),
        }
    }

    /// Whether a store to `line` changes a copy of the current epoch that still waits.
    fn coalesces(&self, core: &TimedCore, line: u64) -> bool {
        let buffer = &self.buffers[core.number];
        let waits = |copy: &&Held| copy.epoch == buffer.epoch && copy.number >= core.outgoing.sent_count();
        !buffer.new_epoch && buffer.copies.iter().rev().take_while(waits).any(|copy| copy.line == line)
    }

    /// Waits for an entry of the persist buffer.
    fn room(&self, core: &mut TimedCore, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        // What was to leave before has left.
        core.turn(shared)?;
        while !self.coalesces(core, line) && !core.outgoing.has_room(core.window.dispatch) {
            match core.outgoing.frees_at(core.window.dispatch) {
                Some(free) => {
                    let wait = Wait::simple(free, Cause::StoreBuffer, site);
                    core.window.stand_still(&wait, &mut shared.sites);
                    // The store does not commit before.
                    core.window.retired = core.window.retired.max(free);
                }
                None => {
                    core.send_next(shared)?;
                }
            }
        }
        Ok(())
    }

    /// Puts a copy of `line` into the buffer, to leave from `commit` on.
    fn copy(&mut self, core: &mut TimedCore, line: u64, commit: Time, shared: &mut Shared) {
        let coalesces = self.coalesces(core, line);
        shared.hierarchy.flush(core.number, line, true);
        if coalesces {
            shared.coalesce();
            return;
        }
        let (sent, accepted) = shared.persists.of(core.number);
        let buffer = &mut self.buffers[core.number];
        let entries = u64::from(self.entries);
        let is_over = |copy: &Held| {
            copy.number < sent && (accepted <= core.window.dispatch || copy.number + entries < sent)
        };
        while buffer.copies.front().is_some_and(is_over) {
            buffer.copies.pop_front();
        }
        let begins = std::mem::take(&mut buffer.new_epoch);
        buffer.epoch += u64::from(begins);
        if self.speculative {
            buffer.behind.clear();
            if buffer.copies.front().is_some_and(|copy| copy.epoch < buffer.epoch) {
                buffer.uncommitted = true;
                shared.extra.speculative += 1;
                let thread = core.window.account.thread;
                shared.read_by_design(core.request_time(), line, core.number, thread);
            }
        } else if begins {
            core.outgoing.order_next();
            for (other, count) in buffer.behind.drain(..) {
                core.outgoing.order_next_behind(shared.persists.promise(other, count));
            }
        }
        let number = core.outgoing.pushed_count();
        buffer.copies.push_back(Held { line, epoch: buffer.epoch, number });
        core.outgoing.push(commit, shared.hierarchy.below.writes.drain(..));
    }

    /// Orders what the core stores from now on behind what it has stored.
    fn ofence(&mut self, core: &mut TimedCore, shared: &mut Shared) -> Result<(), Later> {
        if core.combines(shared) {
            core.turn(shared)?;
            core.drain_combining(shared);
        }
        self.buffers[core.number].new_epoch = true;
        Ok(())
    }

    /// Waits until all that the core has stored is accepted by the write queue.
    fn dfence(&mut self, core: &mut TimedCore, site: u32, shared: &mut Shared) -> Result<(), Later> {
        core.turn(shared)?;
        core.drain_combining(shared);
        core.send_all(shared)?;
        core.ordered_flush = false;
        let commits = std::mem::take(&mut self.buffers[core.number].uncommitted);
        let commit = if commits { shared.latencies.way() } else { Time::ZERO };
        core.stall_for_fence(core.outgoing.flush_done + commit, site, shared);
        self.buffers[core.number].new_epoch = true;
        Ok(())
    }
}

impl Persistency for Hops {
    as_tso!(publish);

    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS | Capabilities::FENCES | Capabilities::REGIONS
    }

    fn write_slots(&self) -> u32 {
        self.entries
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
        self.room(core, line, site, shared)?;
        let arrival = core.access(line, Access::Copied, site, shared)?;
        let commit = core.commit(arrival, site);
        self.copy(core, line, commit, shared);
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
        match kind {
            FenceKind::Store => self.ofence(core, shared),
            FenceKind::Full => self.dfence(core, site, shared),
            FenceKind::Locked => {
                self.ofence(core, shared)?;
                core.stall_for_stores(site, shared);
                Ok(())
            }
        }
    }

    fn region(
        &mut self,
        core: &mut TimedCore,
        mark: RegionMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        match mark {
            RegionMark::Begin(_) => Ok(()),
            RegionMark::End(_) => self.dfence(core, site, shared),
        }
    }

    fn strand(
        &mut self,
        core: &mut TimedCore,
        mark: StrandMark,
        _site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        match mark {
            StrandMark::Barrier | StrandMark::Join => self.ofence(core, shared),
            StrandMark::New => Ok(()),
        }
    }

    fn notice(&mut self, core: &mut TimedCore, notice: Notice, shared: &mut Shared) {
        let Notice::Snooped { line, by, .. } = notice else { return };
        for other in (0..self.buffers.len()).filter(|&other| other != by) {
            let (sent, accepted) = shared.persists.of(other);
            let under_way = |copy: &&Held| copy.number >= sent || accepted > core.window.dispatch;
            let held = self.buffers[other].copies.iter().rev().filter(under_way);
            let Some(last) = held.clone().find(|copy| copy.line == line).copied() else { continue };
            self.buffers[other].new_epoch = true;
            let buffer = &mut self.buffers[by];
            buffer.new_epoch = true;
            buffer.behind.push((other, last.number + 1));
        }
    }
}
