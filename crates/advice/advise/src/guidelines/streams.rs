//! Write runs: what one write is to the device, however many instructions it took.

use std::hint::select_unpredictable;

use event::SiteId;

/// Runs that one thread follows at a time.
const STREAMS: usize = 8;
/// A store joins a run that is nearer than a line: caches write lines whole, so smaller gaps (padding,
/// fields that keep their value) make no difference to the device.
const REACH: u64 = 64;

/// A run that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The code that stored most of it.
    pub(super) site: SiteId,
    /// From its first to its last byte.
    pub(super) bytes: u64,
    /// Bytes of all its stores: more, if it was stored over while it lasted.
    pub(super) stored: u64,
    /// In how many pieces the program made it durable: a log of small records is one run in many pieces.
    pub(super) pieces: u64,
    /// Whether the stores were non-temporal.
    pub(super) nt: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    lo: u64,
    hi: u64,
    /// What lies below was flushed: storing to it again is a new write.
    flushed_to: u64,
    /// `Streams::fences` after the next fence, if something was flushed since the piece began; else 0.
    durable_at: u64,
    pieces: u64,
    stored: u64,
    site: SiteId,
    nt: bool,
    /// Majority vote over the bytes (Boyer and Moore): how far `site` is ahead.
    votes: u64,
}

/// The runs that a thread has open in one kind of memory, least recently used first to go.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// Lowest address that joins each run, and from there the number of addresses that do (0: no run):
    /// all that the search looks at.
    base: [u64; STREAMS],
    width: [u64; STREAMS],
    /// When each was last stored to.
    used: [u64; STREAMS],
    streams: [Stream; STREAMS],
    last: usize,
    clock: u64,
    /// Fences of the thread.
    fences: u64,
}

impl Streams {
    pub(super) fn new() -> Self {
        let none = Stream {
            lo: 0,
            hi: 0,
            flushed_to: 0,
            durable_at: 0,
            pieces: 0,
            stored: 0,
            site: SiteId::UNKNOWN,
            nt: false,
            votes: 0,
        };
        Streams {
            base: [0; STREAMS],
            width: [0; STREAMS],
            used: [0; STREAMS],
            streams: [none; STREAMS],
            last: 0,
            clock: 0,
            fences: 0,
        }
    }

    /// Takes a store of `len` bytes, at least 1; returns the run that ended with it.
    #[inline]
    pub(super) fn store(&mut self, addr: u64, len: u32, nt: bool, site: SiteId) -> Option<Run> {
        self.clock += 1;
        let Some(at) = self.find(addr) else { return self.replace(self.oldest(), addr, len, nt, site) };
        if self.rewrites(at, addr, len, nt) {
            return self.replace(at, addr, len, nt, site);
        }
        self.last = at;
        self.used[at] = self.clock;
        let fences = self.fences;
        let stream = &mut self.streams[at];
        if stream.durable_at != 0 && stream.durable_at <= fences {
            stream.pieces += 1;
            stream.durable_at = 0;
        }
        if nt {
            stream.durable_at = fences + 1;
        }
        let bytes = u64::from(len);
        stream.stored += bytes;
        // No branches: which way they go changes from store to store.
        let (ours, votes) = (stream.site == site, stream.votes);
        let fewer = votes.abs_diff(bytes);
        stream.votes = select_unpredictable(ours, votes + bytes, fewer);
        stream.site = select_unpredictable(ours | (votes >= bytes), stream.site, site);
        let end = addr.saturating_add(bytes);
        if (addr < stream.lo) | (end > stream.hi) {
            stream.lo = stream.lo.min(addr);
            stream.hi = stream.hi.max(end);
            self.frame(at);
        }
        None
    }

