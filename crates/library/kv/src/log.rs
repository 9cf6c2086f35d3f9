//! The log engine's part of writing: records one after the other.

use std::sync::atomic::{Ordering, fence};

use region::Ticket;
use space::{Env, Space};

use crate::chunks::Reserve;
use crate::handle::Handle;
use crate::lane::{Lane, Open};
use crate::layout::{CHUNK_HEAD, Use};
use crate::store::Store;
use crate::{Error, Values};

/// Bytes of a log from one mark to the next, at least; less in chunks that are shorter than 64 times that.
const MARK_EVERY: u64 = 16 << 10;

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// The calling thread's lane, with a log that has room for `bytes`; where there is no room for another
    /// log, any lane whose log has.
    pub(crate) fn lane_with_log(
        &self,
        bytes: u64,
        reserve: Reserve,
    ) -> Result<(E::LatchGuard<'_, Lane>, Open), Error> {
        let mut lane = self.lane();
        let full = match self.open_log(&mut lane, bytes, reserve) {
            Ok(open) => return Ok((lane, open)),
            Err(full @ Error::Full { .. }) => full,
            Err(other) => return Err(other),
        };
        drop(lane);
        for lane in &self.lanes {
            let lane = self.env.hold(lane);
            if let Some(open) = lane.log.filter(|open| open.at + bytes <= open.end) {
                return Ok((lane, open));
            }
        }
        Err(full)
    }

    /// Makes sure that the lane's log has room for `bytes`.
    pub(crate) fn open_log(&self, lane: &mut Lane, bytes: u64, reserve: Reserve) -> Result<Open, Error> {
        if let Some(open) = lane.log
            && open.at + bytes <= open.end
        {
            return Ok(open);
        }
        let most = self.layout().chunk - CHUNK_HEAD;
        if bytes > most {
            return Err(Error::TooLong { what: "batch", bytes, most });
        }
        let (chunk, head) = self.chunks.take(&self.env, Use::Log, 0, 1, reserve)?;
        self.log_bytes.fetch_add(self.layout().chunk, Ordering::Relaxed);
        self.new_log.store(true, Ordering::Relaxed);
        if let Some(full) = lane.log.take() {
            self.end_log(lane, full);
        }
        let begin = self.layout().chunk_at(chunk);
        let end = begin + self.layout().chunk;
        let at = begin + CHUNK_HEAD;
        let open = Open { chunk, generation: head.generation, at, end, marked: at, next_mark: None };
        lane.log = Some(open);
        Ok(open)
    }

    /// Says now and then in the chunk's head up to where the lane's log is durable. What is not whole before
    /// that is damaged, and no record that a crash tore. The lane's owner calls it when all that it appended
    /// is durable, or noted.
    pub(crate) fn mark(&self, lane: &mut Lane) {
        let every = MARK_EVERY.min(self.layout().chunk / 64);
        let Some(open) = lane.log.filter(|open| open.at >= open.marked + every) else { return };
        let (until, ticket) = if self.due.at_once() {
            (open.at, Ticket::DUE)
        } else {
            open.next_mark.unwrap_or((open.at, self.due.latest()))
        };
        let due = self.due.at_once() || self.due.is_done(&self.env, ticket);
        let next = if due { (until, None) } else { (open.marked, Some((until, ticket))) };
        lane.log = Some(Open { marked: next.0, next_mark: next.1, ..open });
        if due {
            // Durable with whatever is next; until then an older mark is right, too.
            self.layout().set_detail(self.env.space(), open.chunk, open.generation, until | 1);
            if !self.due.at_once() {
                lane.note(self.layout().chunk_at(open.chunk), CHUNK_HEAD);
            }
        }
    }

    /// Nothing is appended any more.
    pub(crate) fn end_log(&self, lane: &mut Lane, log: Open) {
        let info = self.chunks.info(log.chunk);
        info.detail.store(log.at, Ordering::Relaxed);
        if self.due.at_once() {
            self.layout().set_detail(self.env.space(), log.chunk, log.generation, log.at);
        } else {
            // The end is right once everything before it is durable.
            lane.full.push((log.chunk, self.due.latest()));
        }
        self.weigh(log.chunk);
    }

    /// Writes down where full logs end, as far as what they hold is durable.
    pub(crate) fn confirm_ends(&self, lane: &mut Lane) {
        let mut full = std::mem::take(&mut lane.full);
        full.retain(|&(chunk, ticket)| {
            let done = self.due.is_done(&self.env, ticket);
            let head = self.chunks.info(chunk).head();
            if done && head.used == Use::Log {
                self.layout().set_detail(self.env.space(), chunk, head.generation, head.detail);
                lane.note(self.layout().chunk_at(chunk), CHUNK_HEAD);
            }
            !done
        });
        lane.full = full;
    }

    /// Appends the bytes of the lane's buffer, which are whole, at the place that `open_log` said.
    pub(crate) fn append(&self, lane: &mut Lane, open: Open) {
        let bytes = lane.buffer.len() as u64;
        self.store_bytes(lane, open.at);
        lane.log = Some(Open { at: open.at + bytes, ..open });
    }

    /// Stores the lane's buffer at `offset`: durable after the next fence, or noted for whoever waits.
    pub(crate) fn store_bytes(&self, lane: &mut Lane, offset: u64) {
        let space = self.env.space();
        // Readers who find these bytes in a record that they still had find a newer version, too.
        fence(Ordering::Release);
        space.store(offset, &lane.buffer);
        let len = lane.buffer.len() as u64;
        if !self.due.at_once() {
            lane.note(offset, len);
        } else if self.options.values == Values::Flush {
            space.flush(offset, len);
        }
    }
}
