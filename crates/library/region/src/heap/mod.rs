//! The allocator: who has which bytes of the heap.
//!
//! # On the medium
//! The heap is cut into zones, a zone into chunks. A zone begins with its table: a word for each chunk, which
//! says that it is free, a slab of blocks of one size, or the first of so many chunks that somebody has. None
//! of these is zeros, which is what lost memory reads as. A slab begins with pairs of words, in which a bit
//! is a block: set in the first word and clear in the second, it is taken; the other way round, free. Whoever
//! changes one changes both, so bytes that were damaged are found when the pool is opened.
//!
//! All of it is written by regions: a block is taken, or free again, exactly if the region that took or freed
//! it is there after a crash. So nothing leaks, and nothing is freed twice. Bits are changed as bits
//! ([`crate::Change`]), so that regions of several threads can take blocks of one slab.
//!
//! # In memory
//! Which blocks are free is known from [`Heap::open`] on without looking at the medium. A block that a region
//! takes is not free from that moment; one that it frees becomes free when the region has ended.
//!
//! A slab is in a *cache* ([`cache`]), which a thread has by its number, or in none. Threads take blocks of
//! slabs in their own cache, under a latch that as a rule nobody else wants, and get another slab when there
//! is no free block. A block that is freed goes back to its slab, in whatever cache that is. When the heap
//! has no free chunk, threads take blocks of each other's slabs: a pool is full when it has no room, whoever
//! asks. At open no slab is in a cache; the first thread that takes or frees a block of it gets it.
//!
//! Chunks that were in use can be found in records of
//! logs, which recovery would do again; before they serve for anything else, the logs are checkpointed
//! ([`crate::Engine::checkpoint`]).

mod cache;
mod chunks;
mod moving;
#[cfg(test)]
mod refusals;
mod slab;
mod usage;

use space::{Env, Space};

use cache::Cache;
use slab::Slab;

use crate::engine::flaw::HeapFlaw;
use crate::engine::{Engine, Extent};
use crate::header::Header;
use crate::{Change, Error};

use chunks::Chunks;
pub(crate) use chunks::{beside_others, free_all, free_word};
#[cfg(test)]
pub(crate) use slab::SIZES;
pub use usage::Usage;

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
struct Mark {
    /// Where the word of a slab's map is; 1 is added to it if it is the table's word for the first of whole
    /// chunks.
    word: u64,
    /// The bit in the slab's map; of chunks, how many.
    bits: u64,
}

impl Mark {
    /// A bit of a slab.
    #[inline(always)]
    fn bit(word: u64, mask: u64) -> Mark {
        Mark { word, bits: mask }
    }

    /// The table's words of chunks.
    fn chunks(word: u64, count: u64) -> Mark {
        Mark { word: word | 1, bits: count }
    }

    /// Whether it is of chunks.
    #[inline(always)]
    fn is_of_chunks(&self) -> bool {
        self.word & 1 == 1
    }

    /// Offset of the word.
    #[inline(always)]
    fn at(&self) -> u64 {
        self.word & !1
    }
}

impl Block {
    /// Whether it consists of whole chunks, which no log names: what is written there before it is given to
    /// anybody stays.
    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.mark.is_of_chunks()
    }
}

/// Caches that threads share out by their numbers.
const CACHES: usize = 16;

/// Something on lines of its own, so that threads do not wait for each other's.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// The heap of an open pool. Whoever holds the chunks' lock may take a cache's latch, and not the other way
/// round; who has a slab changes only under both.
pub(crate) struct Heap<E: Env> {
    chunks: E::Mutex<Chunks>,
    caches: Vec<Apart<E::Latch<Cache>>>,
}

impl<E: Env> Heap<E> {
    /// The heap as the medium has it, after recovery.
    pub(crate) fn open(env: &E, header: &Header) -> Result<Self, Error> {
        let chunks = env.mutex(Chunks::read(env.space(), header)?);
        let chunk_bytes = u64::from(header.geometry.chunk_bytes);
        let caches = (0..CACHES).map(|_| Apart(env.latch(Cache::new(chunk_bytes)))).collect();
        Ok(Heap { chunks, caches })
    }

    /// The number of the calling thread's cache.
    #[inline]
    fn own(env: &E) -> usize {
        env.thread_number() as usize % CACHES
    }

    #[inline]
    #[track_caller]
    fn hold<'h>(&'h self, env: &'h E, cache: usize) -> E::LatchGuard<'h, Cache> {
        env.hold(&self.caches[cache].0)
    }

