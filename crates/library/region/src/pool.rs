//! Pools: a space with a header, logs, a heap and a root object.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};

use space::{Env, Space};

use crate::engine::{Atomicity, Consolidate, Engine, Recovered, Ticket};
use crate::header::{Geometry, Header, ROOT, STATE};
use crate::heap::{Heap, Usage, beside_others, free_all, free_word};
use crate::{Damage, Error, Layout, Persistent, Ptr, Tx, guarded};

/// What a new pool is like. Everything has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Sizes of its parts; by the size of the pool if `None`.
    pub geometry: Option<Geometry>,
    /// Bytes of the pool, a multiple of 8; all of the space if `None`. It can grow later.
    pub bytes: Option<u64>,
}

/// Makes a space at least so many bytes long, if it can.
type Growth<E> = Box<dyn Fn(&E, u64) -> Result<(), Error> + Send + Sync>;

/// An open pool of layout `L` on the environment that `H` leads to, with regions as `A` makes them.
///
/// It is for any number of threads. What regions promise stands at [`Pool::region`], what they do not at
/// [`Atomicity`].
pub struct Pool<H, L, A>
where
    H: Deref<Target: Env + Sized>,
    A: Atomicity,
{
    env: H,
    pub(crate) engine: A::Engine<H::Target>,
    pub(crate) heap: Heap<H::Target>,
    header: <H::Target as Env>::Mutex<Header>,
    tag: u16,
    /// Where the heap begins.
    begin: u64,
    /// Where the heap's last whole chunk ends. Only grows.
    end: AtomicU64,
    /// The same, once the heap gives out blocks up to there.
    room: AtomicU64,
    growth: Option<Growth<H::Target>>,
    read_only: bool,
    /// Regions that are committed and not known to be durable, as an observer knows them, in commit order.
    ending: <H::Target as Env>::Latch<VecDeque<(Ticket, u64)>>,
    layout: PhantomData<fn() -> L>,
}

