//! Chunks: which are free, which are slabs and whose, which belong together.

use std::collections::{BTreeMap, BTreeSet};

use space::{LINE, Space};

use super::slab::{self, SIZES, Shape, Slab};
use super::usage::Usage;
use super::{Block, Mark};
use crate::header::Header;
use crate::{Damage, Error, guarded};

/// A word of a zone's table: kinds stand in the two lowest bits.
const SLAB: u64 = 1;
const LARGE: u64 = 2;
const FREE: u64 = 0;

/// The table's word at `word` for a free chunk, or one that is not the first of its block.
pub(crate) fn free_word(word: u64) -> u64 {
    guarded::seal(word, FREE)
}

/// Says of all chunks of a pool that they are free, but for those that it had when it was `before` bytes
/// long. Flushes, does not fence; words that say so, too: a process that was killed may have written them and
/// no more.
pub(crate) fn free_all<S: Space>(space: &S, header: &Header, before: u64) {
    let (chunk, heap) = (u64::from(header.geometry.chunk_bytes), header.heap());
    let zone = chunk / 8;
    let count = |bytes: u64| bytes.saturating_sub(heap) / chunk;
    let (mut at, end) = (count(before), count(header.bytes));
    while at < end {
        let (table, next) = (at / zone * zone, end.min((at / zone + 1) * zone));
        let word = |at: u64| heap + table * chunk + (at - table) * 8;
        for word in (word(at)..word(next)).step_by(8) {
            if space.load_u64(word) != free_word(word) {
                space.store_u64(word, free_word(word));
            }
        }
        space.flush(word(at), word(next) - word(at));
        at = next;
    }
}

/// Where the words of chunks are that a pool has more than when it was `before` bytes long, as far as they
/// are in a line with others: where that line is, only the engine knows.
pub(crate) fn beside_others(header: &Header, before: u64) -> impl Iterator<Item = u64> {
    let (chunk, heap) = (u64::from(header.geometry.chunk_bytes), header.heap());
    let count = |bytes: u64| bytes.saturating_sub(heap) / chunk;
    let (first, end) = (count(before), count(header.bytes));
    let table = first / (chunk / 8) * (chunk / 8);
    let word = move |at: u64| heap + table * chunk + (at - table) * 8;
    (first..end.min(first.next_multiple_of(LINE / 8))).map(word)
}

/// The table's word at `word` for the first of so many chunks.
pub(super) fn large_word(word: u64, chunks: u64) -> u64 {
    guarded::seal(word, chunks << 2 | LARGE)
}

/// Takes the lowest of these pieces (the first chunk, and how many) that begins before `end` and has so many
/// chunks.
fn take_below(free: &mut BTreeMap<u64, u64>, count: u64, end: u64) -> Option<u64> {
    let (&first, &found) = free.range(..end).find(|(_, found)| **found >= count)?;
    free.remove(&first);
    if found > count {
        free.insert(first + count, found - count);
    }
    Some(first)
}

/// What a chunk is, in memory.
#[derive(Debug)]
enum Chunk {
    /// Free, or in the middle of something, or a zone's table.
    Other,
    /// A slab that is in no cache.
    Slab(Box<Slab>),
    /// A slab that is in the cache of that number.
    Cached(usize),
    /// The first of so many.
    Large(u64),
}

/// All chunks of a heap, by number.
#[derive(Debug)]
pub(crate) struct Chunks {
    base: u64,
    chunk_bytes: u64,
    /// A zone's first chunk is the table of all of them.
    zone_chunks: u64,
    chunks: Vec<Chunk>,
    /// Free chunks that no log names: the first, and how many.
    free: BTreeMap<u64, u64>,
    /// Free chunks that logs may name.
    unsettled: Vec<(u64, u64)>,
    /// By class: slabs that have a free block, the one to hand out last. Some may have been handed out
    /// already.
    open: Vec<Vec<u64>>,
}

