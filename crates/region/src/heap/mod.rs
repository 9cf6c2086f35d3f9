//! The allocator: who has which bytes of the heap.
//!
//! # On the medium
//! The heap is cut into zones, a zone into chunks. A zone begins with its table: a word for each chunk, which says that it
//! is free, a slab of blocks of one size, or the first of so many chunks that somebody has. A slab begins with pairs of words,
//! in which a bit is a block: set in the first word and clear in the second, it is taken; the other way round, free. Whoever changes one
//! changes both, so bytes that were damaged are found when the pool is opened.
//!
//! All of it is written by regions: a block is taken, or free again, exactly if the region that took or freed it is there after
//! a crash. So nothing leaks, and nothing is freed twice. Bits are changed as bits ([`crate::Change`]), so that
//! regions of several threads can take blocks of one slab.
//!
//! # In memory
//! Which blocks are free is known from [`Heap::open`] on without looking at the medium. A block that a region takes is not free from
//! that moment; one that it frees becomes free when the region has ended. Chunks that were in use can be found in records of
//! logs, which recovery would do again; before they serve for anything else, the logs are settled
//! ([`crate::Engine::settle`]).

mod chunks;
mod slab;

use space::{Env, Space};

use crate::engine::{Engine, Lent};
use crate::header::Header;
use crate::{Change, Error};

pub(crate) use chunks::Chunks;
pub use chunks::Usage;

/// A piece of the heap that somebody has, or is about to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its first byte.
    pub(crate) offset: u64,
    /// Its length, which may be more than was asked for.
    pub(crate) bytes: u64,
    mark: Mark,
}

/// Where the medium says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// A bit of a slab.
    Bit { word: u64, mask: u64 },
    /// The table's words of its chunks.
    Chunk { word: u64, chunks: u64 },
}

impl Block {
    /// Whether it consists of whole chunks, which no log names: what is written there before it is given to anybody stays.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self.mark, Mark::Chunk { .. })
    }
}

/// The heap of an open pool.
pub(crate) struct Heap<E: Env> {
    chunks: E::Mutex<Chunks>,
}

impl<E: Env> Heap<E> {
    /// The heap as the medium has it, after recovery.
    pub(crate) fn open(env: &E, header: &Header) -> Result<Self, Error> {
        Ok(Heap { chunks: env.mutex(Chunks::read(env.space(), header)?) })
    }

    /// Reserves a block of at least so many bytes: nobody else will get it.
    #[track_caller]
    pub(crate) fn reserve<A: Engine<E>>(&self, env: &E, engine: &A, bytes: u64) -> Result<Block, Error> {
        let mut chunks = env.lock(&self.chunks);
        if let Some(block) = chunks.block(bytes) {
            return Ok(block);
        }
        let Some(class) = chunks.class(bytes) else {
            let count = chunks.chunks_for(bytes);
            let first = self.take(env, engine, &mut chunks, count, bytes)?;
            return Ok(chunks.large(first, count));
        };
        let chunk = self.take(env, engine, &mut chunks, 1, bytes)?;
        chunks.format(env.space(), chunk, class);
        // A record may survive before anybody waits for it, and must not name a slab without a map.
        env.space().fence();
        // On its own: others will take blocks of this slab, whatever becomes of the region that needed it first.
        let (word, value) = chunks.slab_word(chunk, class);
        engine.set_alone(env, word, value).inspect_err(|_| chunks.put_back(chunk, 1))?;
        chunks.add_slab(chunk, class);
        chunks.block(bytes).ok_or(Error::Full { wanted: bytes })
    }

