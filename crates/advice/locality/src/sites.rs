//! What each code site did.

const SITES_MAX: usize = 1 << 16;
/// Arrays that a line of code walks through at once, at most.
const STREAMS: usize = 4;
/// Bytes from one access of an array to the next one, at most, unless its stride is known.
const NEAR: u64 = 1 << 20;

/// A walk through one array.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    last: u64,
    stride: i64,
    run: u32,
    thread: u32,
    start: u64,
    /// The site's accesses at the last one of it; 0: not in use.
    used: u64,
}

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
    /// Lines that it fetched into a first-level cache and that came there again later: how many, bytes used
    /// until then, and these together.
    pub(crate) again: u64,
    pub(crate) again_used: u64,
    pub(crate) again_or: u64,
    /// Strides: a line of code may walk through several arrays.
    streams: [Stream; STREAMS],
    /// The last of them.
    stream: usize,
    pub(crate) thread: u32,
    /// Walks that went on in the next column, their accesses and their stride.
    pub(crate) walks: u64,
    pub(crate) walked: u64,
    pub(crate) walk_stride: u64,
    pub(crate) walk_step: u64,
    /// Where they went.
    pub(crate) walk_range: Option<(u64, u64)>,
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

    /// A line that came to a first-level cache again after these bytes of it had been used there.
    pub(crate) fn came_again(&mut self, used: u64) {
        self.again += 1;
        self.again_used += u64::from(used.count_ones());
        self.again_or |= used;
    }

    /// The stride of its last walk, and its steps.
    pub(crate) fn stride(&self) -> (u64, u32) {
        let most = self.streams.iter().max_by_key(|of| of.run).copied().unwrap_or_default();
        let last = self.streams[self.stream];
        let of = if last.run > 2 { last } else { most };
        (of.stride.unsigned_abs(), of.run)
    }

    /// Whether much of what it does is to walk from column to column.
    pub(crate) fn walks_columns(&self) -> bool {
        self.walks >= 4 && self.walked * 3 >= self.accesses
    }

    /// Follows the strides. One line of code may access several fields of an element: what is near the last
    /// one is no step.
    #[inline]
    pub(crate) fn follow(&mut self, thread: u32, addr: u64) {
        (self.before, self.thread) = (addr, thread);
        self.stream = self.stream_of(thread, addr);
        let now = self.accesses.max(1);
        let stream = &mut self.streams[self.stream];
        let fresh = stream.used == 0 || stream.thread != thread;
        stream.used = now;
        let delta = addr.wrapping_sub(stream.last) as i64;
        if fresh {
            *stream = Stream { last: addr, start: addr, thread, used: now, ..Stream::default() };
        } else if delta.unsigned_abs() < 64 {
            return;
        } else if delta == stream.stride {
            stream.run += 1;
            self.steady += 1;
        } else {
            if stream.run >= 8 && stream.stride.unsigned_abs() >= 128 {
                let step = (addr.wrapping_sub(stream.start) as i64).unsigned_abs();
                if step > 0 && step <= 64 {
                    self.walks += 1;
                    self.walked += u64::from(stream.run) + 1;
                    self.walk_stride = stream.stride.unsigned_abs();
                    self.walk_step = step;
                    let (from, to) = (stream.start.min(stream.last), stream.start.max(stream.last));
                    let (low, high) = self.walk_range.unwrap_or((from, to));
                    self.walk_range = Some((low.min(from), high.max(to)));
                }
            }
            // What broke the old walk starts the new one, so that the first column's start is the second's, too.
            let jumped = delta.unsigned_abs() > 4096 && stream.run >= 8;
            (stream.stride, stream.run) = (delta, 1);
            stream.start = stream.last;
            if jumped {
                (stream.stride, stream.run, stream.start) = (0, 0, addr);
            }
        }
        stream.last = addr;
        self.jumps += 1;
    }

    /// The stream that an address goes on with; one that is not in use, or for the longest time, if there is
    /// none.
    #[inline]
    fn stream_of(&self, thread: u32, addr: u64) -> usize {
        let own = |of: &Stream| of.used != 0 && of.thread == thread;
        let continues = |of: &Stream| {
            let delta = addr.wrapping_sub(of.last) as i64;
            let next_column = || of.run >= 8 && (addr.wrapping_sub(of.start) as i64).unsigned_abs() <= 64;
            delta.unsigned_abs() < 64 || delta == of.stride && of.stride != 0 || next_column()
        };
        // The last one goes on, as a rule.
        let last = &self.streams[self.stream];
        if own(last) && continues(last) {
            return self.stream;
        }
        if let Some(found) = self.streams.iter().position(|of| own(of) && continues(of)) {
            return found;
        }
        let near = |of: &Stream| (addr.wrapping_sub(of.last) as i64).unsigned_abs();
        let begun = (0..STREAMS).filter(|&at| own(&self.streams[at]) && self.streams[at].run < 8);
        let nearest = begun.min_by_key(|&at| near(&self.streams[at]));
        if let Some(at) = nearest.filter(|&at| near(&self.streams[at]) < NEAR) {
            return at;
        }
        (0..STREAMS).min_by_key(|&at| self.streams[at].used).unwrap_or(0)
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
