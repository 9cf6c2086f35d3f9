//! What a core can do at once: the table `[cores.pipeline]`, which may be left out.

use persistency::Domain;
use serde::{Deserialize, Serialize};

use crate::{Config, ConfigError, Design, Time};

/// A core's clock, widths and queues. Every key may be left out; the defaults are those of a server core of the
/// Cascade Lake generation at 2.2 GHz. The size of the line-fill buffers is `l1.miss_registers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pipeline {
    /// One clock cycle, 1ps to 1us. Default 455ps (2.2 GHz).
    pub cycle: Time,
    /// Instructions that enter the window per cycle, 1 to 64. Default 4.
    pub issue_width: u32,
    /// Instructions that leave it per cycle, in order, 1 to 64. Default 4.
    pub retire_width: u32,
    /// Instructions in the window (reorder buffer), 1 to 65536. Default 224.
    pub rob: u32,
    /// Of these, loads, 1 to 65536. Default 72.
    pub load_queue: u32,
    /// Stores and flushes, from their entry into the window until the cache has them, 1 to 65536. Default 56.
    pub store_queue: u32,
    /// Lines on their way from this core to memory because of flushes, 1 to 1024: a fill buffer each. Default 12.
    pub flush_slots: u32,
    /// Whether a store stays in the store queue for as long as the flush of a dirty line before it takes to the write queue
    /// and back, so that a core which stores to and flushes line after line has the same pace on any memory, while flushes without
    /// stores between them overlap. Default true: a thread's bandwidth is that, and manuals say that flushes overlap.
    pub stores_behind_flushes: bool,
    /// Whether a store waits for a flush of its own line that is under way, as on a core whose flush takes the line away. Default true;
    /// false where a flush takes a copy.
    pub stores_wait_for_own_flush: bool,
    /// Non-temporal lines that have not left the core, 1 to 1024: each until the caches are known not to have it and the LLC's
    /// directory takes it over, not until the write queue has it. Default 4, as many as one core's bandwidth on DRAM needs. (They are
    /// combined in `cores.combining_buffers`.)
    pub nt_slots: u32,
    /// What a full fence (`mfence`) takes after all that it waits for is done. Default 15ns, 33 cycles.
    pub full_fence: Time,
    /// In which order stores become visible and durable. Default `"tso"`; [`Design::ALL`] has the others.
    pub ordering: Design,
    /// With weak ordering: lines of stores that a core keeps to itself until room is needed, a fence comes or the
    /// program demotes them, 1 to 1024. Default 16. Of no meaning with `"tso"`.
    pub private_lines: u32,
    /// With weak ordering: whether a store is visible only when the LLC has it, and not as soon as the L1 has its line to
    /// itself, because the L1 is written through. Default false. Of no meaning with `"tso"`.
    pub visible_in_llc: bool,
    /// With `"hops"`: lines of persistent memory that a core's persist buffer holds until memory has accepted them, 1 to 1024.
    /// Default 32, as published. Of no meaning with other designs.
    pub persist_buffer: u32,
    /// With `"strand"`: entries of a core's persist queue, 1 to 1024. Default 16, as published.
    pub persist_queue: u32,
    /// With `"strand"` and `"strand-no-queue"`: a core's strand buffers, 1 to 16. Default 4, as published.
    pub strand_buffers: u32,
    /// Entries of a strand buffer, 1 to 1024. Default 4, as published.
    pub strand_entries: u32,
    /// Lines that the caches gave up and that wait for strand buffers, 1 to 1024. Default 8, a guess.
    pub strand_write_backs: u32,
    /// With `"ssp"`: pages that a core's TLB holds, both levels together, 1 to 65536. Default 1024: the source's hardware cost has
    /// bitmaps in so many entries of the second level, though its table of the machine names 64 of the first only.
    pub tlb_entries: u32,
    /// With `"ssp"`: entries of the SSP cache that the last-level cache holds, 1 to 1048576. Default 1024, as published.
    pub ssp_entries: u32,
    /// With `"ssp"`: how long a look-up takes that misses these. Default 50ns, 185 cycles of the published machine.
    pub ssp_miss: Time,
    /// With `"ssp"`: whether pages are brought together as soon as no TLB holds them. Default true, as published; false: when the spare
    /// pages run short.
    pub ssp_eager: bool,
    /// With `"ssp"`: pages beside those of the TLBs that may have a second copy, 1 to 1048576. Default 256, a guess.
    pub ssp_spare: u32,
    /// With `"ssp"`: records of the journal before a checkpoint, 4 to 1048576. Default 4096, a guess.
    pub ssp_journal: u32,
    /// With `"redo"`: lines that a core's log buffer holds, 1 to 1024. Default 64, a guess.
    pub log_buffer: u32,
    /// With `"switch"`: lines that the persistent buffer of the switch holds, 1 to 65536. Default 128, a guess.
    pub switch_entries: u32,
    /// With `"switch"`: from a core's memory side to the switch and back. Default 70ns, a guess.
    pub switch_way: Time,
    /// Whether the threads of a recorded run take each lock in the recorded order. Default true. False: as their times have it, for runs in
    /// which what an operation does does not depend on who was first; a thread then never waits for one that is behind.
    pub locks_in_order: bool,
    /// Share of the loads that miss the L1 whose address depends on the load miss before, 0 to 1. A trace does not say
    /// which loads do; 0, the default, lets all overlap, and 1 is a program that only follows pointers.
    pub dependent_loads: f64,
}

