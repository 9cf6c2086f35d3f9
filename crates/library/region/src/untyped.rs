//! Pools for programs that bring no Rust types: the layout's name is known when the program runs, places are
//! numbers that are checked, and regions are begun and ended without a closure.
//!
//! A place is a *reference*: the 64 bits that a [`Ptr`](crate::Ptr) has, the pool's mark above the offset. 0
//! leads nowhere.

use std::ops::Deref;

use space::{Env, Observer, Space};

use crate::engine::{Atomicity, Engine, Recovered, Ticket};
use crate::moving::Sparse;
use crate::pointer::{OFFSET_BITS, Ptr};
use crate::reserve::Reservation;
use crate::{Error, Layout, Options, Pool, Tx};

/// The layout of a pool whose types only the program knows. Its name and its root object's size are given
/// when it is made.
#[derive(Debug)]
pub struct Untyped(());

impl Layout for Untyped {
    const NAME: &'static str = "";
    type Root = [u8; 0];
}

impl<H, A> Pool<H, Untyped, A>
where
    H: Deref<Target: Env + Sized>,
    A: Atomicity,
{
    /// As [`Pool::create`], with a layout of that name and a root object of so many bytes, which are zero.
    ///
    /// # Errors
    /// As [`Pool::create`]; also if the root object does not fit.
    pub fn create_named(env: H, options: &Options, layout: &str, root_bytes: u64) -> Result<Self, Error> {
        if root_bytes > env.space().len() {
            return Err(Error::Full { wanted: root_bytes });
        }
        Self::create_as(env, options, layout, root_bytes)
    }

    /// As [`Pool::open`], for a layout of that name.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open_named(env: H, layout: &str) -> Result<(Self, Recovered), Error> {
        Self::open_as(env, layout)
    }

    /// As [`Pool::open_read_only`], for a layout of that name.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open_named_read_only(env: H, layout: &str) -> Result<(Self, Recovered), Error> {
        let (pool, recovered) = Self::open_as(env, layout)?;
        Ok((pool.for_reading(), recovered))
    }

    /// Which blocks are worth moving, as [`Pool::moving`] finds them. From their slabs no block is taken
    /// until [`Pool::end_moving`].
    #[track_caller]
    pub fn begin_moving(&self) -> Sparse {
        Sparse::of(self)
    }

    /// Ends it, and makes the memory free that has become empty: how many bytes.
    ///
    /// # Errors
    /// If the memory fails, or the pool is open to read only.
    #[track_caller]
    pub fn end_moving(&self, _: Sparse) -> Result<u64, Error> {
        self.heap.open_closed(self.env());
        self.check_writable()?;
        let chunks = self.heap.give_back_empty(self.env(), &self.engine)?;
        Ok(chunks * u64::from(self.header().geometry.chunk_bytes))
    }

    /// Whether the block that a reference leads to is one of those; not so of 0.
    #[must_use]
    pub fn wants(&self, sparse: &Sparse, reference: u64) -> bool {
        reference >> OFFSET_BITS == u64::from(self.tag()) && sparse.has(reference & ((1 << OFFSET_BITS) - 1))
    }

    /// The root object, and its bytes, which may be more than were asked for.
    #[track_caller]
    pub fn root_reference(&self) -> (u64, u64) {
        let root = self.root();
        let bytes = self.heap.find(self.env(), root.offset()).map_or(0, |block| block.bytes);
        (root.word(), bytes)
    }

    /// All blocks that are allocated: reference and bytes, in the order of their offsets.
    #[track_caller]
    pub fn block_references(&self) -> Vec<(u64, u64)> {
        let refer = |(offset, bytes)| (self.refer(offset), bytes);
        self.blocks().into_iter().map(refer).collect()
    }

    /// Bytes of the block that begins at `reference`, which may be more than were asked for.
    ///
    /// # Errors
    /// If no block begins there.
    #[track_caller]
    pub fn block_bytes(&self, reference: u64) -> Result<u64, Error> {
        let offset = self.resolve(reference, 1)?;
        let block = self.heap.find(self.env(), offset);
        block.map(|block| block.bytes).ok_or(Error::NotAllocated { offset })
    }

    /// Reads the bytes at `reference`, outside of any region of this thread.
    ///
    /// # Errors
    /// If they are not all in this pool's heap.
    #[track_caller]
    pub fn load_bytes(&self, reference: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let offset = self.resolve(reference, bytes.len() as u64)?;
        self.engine.read(self.env(), offset, bytes);
        Ok(())
    }

    /// Reserves a block of so many bytes, which begin as zeros, as [`Pool::reserve`] does.
    ///
    /// # Errors
    /// If the pool is full, or open to read only.
    #[track_caller]
    pub fn reserve_bytes(&self, bytes: u64) -> Result<UntypedReserved<'_, H, A>, Error> {
        Reservation::new(self, bytes.max(1)).map(UntypedReserved)
    }

    /// Begins a region, as [`Pool::region`] does. A thread that begins a second one before the first has
    /// ended may wait for itself.
    ///
    /// # Errors
    /// If the pool is open to read only.
    #[track_caller]
    pub fn begin(&self) -> Result<UntypedTx<'_, H, A>, Error> {
        self.check_writable()?;
        let number = self.next_region();
        self.env().space().observer().region_begin(number);
        Ok(UntypedTx { tx: Tx::begin(self), number })
    }

    fn refer(&self, offset: u64) -> u64 {
        Ptr::<u8, Untyped>::new(self.tag(), offset).word()
    }

    /// The offset of so many bytes that may be accessed: behind the header and the logs. What of it is
    /// allocated is the program's business.
    fn resolve(&self, reference: u64, bytes: u64) -> Result<u64, Error> {
        let offset = reference & ((1 << OFFSET_BITS) - 1);
        let why = if reference == 0 {
            "leads nowhere"
        } else if reference >> OFFSET_BITS != u64::from(self.tag()) {
            "is none of this pool"
        } else if offset < self.heap_begin() || offset + bytes.min(1 << OFFSET_BITS) > self.end() {
            "leads out of the pool's heap"
        } else {
            return Ok(offset);
        };
        Err(Error::Reference { reference, bytes, why })
    }
}