impl<H, L, A> Pool<H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    /// Makes a pool of the whole space, which is new: full of zeros. Until this returns there is none,
    /// whatever a crash leaves.
    ///
    /// # Errors
    /// If there is something in the space, or it is too small.
    pub fn create(env: H, options: &Options) -> Result<Self, Error> {
        Self::create_as(env, options, L::NAME, size_of::<L::Root>() as u64)
    }

    /// Makes a pool of that layout, whose root object has so many bytes.
    pub(crate) fn create_as(env: H, options: &Options, layout: &str, root_bytes: u64) -> Result<Self, Error> {
        let space = env.space();
        let bytes = options.bytes.unwrap_or(space.len());
        if bytes > space.len() || !bytes.is_multiple_of(8) {
            return Err(Error::Options("its size is not a multiple of 8, or more than there is"));
        }
        match Header::read(space) {
            Err(Error::NotAPool { empty: true, .. }) => {}
            Ok(_) => return Err(Error::Options("there is a pool already")),
            Err(_) => return Err(Error::Options("there is something else in that space")),
        }
        let geometry = options.geometry.unwrap_or_else(|| Geometry::for_size(bytes));
        // Any number will do that is not 0 in its lowest 16 bits.
        let pool = env.random() | 1;
        let header =
            Header { engine: A::NUMBER, pool, generation: 1, bytes, geometry, layout: layout.to_owned() };
        header.check()?;
        // What an earlier attempt left half done, a crash within it.
        clear(space, STATE..header.heap());
        // What every engine begins with.
        space.store_u64(STATE, guarded::seal(STATE, 0));
        space.flush(STATE, 8);
        free_all(space, &header, 0);
        space.fence();
        let pool = Self::assemble(env, header, &Recovered::default())?;
        let root = {
            let mut tx = Tx::begin(&pool);
            let root = tx.alloc_zeroed(root_bytes.max(8).next_multiple_of(8))?;
            tx.set_word(ROOT, root)?;
            tx.set_word(ROOT + 8, !root)?;
            tx.commit()?;
            root
        };
        debug_assert!(root > 0);
        pool.engine.checkpoint(&*pool.env)?;
        pool.env.lock(&pool.header).write_first(pool.env.space());
        Ok(pool)
    }

    /// Opens the pool in a space, after recovery if a crash left it in disorder. Returns what recovery did
    /// beside it.
    ///
    /// # Errors
    /// If there is no pool of that layout, engine and version, or it is damaged. Nothing was changed then,
    /// but where damage of the heap or of the root object's place is found behind whole logs: then these were
    /// carried out.
    pub fn open(env: H) -> Result<(Self, Recovered), Error> {
        Self::open_as(env, L::NAME)
    }

    /// Opens a pool of that layout.
    pub(crate) fn open_as(env: H, layout: &str) -> Result<(Self, Recovered), Error> {
        let header = Header::read(env.space())?;
        if header.layout != layout {
            let wanted = layout.to_owned();
            return Err(Error::Layout { offset: 56, found: header.layout, wanted });
        }
        if header.engine != A::NUMBER {
            let found = crate::engine::name_of(header.engine);
            return Err(Error::Engine { offset: 12, found, wanted: A::NAME });
        }
        if !A::Engine::<H::Target>::NOT_CONFIRMED {
            confirm(env.space(), &header);
        }
        let recovered = A::Engine::<H::Target>::recover(env.space(), &header.logs())?;
        let pool = Self::assemble(env, header, &recovered)?;
        root_offset(pool.env(), &pool.heap)?;
        let header = pool.env.lock(&pool.header);
        if header.differing(pool.env.space()).count() > 0 {
            header.write(pool.env.space());
        }
        drop(header);
        Ok((pool, recovered))
    }

    /// As [`Pool::open`], to look only: regions end with [`Error::ReadOnly`]. Recovery writes all the same,
    /// so the space is one of this program alone, as a private mapping of a file is.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open_read_only(env: H) -> Result<(Self, Recovered), Error> {
        let (pool, recovered) = Self::open(env)?;
        Ok((pool.for_reading(), recovered))
    }

    pub(crate) fn for_reading(self) -> Self {
        Pool { read_only: true, ..self }
    }

    fn assemble(env: H, header: Header, recovered: &Recovered) -> Result<Self, Error> {
        let heap = Heap::open(&*env, &header)?;
        let engine = A::Engine::<H::Target>::new(&*env, header.logs(), recovered);
        Ok(Pool {
            tag: header.pool as u16,
            begin: header.heap(),
            end: AtomicU64::new(header.heap_end()),
            room: AtomicU64::new(header.heap_end()),
            header: env.mutex(header),
            ending: env.latch(VecDeque::new()),
            env,
            engine,
            heap,
            growth: None,
            read_only: false,
            layout: PhantomData,
        })
    }

    /// Lets the pool grow when there is no room for a block: `growth` is asked to make the space at least so
    /// many bytes long. It may be asked by any thread, by one at a time.
    #[must_use]
    pub fn growing(
        self,
        growth: impl Fn(&H::Target, u64) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Pool { growth: Some(Box::new(growth)), ..self }
    }

    /// Makes the pool as long as that, which the space is already. Others go on using it meanwhile. After a
    /// crash it is as long as before, or as after. A pool that is as long stays as it is.
    ///
    /// # Errors
    /// If the space is shorter, the pool is open to read only, or there are no more numbers of regions
    /// ([`Error::Exhausted`]).
    #[track_caller]
    pub fn grow(&self, bytes: u64) -> Result<(), Error> {
        self.grow_locked(&mut self.env.lock(&self.header), bytes)
    }

    /// As [`Pool::grow`], after `growth` has made the space as long, which one thread does at a time. Not
    /// called if the pool is as long already.
    ///
    /// # Errors
    /// As [`Pool::grow`], and what `growth` returned.
    #[track_caller]
    pub fn grow_with<R: From<Error>>(
        &self,
        bytes: u64,
        growth: impl FnOnce(&H::Target, u64) -> Result<(), R>,
    ) -> Result<(), R> {
        let mut header = self.env.lock(&self.header);
        self.check_writable()?;
        if bytes > header.bytes {
            growth(&self.env, bytes)?;
            self.grow_locked(&mut header, bytes)?;
        }
        Ok(())
    }

    #[track_caller]
    fn grow_locked(&self, header: &mut Header, bytes: u64) -> Result<(), Error> {
        let space = self.env.space();
        if bytes <= header.bytes {
            return Ok(());
        }
        self.check_writable()?;
        if bytes > space.len() || !bytes.is_multiple_of(8) {
            return Err(Error::Options("its size is not a multiple of 8, or more than there is"));
        }
        let longer = Header { bytes, generation: header.generation + 1, ..header.clone() };
        free_all(space, &longer, header.bytes);
        space.fence();
        for word in beside_others(&longer, header.bytes) {
            self.engine.set_alone(&self.env, word, free_word(word))?;
        }
        // Durable before anybody can have a place behind the old end: recovery believes no log that names one
        // behind the header's.
        longer.write(space);
        // And the end before anybody has one.
        self.end.store(longer.heap_end(), Ordering::Release);
        self.heap.grow(&self.env, &longer);
        self.room.store(longer.heap_end(), Ordering::Release);
        *header = longer;
        Ok(())
    }

    /// Runs what needs memory of the heap, again after the pool has grown if there was too little.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn with_room<R>(&self, mut work: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
        loop {
            let room = self.room.load(Ordering::Acquire);
            match work() {
                Err(Error::Full { wanted }) => self.make_room(room, wanted)?,
                result => return result,
            }
        }
    }

    /// Has the pool grow, as a heap that had `room` to there lacked `wanted` bytes, if no other thread has
    /// made room since.
    #[cold]
    #[track_caller]
    fn make_room(&self, room: u64, wanted: u64) -> Result<(), Error> {
        let Some(growth) = &self.growth else { return Err(Error::Full { wanted }) };
        let mut header = self.env.lock(&self.header);
        if header.heap_end() > room {
            return Ok(());
        }
        let chunk = u64::from(header.geometry.chunk_bytes);
        // It needs whole chunks. If that is too little, as a zone's table lies before them, it is asked for
        // more the next time.
        let least = wanted.max(1).checked_next_multiple_of(chunk);
        let least = least.filter(|least| header.bytes.checked_add(*least).is_some());
        let bytes = self.lengthened(growth, header.bytes, least.ok_or(Error::Full { wanted })?, chunk)?;
        self.grow_locked(&mut header, bytes)
    }

    /// Has the space made longer than `bytes` by half, or by as much as can be had down to `least`, in whole
    /// chunks.
    #[track_caller]
    fn lengthened(
        &self,
        growth: &Growth<H::Target>,
        bytes: u64,
        least: u64,
        chunk: u64,
    ) -> Result<u64, Error> {
        let mut more = (bytes / 2).next_multiple_of(chunk).max(least);
        loop {
            let longer = bytes.saturating_add(more);
            match growth(&self.env, longer) {
                Ok(()) => return Ok(longer),
                Err(error) if more == least => return Err(error),
                Err(_) => more = (more / 2).next_multiple_of(chunk).max(least),
            }
        }
    }

    /// The environment.
    pub fn env(&self) -> &H::Target {
        &self.env
    }

    /// What the header says.
    #[must_use]
    pub fn header(&self) -> Header {
        self.env.lock(&self.header).clone()
    }

    /// Where the heap begins.
    #[inline]
    pub(crate) fn heap_begin(&self) -> u64 {
        self.begin
    }

    /// Where the heap ends.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// What of the heap is taken and free.
    #[track_caller]
    pub fn usage(&self) -> Usage {
        self.heap.usage(&self.env)
    }

    /// All blocks that are allocated: offset and bytes, in the order of offsets. A program that goes through
    /// what it can reach finds leaks by comparing.
    #[track_caller]
    pub fn blocks(&self) -> Vec<(u64, u64)> {
        self.heap.blocks(&self.env)
    }

    /// The mark of this pool in pointers.
    pub(crate) fn tag(&self) -> u16 {
        self.tag
    }

    /// The root object.
    ///
    /// # Panics
    /// If the word that leads to it was damaged since the pool was opened.
    #[must_use]
    pub fn root(&self) -> Ptr<L::Root, L> {
        Ptr::new(self.tag(), self.env.space().load_u64(ROOT))
    }

    /// The value at a pointer, outside of any region of this thread.
    ///
    /// # Panics
    /// If the pointer is null, or of another pool.
    #[track_caller]
    pub fn get<T: Persistent<L>>(&self, at: Ptr<T, L>) -> T {
        let offset = self.check(at);
        let mut value = T::new_zeroed();
        self.engine.read(&self.env, offset, value.as_mut_bytes());
        value
    }

    /// The offset of a pointer that may be followed.
    #[track_caller]
    #[inline]
    pub(crate) fn check<T>(&self, at: Ptr<T, L>) -> u64 {
        let (offset, end) = (at.offset(), self.end());
        if at.tag() != self.tag() || offset <= ROOT || offset + size_of::<T>() as u64 > end {
            self.refuse(at);
        }
        offset
    }

    /// # Panics
    /// Saying why the pointer can't be followed.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse<T>(&self, at: Ptr<T, L>) -> ! {
        assert!(
            at.tag() == self.tag(),
            "the pointer {at:?} does not lead into this pool ({:#x})",
            self.tag()
        );
        panic!("{at:?} leads out of the pool");
    }

    /// Runs `work` as a failure-atomic region: a crash at any moment leaves all that it wrote, or nothing,
    /// and all once this has returned. If it returns an error, or panics, nothing of it is there. (If the
    /// memory fails within the commit, which panics, nobody knows. Then no region of this pool commits any
    /// more; open it again, and it is all there or nothing.)
    ///
    /// Regions do not isolate: what one writes, no other may read or write at the same time, which the
    /// program sees to by locks. These are taken before the region and given up after it. The unit is an
    /// aligned 8-byte word.
    ///
    /// A region within a region is part of it: hand the [`Tx`] on.
    ///
    /// # Errors
    /// What `work` returned, or why the region can't be made durable.
    ///
    /// # Panics
    /// What `work` panics with.
    #[track_caller]
    #[inline(always)]
    pub fn region<R>(&self, work: impl FnOnce(&mut Tx<'_, H, L, A>) -> Result<R, Error>) -> Result<R, Error> {
        let (result, ticket, number) = self.committed(work)?;
        self.engine.wait(&self.env, ticket)?;
        space::Observer::region_end(self.env.space().observer(), number);
        Ok(result)
    }

    /// As [`Pool::region`], but returns once the region is committed: others see what it wrote, and a crash
    /// may still lose it, with all that was committed later. It survives once its ticket is due
    /// ([`Pool::wait`], [`Pool::sync`], [`Pool::is_due`]). With an engine whose regions are durable when they
    /// are committed, which are all but [`Group`](crate::Group), this is [`Pool::region`].
    ///
    /// A pool that is dropped does not wait: call [`Pool::sync`] or [`Pool::checkpoint`] before.
    ///
    /// # Errors
    /// What `work` returned, or why the region can't be committed.
    ///
    /// # Panics
    /// What `work` panics with.
    #[track_caller]
    #[inline(always)]
    pub fn region_async<R>(
        &self,
        work: impl FnOnce(&mut Tx<'_, H, L, A>) -> Result<R, Error>,
    ) -> Result<(R, Ticket), Error> {
        let (result, ticket, number) = self.committed(work)?;
        self.ends(ticket, number);
        Ok((result, ticket))
    }

    /// Runs `work` as a region and commits it: what it returned, the region's ticket, and the number by which
    /// an observer knows it.
    #[track_caller]
    #[inline(always)]
    fn committed<R>(
        &self,
        work: impl FnOnce(&mut Tx<'_, H, L, A>) -> Result<R, Error>,
    ) -> Result<(R, Ticket, u64), Error> {
        self.check_writable()?;
        let number = self.next_region();
        space::Observer::region_begin(self.env.space().observer(), number);
        let mut tx = Tx::begin(self);
        let result = work(&mut tx)?;
        let ticket = tx.commit()?;
        // Nothing is left in it.
        std::mem::forget(tx);
        Ok((result, ticket, number))
    }

    /// Waits until the region of that ticket is durable, and with it each that was committed before.
    ///
    /// # Errors
    /// If it can't be made durable.
    ///
    /// # Panics
    /// If the memory fails.
    #[track_caller]
    #[inline]
    pub fn wait(&self, ticket: Ticket) -> Result<(), Error> {
        self.engine.wait(&self.env, ticket)?;
        self.report_ends();
        Ok(())
    }

    /// Makes each region durable that was committed before the call.
    ///
    /// # Errors
    /// As [`Pool::wait`].
    ///
    /// # Panics
    /// As [`Pool::wait`].
    #[track_caller]
    #[inline]
    pub fn sync(&self) -> Result<(), Error> {
        self.engine.sync(&self.env)?;
        self.report_ends();
        Ok(())
    }

    /// Whether the region of that ticket is durable. Does not wait.
    #[track_caller]
    #[inline]
    #[must_use]
    pub fn is_due(&self, ticket: Ticket) -> bool {
        let due = self.engine.is_due(&self.env, ticket);
        if due {
            self.report_ends();
        }
        due
    }

    /// A region of that number is committed. An observer hears of its end once its ticket is due.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn ends(&self, ticket: Ticket, number: u64) {
        if ticket == Ticket::DUE {
            space::Observer::region_end(self.env.space().observer(), number);
        } else {
            self.env.hold(&self.ending).push_back((ticket, number));
            self.report_ends();
        }
    }

    /// Reports the end of each region whose ticket has become due.
    #[track_caller]
    fn report_ends(&self) {
        let observer = self.env.space().observer();
        let next = || {
            let is_due = |(ticket, _): &mut (Ticket, u64)| self.engine.is_due(&self.env, *ticket);
            self.env.hold(&self.ending).pop_front_if(is_due)
        };
        while let Some((_, number)) = next() {
            space::Observer::region_end(observer, number);
        }
    }

    /// # Errors
    /// If the pool is open to read only.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// A number for a region, by which an observer knows it.
    pub(crate) fn next_region(&self) -> u64 {
        space::Observer::new_region(self.env.space().observer())
    }

    /// Makes all committed regions durable in place, so that recovery would have nothing to do. For the
    /// moment before a backup, or the end of a program, which may also just end if no ticket of its own is
    /// left that is not due.
    ///
    /// # Errors
    /// If the memory fails.
    #[track_caller]
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.engine.checkpoint(&self.env)?;
        self.report_ends();
        Ok(())
    }

    /// Does a little of what commits would have to stop for sooner or later, and says whether there is more
    /// to do at once: with [`Ssp`](crate::Ssp), brings pages home until a quarter of the spare ones is free;
    /// with [`Group`](crate::Group), makes durable what is committed; with other engines nothing. For a
    /// thread of the program's that calls it now and then, while others go on with their regions.
    ///
    /// # Errors
    /// If the pool was opened to look only, or the memory fails.
    #[track_caller]
    pub fn consolidate(&self) -> Result<bool, Error> {
        self.check_writable()?;
        self.engine.consolidation().map_or(Ok(false), |engine| engine.consolidate(&self.env))
    }
}