    /// Reserves a block of at least so many bytes: nobody else will get it.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn reserve<A: Engine<E>>(&self, env: &E, engine: &A, bytes: u64) -> Result<Block, Error> {
        let class = slab::class(bytes);
        if let Some(class) = class
            && let Some(block) = self.hold(env, Self::own(env)).take(class)
        {
            return Ok(block);
        }
        self.reserve_shared(env, engine, class, bytes)
    }

    /// The same, with what all threads share.
    #[cold]
    #[track_caller]
    fn reserve_shared<A: Engine<E>>(
        &self,
        env: &E,
        engine: &A,
        class: Option<usize>,
        bytes: u64,
    ) -> Result<Block, Error> {
        let full = Error::Full { wanted: bytes };
        let own = Self::own(env);
        let mut chunks = env.lock(&self.chunks);
        let Some(class) = class.filter(|&class| chunks.has_slabs_of(class)) else {
            let (count, most) = (chunks.chunks_for(bytes), chunks.longest());
            if bytes > most {
                return Err(Error::TooLarge { wanted: bytes, most, chunk: chunks.chunk_bytes() });
            }
            let first = self.take(env, engine, &mut chunks, count, bytes)?;
            return Ok(chunks.large(first, count));
        };
        let slab = chunks.hand_out(class, own);
        if let (HeapFlaw::HandedOutTwice, Some(slab)) = (A::HEAP, &slab) {
            chunks.bring_back(slab.clone());
        }
        let mut chunk = None;
        if slab.is_none() {
            chunk = chunks.take(1);
            if chunk.is_none() {
                // Rather a block that lies in another thread's slab than waiting.
                let found = (0..CACHES).find_map(|cache| self.hold(env, cache).take(class));
                if let Some(block) = found {
                    return Ok(block);
                }
                chunk = Some(self.take(env, engine, &mut chunks, 1, bytes)?);
            }
        }
        let slab = match (slab, chunk) {
            (Some(slab), _) => slab,
            (None, Some(chunk)) => self.new_slab(env, engine, &mut chunks, chunk, class)?,
            (None, None) => return Err(full),
        };
        let mut cache = self.hold(env, own);
        cache.insert(slab);
        cache.take(class).ok_or(full)
    }

    /// Makes a free chunk a slab.
    #[track_caller]
    fn new_slab<A: Engine<E>>(
        &self,
        env: &E,
        engine: &A,
        chunks: &mut Chunks,
        chunk: u64,
        class: usize,
    ) -> Result<Slab, Error> {
        chunks.format(env.space(), chunk, class);
        // A record may survive before anybody waits for it, and must not name a slab without a map.
        env.space().fence();
        // On its own: others will take blocks of this slab, whatever becomes of the region that needed it
        // first.
        let (word, value) = chunks.slab_word(chunk, class);
        engine.set_alone(env, word, value).inspect_err(|_| chunks.put_back(chunk, 1))?;
        Ok(chunks.new_slab(chunk, class, Self::own(env)))
    }

    /// Takes chunks for an overflow extent of so many words; one word of each is for where the next one is.
    /// The medium does not say that they are taken: after a crash they are free.
    #[track_caller]
    pub(crate) fn take_extent<A: Engine<E>>(&self, env: &E, engine: &A, words: u64) -> Result<Extent, Error> {
        let mut chunks = env.lock(&self.chunks);
        let chunk_bytes = chunks.chunk_bytes();
        let count = words.div_ceil(chunk_bytes / 8 - 1);
        let mut extent = Extent { chunks: Vec::new(), chunk_bytes };
        for _ in 0..count {
            match self.take(env, engine, &mut chunks, 1, 8 * words) {
                Ok(chunk) => extent.chunks.push(chunks.offset(chunk)),
                Err(error) => {
                    extent.chunks.iter().for_each(|&chunk| chunks.put_back_at(chunk));
                    return Err(error);
                }
            }
        }
        Ok(extent)
    }

    /// The chunks of an overflow extent are free after the next checkpoint.
    #[track_caller]
    pub(crate) fn free_extent(&self, env: &E, extent: &Extent) {
        let mut chunks = env.lock(&self.chunks);
        extent.chunks.iter().for_each(|&chunk| chunks.free_extent(chunk));
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
            engine.checkpoint(env)?;
            chunks.settled();
            if let Some(first) = chunks.take(count) {
                return Ok(first);
            }
        }
        if self.free_empty(env, engine, chunks)? > 0 {
            engine.checkpoint(env)?;
            chunks.settled();
        }
        chunks.take(count).ok_or(Error::Full { wanted })
    }

    /// Makes the chunks of slabs without a taken block free; logs may name them. How many these are.
    #[track_caller]
    fn free_empty<A: Engine<E>>(&self, env: &E, engine: &A, chunks: &mut Chunks) -> Result<u64, Error> {
        for cache in 0..CACHES {
            let empty = self.hold(env, cache).remove_empty();
            empty.into_iter().for_each(|slab| chunks.bring_back(slab));
        }
        let empty = chunks.empty_slabs();
        for &chunk in &empty {
            let word = chunks.word(chunk);
            engine.set_alone(env, word, chunks::free_word(word))?;
            chunks.remove_slab(chunk);
        }
        Ok(empty.len() as u64)
    }

    /// Lets a region say on the medium that the block is taken.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn mark_taken<A: Engine<E>>(
        &self,
        env: &E,
        engine: &A,
        region: &mut A::Region,
        block: &Block,
    ) -> Result<(), Error> {
        let Mark { bits, .. } = block.mark;
        match (block.mark.at(), block.is_large()) {
            (word, false) => engine.change(env, region, word, Change::Take(bits)),
            (word, true) => engine.store(env, region, word, chunks::large_word(word, bits)),
        }
    }

    /// Lets a region say on the medium that the block is free.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn mark_free<A: Engine<E>>(
        &self,
        env: &E,
        engine: &A,
        region: &mut A::Region,
        block: &Block,
    ) -> Result<(), Error> {
        match (block.mark.at(), block.is_large()) {
            (word, false) => engine.change(env, region, word, Change::Give(block.mark.bits)),
            (word, true) => engine.store(env, region, word, chunks::free_word(word)),
        }
    }

    /// The block that begins at `offset`, if somebody has it.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn find(&self, env: &E, offset: u64) -> Option<Block> {
        let found = self.hold(env, Self::own(env)).find(offset);
        found.unwrap_or_else(|| self.find_shared(env, offset))
    }

    /// The same, of a block that is not in this thread's cache.
    #[cold]
    #[track_caller]
    fn find_shared(&self, env: &E, offset: u64) -> Option<Block> {
        let chunks = env.lock(&self.chunks);
        match chunks.cache_of(offset) {
            Some(cache) => self.hold(env, cache).find(offset)?,
            None => chunks.find(offset),
        }
    }

    /// Nobody has the blocks any more.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn release(&self, env: &E, blocks: &[Block]) {
        if !blocks.is_empty() {
            self.release_some(env, blocks);
        }
    }

    #[track_caller]
    fn release_some(&self, env: &E, blocks: &[Block]) {
        let mut cache = self.hold(env, Self::own(env));
        let own = blocks.iter().take_while(|block| cache.release(block)).count();
        drop(cache);
        if own < blocks.len() {
            self.release_shared(env, &blocks[own..]);
        }
    }

    /// The same, of blocks that need not be in this thread's cache.
    #[cold]
    #[track_caller]
    fn release_shared(&self, env: &E, blocks: &[Block]) {
        let mut chunks = env.lock(&self.chunks);
        let own = Self::own(env);
        for block in blocks {
            match chunks.cache_of(block.offset) {
                Some(cache) => _ = self.hold(env, cache).release(block),
                None => {
                    if let Some(slab) = chunks.release(block, own) {
                        self.hold(env, own).insert(slab);
                    }
                }
            }
        }
    }

    /// The pool has become longer.
    #[track_caller]
    pub(crate) fn grow(&self, env: &E, header: &Header) {
        env.lock(&self.chunks).grow(header);
    }

    /// What is taken and what is free.
    #[track_caller]
    pub(crate) fn usage(&self, env: &E) -> Usage {
        let chunks = env.lock(&self.chunks);
        let mut usage = chunks.usage();
        for cache in 0..CACHES {
            self.hold(env, cache).slabs().for_each(|slab| usage.add_slab(slab));
        }
        usage
    }

    /// All blocks that somebody has, in the order of their offsets.
    #[track_caller]
    pub(crate) fn blocks(&self, env: &E) -> Vec<(u64, u64)> {
        let chunks = env.lock(&self.chunks);
        let mut blocks = chunks.blocks();
        for cache in 0..CACHES {
            let cache = self.hold(env, cache);
            blocks.extend(cache.slabs().flat_map(Slab::taken).map(|block| (block.offset, block.bytes)));
        }
        blocks.sort_unstable();
        blocks
    }
}