impl Chunks {
    /// Reads the tables of a pool.
    pub(crate) fn read<S: Space>(space: &S, header: &Header) -> Result<Chunks, Error> {
        let chunk_bytes = u64::from(header.geometry.chunk_bytes);
        let zone_chunks = chunk_bytes / 8;
        let count = (header.bytes - header.heap()) / chunk_bytes;
        let mut all = Chunks {
            base: header.heap(),
            chunk_bytes,
            zone_chunks,
            chunks: Vec::new(),
            free: BTreeMap::new(),
            unsettled: Vec::new(),
            open: vec![Vec::new(); SIZES.len()],
        };
        all.chunks.resize_with(count as usize, || Chunk::Other);
        let mut at = 0;
        while at < count {
            if at % zone_chunks == 0 {
                at += 1;
                continue;
            }
            at += all.read_chunk(space, at, count)?;
        }
        for chunk in (0..count).rev() {
            if let Chunk::Slab(slab) = &all.chunks[chunk as usize]
                && slab.free_count > 0
            {
                all.open[slab.class].push(chunk);
            }
        }
        Ok(all)
    }

    /// Adds the chunks that a pool has which has become longer. They are free, and no log names them.
    pub(super) fn grow(&mut self, header: &Header) {
        let (before, count) = (self.chunks.len() as u64, (header.bytes - self.base) / self.chunk_bytes);
        self.chunks.resize_with(count as usize, || Chunk::Other);
        for chunk in before..count {
            if chunk % self.zone_chunks != 0 {
                self.put_back(chunk, 1);
            }
        }
    }

    /// Reads what begins at chunk `at`; how many chunks that is.
    fn read_chunk<S: Space>(&mut self, space: &S, at: u64, count: u64) -> Result<u64, Error> {
        let word = self.word(at);
        let found = space.load_u64(word);
        let damaged = Damage::ChunkTable { offset: word, found };
        let Some(number) = guarded::open(word, found) else { return Err(damaged.into()) };
        let value = number >> 2;
        match number & 3 {
            FREE if value == 0 => {
                self.put_back(at, 1);
                Ok(1)
            }
            SLAB if value < SIZES.len() as u64 && SIZES[value as usize] <= self.chunk_bytes / 4 => {
                let slab = Slab::read(space, self.offset(at), value as usize, self.chunk_bytes)?;
                self.chunks[at as usize] = Chunk::Slab(Box::new(slab));
                Ok(1)
            }
            LARGE
                if value > 0 && at % self.zone_chunks + value <= self.zone_chunks && at + value <= count =>
            {
                self.chunks[at as usize] = Chunk::Large(value);
                Ok(value)
            }
            _ => Err(damaged.into()),
        }
    }

    /// Where the table's word of a chunk is.
    pub(super) fn word(&self, chunk: u64) -> u64 {
        let zone = chunk / self.zone_chunks * self.zone_chunks;
        self.offset(zone) + (chunk - zone) * 8
    }

    /// Where a chunk begins.
    pub(super) fn offset(&self, chunk: u64) -> u64 {
        self.base + chunk * self.chunk_bytes
    }

    /// Whether blocks of that class lie in slabs.
    pub(super) fn has_slabs_of(&self, class: usize) -> bool {
        slab::fits(class, self.chunk_bytes)
    }

    /// Whether both offsets lie in one chunk of the heap.
    pub(super) fn same_chunk(&self, one: u64, other: u64) -> bool {
        self.chunk_of(one).is_some_and(|chunk| self.chunk_of(other) == Some(chunk))
    }

    /// How many blocks of that class a slab has.
    pub(super) fn blocks_of(&self, class: usize) -> u64 {
        Shape::new(class, self.chunk_bytes).count
    }

    /// Bytes of the longest block: a zone without its table.
    pub(super) fn longest(&self) -> u64 {
        (self.zone_chunks - 1) * self.chunk_bytes
    }

