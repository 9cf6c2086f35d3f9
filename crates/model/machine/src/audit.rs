//! Conservation laws: what goes into a component comes out of it or is still there.
//!
//! Each component counts what it takes and gives; what it holds is counted afresh from its contents. The
//! edges between components are counted separately ([`crate::hierarchy::Flows`]), so a line that
//! is lost, doubled or charged to nobody breaks a law.

use crate::cache::{Counts, Line, dirty_lines};
use crate::hierarchy::Hierarchy;
use crate::{LINE_BYTES, Machine, SiteMemory, Traffic};

/// A conservation law that does not hold: a defect of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{component}: {law}: {left} is not {right}")]
pub struct AuditError {
    /// Where.
    pub component: String,
    /// The law, as an equation.
    pub law: &'static str,
    /// The left side's value.
    pub left: u64,
    /// The right side's.
    pub right: u64,
}

pub(crate) fn equal(component: &str, law: &'static str, left: u64, right: u64) -> Result<(), AuditError> {
    if left == right { Ok(()) } else { Err(AuditError { component: component.to_owned(), law, left, right }) }
}

fn balanced(component: &str, counts: &Counts, held: u64) -> Result<(), AuditError> {
    equal(
        component,
        "dirty in = absorbed + out + held",
        counts.dirty_in,
        counts.dirty_absorbed + counts.dirty_out + held,
    )
}

impl Machine {
    /// Checks every conservation law and the rules of coherence. Takes time in proportion to the caches.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn audit(&self) -> Result<(), AuditError> {
        self.hierarchy.audit()?;
        self.audit_memories()
    }

    fn audit_memories(&self) -> Result<(), AuditError> {
        let hierarchy = &self.hierarchy;
        let flows = &hierarchy.flows;
        let [volatile, persistent] = hierarchy.below.totals();
        let mut total = volatile;
        total.add(&persistent);
        let reads = hierarchy.llc_counts.misses - hierarchy.llc_counts.forwards;
        equal("memory", "reads = misses of LLC - forwards", flows.memory_reads, reads)?;
        equal("memory", "bytes read = 64 * reads", total.controller_read_bytes, reads * LINE_BYTES)?;
        let written = flows.core_to_memory + flows.llc_to_memory + flows.combining_to_memory;
        equal(
            "memory",
            "bytes written = 64 * lines out",
            total.controller_write_bytes,
            written * LINE_BYTES,
        )?;
        for (number, dimm) in hierarchy.below.dimms().enumerate() {
            for (law, left, right) in dimm.balances() {
                equal(&format!("DIMM {number}"), law, left, right)?;
            }
        }
        for (memory, name, total) in [(0, "volatile", volatile), (1, "persistent", persistent)] {
            self.audit_sites(memory, name, &total)?;
        }
        Ok(())
    }

    fn audit_sites(&self, memory: usize, name: &str, total: &Traffic) -> Result<(), AuditError> {
        let sum = |of: fn(&SiteMemory) -> u64| {
            self.hierarchy.below.sites.iter().map(|site| of(&site[memory])).sum()
        };
        equal(name, "sites' reads = all reads", sum(|site| site.read_bytes), total.controller_read_bytes)?;
        let written = sum(|site| site.controller_write_bytes);
        equal(name, "sites' writes = all writes", written, total.controller_write_bytes)?;
        let media = sum(|site| site.media_write_bytes);
        equal(name, "sites' media writes = all media writes", media, total.media_write_bytes)
    }
}

impl<B> Hierarchy<B> {
    /// Checks the laws that hold whatever lies below the caches.
    pub(crate) fn audit(&self) -> Result<(), AuditError> {
        self.audit_caches()?;
        self.audit_coherence()
    }

