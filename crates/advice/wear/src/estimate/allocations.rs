//! Which allocation a line is of.

use std::collections::BTreeMap;

use event::map::Map;
use event::{Event, Op};

/// The latest allocation at each address, and the writes to what each site allocated.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    /// By first byte: bytes and site. What was freed stays until its memory is allocated again, since its
    /// lines are written back later.
    live: BTreeMap<u64, (u64, u32)>,
    writes: Map<u32, u64>,
}

impl Allocations {
    /// Learns what was allocated.
    pub fn note(&mut self, events: &[Event]) {
        for event in events {
            if let Op::Alloc { addr, len } = event.op {
                let behind: Vec<u64> =
                    self.live.range(addr..addr.saturating_add(len)).map(|(first, _)| *first).collect();
                behind.iter().for_each(|first| {
                    self.live.remove(first);
                });
                self.live.insert(addr, (len, event.site.0));
            }
        }
    }

    /// `addr` is written back.
    pub fn written(&mut self, addr: u64) {
        if self.live.is_empty() {
            return;
        }
        let line_end = addr + 63;
        let found = self.live.range(..=line_end).next_back();
        if let Some((&first, &(len, site))) = found
            && addr < first.saturating_add(len)
        {
            *self.writes.entry(site).or_default() += 1;
        }
    }

    /// Allocation sites by the lines written to what they allocated, the most first.
    #[must_use]
    pub fn sites(&self) -> Vec<(u32, u64)> {
        let mut sites: Vec<(u32, u64)> = self.writes.iter().map(|(&site, &writes)| (site, writes)).collect();
        sites.sort_unstable_by_key(|&(site, writes)| (std::cmp::Reverse(writes), site));
        sites
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::SiteId;

    #[test]
    fn memory_belongs_to_who_allocated_it_last() {
        let alloc =
            |addr, len, site| Event { op: Op::Alloc { addr, len }, site: SiteId(site), instructions: 0 };
        let mut allocations = Allocations::default();
        allocations.note(&[alloc(0x1000, 64, 1), alloc(0x1040, 64, 2)]);
        [0x1000, 0x1040, 0x2000].iter().for_each(|addr| allocations.written(*addr));
        allocations.note(&[alloc(0x1000, 128, 3)]);
        allocations.written(0x1040);
        assert_eq!(allocations.sites(), [(1, 1), (2, 1), (3, 1)]);
    }
}