/// Makes durable what recovery and allocator go by: logs, which of them count, and the tables of chunks. A
/// process that was killed may have stored all of it and no more.
pub(crate) fn confirm<S: Space>(space: &S, header: &Header) {
    space.flush(STATE, header.heap() - STATE);
    tables(header).for_each(|table| space.flush(table.start, table.end - table.start));
    space.fence();
}

/// Where the tables of zones are.
fn tables(header: &Header) -> impl Iterator<Item = Range<u64>> {
    let chunk = u64::from(header.geometry.chunk_bytes);
    let end = header.bytes & !7;
    let tables = (header.heap()..end).step_by((chunk * chunk / 8) as usize);
    tables.map(move |table| table..end.min(table + chunk))
}

/// Makes bytes zeros. Flushes, does not fence; words that are zero, too: a process that was killed may have
/// made them so and no more.
fn clear<S: Space>(space: &S, bytes: Range<u64>) {
    for word in bytes.clone().step_by(8) {
        if space.load_u64(word) != 0 {
            space.store_u64(word, 0);
        }
    }
    space.flush(bytes.start, bytes.end - bytes.start);
}

/// Where the root object is.
pub(crate) fn root_offset<E: Env>(env: &E, heap: &Heap<E>) -> Result<u64, Error> {
    let (root, complement) = (env.space().load_u64(ROOT), env.space().load_u64(ROOT + 8));
    if root != !complement || heap.find(env, root).is_none() {
        return Err(Damage::Root { offset: ROOT, found: root, complement }.into());
    }
    Ok(root)
}