    fn audit_caches(&self) -> Result<(), AuditError> {
        let hierarchy = self;
        let flows = &hierarchy.flows;
        let (mut l1, mut l2) = (Counts::default(), Counts::default());
        for (number, core) in hierarchy.cores.iter().enumerate() {
            let (in_l1, in_l2) = core.held_dirty_lines();
            balanced(&format!("L1 {number}"), &core.l1_counts, in_l1)?;
            balanced(&format!("L2 {number}"), &core.l2_counts, in_l2)?;
            let buffers = &core.combining;
            let accounted = buffers.bytes_absorbed + buffers.bytes_out + buffers.held_bytes();
            let name = format!("combining buffers {number}");
            equal(&name, "bytes in = absorbed + out + held", buffers.bytes_in, accounted)?;
            equal(&format!("core {number}"), "L1 lines in L2 = L1 lines", u64::from(core.links_hold()), 1)?;
            l1.add(&core.l1_counts);
            l2.add(&core.l2_counts);
        }
        let llc = &hierarchy.llc_counts;
        balanced("LLC", llc, dirty_lines(&hierarchy.llc))?;
        let came = l1.dirty_out + flows.llc_to_core + flows.core_to_core;
        equal("L2", "dirty in = from L1 + from LLC + from cores", l2.dirty_in, came)?;
        let went = flows.core_to_core + flows.core_to_llc + flows.core_to_memory;
        equal("L2", "dirty out = to cores + to LLC + to memory", l2.dirty_out, went)?;
        equal("LLC", "dirty in = from cores", llc.dirty_in, flows.core_to_llc)?;
        equal(
            "LLC",
            "dirty out = to cores + to memory",
            llc.dirty_out,
            flows.llc_to_core + flows.llc_to_memory,
        )?;
        equal("L2", "hits + misses = misses of L1", l2.hits + l2.misses, l1.misses)?;
        let asked = l2.misses + flows.prefetches;
        equal("LLC", "hits + misses = misses and prefetches of L2", llc.hits + llc.misses, asked)
    }

    /// A dirty line of a core is exclusive, and an exclusive line is nowhere else.
    fn audit_coherence(&self) -> Result<(), AuditError> {
        let hierarchy = self;
        for (number, core) in hierarchy.cores.iter().enumerate() {
            let name = format!("core {number}");
            let held = || core.l2.held().map(|(_, tag, line)| (tag, line));
            let shared_dirty = held().filter(|(_, line)| line.dirty() && !line.exclusive()).count();
            equal(&name, "dirty lines that are shared = none", shared_dirty as u64, 0)?;
            let elsewhere = |&(tag, _): &(u64, Line)| {
                let others = hierarchy.cores.iter().enumerate().filter(|(other, _)| *other != number);
                hierarchy.llc.find(tag).is_some()
                    || others.into_iter().any(|(_, other)| other.l2.find(tag).is_some())
            };
            let doubled = held().filter(|(_, line)| line.exclusive()).filter(elsewhere).count();
            equal(&name, "exclusive lines with copies = none", doubled as u64, 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event::{Batch, Event, Op, Sink, SiteId, ThreadId};

    use super::*;
    use crate::Config;
    use crate::cache::DIRTY;

    /// Falsifies one number.
    type Cook = fn(&mut Machine);

    fn after_some_stores() -> Machine {
        let mut machine = Machine::new(&Config::preset("xpoint").unwrap()).unwrap();
        for thread in 0..2 {
            let store = |line: u64| Op::Store { addr: line * 4096, len: 8 };
            let events: Vec<Event> =
                (0..100).map(|line| Event { op: store(line), site: SiteId(1), instructions: 1 }).collect();
            machine
                .push(Batch { thread: ThreadId(thread), time_ns: 0, events: &events, values: &[] })
                .unwrap();
        }
        machine
    }

    #[test]
    fn a_cooked_book_is_found() {
        assert_eq!(after_some_stores().audit(), Ok(()));
        let cooks: [(&str, Cook); 5] = [
            ("memory", |machine| machine.hierarchy.flows.memory_reads += 1),
            ("LLC", |machine| machine.hierarchy.llc_counts.misses += 1),
            ("L2 1", |machine| {
                let l2 = &mut machine.hierarchy.cores[1].l2;
                let taken = l2.held().next().unwrap().0;
                let line = &mut l2.slots[taken].item;
                if line.dirty() { line.clear(DIRTY) } else { line.set(DIRTY) }
            }),
            ("volatile", |machine| machine.hierarchy.below.sites[1][0].read_bytes += 64),
            ("combining buffers 0", |machine| machine.hierarchy.cores[0].combining.bytes_in += 8),
        ];
        for (component, cook) in cooks {
            let mut machine = after_some_stores();
            cook(&mut machine);
            let error = machine.audit().expect_err(component);
            assert_eq!(error.component, component, "{error}");
        }
    }
}
