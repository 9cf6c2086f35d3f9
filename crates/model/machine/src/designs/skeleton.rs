//! NAME after AUTHOR (VENUE YEAR): its idea in a sentence.
//!
//! | in NAME | here |
//! |---|---|
//! | its barrier | a store fence |

use event::Capabilities;

use super::as_tso::as_tso;
use super::persistency::Persistency;
use super::tso::Tso;
use crate::Config;
use crate::interleave::PERSISTENT;
use crate::simulation::{Access, Cause, Later, Shared, TimedCore, Wait};

/// The design, with what it knows of each core.
pub(crate) struct Name {
    tso: Tso,
}

impl Name {
    pub(crate) fn new(config: &Config) -> Self {
        Name { tso: Tso::new(config) }
    }
}

impl Persistency for Name {
    // These hooks are those of total store order; write out what the design changes, and take its name from here.
    as_tso!(write_slots, flush, fence, publish, region, strand);

    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS | Capabilities::FENCES
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
        if line & PERSISTENT == 0 {
            return self.tso.store(core, line, bytes, site, shared);
        }
        core.send_all(shared)?;
        let durable = core.outgoing.flush_done;
        core.window.stand_still(&Wait::simple(durable, Cause::FenceFlush, site), &mut shared.sites);
        core.window.retired = core.window.retired.max(durable);
        core.stores.make_room(&mut core.window, &mut shared.sites);
        core.turn(shared)?;
        let arrival = core.access(line, Access::Store, site, shared)?;
        let commit = core.commit(arrival, site);
        shared.hierarchy.flush(core.number, line, true);
        core.flush_at(commit, shared);
        Ok(())
    }
}
