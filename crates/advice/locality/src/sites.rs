//! What each code site did.

const SITES_MAX: usize = 1 << 16;

/// One code site.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SiteState {
    pub(crate) accesses: u64,
    /// Lines that it brought into the table.
    pub(crate) fetches: u64,
    /// Of lines that it brought and that left: how many, and bytes used.
    pub(crate) left: u64,
    pub(crate) used: u64,
    /// Bytes of lines used, together.
    pub(crate) bytes_or: u64,
    pub(crate) stored: u64,
    /// Bytes of its stores that were stored over unread, and the site that did so last.
    pub(crate) dead: u64,
    pub(crate) dead_large: u64,
    pub(crate) over: u32,
    pub(crate) silent: u64,
    pub(crate) tlb_misses: u64,
    /// Misses of the first-level cache that one with hashed sets does not have, and the other way round.
    pub(crate) conflicts: u64,
    pub(crate) hash_misses: u64,
    pub(crate) misses_l1: u64,
    /// Strides.
    pub(crate) last: u64,
    pub(crate) stride: i64,
    pub(crate) run: u32,
    pub(crate) start: u64,
    pub(crate) thread: u32,
    /// Walks that went on in the next column, their accesses and their stride.
    pub(crate) walks: u64,
    pub(crate) walked: u64,
    pub(crate) walk_stride: u64,
    pub(crate) walk_step: u64,
    /// Steps of a line and more, and those of them that continue a constant stride.
    pub(crate) jumps: u64,
    pub(crate) steady: u64,
    /// The last address.
    pub(crate) before: u64,
    /// Misses that had to wait for a pointer of the block that was missed before, and chains of them; where.
    pub(crate) hops: u64,
    pub(crate) chains: u64,
    pub(crate) offset: u64,
    pub(crate) from: u32,
    /// Misses that began with another element, and those whose element lay on two lines.
    pub(crate) visits: u64,
    pub(crate) pairs: u64,
    /// Load misses at addresses that follow no stride: right after something was read from an array in order, and others.
    pub(crate) indexed: u64,
    pub(crate) unindexed: u64,
    /// Load misses of lines that a prefetch asked for shortly before, and how many accesses before, together;
    /// by whom last.
    pub(crate) prefetched: u64,
    pub(crate) ahead: u64,
    pub(crate) prefetcher: u32,
    /// Misses to pages that a thread of another node touched first.
    pub(crate) remote: u64,
}

impl SiteState {
    /// A line that it brought left; these bytes of it were used.
    pub(crate) fn left_with(&mut self, touched: u64) {
        self.left += 1;
        self.used += u64::from(touched.count_ones());
        self.bytes_or |= touched;
    }

    /// Follows the stride. One line of code may access several fields of an element: what is near the last one is no step.
    #[inline]
    pub(crate) fn follow(&mut self, thread: u32, addr: u64) {
        self.before = addr;
        let delta = addr.wrapping_sub(self.last) as i64;
        if self.thread != thread {
            (self.thread, self.stride, self.run, self.start) = (thread, 0, 0, addr);
        } else if delta.unsigned_abs() < 64 {
            return;
        } else if delta == self.stride {
            self.run += 1;
            self.steady += 1;
        } else {
            if self.run >= 8 && self.stride.unsigned_abs() >= 128 {
                let step = (addr.wrapping_sub(self.start) as i64).unsigned_abs();
                if step > 0 && step <= 64 {
                    self.walks += 1;
                    self.walked += u64::from(self.run) + 1;
                    self.walk_stride = self.stride.unsigned_abs();
                    self.walk_step = step;
                }
            }
            // What broke the old walk starts the new one, so that the first column's start is the second's, too.
            let jumped = delta.unsigned_abs() > 4096 && self.run >= 8;
            (self.stride, self.run) = (delta, 1);
            self.start = self.last;
            if jumped {
                (self.stride, self.run, self.start) = (0, 0, addr);
            }
        }
        self.last = addr;
        self.jumps += 1;
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sites(pub(crate) Vec<SiteState>);

impl Sites {
    #[inline]
    pub(crate) fn get(&mut self, site: u32) -> &mut SiteState {
        let at = if (site as usize) < SITES_MAX { site as usize } else { 0 };
        if at >= self.0.len() {
            self.0.resize(at + 1, SiteState::default());
        }
        &mut self.0[at]
    }
}
