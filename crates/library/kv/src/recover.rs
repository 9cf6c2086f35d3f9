//! Opening: what is in use, from what is durable.
//!
//! Index in ordinary memory, slabs: every slot of every superblock is looked at; what is whole is in use,
//! unless a newer record has its key. Index in ordinary memory, logs: every log is read from its beginning to
//! its end, or to the first record that is not whole; the newest record of a key counts, and the outdated
//! bytes of each log are counted by the way.
//!
//! Index in the file: it is read, and what it leads to is in use. Free slots and outdated bytes are what is
//! left.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use space::{Env, Space};

use crate::handle::Handle;
use crate::layout::{CHUNK_HEAD, Head, Use};
use crate::newest::Waiting;
use crate::record::{self, Kind, Record};
use crate::store::Store;
use crate::{Engine, Error, Flaw};

/// Chunks for which one thread is enough.
const FEW: usize = 4;

impl<E: Env, H: Handle<E>> Store<E, H> {
    pub(crate) fn recover(&mut self) -> Result<(), Error> {
        let used = self.chunks.open(&self.env)?;
        if self.resume(&used)? {
            return Ok(());
        }
        if self.options.flaw != Some(Flaw::RecoveredEarly) {
            self.make_durable(&used);
        }
        for (chunk, _) in used.iter().filter(|(_, head)| head.used == Use::Left) {
            self.chunks.release(&self.env, *chunk);
        }
        if self.is_indexed() {
            return self.recover_indexed(&used);
        }
        self.read_chunks(&used)?;
        let read = self.shards.iter().map(|shard| shard.hold(&self.env).recovered).sum();
        self.recovered.store(read, Relaxed);
        self.finish_batches()?;
        self.forget_tombstones();
        self.fence();
        for (chunk, _) in self.chunks.logs(&self.env) {
            self.weigh(chunk);
        }
        Ok(())
    }

    /// Makes durable what chunks hold. What a killed process stored last is in the caches: it is found here,
    /// and must not be built on while it can be lost with the power.
    fn make_durable(&self, used: &[(u32, Head)]) {
        let (space, layout) = (self.env.space(), self.layout());
        space.flush(0, layout.chunk_at(0));
        let next = AtomicUsize::new(0);
        let work = |_: u32| {
            while let Some(&(chunk, head)) = used.get(next.fetch_add(1, Relaxed)) {
                let chunks = if head.used.is_long() { head.detail } else { 1 };
                space.flush(layout.chunk_at(chunk), chunks * layout.chunk);
            }
            self.fence();
        };
        self.on_threads(used.len(), work);
    }

    /// Does something on one thread, or on several if there are many chunks.
    fn on_threads(&self, chunks: usize, work: impl Fn(u32) + Sync) {
        match (chunks / FEW).min(self.options.threads as usize) {
            0 | 1 => work(0),
            threads => self.env.threads(threads as u32, work),
        }
    }