    /// The line that contains `addr` was flushed by this thread.
    pub(super) fn flush(&mut self, addr: u64) {
        let line = addr & !(REACH - 1);
        for (at, stream) in self.streams.iter_mut().enumerate() {
            if self.width[at] > 0 && stream.lo < line.saturating_add(REACH) && stream.hi > line {
                stream.flushed_to = stream.flushed_to.max(stream.hi.min(line.saturating_add(REACH)));
                stream.durable_at = self.fences + 1;
            }
        }
    }

    /// The thread fenced.
    #[inline]
    pub(super) fn fence(&mut self) {
        self.fences += 1;
    }

    /// Ends all runs.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Run> + use<> {
        let ended: [Option<Run>; STREAMS] = std::array::from_fn(|at| self.end(at));
        self.width = [0; STREAMS];
        ended.into_iter().flatten()
    }

    /// The run that a store at `addr` joins: the last one if it does, else the first of those.
    #[inline]
    fn find(&self, addr: u64) -> Option<usize> {
        let joins = |&at: &usize| addr.wrapping_sub(self.base[at]) < self.width[at];
        let last = self.last % STREAMS;
        if joins(&last) { Some(last) } else { (0..STREAMS).find(joins) }
    }

    /// Whether the store is a write of its own on top of a run: of the other kind, over bytes that were
    /// flushed, or a bulk or non-temporal store over what the run has written.
    #[inline]
    fn rewrites(&self, at: usize, addr: u64, len: u32, nt: bool) -> bool {
        let stream = &self.streams[at];
        if stream.nt != nt {
            return true;
        }
        let bulk = nt || u64::from(len) >= REACH;
        let written = if bulk { stream.hi } else { stream.flushed_to };
        addr < written && addr.saturating_add(u64::from(len)) > stream.lo
    }

    fn oldest(&self) -> usize {
        let mut oldest = 0;
        for at in 1..STREAMS {
            // A place without a run has never been used, or was emptied with all others.
            if self.used[at] < self.used[oldest] {
                oldest = at;
            }
        }
        oldest
    }

    fn replace(&mut self, at: usize, addr: u64, len: u32, nt: bool, site: SiteId) -> Option<Run> {
        let ended = self.end(at);
        let bytes = u64::from(len);
        let hi = addr.saturating_add(bytes);
        self.streams[at] = Stream {
            lo: addr,
            hi,
            flushed_to: 0,
            durable_at: if nt { self.fences + 1 } else { 0 },
            pieces: 1,
            stored: bytes,
            site,
            nt,
            votes: bytes,
        };
        self.used[at] = self.clock;
        self.frame(at);
        self.last = at;
        ended
    }

    #[inline]
    fn frame(&mut self, at: usize) {
        let Stream { lo, hi, .. } = self.streams[at];
        self.base[at] = lo.wrapping_sub(REACH);
        self.width[at] = (hi - lo).saturating_add(2 * REACH);
    }

    fn end(&self, at: usize) -> Option<Run> {
        let Stream { lo, hi, site, pieces, stored, nt, .. } = self.streams[at];
        (self.width[at] > 0).then_some(Run { site, bytes: hi - lo, stored, pieces, nt })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: SiteId = SiteId(1);
    const B: SiteId = SiteId(2);

    fn sizes(stores: impl IntoIterator<Item = (u64, u32)>) -> Vec<u64> {
        let mut streams = Streams::new();
        let mut runs: Vec<Run> =
            stores.into_iter().filter_map(|(addr, len)| streams.store(addr, len, false, A)).collect();
        runs.extend(streams.drain());
        assert_eq!(streams.drain().count(), 0, "drained twice");
        runs.iter().map(|run| run.bytes).collect()
    }

    #[test]
    fn words_that_fill_a_kilobyte_are_one_write() {
        assert_eq!(sizes((0..128).map(|i| (4096 + 8 * i, 8))), [1024]);
        assert_eq!(sizes((0..128).rev().map(|i| (4096 + 8 * i, 8))), [1024]);
    }

    #[test]
    fn interleaved_runs_are_kept_apart() {
        let stores = (0..64u64).flat_map(|i| (0..8u64).map(move |s| ((s << 20) + 8 * i, 8)));
        assert_eq!(sizes(stores), [512; 8]);
    }

    #[test]
    fn scattered_words_are_one_write_each() {
        assert_eq!(sizes((0..100).map(|i| (i * 4096, 8))), [8; 100]);
    }

    #[test]
    fn fields_out_of_order_with_padding_are_one_write() {
        assert_eq!(sizes([(1016, 8), (1000, 4), (1040, 8), (1008, 8)]), [48]);
    }

    #[test]
    fn a_store_next_to_a_line_joins_and_one_beyond_does_not() {
        assert_eq!(sizes([(1000, 8), (1008 + 63, 1)]), [72]);
        assert_eq!(sizes([(1000, 8), (1008 + 64, 1)]), [8, 1]);
    }

    #[test]
    fn rewriting_after_a_flush_is_a_new_write_and_appending_is_not() {
        let mut streams = Streams::new();
        assert_eq!(streams.store(640, 8, false, A), None);
        assert_eq!(streams.store(640, 8, false, A), None, "the cache merges it");
        streams.flush(640);
        assert_eq!(
            streams.store(640, 8, false, A),
            Some(Run { site: A, bytes: 8, stored: 16, pieces: 1, nt: false })
        );
        streams.flush(640);
        streams.fence();
        assert_eq!(streams.store(648, 8, false, A), None);
        assert_eq!(
            streams.drain().next(),
            Some(Run { site: A, bytes: 16, stored: 16, pieces: 2, nt: false })
        );
    }

    #[test]
    fn a_log_is_one_run_in_a_piece_per_durable_record() {
        let mut streams = Streams::new();
        for record in 0..10 {
            for word in 0..8 {
                streams.store(4096 + record * 64 + word * 8, 8, false, A);
            }
            streams.flush(4096 + record * 64);
            streams.fence();
            streams.fence();
        }
        assert_eq!(
            streams.drain().next(),
            Some(Run { site: A, bytes: 640, stored: 640, pieces: 10, nt: false })
        );
        for half in 0..20 {
            streams.store(half * 64, 64, true, B);
            if half % 2 == 1 {
                streams.fence();
            }
        }
        assert_eq!(
            streams.drain().next(),
            Some(Run { site: B, bytes: 1280, stored: 1280, pieces: 10, nt: true })
        );
    }

    #[test]
    fn copying_over_a_buffer_again_is_a_new_write() {
        assert_eq!(sizes([(0, 4096), (0, 4096), (0, 4096)]), [4096; 3]);
    }

    #[test]
    fn the_run_belongs_to_the_code_that_stored_most() {
        let mut streams = Streams::new();
        streams.store(0, 8, false, A);
        streams.store(8, 64, false, B);
        streams.store(72, 8, false, A);
        assert_eq!(streams.drain().next().map(|run| run.site), Some(B));
    }

    #[test]
    fn kinds_do_not_mix() {
        let mut streams = Streams::new();
        streams.store(0, 64, true, A);
        assert_eq!(
            streams.store(64, 8, false, A),
            Some(Run { site: A, bytes: 64, stored: 64, pieces: 1, nt: true })
        );
    }

    proptest! {
        #[test]
        fn no_byte_is_in_fewer_runs_than_stores_far_apart(
            stores in prop::collection::vec((any::<u64>(), 1u32..100_000, any::<bool>()), 1..200)
        ) {
            let mut streams = Streams::new();
            let mut runs = 0;
            for &(addr, len, nt) in &stores {
                if let Some(run) = streams.store(addr, len, nt, A) {
                    prop_assert!(run.bytes >= 1);
                    runs += 1;
                }
                streams.flush(addr);
            }
            let open = streams.drain().count();
            prop_assert!(open <= STREAMS && runs + open <= stores.len() && open >= 1);
        }
    }
}
