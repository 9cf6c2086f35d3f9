//! A region under way.

use std::cell::Cell;
use std::ops::Deref;

use space::{Env, Space};

use crate::engine::flaw::HeapFlaw;
use crate::engine::{Atomicity, Engine, ExtendLog, Overflow, Ticket};
use crate::heap::Block;
use crate::{Error, Layout, Persistent, Pool, Ptr};

/// A region as the engine has it.
type Under<E, A> = <<A as Atomicity>::Engine<E> as Engine<E>>::Region;

/// Blocks of a region.
#[derive(Default)]
struct Blocks {
    /// Free again if the region is not committed.
    taken: Vec<Block>,
    /// Free again if it is.
    freed: Vec<Block>,
    /// Whether those that were taken were written to, past the engine.
    wrote_fresh: bool,
}

/// Blocks that a list may have room for and still be kept for the next region of its thread.
const KEPT: usize = 1 << 12;

/// Bytes of a block that are copied at once when it is moved.
const MOVED_AT_ONCE: u64 = 1 << 16;

thread_local! {
    /// The lists of this thread's last region, empty, for its next one. Boxed as [`crate::Writes`] are.
    static SPARE: Cell<Option<Box<Blocks>>> = const { Cell::new(None) };
}

impl Blocks {
    /// Empty lists.
    #[inline(always)]
    fn take() -> Box<Blocks> {
        // A thread that is ending may abort a region when its variables are gone.
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Empties the lists and keeps their memory for this thread.
    #[inline(always)]
    fn put_back(mut self: Box<Self>) {
        if self.taken.capacity() + self.freed.capacity() <= KEPT {
            self.taken.clear();
            self.freed.clear();
            self.wrote_fresh = false;
            _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}

/// What a region can do. Dropped without a commit, it is aborted.
pub struct Tx<'p, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    pool: &'p Pool<H, L, A>,
    /// `None` once it has ended.
    region: Option<Under<H::Target, A>>,
    /// What it took and freed; `None` if it did neither.
    blocks: Option<Box<Blocks>>,
    /// Why the region can't be committed, if a part of it failed.
    failed: Option<Error>,
}

impl<'p, H, L, A> Tx<'p, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    #[inline(always)]
    pub(crate) fn begin(pool: &'p Pool<H, L, A>) -> Self {
        let region = Some(pool.engine.begin(pool.env()));
        Tx { pool, region, blocks: None, failed: None }
    }

    /// Ends the region. Not by value: what is moved is read in wide pieces soon after it was written in
    /// narrow ones, which waits for the last region's fence.
    #[track_caller]
    pub(crate) fn commit(&mut self) -> Result<Ticket, Error> {
        if self.failed.is_some() {
            return self.failed.take().map_or(Ok(Ticket::DUE), Err);
        }
        let heap_flaw = <A::Engine<H::Target> as Engine<_>>::HEAP;
        let is_logged = !<A::Engine<H::Target> as Engine<_>>::IN_PLACE;
        let wrote_fresh = self.blocks.as_ref().is_some_and(|blocks| blocks.wrote_fresh);
        if wrote_fresh && is_logged && heap_flaw != HeapFlaw::FreshNotFenced {
            // What a log says may survive before anybody waits for it, and must not lead to anything that
            // does not.
            self.pool.env().space().fence();
        }
        let (env, pool) = (self.pool.env(), self.pool);
        let extent = self.region.as_mut().and_then(|region| pool.engine.extension()?.take_extent(region));
        let Some(region) = self.region.take() else { return Ok(Ticket::DUE) };
        let overflow = pool.engine.overflow();
        let done = match overflow.map(|overflow| (overflow, overflow.overflow_words(&region))) {
            Some((overflow, words)) if words > 0 => self.commit_long(overflow, region, words),
            _ => pool.engine.commit(env, region),
        };
        extent.iter().for_each(|extent| pool.heap.free_extent(env, extent));
        let ticket = match done {
            Ok(ticket) => ticket,
            Err(error) => {
                self.give_back();
                return Err(error);
            }
        };
        if heap_flaw != HeapFlaw::FreedEarly {
            self.end(|blocks| &blocks.freed);
        }
        Ok(ticket)
    }

    /// The region has ended, and those blocks are free.
    #[inline(always)]
    #[track_caller]
    fn end(&mut self, free: impl Fn(&Blocks) -> &[Block]) {
        if let Some(blocks) = self.blocks.take() {
            self.pool.heap.release(self.pool.env(), free(&blocks));
            blocks.put_back();
        }
    }

    /// The commit of a region that is too long for a log.
    #[cold]
    #[track_caller]
    fn commit_long(
        &self,
        overflow: &impl Overflow<H::Target, Under<H::Target, A>>,
        region: Under<H::Target, A>,
        words: u64,
    ) -> Result<Ticket, Error> {
        let (env, pool) = (self.pool.env(), self.pool);
        let extent = match pool.with_room(|| pool.heap.take_extent(env, &pool.engine, words)) {
            Ok(extent) => extent,
            Err(error) => {
                pool.engine.abort(env, region);
                return Err(error);
            }
        };
        let done = overflow.commit_overflow(env, region, &extent);
        pool.heap.free_extent(env, &extent);
        done
    }

    /// Has the engine remember a write in this region, with more room if it needs that.
    #[inline(always)]
    #[track_caller]
    fn remember(
        &mut self,
        write: impl Fn(&Pool<H, L, A>, &mut Under<H::Target, A>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(region) = &mut self.region else { return Ok(()) };
        match write(self.pool, region) {
            Err(full @ Error::Full { .. }) if <A::Engine<H::Target> as Engine<_>>::IN_PLACE => {
                self.extend_log(full)?;
                self.region.as_mut().map_or(Ok(()), |region| write(self.pool, region))
            }
            done => done,
        }
    }

    /// Extends this region's log, which is full, by a chunk. If there is none, or the engine can't, the
    /// region can't be committed.
    #[cold]
    #[track_caller]
    fn extend_log(&mut self, full: Error) -> Result<(), Error> {
        let (env, pool) = (self.pool.env(), self.pool);
        let extended = pool.engine.extension().ok_or(full).and_then(|extension| {
            let extent = pool.with_room(|| pool.heap.take_extent(env, &pool.engine, 1))?;
            Ok((extension, extent))
        });
        let (extension, extent) = extended.inspect_err(|error| self.failed = Some(error.clone()))?;
        if let Some(region) = &mut self.region {
            extension.extend_log(env, region, extent);
        }
        Ok(())
    }

    /// Ends the region as if it had not been.
    #[cold]
    fn abort(&mut self, mut region: Under<H::Target, A>) {
        let (env, pool) = (self.pool.env(), self.pool);
        let extent = pool.engine.extension().and_then(|extension| extension.take_extent(&mut region));
        pool.engine.abort(env, region);
        extent.iter().for_each(|extent| pool.heap.free_extent(env, extent));
        self.give_back();
    }

    /// What was taken is free.
    fn give_back(&mut self) {
        self.end(|blocks| &blocks.taken);
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &'p Pool<H, L, A> {
        self.pool
    }

    /// The root object.
    #[must_use]
    pub fn root(&self) -> Ptr<L::Root, L> {
        self.pool.root()
    }

    /// Runs `work` as a part of this region. If it returns an error, all of the region is given up, whatever
    /// is done about the error.
    ///
    /// # Errors
    /// What `work` returned.
    pub fn region<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R, Error>) -> Result<R, Error> {
        work(self).inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// The value at a pointer, as this region has it.
    ///
    /// # Panics
    /// If the pointer is null, or of another pool.
    #[track_caller]
    pub fn get<T: Persistent<L>>(&self, at: Ptr<T, L>) -> T {
        let offset = self.pool.check(at);
        let mut value = T::new_zeroed();
        self.read(offset, value.as_mut_bytes());
        value
    }

    /// Writes `value` at a pointer.
    ///
    /// # Errors
    /// If the region can't remember so much.
    ///
    /// # Panics
    /// If the pointer is null, or of another pool.
    #[inline(always)]
    #[track_caller]
    pub fn set<T: Persistent<L>>(&mut self, at: Ptr<T, L>, value: T) -> Result<(), Error> {
        let offset = self.pool.check(at);
        match value.as_bytes().as_array() {
            // Most writes are of one word.
            Some(word) if offset.is_multiple_of(8) && self.blocks.is_none() => {
                self.set_word(offset, u64::from_le_bytes(*word))
            }
            _ => self.set_bytes(offset, value),
        }
    }

    /// [`Tx::set`] of what is not a word. By itself, so that a word stays in a register.
    #[inline(never)]
    #[track_caller]
    fn set_bytes<T: Persistent<L>>(&mut self, offset: u64, value: T) -> Result<(), Error> {
        self.write(offset, value.as_bytes())
    }

    /// Allocates a block for `value`. It is free again if the region is not committed.
    ///
    /// # Errors
    /// If the pool is full.
    #[track_caller]
    pub fn alloc<T: Persistent<L>>(&mut self, value: T) -> Result<Ptr<T, L>, Error> {
        let offset = self.take(size_of::<T>() as u64)?;
        self.write(offset, value.as_bytes())?;
        Ok(Ptr::new(self.pool.tag(), offset))
    }

    /// Gives back what [`Tx::alloc`] gave, once the region is committed.
    ///
    /// # Errors
    /// If nothing was allocated there, or it is the root object.
    ///
    /// # Panics
    /// If the pointer is null, or of another pool.
    #[track_caller]
    pub fn free<T: Persistent<L>>(&mut self, at: Ptr<T, L>) -> Result<(), Error> {
        let offset = self.pool.check(at);
        if offset == self.pool.root().offset() {
            let why = "is the root object, which stays";
            return Err(Error::Reference { reference: at.word(), bytes: 0, why });
        }
        self.free_at(offset)
    }

    /// Allocates `bytes` zeros, a multiple of 8.
    pub(crate) fn alloc_zeroed(&mut self, bytes: u64) -> Result<u64, Error> {
        let offset = self.take(bytes)?;
        for word in (offset..offset + bytes).step_by(8) {
            self.write(word, &[0; 8])?;
        }
        Ok(offset)
    }

    #[inline]
    #[track_caller]
    pub(crate) fn take(&mut self, bytes: u64) -> Result<u64, Error> {
        let (env, pool) = (self.pool.env(), self.pool);
        let block = pool.with_room(|| pool.heap.reserve(env, &pool.engine, bytes))?;
        self.adopt(block)?;
        Ok(block.offset)
    }

    /// The block that was reserved is this region's.
    #[inline]
    #[track_caller]
    pub(crate) fn adopt(&mut self, block: Block) -> Result<(), Error> {
        let env = self.pool.env();
        self.blocks.get_or_insert_with(Blocks::take).taken.push(block);
        self.remember(|pool, region| pool.heap.mark_taken(env, &pool.engine, region, &block))?;
        space::Observer::allocated(env.space().observer(), block.offset, block.bytes);
        Ok(())
    }

    #[inline]
    #[track_caller]
    pub(crate) fn free_at(&mut self, offset: u64) -> Result<(), Error> {
        let (env, pool) = (self.pool.env(), self.pool);
        let blocks = self.blocks.get_or_insert_with(Blocks::take);
        let block = pool.heap.find(env, offset).filter(|block| !blocks.freed.contains(block));
        let block = block.ok_or(Error::NotAllocated { offset })?;
        self.remember(|pool, region| pool.heap.mark_free(env, &pool.engine, region, &block))?;
        self.blocks.get_or_insert_with(Blocks::take).freed.push(block);
        if <A::Engine<H::Target> as Engine<_>>::HEAP == HeapFlaw::FreedEarly {
            pool.heap.release(env, &[block]);
        }
        space::Observer::freed(env.space().observer(), offset);
        Ok(())
    }

    /// Copies the block at `offset` to a better offset, and frees it; where it is now. `None` if there is
    /// none, and for the root object.
    #[track_caller]
    pub(crate) fn move_block(&mut self, offset: u64) -> Result<Option<u64>, Error> {
        let (env, pool) = (self.pool.env(), self.pool);
        let old = pool.heap.find(env, offset).ok_or(Error::NotAllocated { offset })?;
        if offset == pool.root().offset() {
            return Ok(None);
        }
        let Some(new) = pool.heap.reserve_there(env, &old) else { return Ok(None) };
        self.adopt(new)?;
        let mut piece = vec![0; old.bytes.min(MOVED_AT_ONCE) as usize];
        for at in (0..old.bytes).step_by(MOVED_AT_ONCE as usize) {
            let count = (old.bytes - at).min(MOVED_AT_ONCE) as usize;
            self.read(offset + at, &mut piece[..count]);
            self.write(new.offset + at, &piece[..count])?;
        }
        self.free_at(offset)?;
        Ok(Some(new.offset))
    }

    /// Whether the bytes lie in a block that this region took, and that no log names: nobody else can see
    /// them, so they are written where they are. Old records can name any block but one of whole chunks, if
    /// records are what is done again.
    fn is_fresh(&self, offset: u64) -> bool {
        let lies = |block: &&Block| (block.offset..block.offset + block.bytes).contains(&offset);
        let unnamed = |block: &Block| <A::Engine<H::Target> as Engine<_>>::IN_PLACE || block.is_large();
        self.blocks.as_ref().and_then(|blocks| blocks.taken.iter().find(lies)).is_some_and(unnamed)
    }

    fn word(&self, offset: u64) -> u64 {
        let env = self.pool.env();
        match &self.region {
            Some(region) => self.pool.engine.load(env, region, offset),
            None => env.space().load_u64(offset),
        }
    }

    #[inline(always)]
    #[track_caller]
    pub(crate) fn set_word(&mut self, offset: u64, value: u64) -> Result<(), Error> {
        self.remember(
            #[inline(always)]
            |pool, region| pool.engine.store(pool.env(), region, offset, value),
        )
    }

    /// The same, of words that follow each other.
    #[track_caller]
    fn set_words(&mut self, offset: u64, words: &[[u8; 8]]) -> Result<(), Error> {
        if <A::Engine<H::Target> as Engine<_>>::IN_PLACE {
            // Each may need more room than there is.
            let mut words = (offset..).step_by(8).zip(words);
            return words.try_for_each(|(at, word)| self.set_word(at, u64::from_le_bytes(*word)));
        }
        let Some(region) = &mut self.region else { return Ok(()) };
        self.pool.engine.store_run(self.pool.env(), region, offset, words)
    }

    /// Reads the bytes at `offset`.
    #[track_caller]
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let skip = (at % 8) as usize;
            let count = rest.len().min(8 - skip);
            let word = self.word(at - skip as u64).to_le_bytes();
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&word[skip..skip + count]);
            (at, rest) = (at + count as u64, later);
        }
    }

    /// So many bytes at `offset` were stored to a block that is this region's: the commit makes them durable.
    #[track_caller]
    pub(crate) fn wrote_fresh(&mut self, offset: u64, bytes: u64) {
        self.pool.env().space().flush(offset, bytes);
        if let Some(blocks) = &mut self.blocks {
            blocks.wrote_fresh = true;
        }
    }

    /// Writes the bytes at `offset`.
    #[track_caller]
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if self.is_fresh(offset) {
            let space = self.pool.env().space();
            space.store(offset, bytes);
            self.wrote_fresh(offset, bytes.len() as u64);
            return Ok(());
        }
        let (mut at, mut rest) = (offset, bytes);
        if offset.is_multiple_of(8) {
            let (words, bytes) = bytes.as_chunks();
            self.set_words(at, words)?;
            (at, rest) = (at + 8 * words.len() as u64, bytes);
        }
        while !rest.is_empty() {
            let skip = (at % 8) as usize;
            let count = rest.len().min(8 - skip);
            let word = at - skip as u64;
            let mut value = if count == 8 { [0; 8] } else { self.word(word).to_le_bytes() };
            let (now, later) = rest.split_at(count);
            value[skip..skip + count].copy_from_slice(now);
            self.set_word(word, u64::from_le_bytes(value))?;
            (at, rest) = (at + count as u64, later);
        }
        Ok(())
    }
}

impl<H, L, A> Drop for Tx<'_, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    #[inline]
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            self.abort(region);
        }
    }
}
