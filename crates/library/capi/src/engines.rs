//! The engines by name: where the type of an engine ends and a pool becomes one of any.

use std::any::Any;

use pmem::{Durability, Os};
use region::{
    Atomicity, Error, Header, Options, Pool, Recovered, Sparse, Ticket, Untyped, UntypedReserved, UntypedTx,
    Usage,
};

use space::Env;

use crate::error::Failure;
use observed::Observed;

/// Where a pool lives.
pub(crate) type Place = Box<Os<Observed>>;

/// An open pool of any engine.
pub(crate) trait OpenPool: Send + Sync {
    fn begin(&'static self) -> Result<Box<dyn OpenTx>, Error>;
    fn reserve(&'static self, bytes: u64) -> Result<Box<dyn OpenReserved>, Error>;
    fn load(&self, reference: u64, bytes: &mut [u8]) -> Result<(), Error>;
    fn root(&self) -> (u64, u64);
    fn block_bytes(&self, reference: u64) -> Result<u64, Error>;
    fn blocks(&self) -> Vec<(u64, u64)>;
    fn usage(&self) -> Usage;
    fn wait(&self, ticket: Ticket) -> Result<(), Error>;
    fn sync(&self) -> Result<(), Error>;
    fn is_due(&self, ticket: Ticket) -> bool;
    fn checkpoint(&self) -> Result<(), Error>;
    fn consolidate(&self) -> Result<bool, Error>;
    fn measure_threshold(&self) -> Result<u64, Error>;
    fn grow(&self, bytes: u64) -> Result<(), Failure>;
    fn begin_moving(&self) -> Sparse;
    fn wants(&self, sparse: &Sparse, reference: u64) -> bool;
    fn end_moving(&self, sparse: Sparse) -> Result<u64, Error>;
    fn header(&self) -> Header;
    fn durability(&self) -> Durability;
}

/// A region of any engine. Dropped, it is aborted.
pub(crate) trait OpenTx {
    fn load(&self, reference: u64, bytes: &mut [u8]) -> Result<(), Error>;
    fn check(&self, reference: u64, bytes: u64) -> Result<(), Error>;
    fn store(&mut self, reference: u64, bytes: &[u8]) -> Result<(), Error>;
    fn alloc(&mut self, bytes: u64) -> Result<u64, Error>;
    fn free(&mut self, reference: u64) -> Result<(), Error>;
    fn relocate(&mut self, cell: u64) -> Result<u64, Error>;
    fn publish(&mut self, reserved: Box<dyn OpenReserved>, cell: u64) -> Result<u64, Error>;
    fn commit(self: Box<Self>) -> Result<(), Error>;
    fn commit_async(self: Box<Self>) -> Result<Ticket, Error>;
}

/// A reserved block of any engine. Dropped, it is free again.
pub(crate) trait OpenReserved: Any + Send {
    fn reference(&self) -> u64;
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error>;
}

type Created = Result<Box<dyn OpenPool>, Error>;
type Opened = Result<(Box<dyn OpenPool>, Recovered), Error>;

/// An engine.
pub(crate) struct Engine {
    /// Its name, as programs and `strandline pool info` have it.
    pub(crate) name: &'static str,
    /// Its number in a pool's header.
    pub(crate) number: u32,
    /// Makes a pool of that layout and so many bytes, with a root object of so many.
    pub(crate) create: fn(place: Place, layout: &str, bytes: u64, root_bytes: u64, grows: bool) -> Created,
    /// Opens a pool of that layout.
    pub(crate) open: fn(place: Place, layout: &str, grows: bool) -> Opened,
    /// Opens it to look only, in memory that is this process's alone.
    pub(crate) open_read_only: fn(place: Place, layout: &str) -> Opened,
}

/// All engines, the usual one first.
pub(crate) static ENGINES: &[Engine] = &region::for_each_engine!([A => engine::<A>()]);

const fn engine<A: Atomicity>() -> Engine {
    Engine {
        name: A::NAME,
        number: A::NUMBER,
        create: create::<A>,
        open: open::<A>,
        open_read_only: open_read_only::<A>,
    }
}

fn create<A: Atomicity>(place: Place, layout: &str, bytes: u64, root_bytes: u64, grows: bool) -> Created {
    let options = Options { bytes: Some(bytes), ..Options::default() };
    let pool = Pool::<_, Untyped, A>::create_named(place, &options, layout, root_bytes)?;
    Ok(Box::new(growing(pool, grows)))
}

fn open<A: Atomicity>(place: Place, layout: &str, grows: bool) -> Opened {
    let (pool, recovered) = Pool::<_, Untyped, A>::open_named(place, layout)?;
    Ok((Box::new(growing(pool, grows)), recovered))
}

fn open_read_only<A: Atomicity>(place: Place, layout: &str) -> Opened {
    let (pool, recovered) = Pool::<_, Untyped, A>::open_named_read_only(place, layout)?;
    Ok((Box::new(pool), recovered))
}

/// Lets the pool and its file grow when there is no room, if so.
fn growing<A: Atomicity>(pool: Pool<Place, Untyped, A>, grows: bool) -> Pool<Place, Untyped, A> {
    if !grows {
        return pool;
    }
    pool.growing(|env, bytes| env.space().grow(bytes).map_err(|error| Error::NoGrowth(error.to_string())))
}

impl<A: Atomicity> OpenPool for Pool<Place, Untyped, A> {
    fn begin(&'static self) -> Result<Box<dyn OpenTx>, Error> {
        Ok(Box::new(Pool::begin(self)?))
    }
    fn reserve(&'static self, bytes: u64) -> Result<Box<dyn OpenReserved>, Error> {
        Ok(Box::new(self.reserve_bytes(bytes)?))
    }
    fn load(&self, reference: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.load_bytes(reference, bytes)
    }
    fn root(&self) -> (u64, u64) {
        self.root_reference()
    }
    fn block_bytes(&self, reference: u64) -> Result<u64, Error> {
        Pool::block_bytes(self, reference)
    }
    fn blocks(&self) -> Vec<(u64, u64)> {
        self.block_references()
    }
    fn usage(&self) -> Usage {
        Pool::usage(self)
    }
    fn wait(&self, ticket: Ticket) -> Result<(), Error> {
        Pool::wait(self, ticket)
    }
    fn sync(&self) -> Result<(), Error> {
        Pool::sync(self)
    }
    fn is_due(&self, ticket: Ticket) -> bool {
        Pool::is_due(self, ticket)
    }
    fn checkpoint(&self) -> Result<(), Error> {
        Pool::checkpoint(self)
    }
    fn consolidate(&self) -> Result<bool, Error> {
        Pool::consolidate(self)
    }
    fn measure_threshold(&self) -> Result<u64, Error> {
        Pool::measure_threshold(self)
    }
    fn grow(&self, bytes: u64) -> Result<(), Failure> {
        self.grow_with(bytes, |env, bytes| env.space().grow(bytes).map_err(Failure::from))
    }
    fn begin_moving(&self) -> Sparse {
        Pool::begin_moving(self)
    }
    fn wants(&self, sparse: &Sparse, reference: u64) -> bool {
        Pool::wants(self, sparse, reference)
    }
    fn end_moving(&self, sparse: Sparse) -> Result<u64, Error> {
        Pool::end_moving(self, sparse)
    }
    fn header(&self) -> Header {
        Pool::header(self)
    }
    fn durability(&self) -> Durability {
        self.env().space().durability()
    }
}

impl<A: Atomicity> OpenTx for UntypedTx<'static, Place, A> {
    fn load(&self, reference: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.load_bytes(reference, bytes)
    }
    fn check(&self, reference: u64, bytes: u64) -> Result<(), Error> {
        self.check_bytes(reference, bytes)
    }
    fn store(&mut self, reference: u64, bytes: &[u8]) -> Result<(), Error> {
        self.store_bytes(reference, bytes)
    }
    fn alloc(&mut self, bytes: u64) -> Result<u64, Error> {
        self.alloc_bytes(bytes)
    }
    fn free(&mut self, reference: u64) -> Result<(), Error> {
        self.free_block(reference)
    }
    fn relocate(&mut self, cell: u64) -> Result<u64, Error> {
        UntypedTx::relocate(self, cell)
    }
    fn publish(&mut self, reserved: Box<dyn OpenReserved>, cell: u64) -> Result<u64, Error> {
        let reference = reserved.reference();
        let reserved: Box<dyn Any> = reserved;
        let reserved = reserved.downcast::<UntypedReserved<'static, Place, A>>();
        // Of another engine, so of another pool.
        let bytes = 0;
        let reserved =
            reserved.map_err(|_| Error::Reference { reference, bytes, why: "is none of this pool" })?;
        UntypedTx::publish(self, *reserved, cell)
    }
    fn commit(self: Box<Self>) -> Result<(), Error> {
        UntypedTx::commit(*self)
    }
    fn commit_async(self: Box<Self>) -> Result<Ticket, Error> {
        UntypedTx::commit_async(*self)
    }
}

impl<A: Atomicity> OpenReserved for UntypedReserved<'static, Place, A> {
    fn reference(&self) -> u64 {
        UntypedReserved::reference(self)
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write_bytes(at, bytes)
    }
}