/// A region under way, of a pool whose types only the program knows. Dropped without a commit, it is aborted.
pub struct UntypedTx<'p, H, A>
where
    H: Deref<Target: Env + Sized>,
    A: Atomicity,
{
    tx: Tx<'p, H, Untyped, A>,
    number: u64,
}

impl<H, A> UntypedTx<'_, H, A>
where
    H: Deref<Target: Env + Sized>,
    A: Atomicity,
{
    /// Reads the bytes at `reference`, as this region has them.
    ///
    /// # Errors
    /// If they are not all in this pool's heap.
    #[track_caller]
    pub fn load_bytes(&self, reference: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let offset = self.tx.pool().resolve(reference, bytes.len() as u64)?;
        self.tx.read(offset, bytes);
        Ok(())
    }

    /// Checks that so many bytes at `reference` may be accessed.
    ///
    /// # Errors
    /// If they are not all in this pool's heap.
    pub fn check_bytes(&self, reference: u64, bytes: u64) -> Result<(), Error> {
        self.tx.pool().resolve(reference, bytes).map(|_| ())
    }

    /// Writes the bytes at `reference`.
    ///
    /// # Errors
    /// If they are not all in this pool's heap, or the region can't remember so much; it must not be
    /// committed then.
    #[track_caller]
    pub fn store_bytes(&mut self, reference: u64, bytes: &[u8]) -> Result<(), Error> {
        let offset = self.tx.pool().resolve(reference, bytes.len() as u64)?;
        self.tx.write(offset, bytes)
    }

    /// A new block of so many bytes, of which nobody knows what is in them.
    ///
    /// # Errors
    /// If the pool is full, which leaves the region as it was.
    #[track_caller]
    pub fn alloc_bytes(&mut self, bytes: u64) -> Result<u64, Error> {
        let pool = self.tx.pool();
        self.tx.take(bytes.max(1)).map(|offset| pool.refer(offset))
    }

    /// Gives a block back once the region is committed.
    ///
    /// # Errors
    /// If no block begins there, it was freed, or it is the root object.
    #[track_caller]
    pub fn free_block(&mut self, reference: u64) -> Result<(), Error> {
        let pool = self.tx.pool();
        let offset = pool.resolve(reference, 1)?;
        if offset == pool.root().offset() {
            return Err(Error::Reference { reference, bytes: 0, why: "is the root object, which stays" });
        }
        self.tx.free_at(offset)
    }

    /// As [`Tx::relocate`]: moves the block that the reference in `cell` leads to, and sets the reference.
    ///
    /// # Errors
    /// If `cell` is no place, or no block begins where it leads.
    #[track_caller]
    pub fn relocate(&mut self, cell: u64) -> Result<u64, Error> {
        let mut old = [0; 8];
        self.load_bytes(cell, &mut old)?;
        let old = u64::from_le_bytes(old);
        let offset = self.tx.pool().resolve(old, 1)?;
        let Some(new) = self.tx.move_block(offset)? else { return Ok(old) };
        let new = self.tx.pool().refer(new);
        self.store_bytes(cell, &new.to_le_bytes())?;
        Ok(new)
    }

    /// Makes a reserved block part of the pool in this region, and writes its reference to `cell`.
    ///
    /// # Errors
    /// If `cell` is not in this pool's heap, or the region can't log so much; it must not be committed then.
    ///
    /// # Panics
    /// If the block was reserved in another pool.
    #[track_caller]
    pub fn publish(&mut self, reserved: UntypedReserved<'_, H, A>, cell: u64) -> Result<u64, Error> {
        let reference = reserved.reference();
        self.check_bytes(cell, 8)?;
        reserved.0.publish_in(&mut self.tx)?;
        self.store_bytes(cell, &reference.to_le_bytes())?;
        Ok(reference)
    }

    /// Ends the region: all of it is there from now on.
    ///
    /// # Errors
    /// If it can't be made durable; nothing of it is there then.
    #[track_caller]
    pub fn commit(mut self) -> Result<(), Error> {
        let (pool, ticket) = (self.tx.pool(), self.tx.commit()?);
        pool.engine.wait(pool.env(), ticket)?;
        pool.env().space().observer().region_end(self.number);
        Ok(())
    }

    /// Ends the region as [`Pool::region_async`] does: it survives a crash once the ticket is due.
    ///
    /// # Errors
    /// If it can't be committed; nothing of it is there then.
    #[track_caller]
    pub fn commit_async(mut self) -> Result<Ticket, Error> {
        let (pool, ticket) = (self.tx.pool(), self.tx.commit()?);
        pool.ends(ticket, self.number);
        Ok(ticket)
    }
}