    /// Reads all records, on several threads if there are many.
    fn read_chunks(&self, used: &[(u32, Head)]) -> Result<(), Error> {
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let result = Mutex::new(Ok(()));
        let work = |_: u32| {
            let (mut buffer, mut waiting) = (Vec::new(), Waiting::default());
            while let Some(&(chunk, head)) = used.get(next.fetch_add(1, Relaxed)) {
                let read = match head.used {
                    Use::Log => self.read_log(chunk, head, &mut buffer, &mut waiting),
                    Use::Slab => self.read_slab(chunk, head, &mut buffer, &mut waiting),
                    Use::Large => self.read_large(chunk, head, &mut buffer, &mut waiting),
                    Use::Index | Use::Journal | Use::Left | Use::Free => Ok(()),
                };
                let read = read.and_then(|()| self.let_compete(&mut waiting));
                if read.is_err() {
                    next.store(used.len(), Relaxed);
                    *result.lock().unwrap_or_else(PoisonError::into_inner) = read;
                }
                let done = 1 + done.fetch_add(1, Relaxed);
                if let Some(progress) = &self.options.progress {
                    progress.report(done, used.len() as u64);
                }
            }
            // What was cleared and where logs end has to be durable before anything builds on it.
            self.fence();
        };
        self.on_threads(used.len(), work);
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a log to its end, and writes down where that is.
    fn read_log(
        &self,
        chunk: u32,
        head: Head,
        buffer: &mut Vec<u8>,
        waiting: &mut Waiting,
    ) -> Result<(), Error> {
        let begin = self.layout().chunk_at(chunk);
        let (full, mark) = (head.log_end().is_some(), head.log_mark());
        let end = head.log_end().unwrap_or(begin + self.layout().chunk);
        if end < begin + CHUNK_HEAD || end > begin + self.layout().chunk {
            return Err(Error::damaged(begin + 8, "where a log ends", end));
        }
        self.log_bytes.fetch_add(self.layout().chunk, Relaxed);
        let mut at = begin + CHUNK_HEAD;
        while at < end {
            let seed = record::seed(self.layout().id, head.generation, at);
            let found = Record::whole_at(self.env.space(), at, end, seed, self.covers(), buffer);
            let Some(record) = found else {
                if full || at < mark {
                    let found = self.env.space().load_u64(at);
                    return Err(Error::damaged(at, "a record that its checksum confirms", found));
                }
                break;
            };
            if record.kind == Kind::Batch {
                self.read_batch(chunk, &record, buffer, waiting)?;
            } else {
                self.found(waiting, &record, buffer)?;
            }
            at += record.bytes();
        }
        self.chunks.info(chunk).detail.store(at, Relaxed);
        if !full {
            self.layout().set_detail(self.env.space(), chunk, head.generation, at);
        }
        Ok(())
    }

    /// The records of a batch that is whole.
    fn read_batch(
        &self,
        chunk: u32,
        batch: &Record,
        buffer: &[u8],
        waiting: &mut Waiting,
    ) -> Result<(), Error> {
        self.chunks.info(chunk).outdated.fetch_add(record::HEAD, Relaxed);
        let mut at = batch.offset + record::HEAD;
        let end = batch.offset + batch.bytes();
        while at < end {
            let space = self.env.space();
            let record = Record::at(space, at, end).filter(|record| record.kind != Kind::Batch);
            let record =
                record.ok_or_else(|| Error::damaged(at, "a record of a batch", space.load_u64(at)))?;
            self.found(waiting, &record, &buffer[(at - batch.offset) as usize..])?;
            at += record.bytes();
        }
        Ok(())
    }

    fn read_slab(
        &self,
        chunk: u32,
        head: Head,
        buffer: &mut Vec<u8>,
        waiting: &mut Waiting,
    ) -> Result<(), Error> {
        self.check_slots(chunk, head)?;
        for slot in self.slots_of(chunk, head.detail) {
            let seed = record::seed(self.layout().id, head.generation, slot);
            let end = slot + head.detail;
            match Record::whole_at(self.env.space(), slot, end, seed, self.covers(), buffer) {
                Some(record) => self.found(waiting, &record, buffer)?,
                None => self.free_slot(slot),
            }
        }
        Ok(())
    }

    pub(crate) fn check_slots(&self, chunk: u32, head: Head) -> Result<(), Error> {
        let most = self.layout().chunk - CHUNK_HEAD;
        if head.detail < record::HEAD || head.detail > most || !head.detail.is_multiple_of(8) {
            let offset = self.layout().chunk_at(chunk) + 8;
            return Err(Error::damaged(offset, "the bytes of a slot", head.detail));
        }
        Ok(())
    }

    fn read_large(
        &self,
        chunk: u32,
        head: Head,
        buffer: &mut Vec<u8>,
        waiting: &mut Waiting,
    ) -> Result<(), Error> {
        let begin = self.layout().chunk_at(chunk);
        let (at, end) = (begin + CHUNK_HEAD, begin + head.detail * self.layout().chunk);
        let seed = record::seed(self.layout().id, head.generation, at);
        match Record::whole_at(self.env.space(), at, end, seed, self.covers(), buffer) {
            Some(record) => self.found(waiting, &record, buffer)?,
            None => self.chunks.release(&self.env, chunk),
        }
        Ok(())
    }

    /// Keys whose newest record is a tombstone are not there.
    fn forget_tombstones(&self) {
        if self.layout().engine == Engine::Slab {
            return;
        }
        for shard in &self.shards {
            let _keys = shard.hold(&self.env);
            let mut deleted = Vec::new();
            shard.table.each(|hash, location| {
                if self.env.space().load_u64(location) & 0xFFFF == Kind::Tombstone as u64 {
                    deleted.push((hash, location));
                }
            });
            for (hash, location) in deleted {
                shard.change(|table| table.remove(hash, location));
            }
        }
    }
}
