//! Room, where a store is full.
//!
//! Slabs of which all slots are free become chunks again. Of logs the most outdated are collected, whether
//! they wait for that or not. A log that is still appended to can't be collected, so those that have anything
//! outdated are ended first: a store in which all that was deleted lies in open logs has room, too. What
//! garbage collection copied lies in a log of its own, and where nothing else is left, new records go on in
//! that.

use std::sync::atomic::Ordering::Relaxed;

use space::Env;

use crate::chunks::Reserve;
use crate::handle::Handle;
use crate::lane::{Lane, Open};
use crate::layout::CHUNK_HEAD;
use crate::store::Store;
use crate::{Engine, Error};

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// Makes room for `wanted` bytes where there is none; whether there is more than before. Nothing is held.
    ///
    /// # Errors
    /// If a sync failed, or a record is damaged.
    pub(crate) fn make_room(&self, wanted: u64) -> Result<bool, Error> {
        if self.layout().engine == Engine::Slab {
            let freed = self.finish_all_replaced()?;
            let given_back = self.give_back_slots();
            return Ok(self.release_empty_slabs() || freed || given_back);
        }
        let mut collector = self.env.lock(&self.collector);
        let chunks = wanted.div_ceil(self.layout().chunk).try_into().unwrap_or(u32::MAX);
        let before = self.unused();
        self.end_open_logs(&mut collector, 2);
        let mut ended = false;
        // Twice all logs: the oldest may have to go before the tombstones of others can.
        for _ in 0..=2 * self.chunks.logs(&self.env).len() {
            if self.chunks.has_room(&self.env, chunks, Reserve::Keep) {
                return Ok(true);
            }
            let logs = self.chunks.logs(&self.env);
            let garbage = logs.iter().filter_map(|&(chunk, _)| Some((self.garbage(chunk)?.1, chunk)));
            match garbage.max().filter(|(outdated, _)| *outdated > 0) {
                Some((_, chunk)) => {
                    self.take_from_queue(chunk);
                    self.collect_log(&mut collector, chunk)?;
                }
                None if !ended => {
                    self.end_open_logs(&mut collector, u64::MAX);
                    ended = true;
                }
                None if self.tombstones.load(Relaxed) >= self.layout().chunk => {
                    if !self.collect_oldest(&mut collector)? {
                        break;
                    }
                }
                None => break,
            }
        }
        let more = self.unused() > before || self.chunks.has_room(&self.env, chunks, Reserve::Keep);
        Ok(more || self.hand_over(&mut collector, wanted))
    }

    /// Chunks that are free, less those that were ever used: what there will be is not known.
    fn unused(&self) -> i64 {
        let (high, free) = self.chunks.usage(&self.env);
        i64::from(free) - i64::from(high)
    }

    /// Ends the logs that are appended to and of which at least one part in `parts` is outdated, of more than
    /// nothing, so that they can be collected.
    fn end_open_logs(&self, collector: &mut Lane, parts: u64) {
        self.end_if_outdated(collector, parts);
        for lane in &self.lanes {
            self.end_if_outdated(&mut self.env.hold(lane), parts);
        }
    }

    fn end_if_outdated(&self, lane: &mut Lane, parts: u64) {
        let is_outdated = |open: &Open| {
            let bytes = open.at - self.layout().chunk_at(open.chunk) - CHUNK_HEAD;
            let outdated = self.chunks.info(open.chunk).outdated.load(Relaxed);
            outdated > 0 && outdated.saturating_mul(parts) >= bytes
        };
        if let Some(log) = lane.log.take_if(|open| is_outdated(open)) {
            self.end_log(lane, log);
        }
    }

    /// Has the calling thread go on in the log of garbage collection, if `wanted` bytes fit into it and there
    /// is room for another; whether it does.
    fn hand_over(&self, collector: &mut Lane, wanted: u64) -> bool {
        let mut lane = self.lane();
        let fits = |open: &Open| open.end - open.at >= wanted;
        if lane.log.as_ref().is_some_and(fits) || !self.chunks.has_room(&self.env, 1, Reserve::Share) {
            return false;
        }
        let Some(log) = collector.log.take_if(|open| fits(open)) else { return false };
        // What was copied to it is durable, but where copying was given up.
        self.fence();
        // Whoever waits for a record in it finds it noted here.
        self.take_over_notes(collector, &mut lane);
        if let Some(full) = lane.log.replace(log) {
            self.end_log(&mut lane, full);
        }
        true
    }

    fn take_over_notes(&self, from: &mut Lane, to: &mut Lane) {
        for (begin, end) in from.ranges.drain(..) {
            to.note(begin, end - begin);
        }
        to.full.append(&mut from.full);
    }
}
