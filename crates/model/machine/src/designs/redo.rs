//! Hardware redo logging after DHTM (Joshi et al., ISCA 2018), as the SSP study has it.
//!
//! A region's stores stay in the caches. A log buffer collects its lines, so that a line is logged in its last state; a full buffer
//! sends the oldest entry. An entry is the line and its address, 72 bytes, and entries are packed. The end of the region writes the rest
//! of the log with 8 bytes that commit it, and waits for the log alone. Then the lines go home, beside what follows: the next
//! region waits only for its own log. Begin and end are full barriers.

use event::Capabilities;

use super::as_tso::as_tso;
use super::persistency::{Persistency, RegionMark};
use super::tso::Tso;
use super::write_set::WriteSet;
use crate::interleave::PERSISTENT;
use crate::simulation::{Later, Shared, TimedCore};
use crate::{Config, LINE_BYTES};

/// Bytes of an entry, and of the record that commits.
const ENTRY: u64 = LINE_BYTES + 8;
const COMMIT: u64 = 8;
/// Lanes of data on their way home, and of the log.
const HOME: usize = 0;
const LOG: usize = 1;

/// The design, with each core's region.
pub(crate) struct Redo {
    tso: Tso,
    cores: Vec<Core>,
    buffer: usize,
}

#[derive(Clone, Debug, Default)]
struct Core {
    set: WriteSet,
    /// Lines in the log buffer, oldest first.
    buffered: Vec<u64>,
    /// Bytes of the region's log that fill no line yet.
    bytes: u64,
}

impl Core {
    /// So many bytes are added to the log.
    fn append(&mut self, core: &mut TimedCore, bytes: u64, site: u32, shared: &mut Shared) {
        self.bytes += bytes;
        while self.bytes >= LINE_BYTES {
            self.bytes -= LINE_BYTES;
            self.set.log(core, site, shared);
        }
    }

    /// What was logged leaves once the stores so far are in the cache.
    fn push(core: &mut TimedCore, shared: &mut Shared) {
        let at = core.stores.committed.max(core.window.retired);
        core.outgoing.lane = LOG;
        core.outgoing.push(at, shared.hierarchy.below.writes.drain(..));
        core.outgoing.lane = HOME;
    }
}

impl Redo {
    pub(crate) fn new(config: &Config) -> Self {
        Redo {
            tso: Tso::new(config),
            cores: vec![Core::default(); config.cores.count as usize],
            buffer: config.cores.pipeline.log_buffer as usize,
        }
    }

    fn end(&mut self, core: &mut TimedCore, site: u32, shared: &mut Shared) -> Result<(), Later> {
        let own = &mut self.cores[core.number];
        if own.set.stage == 0 {
            core.turn(shared)?;
            if !own.set.lines.is_empty() {
                let bytes = own.buffered.len() as u64 * ENTRY + COMMIT;
                own.append(core, bytes, site, shared);
                own.append(core, (LINE_BYTES - own.bytes) % LINE_BYTES, site, shared);
                Core::push(core, shared);
            }
            own.set.stage = 1;
        }
        core.send_lane(LOG, shared)?;
        let committed = core.outgoing.accepted(LOG);
        core.stall_for_fence(committed, site, shared);
        core.turn(shared)?;
        for &(line, _) in &own.set.lines {
            shared.hierarchy.flush(core.number, line, true);
            core.outgoing.push(committed, shared.hierarchy.below.writes.drain(..));
        }
        own.buffered.clear();
        own.set.end(shared);
        Ok(())
    }
}

impl Persistency for Redo {
    as_tso!(write_slots, flush, fence, publish, strand);

    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS | Capabilities::REGIONS
    }

    fn leaves_hits_alone(&self) -> bool {
        false
    }

    fn lanes(&self) -> Option<(usize, usize)> {
        Some((2, 1024))
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.tso.store(core, line, bytes, site, shared)?;
        let own = &mut self.cores[core.number];
        if line & PERSISTENT == 0 || !own.set.is_open() {
            return Ok(());
        }
        own.set.add(line, bytes);
        if own.buffered.contains(&line) {
            return Ok(());
        }
        own.buffered.push(line);
        if own.buffered.len() > self.buffer {
            own.buffered.remove(0);
            own.append(core, ENTRY, site, shared);
            Core::push(core, shared);
        }
        Ok(())
    }

    fn region(
        &mut self,
        core: &mut TimedCore,
        mark: RegionMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if self.cores[core.number].set.mark(mark, core, site, shared) {
            self.end(core, site, shared)
        } else {
            Ok(())
        }
    }
}
