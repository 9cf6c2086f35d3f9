//! Collection of garbage.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use space::{Env, Space};

use super::layout::CHUNK_HEAD;
use super::log::Chunk;
use super::record::{NONE, Record};
use super::{EnvOf, Flaw, LogTree, broken};
use crate::{Error, Extents, Fixed};

impl<H, K, V, X> LogTree<H, K, V, X>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    /// Bytes of a log that no chain reaches.
    fn garbage(&self, log: usize) -> u64 {
        self.bytes[log].used.load(Relaxed).saturating_sub(self.bytes[log].live.load(Relaxed))
    }

    /// Bytes that logs occupy, and those of them that are garbage.
    pub fn usage(&self) -> (u64, u64) {
        let used = self.bytes.iter().map(|bytes| bytes.used.load(Relaxed)).sum();
        (used, (0..self.root.logs).map(|log| self.garbage(log)).sum())
    }

    /// What a thread that has appended does.
    #[inline]
    pub(super) fn collect_inline(&self, log: usize) -> Result<(), Error> {
        if self.options.inline && self.garbage(log) > self.options.garbage {
            // What was to be done is done: without room for copies the garbage stays.
            return match self.collect_log(log, self.options.garbage) {
                Err(Error::Full { .. }) => Ok(()),
                done => done,
            };
        }
        Ok(())
    }

    /// Collects all that there is, where one more record found no room.
    #[cold]
    pub(super) fn collect_all(&self) -> Result<(), Error> {
        for log in 0..self.root.logs {
            if self.garbage(log) > self.root.chunk_bytes {
                match self.collect_log(log, self.root.chunk_bytes) {
                    Ok(()) | Err(Error::Full { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Collects logs with more garbage than the threshold, with so many threads. For those who do not let
    /// writers do so.
    ///
    /// # Errors
    /// If there is no room for copies, or a chain is broken.
    pub fn collect(&self, threads: u32) -> Result<(), Error> {
        let threads = threads.max(1);
        let result = self.env.mutex(Ok(()));
        self.env.threads(threads, |thread| {
            for log in (thread as usize..self.root.logs).step_by(threads as usize) {
                if self.garbage(log) > self.options.garbage
                    && let Err(error) = self.collect_log(log, self.options.garbage)
                {
                    *self.env.lock(&result) = Err(error);
                }
            }
        });
        let result = self.env.lock(&result);
        (*result).clone()
    }

    /// Gives up chunks of a log from its beginning until it has no more garbage than that.
    fn collect_log(&self, log: usize, garbage: u64) -> Result<(), Error> {
        let _one = self.env.lock(&self.collectors[log]);
        // Each chunk that is there now, at most once.
        let chunks = self.env.lock(&self.logs[log]).chunks.len();
        for _ in 1..chunks {
            if self.garbage(log) <= garbage {
                break;
            }
            let first = self.env.lock(&self.logs[log]).chunks.front().copied();
            let Some(chunk) = first else { break };
            if self.options.flaw == Flaw::HeadEarly {
                self.free(chunk);
            }
            self.move_live(chunk)?;
            self.free(chunk);
            self.env.lock(&self.logs[log]).chunks.pop_front();
            self.bytes[log].used.fetch_sub(self.root.chunk_bytes, Relaxed);
            self.env.lock(&self.pool).free.push(chunk.offset);
        }
        Ok(())
    }

    /// Makes a chunk nobody's.
    fn free(&self, chunk: Chunk) {
        self.space().store_u64(chunk.offset, 0);
        self.space().persist(chunk.offset, 8);
    }

    /// Consolidates leaves that have live records in a chunk. It is full, so nobody writes to it.
    fn move_live(&self, chunk: Chunk) -> Result<(), Error> {
        let space = self.space();
        let mut at = CHUNK_HEAD;
        let end = chunk.offset + self.root.chunk_bytes;
        let mut words = Vec::new();
        loop {
            let position = chunk.position(at);
            let record = Record::read_whole::<_, K, V>(space, chunk.offset + at, end, position, &mut words);
            let Some(record) = record else { return Ok(()) };
            let number = record.leaf(space);
            {
                let _held = self.hold_leaf(number);
                let leaf = self.leaf(number);
                if leaf.exists() && position >= leaf.oldest() {
                    let pairs = self.pairs(leaf).map_err(|_| broken(&self.root))?;
                    self.consolidate(number, &pairs, (leaf.high(), leaf.next().unwrap_or(NONE)), true)?;
                }
            }
            at += record.bytes::<K, V>();
        }
    }
}
