//! Allocation in two steps: a block is reserved and filled without a region, then published together with the
//! pointer that leads to it.
//!
//! Until then the block is this process's alone and the medium does not say that it is taken, so a crash
//! frees it. What large blocks hold is written to their memory at once; logs may still name the words of a
//! small one, so those are kept in ordinary memory until the block is published.

use std::ops::Deref;

use space::{Env, Space};

use crate::engine::flaw::HeapFlaw;
use crate::engine::{Atomicity, Engine};
use crate::heap::Block;
use crate::{Error, Layout, Persistent, Pool, Ptr, Tx};

/// A reserved block without a type.
pub(crate) struct Reservation<'p, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    pool: &'p Pool<H, L, A>,
    /// `None` once it is published.
    block: Option<Block>,
    bytes: u64,
    /// What the block will hold, unless it stands there already.
    content: Option<Box<[u8]>>,
}

impl<'p, H, L, A> Reservation<'p, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    /// Reserves a block of so many zeros.
    #[track_caller]
    pub(crate) fn new(pool: &'p Pool<H, L, A>, bytes: u64) -> Result<Self, Error> {
        pool.check_writable()?;
        let block = pool.with_room(|| pool.heap.reserve(pool.env(), &pool.engine, bytes))?;
        let in_place = <A::Engine<H::Target> as Engine<_>>::IN_PLACE || block.is_large();
        let content = (!in_place).then(|| vec![0; bytes as usize].into());
        let reservation = Reservation { pool, block: Some(block), bytes, content };
        if in_place {
            let zeros = [0; 4096];
            for at in (0..bytes).step_by(zeros.len()) {
                let count = (bytes - at).min(zeros.len() as u64) as usize;
                pool.env().space().store(block.offset + at, &zeros[..count]);
            }
        }
        Ok(reservation)
    }

    /// The pool that it is of.
    pub(crate) fn pool(&self) -> &'p Pool<H, L, A> {
        self.pool
    }

    /// Where the block begins.
    pub(crate) fn offset(&self) -> u64 {
        self.block.map_or(0, |block| block.offset)
    }

    /// Bytes that were asked for.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads from byte `at` on, within the block.
    #[track_caller]
    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) {
        match &self.content {
            Some(content) => bytes.copy_from_slice(&content[at as usize..][..bytes.len()]),
            None => self.pool.env().space().load(self.offset() + at, bytes),
        }
    }

    /// Writes from byte `at` on, within the block.
    #[track_caller]
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        match &mut self.content {
            Some(content) => content[at as usize..][..bytes.len()].copy_from_slice(bytes),
            None => self.pool.env().space().store(self.offset() + at, bytes),
        }
    }

    /// Makes the block one of that region; where it begins.
    #[track_caller]
    pub(crate) fn publish_in(mut self, tx: &mut Tx<'_, H, L, A>) -> Result<u64, Error> {
        assert!(std::ptr::eq(self.pool, tx.pool()), "the block was reserved in another pool");
        let Some(block) = self.block.take() else { return Ok(0) };
        tx.adopt(block)?;
        match &self.content {
            Some(content) => tx.write(block.offset, content)?,
            None => tx.wrote_fresh(block.offset, self.bytes),
        }
        Ok(block.offset)
    }
}

impl<H, L, A> Drop for Reservation<'_, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.heap.release(self.pool.env(), &[block]);
        }
    }
}

/// A block for a `T` that is this process's alone: see [`Pool::reserve`]. Dropped, it is free again.
pub struct Reserved<'p, H, T, L, A>
where
    H: Deref<Target: Env + Sized>,
    T: Persistent<L>,
    L: Layout,
    A: Atomicity,
{
    block: Reservation<'p, H, L, A>,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<H, L, A> Pool<H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    /// Reserves a block for a `T`, which begins as zeros. No region is needed to fill it, and no other thread
    /// gets the block. It becomes part of the pool by [`Reserved::publish`], or by [`Tx::publish`] together
    /// with others; a crash before that frees it.
    ///
    /// # Errors
    /// If the pool is full, or open to read only.
    #[track_caller]
    pub fn reserve<T: Persistent<L>>(&self) -> Result<Reserved<'_, H, T, L, A>, Error> {
        let block = Reservation::new(self, (size_of::<T>() as u64).max(1))?;
        Ok(Reserved { block, of: std::marker::PhantomData })
    }
}

impl<'p, H, T, L, A> Reserved<'p, H, T, L, A>
where
    H: Deref<Target: Env + Sized>,
    T: Persistent<L>,
    L: Layout,
    A: Atomicity,
{
    /// Where it will be. Of use to others once it is published: reserved blocks can hold pointers to each
    /// other.
    #[must_use]
    pub fn ptr(&self) -> Ptr<T, L> {
        Ptr::new(self.block.pool.tag(), self.block.offset())
    }

    /// What it holds.
    #[track_caller]
    pub fn get(&self) -> T {
        let mut value = T::new_zeroed();
        self.block.read(0, value.as_mut_bytes());
        value
    }

    /// Fills it.
    #[track_caller]
    pub fn set(&mut self, value: T) {
        self.block.write(0, value.as_bytes());
    }

    /// Makes the block part of the pool and has `slot` lead to it, in a region of its own: after a crash both
    /// are there, or neither.
    ///
    /// # Errors
    /// As [`Pool::region`]. The block is free again then.
    ///
    /// # Panics
    /// If `slot` is null, or of another pool.
    #[track_caller]
    pub fn publish(self, slot: Ptr<Ptr<T, L>, L>) -> Result<Ptr<T, L>, Error> {
        let (pool, at) = (self.block.pool, self.ptr());
        if <A::Engine<H::Target> as Engine<_>>::HEAP == HeapFlaw::PublishedEarly {
            pool.region(|tx| tx.set(slot, at))?;
        }
        pool.region(|tx| tx.publish(self, slot))
    }
}

impl<H, L, A> Tx<'_, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    /// Makes a reserved block part of the pool in this region, and has `slot` lead to it. A region can
    /// publish several.
    ///
    /// # Errors
    /// If the region can't log so much.
    ///
    /// # Panics
    /// If `slot` is null, or block or slot are of another pool.
    #[track_caller]
    pub fn publish<T: Persistent<L>>(
        &mut self,
        reserved: Reserved<'_, H, T, L, A>,
        slot: Ptr<Ptr<T, L>, L>,
    ) -> Result<Ptr<T, L>, Error> {
        let at = reserved.ptr();
        reserved.block.publish_in(self)?;
        self.set(slot, at)?;
        Ok(at)
    }
}
