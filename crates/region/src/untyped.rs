//! Pools for programs that bring no Rust types: the layout's name is known when the program runs, places are numbers that are checked, and
//! regions are begun and ended without a closure.
//!
//! A place is a *reference*: the 64 bits that a [`Ptr`](crate::Ptr) has, the pool's mark above the offset. 0 leads nowhere.

use std::ops::Deref;

use space::{Env, Observer, Space};

use crate::engine::{Atomicity, Engine, Recovered};
use crate::moving::Sparse;
use crate::pointer::{OFFSET_BITS, Ptr};
use crate::{Error, Layout, Options, Pool, Tx};

/// The layout of a pool whose types only the program knows. Its name and its root object's size are told when it is made.
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

    /// Which blocks are worth moving, as [`Pool::moving`] tells it. From their slabs no block is taken until [`Pool::end_moving`].
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

    /// Begins a region, as [`Pool::region`] does. A thread that begins a second one before the first has ended may wait for itself.
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

    /// The offset of so many bytes that may be accessed: behind the header and the logs. What of it is allocated is the program's business.
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
    /// If they are not all in this pool's heap, or the region can't remember so much; it must not be committed then.
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

    /// Ends the region: all of it is there from now on.
    ///
    /// # Errors
    /// If it can't be made durable; nothing of it is there then.
    #[track_caller]
    pub fn commit(mut self) -> Result<(), Error> {
        let pool = self.tx.pool();
        self.tx.commit()?;
        pool.env().space().observer().region_end(self.number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use space::Image;
    use space::sim::{self, Schedule};

    use super::*;
    use crate::{MicroBuffer, Redo, Shadow, Ssp, Undo, Unprotected};

    /// What holds with every engine.
    fn conforms<A: Atomicity>() {
        let run = sim::run(Image::new(1 << 20), &Schedule::walk(1), |env| {
            let pool: Pool<_, Untyped, A> =
                Pool::create_named(env, &Options::default(), "numbers", 24).expect("there is room");
            what_ended_is_there(&pool);
            what_was_given_up_is_not(&pool);
            wrong_references_are_told(&pool);
            let (root, _) = pool.root_reference();
            drop(pool);
            let (pool, _) = Pool::<_, Untyped, A>::open_named(env, "numbers").expect("it is whole");
            assert_eq!(pool.root_reference().0, root);
            assert_eq!(word(&pool, root + 8), 7);
            let other = Pool::<_, Untyped, A>::open_named(env, "letters").map(|_| ());
            assert!(matches!(other, Err(Error::Layout { .. })), "{other:?}");
        });
        run.result.expect("it ran");
    }

    fn word<H: Deref<Target: Env + Sized>, A: Atomicity>(pool: &Pool<H, Untyped, A>, at: u64) -> u64 {
        let mut bytes = [0xFF; 8];
        pool.load_bytes(at, &mut bytes).expect("it is in the pool");
        u64::from_le_bytes(bytes)
    }

    fn what_ended_is_there<H: Deref<Target: Env + Sized>, A: Atomicity>(pool: &Pool<H, Untyped, A>) {
        let (root, bytes) = pool.root_reference();
        assert!(bytes >= 24);
        assert_eq!(word(pool, root + 16), 0);
        let mut tx = pool.begin().expect("it is open to write");
        tx.store_bytes(root + 8, &7u64.to_le_bytes()).expect("it fits");
        let block = tx.alloc_bytes(100).expect("there is room");
        tx.store_bytes(block + 3, b"text").expect("it fits");
        let mut text = [0; 4];
        tx.load_bytes(block + 3, &mut text).expect("it is there");
        assert_eq!(&text, b"text");
        tx.commit().expect("it is durable");
        assert_eq!(word(pool, root + 8), 7);
        assert!(pool.block_bytes(block).expect("it is allocated") >= 100);
        assert_eq!(pool.block_references().len(), 2);
        let mut tx = pool.begin().expect("it is open to write");
        tx.free_block(block).expect("it is allocated");
        let twice = tx.free_block(block);
        assert!(matches!(twice, Err(Error::NotAllocated { .. })), "{twice:?}");
        tx.commit().expect("it is durable");
        let later = pool.begin().expect("it is open to write").free_block(block);
        assert!(matches!(later, Err(Error::NotAllocated { .. })), "{later:?}");
    }

    fn what_was_given_up_is_not<H: Deref<Target: Env + Sized>, A: Atomicity>(pool: &Pool<H, Untyped, A>) {
        let (root, _) = pool.root_reference();
        let mut tx = pool.begin().expect("it is open to write");
        tx.store_bytes(root + 8, &[9; 8]).expect("it fits");
        let block = tx.alloc_bytes(40).expect("there is room");
        tx.store_bytes(block, &[9; 40]).expect("it fits");
        drop(tx);
        assert_eq!(word(pool, root + 8), 7);
        assert_eq!(pool.block_references().len(), 1);
        // Taken and given back in one region, small and large.
        for bytes in [40, 100_000] {
            let mut tx = pool.begin().expect("it is open to write");
            let block = tx.alloc_bytes(bytes).expect("there is room");
            tx.store_bytes(block, &[1; 40]).expect("it fits");
            tx.free_block(block).expect("it was taken");
            tx.commit().expect("it is durable");
            assert_eq!(pool.block_references().len(), 1);
            assert_eq!(pool.usage().blocks, 1);
        }
        let full = pool.begin().expect("it is open to write").alloc_bytes(u64::MAX);
        let wanted = u64::MAX;
        assert_eq!(full, Err(Error::TooLarge { wanted, most: 511 * 4096, chunk: 4096 }));
    }

    fn wrong_references_are_told<H: Deref<Target: Env + Sized>, A: Atomicity>(pool: &Pool<H, Untyped, A>) {
        let (root, _) = pool.root_reference();
        let end = pool.end();
        let mark = root & !((1 << OFFSET_BITS) - 1);
        for (reference, bytes) in [
            (0, 8),
            (root ^ 1 << 60, 8),
            (mark | 64, 8),
            (mark | 8192, 8),
            (mark | (end - 7), 8),
            (mark | end, 1),
            (mark | ((1 << OFFSET_BITS) - 1), 8),
        ] {
            let mut place = vec![0; bytes];
            for told in [
                pool.load_bytes(reference, &mut place),
                pool.begin().expect("it is open to write").load_bytes(reference, &mut place),
                pool.begin().expect("it is open to write").store_bytes(reference, &place),
            ] {
                assert!(matches!(told, Err(Error::Reference { .. })), "{reference:#x}: {told:?}");
            }
            assert!(
                pool.begin().expect("it is open to write").free_block(reference).is_err(),
                "{reference:#x}"
            );
        }
        assert!(pool.begin().expect("it is open to write").free_block(root).is_err());
        assert!(pool.begin().expect("it is open to write").free_block(root + 8).is_err());
    }

    #[test]
    fn pools_without_types_conform() {
        conforms::<Redo>();
        conforms::<Undo>();
        conforms::<MicroBuffer>();
        conforms::<Shadow>();
        conforms::<Ssp>();
        conforms::<Unprotected>();
    }
}
