//! Which allocation an address belongs to.
//!
//! Data of different allocations are different objects even where they are neighbours. A program may hold
//! millions of them, so only [`TRACKED_MAX`] are remembered; beyond that the small ones are let go, and an
//! address without an allocation has its 4 KiB page as its bounds if the heap was seen to be there, else
//! none.

use std::collections::BTreeMap;

use event::SiteId;

/// Allocations remembered at a time; 40 B each and the tree's own.
const TRACKED_MAX: usize = 1 << 18;
/// Once the table is full, only allocations from this size on are remembered.
const LARGE: u64 = 4096;
const PAGE: u64 = 4096;

/// An object: where it lies and who allocated it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) start: u64,
    /// Past its last byte.
    pub(super) end: u64,
    /// [`SiteId::UNKNOWN`] if it is a page or all memory.
    pub(super) site: SiteId,
}

/// What is allocated at the moment.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    live: BTreeMap<u64, (u64, SiteId)>,
    /// Addresses of small allocations that were not remembered lie between these.
    untracked: Option<(u64, u64)>,
}

impl Allocations {
    pub(super) fn add(&mut self, addr: u64, len: u64, site: SiteId) {
        let end = addr.saturating_add(len.max(1));
        if self.live.len() >= TRACKED_MAX && len < LARGE {
            let (low, high) = self.untracked.unwrap_or((addr, end));
            self.untracked = Some((low.min(addr), high.max(end)));
        } else if self.live.len() < 2 * TRACKED_MAX {
            self.live.insert(addr, (end, site));
        }
    }

    /// The allocation at `addr` ended. Returns its end, if it was known.
    pub(super) fn remove(&mut self, addr: u64) -> Option<u64> {
        self.live.remove(&addr).map(|(end, _)| end)
    }

    /// The object that contains `addr`.
    pub(super) fn object(&self, addr: u64) -> Object {
        if let Some((&start, &(end, site))) = self.live.range(..=addr).next_back()
            && addr < end
        {
            return Object { start, end, site };
        }
        if self.untracked.is_some_and(|(low, high)| (low..high).contains(&addr)) {
            let start = addr / PAGE * PAGE;
            return Object { start, end: start.saturating_add(PAGE), site: SiteId::UNKNOWN };
        }
        Object { start: 0, end: u64::MAX, site: SiteId::UNKNOWN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_allocation_around_it() {
        let mut allocations = Allocations::default();
        allocations.add(1000, 100, SiteId(3));
        allocations.add(1100, 50, SiteId(4));
        assert_eq!(allocations.object(1099), Object { start: 1000, end: 1100, site: SiteId(3) });
        assert_eq!(allocations.object(1100).site, SiteId(4));
        assert_eq!(allocations.object(1150), Object { start: 0, end: u64::MAX, site: SiteId::UNKNOWN });
        assert_eq!((allocations.remove(1000), allocations.remove(1000)), (Some(1100), None));
        assert_eq!(allocations.object(1050).site, SiteId::UNKNOWN);
    }

    #[test]
    fn small_allocations_beyond_the_bound_are_pages() {
        let mut allocations = Allocations::default();
        for n in 0..TRACKED_MAX as u64 + 10 {
            allocations.add((1 << 30) + n * 64, 48, SiteId(1));
        }
        assert_eq!(allocations.live.len(), TRACKED_MAX);
        let beyond = (1 << 30) + TRACKED_MAX as u64 * 64 + 70;
        assert_eq!(allocations.object(beyond).end - allocations.object(beyond).start, PAGE);
        allocations.add(1 << 40, 1 << 20, SiteId(9));
        assert_eq!(allocations.object((1 << 40) + 5).site, SiteId(9), "large ones are still followed");
    }
}
