//! Moving blocks together, so that slabs become empty and their chunks serve for something else, and free
//! chunks follow each other.
//!
//! Which blocks are worth moving is known here: of each size, as many slabs as its blocks need are kept, the
//! fullest ones, and the others are *closed*, so that nobody takes a block there. Blocks of whole chunks go
//! to free ones that lie before them. Where a block is referred to from only the program knows, so it does
//! the moving ([`crate::Tx::relocate`]). All of this is in memory; the medium sees blocks taken and freed by
//! regions.

use std::collections::BTreeMap;

use space::Env;

use super::slab::{self, Slab};
use super::{Block, CACHES, Heap};
use crate::Error;
use crate::engine::Engine;

impl<E: Env> Heap<E> {
    /// Closes the slabs whose blocks find room in others, but not the one in which `stays` lies: where each
    /// begins and ends, in order, and the blocks that somebody has of them. With them, the large blocks that
    /// find room before them, but not `stays`.
    #[track_caller]
    pub(crate) fn close_sparse<A: Engine<E>>(
        &self,
        env: &E,
        engine: &A,
        stays: u64,
    ) -> Vec<(u64, u64, Vec<Block>)> {
        let mut chunks = env.lock(&self.chunks);
        // If it can't be done, what logs may name does not serve as a place.
        if chunks.any_unsettled() && engine.checkpoint(env).is_ok() {
            chunks.settled();
        }
        // By class: how many blocks are taken, and where. Nobody else changes who has a slab, but blocks are
        // taken and freed meanwhile.
        let mut slabs: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
        let mut note =
            |slab: &Slab| slabs.entry(slab.class).or_default().push((slab.taken_count(), slab.base));
        chunks.used_in_part().for_each(&mut note);
        (0..CACHES).for_each(|cache| self.hold(env, cache).used_in_part().for_each(&mut note));
        let mut closed = Vec::new();
        for (class, mut slabs) in slabs {
            // What has to stay comes first, then the fullest.
            let full = chunks.blocks_of(class);
            let rank = |&(taken, base): &(u64, u64)| (chunks.same_chunk(base, stays), taken, base);
            slabs.sort_unstable_by_key(|slab| std::cmp::Reverse(rank(slab)));
            let taken: u64 = slabs.iter().map(|(taken, _)| taken).sum();
            let kept = taken.div_ceil(full) as usize;
            for &(_, base) in &slabs[kept..] {
                let cache = chunks.cache_of(base).unwrap_or(Self::own(env));
                let slab = chunks.hand_out_at(base, cache);
                let mut cache = self.hold(env, cache);
                if let Some(slab) = slab {
                    cache.insert(slab);
                }
                closed.extend(cache.close(base));
            }
        }
        closed.extend(chunks.sinking(stays).into_iter().map(|(first, count)| {
            let block = chunks.large_block(first, count);
            (block.offset, block.offset + block.bytes, vec![block])
        }));
        closed.sort_unstable_by_key(|(begin, ..)| *begin);
        closed
    }

    /// Opens them again.
    #[track_caller]
    pub(crate) fn open_closed(&self, env: &E) {
        let _chunks = env.lock(&self.chunks);
        (0..CACHES).for_each(|cache| self.hold(env, cache).open_closed());
    }

    /// Reserves a better place for a block: in a slab that there is already and that is not closed; for a
    /// large one, before it.
    #[track_caller]
    pub(crate) fn reserve_there(&self, env: &E, block: &Block) -> Option<Block> {
        let own = Self::own(env);
        let mut chunks = env.lock(&self.chunks);
        if block.is_large() {
            return chunks.reserve_below(block);
        }
        let class = slab::class(block.bytes)?;
        let first = self.hold(env, own).take(class);
        first.or_else(|| (0..CACHES).find_map(|cache| self.hold(env, cache).take(class))).or_else(|| {
            let slab = chunks.hand_out(class, own)?;
            let mut cache = self.hold(env, own);
            cache.insert(slab);
            cache.take(class)
        })
    }

    /// Makes the chunks of slabs without a taken block free; how many these are. They, and the old places of
    /// large blocks, join with what is free beside them.
    ///
    /// # Errors
    /// If the memory fails.
    #[track_caller]
    pub(crate) fn give_back_empty<A: Engine<E>>(&self, env: &E, engine: &A) -> Result<u64, Error> {
        let mut chunks = env.lock(&self.chunks);
        let count = self.free_empty(env, engine, &mut chunks)?;
        if chunks.any_unsettled() {
            engine.checkpoint(env)?;
            chunks.settled();
        }
        Ok(count)
    }
}
