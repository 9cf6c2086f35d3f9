//! Garbage collection of logs.
//!
//! A log of which half is outdated waits in a queue. Who collects it copies what is still in use to a log of
//! its own, makes the copies durable, all together, and gives the chunk back. Whoever needs a new log while
//! too many wait collects one first, so that garbage never grows without bound, and writing is as fast as
//! collecting.
//!
//! A tombstone is kept as long as an older record of its key may lie in some log: until all logs that there
//! were when it was written have been collected, and until one in chunks of its own is cleared. Only then it
//! counts as outdated. So that logs which nobody
//! changes do not keep tombstones for ever, the oldest log is collected, too, while tombstones are more than
//! a quarter of all.
//!
//! `room.rs` is what happens when no log waits and there is no room all the same.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use space::{Env, Space};

use crate::chunks::Reserve;
use crate::handle::Handle;
use crate::lane::Lane;
use crate::layout::{CHUNK_HEAD, Use};
use crate::options::Flaw;
use crate::record::{self, Kind, Record};
use crate::store::Store;
use crate::{Engine, Error};

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// `bytes` of a log are outdated from now on.
    pub(crate) fn outdate(&self, chunk: u32, bytes: u64) {
        self.chunks.info(chunk).outdated.fetch_add(bytes, Relaxed);
        self.weigh(chunk);
    }

    /// A tombstone was appended to a log.
    pub(crate) fn note_tombstone(&self, chunk: u32, bytes: u64, generation: &[u8]) {
        let generation = generation.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let info = self.chunks.info(chunk);
        info.tombstones.fetch_add(bytes, Relaxed);
        self.tombstones.fetch_add(bytes, Relaxed);
        info.oldest_needed.fetch_max(generation, Relaxed);
    }

    /// The oldest generation of a log but that one.
    fn oldest_but(&self, generation: u64) -> u64 {
        let oldest = self.oldest[0].load(Relaxed);
        if oldest == generation { self.oldest[1].load(Relaxed) } else { oldest }
    }

    /// Finds out which are the oldest logs.
    fn look_for_oldest(&self) {
        let mut generations: Vec<u64> =
            self.chunks.logs(&self.env).iter().map(|(_, head)| head.generation).collect();
        generations.sort_unstable();
        for (at, oldest) in self.oldest.iter().enumerate() {
            oldest.store(generations.get(at).copied().unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Bytes of a log's records, if it is full, and how many of them nobody needs.
    pub(crate) fn garbage(&self, chunk: u32) -> Option<(u64, u64)> {
        let info = self.chunks.info(chunk);
        let head = info.head();
        if head.used != Use::Log || head.detail == 0 {
            return None;
        }
        let mut outdated = info.outdated.load(Relaxed);
        if info.oldest_needed.load(Relaxed) < self.oldest_but(head.generation) {
            outdated += info.tombstones.load(Relaxed);
        }
        Some((head.detail - self.layout().chunk_at(chunk) - CHUNK_HEAD, outdated))
    }

    /// Has the log wait for collection if that is worth it.
    pub(crate) fn weigh(&self, chunk: u32) {
        let Some((bytes, outdated)) = self.garbage(chunk) else { return };
        if self.layout().engine == Engine::Log
            && bytes > 0
            && 2 * outdated >= bytes
            && !self.chunks.info(chunk).queued.swap(true, Relaxed)
        {
            self.env.lock(&self.queue).push_back(chunk);
            self.waiting.fetch_add(1, Relaxed);
        }
    }

    /// See [`crate::KeyValue::collect`].
    ///
    /// # Errors
    /// If there is no room for what is still in use, or a record is damaged.
    pub fn collect(&self) -> Result<bool, Error> {
        self.changed.store(true, Relaxed);
        let mut lane = self.env.lock(&self.collector);
        let Some(chunk) = self.env.lock(&self.queue).pop_front() else { return Ok(false) };
        self.waiting.fetch_sub(1, Relaxed);
        self.collect_log(&mut lane, chunk)?;
        Ok(true)
    }

    /// Before a change: collects where too many logs wait, or tombstones are too many.
    pub(crate) fn relieve(&self) -> Result<(), Error> {
        if self.layout().engine == Engine::Slab {
            return Ok(());
        }
        while self.waiting.load(Relaxed) > u64::from(self.options.queue) && self.collect()? {}
        // A new log is a good moment to look, and none to collect: latches are held then.
        if self.new_log.load(Relaxed) && self.new_log.swap(false, Relaxed) {
            let mut lane = self.env.lock(&self.collector);
            if 4 * self.tombstones.load(Relaxed) > self.log_bytes.load(Relaxed) {
                self.collect_oldest(&mut lane)?;
            }
        }
        Ok(())
    }

    /// Collects the oldest log that is full, if there is one.
    pub(crate) fn collect_oldest(&self, lane: &mut Lane) -> Result<bool, Error> {
        let logs = self.chunks.logs(&self.env).into_iter().filter(|(_, head)| head.detail != 0);
        let Some((chunk, _)) = logs.min_by_key(|(_, head)| head.generation) else { return Ok(false) };
        self.take_from_queue(chunk);
        self.collect_log(lane, chunk)?;
        Ok(true)
    }

    pub(crate) fn take_from_queue(&self, chunk: u32) {
        let mut queue = self.env.lock(&self.queue);
        queue.retain(|queued| *queued != chunk);
        self.waiting.store(queue.len() as u64, Relaxed);
    }

    /// Copies what is in use of a log and gives its chunk back.
    pub(crate) fn collect_log(&self, lane: &mut Lane, chunk: u32) -> Result<(), Error> {
        let info = self.chunks.info(chunk);
        let head = info.head();
        if head.used != Use::Log || head.detail == 0 {
            return Ok(());
        }
        self.look_for_oldest();
        let (mut at, end) = (self.layout().chunk_at(chunk) + CHUNK_HEAD, head.detail);
        while at < end {
            let space = self.env.space();
            let record = Record::at(space, at, end);
            let record = record.ok_or_else(|| Error::damaged(at, "a record", space.load_u64(at)))?;
            match record.kind {
                // Its records come next.
                Kind::Batch => at += record::HEAD,
                _ => {
                    self.keep(lane, &record, head.generation)?;
                    at += record.bytes();
                }
            }
        }
        if !self.flawed(Flaw::FreedBeforeCopied) {
            // What replaced the rest has to be durable, too.
            self.sync()?;
            self.confirm_copies(lane);
        }
        info.queued.store(false, Relaxed);
        self.tombstones.fetch_sub(info.tombstones.load(Relaxed), Relaxed);
        self.log_bytes.fetch_sub(self.layout().chunk, Relaxed);
        self.give_back(chunk);
        self.collected.fetch_add(1, Relaxed);
        self.look_for_oldest();
        for (other, _) in self.chunks.logs(&self.env) {
            self.weigh(other);
        }
        Ok(())
    }

    pub(crate) fn confirm_copies(&self, lane: &mut Lane) {
        for (begin, end) in lane.ranges.drain(..) {
            self.env.space().flush(begin, end - begin);
        }
        self.fence();
        self.confirm_ends(lane);
    }

    /// The chunk may be used again, once no snapshot needs it.
    fn give_back(&self, chunk: u32) {
        if self.pins.count.load(Acquire) > 0 {
            // Nothing of it is in use, and there is nothing more to collect.
            self.chunks.info(chunk).detail.store(0, Relaxed);
            self.env.lock(&self.pins.withheld).chunks.push(chunk);
        } else {
            self.chunks.release(&self.env, chunk);
        }
    }

    /// Copies a record if it is in use.
    fn keep(&self, lane: &mut Lane, record: &Record, generation: u64) -> Result<(), Error> {
        let space = self.env.space();
        let mut bytes = Vec::new();
        let seed = record::seed(self.layout().id, generation, record.offset);
        let end = record.offset + record.bytes();
        if Record::whole_at(space, record.offset, end, seed, self.covers(), &mut bytes).is_none() {
            let found = space.load_u64(record.offset);
            return Err(Error::damaged(record.offset, "a record that its checksum confirms", found));
        }
        let key = record.key_in(&bytes).to_vec();
        let hash = self.hash(&key);
        let shard = self.shard(hash);
        self.ready(shard, self.shard_number(hash))?;
        // Room first: nothing else is waited for while the shard is held.
        let open = self.open_log(lane, record.bytes(), Reserve::Use)?;
        let keys = shard.hold(&self.env);
        let found = self.find(shard, hash, &key)?;
        let needed = match record.kind {
            Kind::Tombstone => {
                let speaks_of = record.value_in(&bytes).try_into().map_or(u64::MAX, u64::from_le_bytes);
                // A record with chunks of its own is in no log, and may not be cleared yet.
                let older = keys.replaced.iter().any(|old| old.hash == hash);
                found.is_none() && (older || speaks_of >= self.oldest_but(generation))
            }
            _ => found == Some(record.offset),
        };
        if !needed {
            return Ok(());
        }
        if record.kind == Kind::Tombstone {
            self.note_tombstone(open.chunk, record.bytes(), record.value_in(&bytes));
        }
        let seed = record::seed(self.layout().id, open.generation, open.at);
        record::confirm(&mut bytes, record.kind, seed, self.covers());
        lane.buffer = bytes;
        self.append(lane, open);
        self.copied.fetch_add(record.bytes(), Relaxed);
        if self.is_indexed() && !self.flawed(Flaw::IndexFirst) {
            self.fence();
        }
        if record.kind == Kind::Value {
            self.point(shard, hash, &key, found, open.at)?;
        }
        drop(keys);
        Ok(())
    }
}