    /// Lends chunks for so many words, one word of each kept for where the next one is. The medium says nothing of it: after a crash they are free.
    #[track_caller]
    pub(crate) fn lend<A: Engine<E>>(&self, env: &E, engine: &A, words: u64) -> Result<Lent, Error> {
        let mut chunks = env.lock(&self.chunks);
        let chunk_bytes = chunks.chunk_bytes();
        let count = words.div_ceil(chunk_bytes / 8 - 1);
        let mut lent = Lent { chunks: Vec::new(), chunk_bytes };
        for _ in 0..count {
            match self.take(env, engine, &mut chunks, 1, 8 * words) {
                Ok(chunk) => lent.chunks.push(chunks.offset(chunk)),
                Err(error) => {
                    lent.chunks.iter().for_each(|&chunk| chunks.put_back_at(chunk));
                    return Err(error);
                }
            }
        }
        Ok(lent)
    }

    /// What was lent is free once the logs are settled.
    #[track_caller]
    pub(crate) fn end_loan(&self, env: &E, lent: &Lent) {
        let mut chunks = env.lock(&self.chunks);
        lent.chunks.iter().for_each(|&chunk| chunks.end_loan(chunk));
    }

    /// Takes chunks that follow each other and that no log names.
    #[track_caller]
    fn take<A: Engine<E>>(
        &self,
        env: &E,
        engine: &A,
        chunks: &mut Chunks,
        count: u64,
        wanted: u64,
    ) -> Result<u64, Error> {
        if let Some(first) = chunks.take(count) {
            return Ok(first);
        }
        if chunks.any_unsettled() {
            engine.settle(env)?;
            chunks.settled();
            if let Some(first) = chunks.take(count) {
                return Ok(first);
            }
        }
        let empty = chunks.empty_slabs();
        if !empty.is_empty() {
            for chunk in empty {
                engine.set_alone(env, chunks.word(chunk), 0)?;
                chunks.remove_slab(chunk);
            }
            engine.settle(env)?;
            chunks.settled();
        }
        chunks.take(count).ok_or(Error::Full { wanted })
    }

    /// Lets a region say on the medium that the block is taken.
    #[track_caller]
    pub(crate) fn mark_taken<A: Engine<E>>(
        &self,
        env: &E,
        engine: &A,
        region: &mut A::Region,
        block: &Block,
    ) -> Result<(), Error> {
        match block.mark {
            Mark::Bit { word, mask } => engine.change(env, region, word, Change::Take(mask)),
            Mark::Chunk { word, chunks } => engine.store(env, region, word, chunks::large_word(word, chunks)),
        }
    }

    /// Lets a region say on the medium that the block is free.
    #[track_caller]
    pub(crate) fn mark_free<A: Engine<E>>(
        &self,
        env: &E,
        engine: &A,
        region: &mut A::Region,
        block: &Block,
    ) -> Result<(), Error> {
        match block.mark {
            Mark::Bit { word, mask } => engine.change(env, region, word, Change::Give(mask)),
            Mark::Chunk { word, .. } => engine.store(env, region, word, 0),
        }
    }

    /// The block that begins at `offset`, if somebody has it.
    #[track_caller]
    pub(crate) fn find(&self, env: &E, offset: u64) -> Option<Block> {
        env.lock(&self.chunks).find(offset)
    }

    /// Nobody has the block any more.
    #[track_caller]
    pub(crate) fn release(&self, env: &E, blocks: &[Block]) {
        if blocks.is_empty() {
            return;
        }
        let mut chunks = env.lock(&self.chunks);
        blocks.iter().for_each(|block| chunks.release(block));
    }

    /// The pool has become longer.
    #[track_caller]
    pub(crate) fn grow(&self, env: &E, header: &Header) {
        env.lock(&self.chunks).grow(header);
    }

    /// What is taken and what is free.
    #[track_caller]
    pub(crate) fn usage(&self, env: &E) -> Usage {
        env.lock(&self.chunks).usage()
    }

    /// All blocks that somebody has, in the order of their offsets.
    #[track_caller]
    pub(crate) fn blocks(&self, env: &E) -> Vec<(u64, u64)> {
        env.lock(&self.chunks).blocks()
    }
}
