//! Hardware undo logging, as the SSP study has it (Ni 2022, section 3.3.1): naive, and the baseline of others.
//!
//! The first store of a region to a word makes a log entry of the old value, and waits until memory has it. An entry is written by
//! itself, so it takes a line. The end of the region writes back the region's lines, waits, and writes one more entry that ends the
//! log. Begin and end are full barriers. A program's own flushes and fences mean what they do on x86; it needs none within regions.

use event::Capabilities;

use super::as_tso::as_tso;
use super::persistency::{Persistency, RegionMark};
use super::tso::Tso;
use super::write_set::WriteSet;
use crate::Config;
use crate::interleave::PERSISTENT;
use crate::simulation::{Access, Later, Shared, TimedCore};

/// The design, with each core's region.
pub(crate) struct Undo {
    tso: Tso,
    cores: Vec<WriteSet>,
}

impl Undo {
    pub(crate) fn new(config: &Config) -> Self {
        Undo { tso: Tso::new(config), cores: vec![WriteSet::default(); config.cores.count as usize] }
    }

    fn end(&mut self, core: &mut TimedCore, site: u32, shared: &mut Shared) -> Result<(), Later> {
        let set = &mut self.cores[core.number];
        if set.stage == 0 {
            core.turn(shared)?;
            for &(line, _) in &set.lines {
                shared.hierarchy.flush(core.number, line, true);
                core.flush_at(core.stores.committed.max(core.window.retired), shared);
            }
            set.stage = 1;
        }
        core.send_all(shared)?;
        if set.stage == 1 && !set.lines.is_empty() {
            set.log(core, site, shared);
            core.outgoing.push(core.outgoing.flush_done, shared.hierarchy.below.writes.drain(..));
        }
        set.stage = 2;
        core.send_all(shared)?;
        core.stall_for_fence(core.outgoing.flush_done, site, shared);
        set.end(shared);
        Ok(())
    }
}

impl Persistency for Undo {
    as_tso!(write_slots, flush, fence, publish, strand);

    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS | Capabilities::REGIONS
    }

    fn leaves_hits_alone(&self) -> bool {
        false
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let set = &mut self.cores[core.number];
        if line & PERSISTENT == 0 || !set.is_open() {
            return self.tso.store(core, line, bytes, site, shared);
        }
        core.stores.make_room(&mut core.window, &mut shared.sites);
        let mut arrival = match set.arrived {
            Some(arrival) => arrival,
            None => {
                let arrival = core.access(line, Access::Copied, site, shared)?;
                let (new, _) = set.add(line, bytes);
                if new == 0 {
                    core.commit(arrival, site);
                    return Ok(());
                }
                (0..new).for_each(|_| set.log(core, site, shared));
                let at = arrival.done.max(core.window.dispatch);
                core.outgoing.push(at, shared.hierarchy.below.writes.drain(..));
                set.arrived = Some(arrival);
                arrival
            }
        };
        core.send_all(shared)?;
        set.arrived = None;
        arrival.done = arrival.done.max(core.outgoing.flush_done);
        core.commit(arrival, site);
        Ok(())
    }

    fn region(
        &mut self,
        core: &mut TimedCore,
        mark: RegionMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if self.cores[core.number].mark(mark, core, site, shared) {
            self.end(core, site, shared)
        } else {
            Ok(())
        }
    }
}
