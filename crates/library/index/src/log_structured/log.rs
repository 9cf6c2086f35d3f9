//! Logs: chains of chunks. A log is appended to at its end and given up from its beginning, chunk by chunk.
//!
//! The head of a chunk is one word: which log has it, and its number. 0 is a free chunk. Numbers grow and are
//! used once; the root has a number that none has reached. A chunk's word becomes durable with the first
//! record in it, at the latest, and is 0 again, durably, before its memory is another log's.

use std::collections::VecDeque;

use space::Space;

use super::layout::{CHUNK_HEAD, Root};
use crate::{Error, Extent, Extents};

/// Chunks that only a collector may take.
const RESERVE: usize = 2;
/// How many numbers of chunks are put aside at the same time.
const STEP: u64 = 256;
/// Chunks of an extent that is added, at least.
const CHUNKS_MIN: u64 = 8;

/// A chunk in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chunk {
    /// Its number.
    pub number: u64,
    /// Where it is.
    pub offset: u64,
}

impl Chunk {
    const USED: u64 = 1 << 63;
    const LOG: u32 = 48;

    pub fn word(self, log: usize) -> u64 {
        Self::USED | (log as u64) << Self::LOG | self.number
    }

    /// Which log has the chunk at that offset.
    pub fn read<S: Space>(space: &S, offset: u64) -> Option<(usize, Chunk)> {
        let word = space.load_u64(offset);
        let log = (word >> Self::LOG & 0x7FFF) as usize;
        (word & Self::USED != 0).then_some((log, Chunk { number: word & ((1 << Self::LOG) - 1), offset }))
    }

    /// The position of what is at an offset in it.
    pub fn position(self, at: u64) -> u64 {
        self.number << 32 | at
    }
}

/// A log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The oldest first.
    pub chunks: VecDeque<Chunk>,
    /// Where the next record goes in the last one; behind its end if it takes a new chunk.
    pub at: u64,
    /// Words of the record that is being written.
    pub words: Vec<u64>,
}

/// Chunks that no log has.
#[derive(Debug)]
pub(super) struct Pool {
    pub free: Vec<u64>,
    /// All chunks, in use or not.
    pub total: u64,
    /// The next number, and the one that the root says is not reached.
    pub next: u64,
    pub ceiling: u64,
}

impl Pool {
    /// A chunk.
    pub fn take<S: Space>(
        &mut self,
        space: &S,
        root: &Root,
        extents: &impl Extents<S>,
        collects: bool,
    ) -> Result<Chunk, Error> {
        let reserve = if collects { 0 } else { RESERVE };
        if self.free.len() <= reserve {
            let grown = self.grow(space, root, extents);
            if self.free.len() <= reserve {
                grown?;
                return Err(Error::Full { wanted: root.chunk_bytes, len: space.len() });
            }
        }
        if self.next == self.ceiling {
            self.ceiling = self.next + STEP;
            root.set_ceiling(space, self.ceiling);
        }
        let Some(offset) = self.free.pop() else {
            return Err(Error::Full { wanted: root.chunk_bytes, len: space.len() });
        };
        self.next += 1;
        Ok(Chunk { number: self.next - 1, offset })
    }

    /// Gets as many chunks as there are, or as many of these as there is room for.
    fn grow<S: Space>(&mut self, space: &S, root: &Root, extents: &impl Extents<S>) -> Result<(), Error> {
        let mut count = self.total.max(CHUNKS_MIN);
        loop {
            match extents.add(space, count * root.chunk_bytes) {
                Ok(extent) => {
                    for offset in chunks_of(root, extent) {
                        // What a crash or an earlier owner left there is no chunk of any log.
                        space.store_u64(offset, 0);
                        space.flush(offset, 8);
                        self.free.push(offset);
                        self.total += 1;
                    }
                    space.fence();
                    root.set_extents(space, root.extents(space) + 1);
                    return Ok(());
                }
                Err(Error::Full { .. }) if count > 1 => count /= 2,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Where the chunks of an extent are, the last first.
pub(super) fn chunks_of(root: &Root, extent: Extent) -> impl Iterator<Item = u64> {
    let head = if extent.offset == root.offset { CHUNK_HEAD.max(256) } else { 0 };
    let count = extent.bytes.saturating_sub(head) / root.chunk_bytes;
    let (begin, bytes) = (extent.offset + head, root.chunk_bytes);
    (0..count).rev().map(move |number| begin + number * bytes)
}