/// A reserved block of a pool whose types only the program knows: see [`Pool::reserve_bytes`]. Dropped, it is
/// free again.
pub struct UntypedReserved<'p, H, A>(Reservation<'p, H, Untyped, A>)
where
    H: Deref<Target: Env + Sized>,
    A: Atomicity;

impl<H, A> UntypedReserved<'_, H, A>
where
    H: Deref<Target: Env + Sized>,
    A: Atomicity,
{
    /// Where it will be.
    #[must_use]
    pub fn reference(&self) -> u64 {
        self.0.pool().refer(self.0.offset())
    }

    /// Bytes that were asked for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Fills a part of it, from byte `at` on.
    ///
    /// # Errors
    /// If that is longer than the block.
    #[track_caller]
    pub fn write_bytes(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.check(at, bytes.len() as u64)?;
        self.0.write(at, bytes);
        Ok(())
    }

    /// What a part of it holds, from byte `at` on.
    ///
    /// # Errors
    /// As [`UntypedReserved::write_bytes`].
    #[track_caller]
    pub fn load_bytes(&self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.check(at, bytes.len() as u64)?;
        self.0.read(at, bytes);
        Ok(())
    }

    fn check(&self, at: u64, bytes: u64) -> Result<(), Error> {
        if at.checked_add(bytes).is_some_and(|end| end <= self.bytes()) {
            return Ok(());
        }
        let why = "leads out of the reserved block";
        Err(Error::Reference { reference: self.reference().wrapping_add(at), bytes, why })
    }
}
