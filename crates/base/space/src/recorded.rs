//! A space that records what happens to it.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{
    Capabilities, Event, FenceKind, FlushKind, InstructionCounts, Op, Order, Sink, SinkError, SiteId, Source,
    ThreadId,
};

use crate::local::{self, BATCH, Buffer, LOCAL, Parked, Pushed};
use crate::stream::Stream;
use crate::{Observer, Prestore, Space, Word, lines};

/// How to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// What makes the events, for the stream's header: `strandline btree-fill`.
    pub producer: String,
    /// The name of the space, as a path would be; it is then recorded as persistent. `None`: as ordinary
    /// memory.
    pub persistent: Option<String>,
    /// Keep the bytes of each store.
    pub values: bool,
}

impl Recording {
    /// A recording of a persistent space of that name, without values.
    #[must_use]
    pub fn persistent(producer: impl Into<String>, name: impl Into<String>) -> Self {
        Recording { producer: producer.into(), persistent: Some(name.into()), values: false }
    }
}

/// A space around another one that makes an event of each access and gives them to a sink.
///
/// The event's site is the line of code that called the method (`#[track_caller]`), its address
/// [`Recorded::BASE`] plus the offset. A thread's batch ends at each fence and synchronisation; a run of one
/// thread gives the same stream each time. Accesses happen before they are recorded. Locks are recorded as
/// acquired after they are acquired and as released before they are released. A compare-and-swap happens and
/// is recorded as one.
///
/// When the sink fails, the program goes on, nothing is recorded any more, and [`Recorded::finish`] returns
/// the error.
#[derive(Debug)]
pub struct Recorded<S, K> {
    space: S,
    number: u64,
    values: bool,
    stream: Mutex<Stream<K>>,
    parked: Arc<Parked>,
}

/// Recordings of this process so far, so that a thread knows whose its buffer is.
static RECORDINGS: AtomicU64 = AtomicU64::new(0);

impl<S: Space, K: Sink + Send> Recorded<S, K> {
    /// Address of offset 0.
    pub const BASE: u64 = 0x1000_0000_0000;
    /// Address of the first lock; locks are one cache line apart.
    pub const LOCKS: u64 = 0x2000_0000_0000;

    /// Starts a recording of `space` into `sink`; the caller becomes its first thread.
    ///
    /// # Errors
    /// When the sink can't use what a recording offers.
    #[track_caller]
    pub fn new(space: S, mut sink: K, recording: &Recording) -> Result<Self, SinkError> {
        let mut capabilities = Capabilities::all() - Capabilities::VALUES - Capabilities::CALLS;
        capabilities.set(Capabilities::VALUES, recording.values);
        sink.begin(&Source {
            producer: recording.producer.clone(),
            command: Vec::new(),
            capabilities,
            instructions: InstructionCounts::Unknown,
            sampling: None,
        })?;
        let recorded = Recorded {
            space,
            number: RECORDINGS.fetch_add(1, Ordering::Relaxed) + 1,
            values: recording.values,
            stream: Mutex::new(Stream::new(sink)),
            parked: Arc::default(),
        };
        let len = recorded.space.len();
        if let Some(name) = &recording.persistent {
            let name = recorded.stream().name(name);
            recorded.emit(Op::Map { addr: Self::BASE, len, name }, Location::caller());
        }
        Ok(recorded)
    }