impl Default for Pipeline {
    fn default() -> Self {
        Pipeline {
            cycle: Time(455),
            issue_width: 4,
            retire_width: 4,
            rob: 224,
            load_queue: 72,
            store_queue: 56,
            flush_slots: 12,
            stores_behind_flushes: true,
            stores_wait_for_own_flush: true,
            nt_slots: 4,
            full_fence: Time::from_ns(15),
            ordering: Design::Tso,
            private_lines: 16,
            visible_in_llc: false,
            persist_buffer: 32,
            persist_queue: 16,
            strand_buffers: 4,
            strand_entries: 4,
            strand_write_backs: 8,
            tlb_entries: 1024,
            ssp_entries: 1024,
            ssp_miss: Time::from_ns(50),
            ssp_eager: true,
            ssp_spare: 256,
            ssp_journal: 4096,
            log_buffer: 64,
            switch_entries: 128,
            switch_way: Time::from_ns(70),
            locks_in_order: true,
            dependent_loads: 0.0,
        }
    }
}

impl Config {
    pub(super) fn validate_pipeline(&self) -> Result<(), ConfigError> {
        let Pipeline { cycle, dependent_loads, .. } = self.cores.pipeline;
        let pipeline = &self.cores.pipeline;
        if !(1..=1_000_000).contains(&cycle.0) {
            return Err(self.wrong("cores.pipeline.cycle", cycle, "use 1ps to 1us"));
        }
        self.times(
            "cores.pipeline",
            &[
                ("full_fence", pipeline.full_fence),
                ("ssp_miss", pipeline.ssp_miss),
                ("switch_way", pipeline.switch_way),
            ],
        )?;
        for (key, value, high) in [
            ("issue_width", pipeline.issue_width, 64),
            ("retire_width", pipeline.retire_width, 64),
            ("rob", pipeline.rob, 65_536),
            ("load_queue", pipeline.load_queue, 65_536),
            ("store_queue", pipeline.store_queue, 65_536),
            ("flush_slots", pipeline.flush_slots, 1024),
            ("nt_slots", pipeline.nt_slots, 1024),
            ("private_lines", pipeline.private_lines, 1024),
            ("persist_buffer", pipeline.persist_buffer, 1024),
            ("persist_queue", pipeline.persist_queue, 1024),
            ("strand_buffers", pipeline.strand_buffers, 16),
            ("strand_entries", pipeline.strand_entries, 1024),
            ("strand_write_backs", pipeline.strand_write_backs, 1024),
            ("tlb_entries", pipeline.tlb_entries, 65_536),
            ("ssp_entries", pipeline.ssp_entries, 1 << 20),
            ("ssp_spare", pipeline.ssp_spare, 1 << 20),
            ("ssp_journal", pipeline.ssp_journal, 1 << 20),
            ("log_buffer", pipeline.log_buffer, 1024),
            ("switch_entries", pipeline.switch_entries, 65_536),
        ] {
            self.range(&format!("cores.pipeline.{key}"), value, 1, high)?;
        }
        if !(0.0..=1.0).contains(&dependent_loads) {
            return Err(self.wrong("cores.pipeline.dependent_loads", dependent_loads, "use 0 to 1"));
        }
        if pipeline.ordering.buffers() && self.memory.persistence == Domain::Eadr {
            let remedy = "use adr: with eadr the caches are durable and there is nothing to buffer";
            return Err(self.wrong("memory.persistence", self.memory.persistence, remedy));
        }
        Ok(())
    }
}
