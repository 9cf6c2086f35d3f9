//! Conservation laws of the machine with time.

use super::Simulation;
use crate::audit::{AuditError, equal};
use crate::{LINE_BYTES, Time};

impl Simulation {
    /// Checks every conservation law and the rules of coherence: what the caches' audit holds, that each line that left
    /// them reached the memory side once, and that each core's time is accounted for. Takes time in proportion to the
    /// caches.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn audit(&self) -> Result<(), AuditError> {
        let hierarchy = &self.shared.hierarchy;
        hierarchy.audit()?;
        let flows = &hierarchy.flows;
        let journal = &hierarchy.below;
        let [reads, writes] = self.shared.asked;
        let [made_reads, made_writes] = self.shared.made;
        let written = flows.core_to_memory + flows.llc_to_memory + flows.combining_to_memory + made_writes;
        let waiting: usize = self.cores.iter().map(|core| core.outgoing.waiting_count()).sum();
        let withheld = self.shared.withheld.evicted_count();
        equal(
            "journal",
            "reads = misses of LLC - forwards",
            journal.total_reads,
            flows.memory_reads + made_reads,
        )?;
        equal("journal", "writes = lines out", journal.total_writes, written)?;
        equal("memory side", "reads = reads in journal", reads, journal.total_reads)?;
        equal(
            "memory side",
            "writes + waiting + withheld + coalesced = writes in journal",
            writes + waiting as u64 + withheld as u64 + self.shared.coalesced,
            journal.total_writes,
        )?;
        let traffic = self.shared.hierarchy.below.memory.traffic();
        let [read, written]: [u64; 2] = [
            traffic.iter().map(|memory| memory.controller_read_bytes).sum(),
            traffic.iter().map(|memory| memory.controller_write_bytes).sum(),
        ];
        let sides = self.shared.hierarchy.below.memory.figures();
        let forwarded: u64 = sides.iter().map(|memory| memory.forwarded_reads).sum();
        let unread: u64 = sides.iter().map(|memory| memory.waiting_reads).sum();
        let queued: u64 = sides.iter().map(|memory| memory.adr.queued_bytes).sum();
        equal(
            "memory side",
            "bytes read + waiting = 64 * (reads - forwarded)",
            read + unread * LINE_BYTES,
            (reads - forwarded) * LINE_BYTES,
        )?;
        equal("memory side", "bytes written + queued = 64 * writes", written + queued, writes * LINE_BYTES)?;
        for core in &self.cores {
            let accounts = core.accounts.iter().chain([&core.window.account]);
            let spent: Time = accounts.map(|thread| thread.busy + thread.idle + thread.stalls.total()).sum();
            let name = format!("core {}", core.number);
            equal(&name, "busy + idle + stalled = its clock", spent.0, core.window.dispatch.0)?;
        }
        Ok(())
    }
}
