//! Two TLBs side by side: one of 4 KiB pages and one of 2 MiB pages, so that large pages are tried and not guessed.

use crate::cache::Cache;

/// Misses of both.
#[derive(Clone, Debug)]
pub(crate) struct Tlb {
    small: Cache,
    large: Cache,
    last: u64,
    pub(crate) large_misses: u64,
}

impl Tlb {
    /// Of so many entries each, in sets of 8.
    pub(crate) fn new(entries: usize) -> Self {
        let of = |entries: usize| Cache::new(entries as u64 * 64, 8);
        Tlb { small: of(entries), large: of(entries), last: u64::MAX, large_misses: 0 }
    }

    /// Whether the 4 KiB pages missed.
    #[inline]
    pub(crate) fn touch(&mut self, addr: u64) -> bool {
        let page = addr >> 12;
        if page == self.last {
            return false;
        }
        self.last = page;
        self.large_misses += u64::from(self.large.misses(page >> 9));
        self.small.misses(page)
    }
}