    pub(super) fn chunks_for(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.chunk_bytes)
    }

    /// Hands out a slab that has a free block, to the cache of that number.
    pub(super) fn hand_out(&mut self, class: usize, cache: usize) -> Option<Slab> {
        loop {
            let chunk = self.open[class].pop()?;
            if self.is_open(chunk, class) {
                return self.hand_out_chunk(chunk, cache);
            }
        }
    }

    /// Whether the chunk is a slab of that class, in no cache, with a free block: what is listed as open may
    /// have been handed out since.
    fn is_open(&self, chunk: u64, class: usize) -> bool {
        matches!(&self.chunks[chunk as usize], Chunk::Slab(slab) if slab.class == class && slab.free_count > 0)
    }

    /// Slabs in no cache that have both free blocks and others.
    pub(super) fn used_in_part(&self) -> impl Iterator<Item = &Slab> {
        self.chunks.iter().filter_map(|chunk| match chunk {
            Chunk::Slab(slab) if !slab.is_empty() && slab.free_count > 0 => Some(&**slab),
            _ => None,
        })
    }

    /// Hands out the slab that begins there to the cache of that number, if it is in none.
    pub(super) fn hand_out_at(&mut self, base: u64, cache: usize) -> Option<Slab> {
        self.hand_out_chunk(self.chunk_of(base)?, cache)
    }

    fn hand_out_chunk(&mut self, chunk: u64, cache: usize) -> Option<Slab> {
        match std::mem::replace(&mut self.chunks[chunk as usize], Chunk::Cached(cache)) {
            Chunk::Slab(slab) => Some(*slab),
            other => {
                self.chunks[chunk as usize] = other;
                None
            }
        }
    }

    /// The number of the cache in whose slab `offset` lies.
    pub(super) fn cache_of(&self, offset: u64) -> Option<usize> {
        match self.chunks[self.chunk_of(offset)? as usize] {
            Chunk::Cached(cache) => Some(cache),
            _ => None,
        }
    }

    /// Takes so many free chunks that no log names: the lowest that follow each other.
    pub(super) fn take(&mut self, count: u64) -> Option<u64> {
        take_below(&mut self.free, count, u64::MAX)
    }

    /// The large blocks for which there is a place before them: where each begins and how many chunks it has.
    /// It is as if they went there, the last one first, so that what is free comes together at the end.
    pub(super) fn sinking(&self, stays: u64) -> Vec<(u64, u64)> {
        let mut free = self.free.clone();
        let large =
            (0..self.chunks.len() as u64).rev().filter_map(|first| match self.chunks[first as usize] {
                Chunk::Large(count) if !self.same_chunk(self.offset(first), stays) => Some((first, count)),
                _ => None,
            });
        large.filter(|&(first, count)| take_below(&mut free, count, first).is_some()).collect()
    }

    /// Where a large block goes that is moved: to the lowest place before it, if there is one.
    pub(super) fn reserve_below(&mut self, block: &Block) -> Option<Block> {
        let count = self.chunks_for(block.bytes);
        let end = self.chunk_of(block.offset)?;
        let first = take_below(&mut self.free, count, end)?;
        Some(self.large(first, count))
    }

    /// Gives free chunks back that no log names. Pieces do not reach from a zone into the next.
    pub(super) fn put_back(&mut self, first: u64, count: u64) {
        let (mut first, mut count) = (first, count);
        if let Some((&before, &length)) = self.free.range(..first).next_back()
            && before + length == first
            && !first.is_multiple_of(self.zone_chunks)
        {
            self.free.remove(&before);
            (first, count) = (before, count + length);
        }
        if let Some(&length) = self.free.get(&(first + count))
            && !(first + count).is_multiple_of(self.zone_chunks)
        {
            self.free.remove(&(first + count));
            count += length;
        }
        self.free.insert(first, count);
    }

    pub(super) fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// A chunk that begins at `offset` was taken for an overflow extent and not used.
    pub(super) fn put_back_at(&mut self, offset: u64) {
        self.chunk_of(offset).into_iter().for_each(|chunk| self.put_back(chunk, 1));
    }

    /// A chunk that begins at `offset` was part of an overflow extent, and logs may name it.
    pub(super) fn free_extent(&mut self, offset: u64) {
        self.unsettled.extend(self.chunk_of(offset).map(|chunk| (chunk, 1)));
    }

    pub(super) fn any_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// No log names any free chunk.
    pub(super) fn settled(&mut self) {
        for (first, count) in std::mem::take(&mut self.unsettled) {
            self.put_back(first, count);
        }
    }

    /// Somebody has these chunks.
    pub(super) fn large(&mut self, first: u64, count: u64) -> Block {
        self.chunks[first as usize] = Chunk::Large(count);
        self.large_block(first, count)
    }

    pub(super) fn large_block(&self, first: u64, count: u64) -> Block {
        Block {
            offset: self.offset(first),
            bytes: count * self.chunk_bytes,
            mark: Mark::chunks(self.word(first), count),
        }
    }

    /// Writes the map of a new slab, which no table names yet. Flushes, does not fence.
    pub(super) fn format<S: Space>(&self, space: &S, chunk: u64, class: usize) {
        Slab::format(space, self.offset(chunk), &Shape::new(class, self.chunk_bytes));
    }

    /// The table's word of a slab: where, and what.
    pub(super) fn slab_word(&self, chunk: u64, class: usize) -> (u64, u64) {
        let word = self.word(chunk);
        (word, guarded::seal(word, (class as u64) << 2 | SLAB))
    }

    /// A new slab, in the cache of that number.
    pub(super) fn new_slab(&mut self, chunk: u64, class: usize, cache: usize) -> Slab {
        self.chunks[chunk as usize] = Chunk::Cached(cache);
        Slab::new(self.offset(chunk), class, self.chunk_bytes)
    }

    /// A slab that was in a cache is in none any more.
    pub(super) fn bring_back(&mut self, slab: Slab) {
        let Some(chunk) = self.chunk_of(slab.base) else { return };
        if slab.free_count > 0 {
            self.open[slab.class].push(chunk);
        }
        self.chunks[chunk as usize] = Chunk::Slab(Box::new(slab));
    }

    /// Slabs in no cache without a taken block.
    pub(super) fn empty_slabs(&self) -> BTreeSet<u64> {
        let open = self.open.iter().flatten().copied();
        let empty =
            |chunk: &u64| matches!(&self.chunks[*chunk as usize], Chunk::Slab(slab) if slab.is_empty());
        open.filter(empty).collect()
    }

    /// A slab's chunk is free.
    pub(super) fn remove_slab(&mut self, chunk: u64) {
        self.chunks[chunk as usize] = Chunk::Other;
        self.unsettled.push((chunk, 1));
    }

    fn chunk_of(&self, offset: u64) -> Option<u64> {
        let chunk = offset.checked_sub(self.base)? / self.chunk_bytes;
        (chunk < self.chunks.len() as u64).then_some(chunk)
    }

    /// The block that begins at `offset`, if somebody has it; of slabs in no cache, and large ones.
    pub(super) fn find(&self, offset: u64) -> Option<Block> {
        let chunk = self.chunk_of(offset)?;
        match &self.chunks[chunk as usize] {
            Chunk::Slab(slab) => slab.find(offset),
            &Chunk::Large(count) if offset == self.offset(chunk) => Some(self.large_block(chunk, count)),
            _ => None,
        }
    }

    /// Nobody has the block any more. If it is of a slab in no cache, the slab is handed out to the one of
    /// that number.
    pub(super) fn release(&mut self, block: &Block, cache: usize) -> Option<Slab> {
        let chunk = self.chunk_of(block.offset)?;
        match &mut self.chunks[chunk as usize] {
            Chunk::Slab(slab) => {
                slab.release(block.offset);
                self.hand_out_chunk(chunk, cache)
            }
            large @ &mut Chunk::Large(count) => {
                *large = Chunk::Other;
                self.unsettled.push((chunk, count));
                None
            }
            Chunk::Other | Chunk::Cached(_) => None,
        }
    }

    /// What is known without the caches.
    pub(super) fn usage(&self) -> Usage {
        let count = self.chunks.len() as u64;
        let tables = count.div_ceil(self.zone_chunks);
        let mut usage = Usage { heap: count.saturating_sub(tables) * self.chunk_bytes, ..Usage::default() };
        let pieces = self.free.values().copied().chain(self.unsettled.iter().map(|(_, count)| *count));
        for bytes in pieces.map(|count| count * self.chunk_bytes) {
            usage.free_chunks += bytes;
            usage.longest_free = usage.longest_free.max(bytes);
        }
        for chunk in &self.chunks {
            match chunk {
                Chunk::Slab(slab) => usage.add_slab(slab),
                Chunk::Large(count) => usage.add_large(count * self.chunk_bytes),
                Chunk::Cached(_) | Chunk::Other => {}
            }
        }
        usage
    }

    /// The blocks that somebody has, of slabs in no cache, and large ones.
    pub(super) fn blocks(&self) -> Vec<(u64, u64)> {
        let mut blocks = Vec::new();
        for (number, chunk) in (0u64..).zip(&self.chunks) {
            match chunk {
                Chunk::Slab(slab) => blocks.extend(slab.taken().map(|block| (block.offset, block.bytes))),
                Chunk::Large(count) => blocks.push((self.offset(number), count * self.chunk_bytes)),
                Chunk::Cached(_) | Chunk::Other => {}
            }
        }
        blocks
    }
}
