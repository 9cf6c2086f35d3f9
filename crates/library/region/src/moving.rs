//! Moving blocks together: what the pool knows of it, and what a program does.

use std::ops::Deref;

use space::Env;

use crate::engine::Atomicity;
use crate::{Error, Layout, Persistent, Pool, Ptr, Tx};

/// Which blocks are worth moving:
/// - those of slabs that are used in part, as far as there is room in others of their kind, so that memory
///   becomes free that only blocks of their size could have. From these slabs no block is taken while this
///   lives;
/// - large ones, which have chunks of their own, if there is a place for them nearer to the beginning: so
///   what is free comes together at the end, and longer blocks fit
///   ([`Usage::longest_free`](crate::Usage::longest_free)). Where each goes shows when it is moved; when all
///   have been, others may have places that had none.
///
/// A pool does not know where its blocks are referred to from; the program does. So it goes through its
/// references, and moves each block that is [worth it](Moving::wants) by [`Tx::relocate`], in as many regions
/// as it likes. What it does not move stays.
///
/// ```
/// # use region::{Error, Layout, Options, Pool, Ptr, Redo};
/// # use space::{Image, Sim, sim::Schedule};
/// # struct Shelf;
/// # impl Layout for Shelf { const NAME: &'static str = "shelf"; type Root = [Ptr<[u64; 100], Shelf>; 100]; }
/// # space::sim::run(Image::new(1 << 20), &Schedule::walk(1), |env| {
/// # let pool: Pool<_, Shelf, Redo> = Pool::create(env, &Options::default())?;
/// # let slot = |at| pool.root().element(at);
/// // A hundred blocks, of which every tenth stays.
/// for at in 0..100 {
///     pool.region(|tx| { let block = tx.alloc([at as u64; 100])?; tx.set(slot(at), block) })?;
/// }
/// for at in (0..100).filter(|at| at % 10 != 0) {
///     pool.region(|tx| { tx.free(tx.get(slot(at)))?; tx.set(slot(at), Ptr::NULL) })?;
/// }
/// let moving = pool.moving();
/// for at in 0..100 {
///     if moving.wants(pool.get(slot(at))) {
///         pool.region(|tx| tx.relocate(slot(at)))?;
///     }
/// }
/// assert!(moving.finish()? > 0);
/// assert_eq!(pool.get(pool.get(slot(90))), [90; 100]);
/// # Ok::<(), Error>(()) }).result.expect("it ran").expect("it worked");
/// ```
pub struct Moving<'p, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    pool: &'p Pool<H, L, A>,
    sparse: Sparse,
}

/// Which slabs are to become empty, and which large blocks may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sparse {
    /// Where slabs and large blocks begin and end, in order.
    pieces: Vec<(u64, u64)>,
    /// Their blocks: offset and bytes.
    blocks: Vec<(u64, u64)>,
}

impl Sparse {
    /// Closes them. The root object does not count, as it stays where it is.
    #[track_caller]
    pub(crate) fn of<H, L, A>(pool: &Pool<H, L, A>) -> Self
    where
        H: Deref<Target: Env + Sized>,
        L: Layout,
        A: Atomicity,
    {
        let closed = pool.heap.close_sparse(pool.env(), &pool.engine, pool.root().offset());
        let pieces = closed.iter().map(|&(begin, end, _)| (begin, end)).collect();
        let blocks = closed.iter().flat_map(|(.., blocks)| blocks).map(|block| (block.offset, block.bytes));
        Sparse { pieces, blocks: blocks.collect() }
    }

    /// All blocks in them, as they were at the beginning: offset and bytes, in the order of offsets.
    #[must_use]
    pub fn blocks(&self) -> &[(u64, u64)] {
        &self.blocks
    }

    pub(crate) fn has(&self, offset: u64) -> bool {
        let behind = self.pieces.partition_point(|&(begin, _)| begin <= offset);
        behind > 0 && offset < self.pieces[behind - 1].1
    }
}

impl<H, L, A> Moving<'_, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    /// All blocks that are worth moving, as they were at the beginning: offset and bytes, in the order of
    /// offsets.
    #[must_use]
    pub fn blocks(&self) -> &[(u64, u64)] {
        self.sparse.blocks()
    }

    /// Whether the block that `at` leads to is worth moving. Not so of null.
    #[must_use]
    pub fn wants<T>(&self, at: Ptr<T, L>) -> bool {
        self.sparse.has(at.offset())
    }

    /// Makes the memory free that has become empty, and joins it: how many chunks of
    /// [`crate::Geometry::chunk_bytes`] only blocks of one size could have had before.
    ///
    /// # Errors
    /// If the memory fails.
    #[track_caller]
    pub fn finish(self) -> Result<u64, Error> {
        self.pool.check_writable()?;
        self.pool.heap.give_back_empty(self.pool.env(), &self.pool.engine)
    }
}

impl<H, L, A> Drop for Moving<'_, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    fn drop(&mut self) {
        self.pool.heap.open_closed(self.pool.env());
    }
}

impl<H, L, A> Pool<H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    /// Finds out which blocks are worth moving. One thread at a time should.
    #[must_use]
    #[track_caller]
    pub fn moving(&self) -> Moving<'_, H, L, A> {
        Moving { pool: self, sparse: Sparse::of(self) }
    }
}

impl<H, L, A> Tx<'_, H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    /// Moves the block that begins where the pointer in `cell` leads, all of its bytes, and sets the pointer;
    /// where the block is then. Once the region is committed, the old place is free. Pointers to it
    /// elsewhere, or into it, are the program's to set in the same region. If there is no better place, the
    /// block stays.
    ///
    /// # Errors
    /// If no block begins there.
    ///
    /// # Panics
    /// If a pointer is null, or of another pool.
    #[track_caller]
    pub fn relocate<T: Persistent<L>>(&mut self, cell: Ptr<Ptr<T, L>, L>) -> Result<Ptr<T, L>, Error> {
        let old = self.get(cell);
        let offset = self.pool().check(old);
        let Some(new) = self.move_block(offset)? else { return Ok(old) };
        let new = Ptr::new(self.pool().tag(), new);
        self.set(cell, new)?;
        Ok(new)
    }
}