    /// Ends the recording: sends what is left, ends the stream, and gives back space and sink. Other threads
    /// that took part have ended before, by [`crate::Env::threads`] or otherwise.
    ///
    /// # Errors
    /// The first error that the sink returned.
    #[track_caller]
    pub fn finish(self) -> Result<(S, K), SinkError> {
        self.thread_ending();
        let mut stream = self.stream.into_inner().unwrap_or_else(PoisonError::into_inner);
        for buffer in self.parked.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            stream.push(buffer);
        }
        Ok((self.space, stream.finish()?))
    }

    /// The space that is recorded; what is done to it directly is not recorded.
    pub fn inner(&self) -> &S {
        &self.space
    }

    fn stream(&self) -> MutexGuard<'_, Stream<K>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` on the calling thread's buffer and the site of `location`.
    #[inline(always)]
    fn with<R>(&self, location: &'static Location<'static>, act: impl FnOnce(&mut Buffer, SiteId) -> R) -> R {
        LOCAL.with_borrow_mut(|local| {
            if local.current.recording != self.number && !local.switch_to(self.number) {
                let thread = self.stream().next_thread();
                local.join(self.number, thread, &self.parked);
                self.start(&mut local.current, location);
            }
            let buffer = &mut local.current;
            let address = std::ptr::from_ref(location).addr();
            let site = match buffer.cached_site(address) {
                Some(site) => site,
                None => self.new_site(buffer, location),
            };
            act(buffer, site)
        })
    }

    #[cold]
    #[inline(never)]
    fn new_site(&self, buffer: &mut Buffer, location: &'static Location<'static>) -> SiteId {
        let site = self.stream().site(location);
        buffer.cache_site(std::ptr::from_ref(location).addr(), site);
        site
    }

    #[cold]
    #[inline(never)]
    fn start(&self, buffer: &mut Buffer, location: &'static Location<'static>) {
        let site = self.new_site(buffer, location);
        self.stream().synchronise(buffer, site, |seq| Op::ThreadStart { seq });
    }

    #[cold]
    #[inline(never)]
    fn send(&self, buffer: &mut Buffer) {
        self.stream().push(buffer);
    }

    #[inline(always)]
    fn append(&self, buffer: &mut Buffer, op: Op, site: SiteId) {
        buffer.events.push(Event { op, site, instructions: 0 });
        if buffer.events.len() >= BATCH {
            self.send(buffer);
        }
    }

    /// Adds an event that stores no values.
    #[inline(always)]
    fn emit(&self, op: Op, location: &'static Location<'static>) {
        self.finish_push(local::push_other(self.number, op, location), op, location);
    }

    /// Adds a load.
    #[inline(always)]
    fn tell_load(&self, offset: u64, len: u32, location: &'static Location<'static>) {
        let addr = Self::BASE + offset;
        let pushed = local::push_load(self.number, addr, len, location);
        self.finish_push(pushed, Op::Load { addr, len }, location);
    }

    /// Adds a store; `bytes` are what was stored.
    #[inline(always)]
    fn tell_store(&self, offset: u64, bytes: &[u8], location: &'static Location<'static>) {
        let (addr, len) = (Self::BASE + offset, bytes.len() as u32);
        if self.values {
            return self.tell_values(Op::Store { addr, len }, bytes, location);
        }
        let pushed = local::push_store(self.number, addr, len, location);
        self.finish_push(pushed, Op::Store { addr, len }, location);
    }

    /// Adds an event and the values that belong to it.
    #[cold]
    #[inline(never)]
    fn tell_values(&self, op: Op, bytes: &[u8], location: &'static Location<'static>) {
        self.with(location, |buffer, site| {
            buffer.values.extend_from_slice(bytes);
            self.append(buffer, op, site);
        });
    }

    /// Does what the fast path could not do for `op`.
    #[inline(always)]
    fn finish_push(&self, pushed: Pushed, op: Op, location: &'static Location<'static>) {
        if pushed != Pushed::Kept {
            self.settle_slowly(pushed, op, location);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_slowly(&self, pushed: Pushed, op: Op, location: &'static Location<'static>) {
        self.with(location, |buffer, site| match pushed {
            Pushed::Kept => {}
            Pushed::Full => self.send(buffer),
            Pushed::Unprepared => self.append(buffer, op, site),
        });
    }

    fn synchronise(&self, location: &'static Location<'static>, op: impl FnOnce(u64) -> Op) {
        self.with(location, |buffer, site| self.stream().synchronise(buffer, site, op));
    }
}

/// A length as an event has it.
///
/// # Panics
/// If it is 4 GiB or more.
#[inline(always)]
#[track_caller]
fn length(bytes: u64) -> u32 {
    u32::try_from(bytes).expect("an access of 4 GiB or more can't be recorded as one event")
}

impl<S: Space, K: Sink + Send> Space for Recorded<S, K> {
    type Observer = Self;

    #[inline(always)]
    fn observer(&self) -> &Self {
        self
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.space.len()
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        self.space.flush_kind()
    }

    #[inline]
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        let value = self.space.load_word(offset);
        self.tell_load(offset, W::BYTES as u32, Location::caller());
        value
    }

    #[inline]
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        self.space.store_word(offset, value);
        let bytes = value.widen().to_le_bytes();
        self.tell_store(offset, &bytes[..W::BYTES as usize], Location::caller());
    }

    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        let addr = Self::BASE + offset;
        self.with(Location::caller(), |buffer, site| {
            // Under the lock, so that the order of events is the order of the swaps.
            let mut stream = self.stream();
            let result = self.space.cas_u64(offset, old, new);
            let order = if result.is_ok() { Order::AcqRel } else { Order::Acquire };
            let mut add = |op| buffer.events.push(Event { op, site, instructions: 0 });
            add(Op::Load { addr, len: 8 });
            if result.is_ok() {
                add(Op::Release { var: addr, order, seq: stream.next_seq() });
                add(Op::Store { addr, len: 8 });
            }
            add(Op::Acquire { var: addr, order, seq: stream.next_seq() });
            add(Op::Fence(FenceKind::Locked));
            if self.values && result.is_ok() {
                buffer.values.extend_from_slice(&new.to_le_bytes());
            }
            stream.push(buffer);
            result
        })
    }

    #[inline]
    #[track_caller]
    fn load(&self, offset: u64, bytes: &mut [u8]) {
        let len = length(bytes.len() as u64);
        self.space.load(offset, bytes);
        self.tell_load(offset, len, Location::caller());
    }

    #[inline]
    #[track_caller]
    fn store(&self, offset: u64, bytes: &[u8]) {
        let _ = length(bytes.len() as u64);
        self.space.store(offset, bytes);
        self.tell_store(offset, bytes, Location::caller());
    }

    #[track_caller]
    fn copy(&self, src: u64, dst: u64, len: u64) {
        let events = length(len);
        self.space.copy(src, dst, len);
        self.tell_load(src, events, Location::caller());
        let op = Op::Store { addr: Self::BASE + dst, len: events };
        if self.values {
            let mut bytes = vec![0; events as usize];
            self.space.load(dst, &mut bytes);
            self.tell_values(op, &bytes, Location::caller());
        } else {
            self.emit(op, Location::caller());
        }
    }

    #[inline]
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        let len = length(bytes.len() as u64);
        self.space.store_nt(offset, bytes);
        let op = Op::StoreNt { addr: Self::BASE + offset, len };
        if self.values {
            self.tell_values(op, bytes, Location::caller());
        } else {
            self.emit(op, Location::caller());
        }
    }

    #[inline]
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        self.space.flush(offset, len);
        let kind = self.space.flush_kind();
        for line in lines(offset, len) {
            self.emit(Op::Flush { addr: Self::BASE + line, kind }, Location::caller());
        }
    }

    #[inline]
    #[track_caller]
    fn fence(&self) {
        self.space.fence();
        self.with(Location::caller(), |buffer, site| {
            buffer.events.push(Event { op: Op::Fence(FenceKind::Store), site, instructions: 0 });
            self.stream().push(buffer);
        });
    }

    #[inline(always)]
    fn fence_writes(&self) -> bool {
        self.space.fence_writes()
    }

    #[inline(always)]
    fn nt_is_sooner(&self) -> bool {
        self.space.nt_is_sooner()
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.space.has_failed()
    }

    #[inline]
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.space.prestore(offset, len, hint);
        for line in lines(offset, len) {
            let addr = Self::BASE + line;
            let op = match hint {
                Prestore::Demote => Op::Demote { addr },
                Prestore::Clean => Op::Flush { addr, kind: FlushKind::Clwb },
            };
            self.emit(op, Location::caller());
        }
    }

    #[inline(always)]
    fn prefetch(&self, offset: u64) {
        self.inner().prefetch(offset);
    }
}

impl<S: Space, K: Sink + Send> Observer for Recorded<S, K> {
    fn new_lock(&self) -> u64 {
        Self::LOCKS + crate::LINE * self.stream().next_lock()
    }

    #[track_caller]
    fn locked(&self, lock: u64, shared: bool) {
        self.synchronise(Location::caller(), |seq| Op::Lock { lock, shared, seq });
    }

    #[track_caller]
    fn unlocking(&self, lock: u64) {
        self.synchronise(Location::caller(), |seq| Op::Unlock { lock, seq });
    }

    #[track_caller]
    fn spawning(&self) -> ThreadId {
        let child = self.with(Location::caller(), |_, _| self.stream().next_thread());
        self.synchronise(Location::caller(), |seq| Op::Spawn { child, seq });
        child
    }

    #[track_caller]
    fn thread_started(&self, thread: ThreadId) {
        LOCAL.with_borrow_mut(|local| {
            local.join(self.number, thread, &self.parked);
            self.start(&mut local.current, Location::caller());
        });
    }

    #[track_caller]
    fn thread_ending(&self) {
        self.synchronise(Location::caller(), |seq| Op::ThreadEnd { seq });
        LOCAL.with_borrow_mut(local::Local::leave);
    }

    #[track_caller]
    fn joined(&self, thread: ThreadId) {
        self.synchronise(Location::caller(), |seq| Op::Join { thread, seq });
    }

    fn clock_read(&self) {
        self.with(Location::caller(), |buffer, _| self.send(buffer));
    }

    fn pausing(&self) {
        LOCAL.with_borrow_mut(|local| {
            if local.current.recording == self.number || local.switch_to(self.number) {
                self.send(&mut local.current);
            }
        });
    }

    #[track_caller]
    fn phase(&self, name: &str) {
        let name = self.stream().name(name);
        self.emit(Op::Phase { name }, Location::caller());
    }

    fn new_region(&self) -> u64 {
        self.stream().next_region()
    }

    #[track_caller]
    fn region_begin(&self, region: u64) {
        self.emit(Op::RegionBegin { region }, Location::caller());
    }

    #[track_caller]
    fn region_end(&self, region: u64) {
        self.emit(Op::RegionEnd { region }, Location::caller());
    }

    #[track_caller]
    fn allocated(&self, offset: u64, len: u64) {
        self.emit(Op::Alloc { addr: Self::BASE + offset, len }, Location::caller());
    }

    #[track_caller]
    fn freed(&self, offset: u64) {
        self.emit(Op::Free { addr: Self::BASE + offset }, Location::caller());
    }
}
