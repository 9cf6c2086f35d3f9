//! A thread's stream of records: where the next one goes.
//!
//! Records are written between `cursor` and `limit`; as long as `cursor < limit` there is room for the longest run, and
//! code in line writes without asking. Beyond it, [`Stream::make_room`] does everything that is not
//! ordinary: the thread's first record, the next chunk, sampling, counting, values, recording that is over.
//!
//! A record's header is written last, so that the collector may read a chunk that is still being filled. (Runs are the
//! exception: the collector takes the last one for complete only when something follows.)
//!
//! Where nothing is recorded, records go round in private scratch memory: cheaper than asking each time, and
//! code in line could not ask.

use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::atomic::{ACQUIRE, RELEASE};
use crate::count::{self, Counts};
use crate::late::Late;
use crate::local::{self, Local, local};
use crate::own_handler::{self, Busy};
use crate::scratch::{self, SCRATCH_BYTES};
use crate::session::{Attached, Parked, session};
use crate::signal;
use crate::thread;
use crate::wire::{
    MODE_COUNT, MODE_RECORD, RUN_MAX, RUN_STORE, access_word, accessed, atomic, descriptor_of, header, kind,
};

/// Words of the longest run.
const RUN_BYTES: u64 = 8 * (1 + RUN_MAX as u64);
/// Bytes of scratch memory in which the records go that nobody will read: more than the longest has.
const UNREAD_BYTES: usize = 2048;
const _: () = assert!(UNREAD_BYTES >= 8 * 8 + TEXT_MAX);
/// Bytes of the longest text in a record.
const TEXT_MAX: usize = 1024;
/// Bytes of the longest value that [`kind::VALUE`] takes.
const VALUE_BYTES_MAX: usize = 4096;

/// Where a stream writes. Plain numbers, zero at first, so that a stream can be put aside as a whole.
#[repr(C)]
#[derive(Default)]
pub struct Stream {
    /// Where the next record goes.
    pub cursor: Cell<u64>,
    /// From here on, [`Stream::make_room`] is to be asked.
    pub limit: Cell<u64>,
    base: Cell<u64>,
    end: Cell<u64>,
    /// The chunk being filled, plus 1; 0: none, the records are lost.
    chunk: Cell<u32>,
    /// [`OWN`] or [`LOST`].
    use_of: Cell<u32>,
    /// The number of the stream's thread.
    pub thread: Cell<u32>,
    /// 1: a stream of signal handlers.
    pub by_handler: Cell<u32>,
    /// 1: the thread's start was told.
    begun: Cell<u32>,
    /// Chunks so far, kept or not.
    number: Cell<u64>,
    /// Bytes of records that sampling still has to leave out.
    leave_out: Cell<u64>,
    /// With values: where the last run went.
    run: Cell<u64>,
    /// With values: address and length of the store that the next record completes.
    store: Cell<(u64, u64)>,
    /// With values: the store whose record is made when it has been executed.
    late: Late,
    /// A record whose acquire position and header are written when the next record is made; 0: none.
    open: Cell<u64>,
    open_header: Cell<u64>,
    /// Records that nobody will read, since they were last added up.
    counts: Cell<Counts>,
    /// While the thread sleeps, what takes its chunk back.
    parked: Cell<Parked>,
}

/// [`Stream::use_of`]: the thread's or its handlers'.
const OWN: u32 = 0;
/// [`Stream::use_of`]: of a handler that interrupted a handler.
const LOST: u32 = 1;

/// Room for a record.
pub struct Room<'a> {
    at: *mut u64,
    /// The stream, if nobody will read the record: it is only counted.
    unread: Option<&'a Stream>,
    /// Until the record is made, signals are put off.
    _busy: Busy,
}

impl Room<'_> {
    /// A position in the global order of synchronisation; 0 if nobody will read the record.
    #[inline]
    pub fn position(&self) -> u64 {
        match session() {
            Some(session) if self.unread.is_none() => session.position(),
            _ => 0,
        }
    }

    /// Writes the record.
    #[inline(always)]
    pub fn write(self, header: u64, payload: &[u64]) {
        self.fill(1, payload);
        self.complete(header);
    }

    /// Writes the record of an access, of which this is the header.
    #[inline(always)]
    pub fn write_access(self, header: u64, addr: u64, len: u64) {
        match access_word(addr, len) {
            Some(word) => self.write(header, &[addr, word]),
            None => self.write(header ^ u64::from(kind::ACCESS ^ kind::ODD_ACCESS) << 56, &[addr, len]),
        }
    }

    /// Writes part of the payload, from word `from` of the record.
    #[inline(always)]
    fn fill(&self, from: usize, payload: &[u64]) {
        for (word, value) in payload.iter().enumerate() {
            // SAFETY: `Stream::room` set aside as many words as the record has.
            unsafe { self.at.add(from + word).write(*value) };
        }
    }

    #[inline(always)]
    fn complete(&self, header: u64) {
        // SAFETY: room for the header, aligned; the collector reads it as an atomic too.
        unsafe { AtomicU64::from_ptr(self.at) }.store(header, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        if let Some(stream) = self.unread {
            stream.counts.set(stream.counts.get().and_record(header));
        }
    }
}

impl Stream {
    /// A stream whose records are lost.
    pub fn lost() -> Self {
        Stream { use_of: Cell::new(LOST), ..Stream::default() }
    }

    /// Whether the records are lost.
    pub fn is_lost(&self) -> bool {
        self.use_of.get() == LOST
    }

    /// Whether somebody reads what goes into it.
    pub fn is_read(&self) -> bool {
        self.chunk.get() != 0
    }

    /// Whether the record made last is not complete yet.
    pub fn is_open(&self) -> bool {
        self.open.get() != 0
    }

    /// Sets the stream back to how a new thread finds it.
    pub fn clear(&self) {
        self.replace(&Stream::default());
    }

    /// Becomes what `other` is.
    pub fn replace(&self, other: &Stream) {
        // SAFETY: two streams, of `Cell`s of plain numbers; no reference into them is alive.
        unsafe { core::ptr::copy(other, (self as *const Stream).cast_mut(), 1) };
        compiler_fence(Ordering::SeqCst);
    }

    /// Sets `words` aside.
    #[inline(always)]
    pub fn room(&self, words: usize) -> Room<'_> {
        let busy = if self.cursor.get() >= self.limit.get() || words > 1 + RUN_MAX {
            self.room_made(words)
        } else {
            Busy::NOT
        };
        if self.chunk.get() != 0 {
            return Room { _busy: busy, ..self.recorded_room(words) };
        }
        if session().is_some_and(|session| session.mode() == MODE_COUNT) {
            // Behind the end, so that among the runs, which are counted later, there is nothing else.
            return Room { at: self.end.get() as *mut u64, unread: Some(self), _busy: busy };
        }
        Room { unread: Some(self), _busy: busy, ..self.recorded_room(words) }
    }

    /// Sets `words` aside in the chunk, where they fit.
    #[inline(always)]
    fn recorded_room(&self, words: usize) -> Room<'static> {
        let at = self.cursor.get();
        self.cursor.set(at + 8 * words as u64);
        Room { at: at as *mut u64, unread: None, _busy: Busy::NOT }
    }

    /// Sets `words` aside in a chunk even while sampling leaves the stream's other records out.
    pub fn room_kept(&self, words: usize) -> Room<'_> {
        let busy = self.room_made(words);
        if self.leave_out.get() > 0
            && let Some(session) = session()
            && session.mode() == MODE_RECORD
            && self.take_chunk(session)
        {
            // Only this record: the next one finds no room and publishes the chunk.
            let room = Room { _busy: busy, ..self.recorded_room(words) };
            self.end.set(self.cursor.get());
            self.limit.set(0);
            return room;
        }
        drop(busy);
        self.room(words)
    }

    /// Makes sure that `words` and the longest run have room at the cursor, whatever that takes.
    pub fn make_room(&self, words: usize) {
        loop {
            drop(self.room_made(words));
            // A handler that was put off runs at the very end.
            if !local().own_handlers.is_pending() || local().handlers.get() != 0 {
                return;
            }
        }
    }

    /// As [`Stream::make_room`]; signals are put off while what it gives lives.
    #[cold]
    #[inline(never)]
    fn room_made(&self, words: usize) -> Busy {
        let local = local();
        loop {
            let busy = Busy::begin(local);
            self.prepare(local, words);
            if !local.own_handlers.has_put_off() {
                return busy;
            }
        }
    }

    fn prepare(&self, local: &Local, words: usize) {
        if local.handlers.get() != 0 {
            signal::left_by_jump(local, &raw const words as usize);
        }
        if local.stage.get() == local::NEW && !self.is_lost() {
            thread::start(local);
        }
        if let (true, Some(session)) = (self.parked.get().is_some(), session()) {
            // It was cancelled in its sleep, and never came back from there.
            self.unpark(session);
        }
        self.settle(local);
        if !self.has_room(words) {
            self.refill(local);
        }
        if local.own_handlers.is_pending() && local.handlers.get() == 0 && !self.late.is_passed() {
            self.tell_handlers(local, words);
        }
        self.set_limit();
    }

    /// Tells that handlers of the thread's own have come and gone since its last record.
    fn tell_handlers(&self, local: &Local, words: usize) {
        const WORDS: usize = 5;
        if !self.has_room(words.max(1 + RUN_MAX) + 2 * WORDS) {
            self.refill(local);
        }
        let released = local.own_handlers.take();
        if self.chunk.get() == 0 {
            return;
        }
        let addr = own_handler::address(local);
        let head = |order| header(kind::ATOMIC, atomic::MEETING | order << 4, 0);
        if released != 0 {
            self.recorded_room(WORDS).write(head(RELEASE), &[addr, 0, released, 0]);
        }
        let room = self.recorded_room(WORDS);
        let acquired = room.position();
        room.write(head(ACQUIRE), &[addr, 0, 0, acquired]);
    }

    fn has_room(&self, words: usize) -> bool {
        let cursor = self.cursor.get();
        cursor != 0 && cursor + RUN_BYTES.max(8 * words as u64) <= self.end.get()
    }

    fn set_limit(&self) {
        let ask_always =
            self.open.get() != 0 || (self.chunk.get() != 0 && session().is_some_and(Attached::values));
        // One less than the longest run must begin by: `cursor < limit` says that it fits.
        self.limit.set(if ask_always { 0 } else { (self.end.get() - RUN_BYTES) + 1 });
    }

    /// Finishes the record before: its late position, and the bytes that its store has stored by now.
    fn settle(&self, local: &Local) {
        let _busy = Busy::begin(local);
        let open = self.open.replace(0);
        if open != 0 {
            let room = Room { at: open as *mut u64, unread: None, _busy: Busy::NOT };
            let taken = if local.handlers.get() == 0 { local.own_handlers.take_open() } else { None };
            room.fill(4, &[taken.unwrap_or_else(|| room.position())]);
            room.complete(self.open_header.get());
        }
        let run = self.run.replace(0);
        if run != 0 && run < self.cursor.get() {
            self.store.set(last_store_of_run(run));
        }
        let (addr, len) = self.store.replace((0, 0));
        if addr != 0 && self.chunk.get() != 0 {
            if !self.has_room(2 + len as usize / 8 + 1) {
                self.refill(local);
            }
            self.write_value(addr as *const u8, len as usize);
        }
        if let Some((header, place, position)) = self.late.take() {
            self.write_late(local, header, place, position);
        }
    }

    /// Tells a store that has been executed by now, in as many pieces as it takes.
    fn write_late(&self, local: &Local, header: u64, [addr, len]: [u64; 2], position: u64) {
        let most = self.value_bytes().unwrap_or(VALUE_BYTES_MAX) as u64;
        for from in (0..len).step_by(most as usize) {
            let piece = (len - from).min(most);
            if !self.has_room(5 + 2 + piece.div_ceil(8) as usize) {
                self.refill(local);
            }
            if self.chunk.get() == 0 {
                return;
            }
            if position == 0 {
                self.recorded_room(3).write_access(header, addr + from, piece);
            } else {
                self.recorded_room(5).write(header, &[addr + from, piece, position, 0]);
            }
            self.write_value((addr + from) as *const u8, piece as usize);
        }
    }

    /// Tells a load.
    #[inline(always)]
    pub fn load(&self, header: u64, addr: u64, len: u64) {
        let record = || self.room(3).write_access(header, addr, len);
        if self.late.lets_pass() { self.late.pass(record) } else { record() }
    }

    /// Tells a store that a call has told and that is about to be executed.
    #[inline]
    pub fn store_to_come(&self, header: u64, addr: u64, len: u64) {
        if session().is_some_and(Attached::values) && addr != 0 {
            self.make_room(3);
            if self.chunk.get() != 0 {
                return self.late.set(header, addr, len, 0);
            }
        }
        self.room(3).write_access(header, addr, len);
    }

    /// With values: tells a volatile store that a call has told and that is about to be executed, at a position that is taken now.
    pub fn volatile_store(&self, header: u64, addr: u64, len: u64) {
        let room = self.room(5);
        let position = room.position();
        if position == 0 {
            return room.complete(header);
        }
        // Nothing is written yet: the record is made as the store's.
        self.cursor.set(room.at as u64);
        self.late.set(header, addr, len, position);
    }

    /// With values: tells a volatile load that a call has told and that is about to be executed.
    pub fn volatile_load(&self, header: u64, addr: u64, len: u64) {
        if self.late.lets_pass() {
            self.late.pass(|| self.room(5).write(header, &[addr, len, 0, 0]));
        } else {
            self.open_atomic(header, addr, len);
        }
    }

    /// Finishes the record before: to be called before anything changes or takes away what the program has stored.
    #[inline]
    pub fn finish_record(&self) {
        if self.limit.get() == 0 {
            self.make_room(0);
        }
    }

    /// With values: notes that the record just made, of `len` bytes at most 64, is a store yet to be executed.
    #[inline]
    pub fn store_follows(&self, addr: u64, len: u64) {
        if session().is_some_and(Attached::values) {
            self.store.set((addr, len));
        }
    }

    /// With values: notes where a run is about to go.
    #[cfg(target_arch = "x86_64")]
    pub fn run_follows(&self) {
        if session().is_some_and(Attached::values) {
            self.run.set(self.cursor.get());
        }
    }

    /// Makes an atomic's record that is completed, and whose acquire position is taken, when the instruction after the hook is done.
    pub fn open_atomic(&self, header: u64, addr: u64, len: u64) {
        let room = self.room(5);
        if room.unread.is_some() {
            return room.complete(header);
        }
        let stores = (header >> 48) as u8 & 7 != atomic::LOAD;
        let released = if stores { room.position() } else { 0 };
        room.fill(1, &[addr, len, released]);
        if stores {
            self.store_follows(addr, len);
        }
        self.open_header.set(header);
        self.open.set(room.at as u64);
        self.limit.set(0);
    }

    /// Tells the bytes of the store record just made; `len` at most [`Stream::value_bytes`].
    fn write_value(&self, from: *const u8, len: usize) {
        if !self.has_room(2 + len.div_ceil(8)) {
            self.refill(local());
        }
        let room = self.recorded_room(2 + len.div_ceil(8));
        room.fill(1, &[len as u64]);
        // SAFETY: the program has just stored there; the room is as large, and its last word is zero already.
        unsafe { core::ptr::copy_nonoverlapping(from, room.at.add(2).cast::<u8>(), len) };
        room.complete(header(kind::VALUE, 0, 0));
    }

    /// With values: how many bytes one store record may be about. Without: any number.
    pub fn value_bytes(&self) -> Option<usize> {
        let session = session().filter(|session| session.values())?;
        Some(VALUE_BYTES_MAX.min(session.chunk_bytes / 2))
    }

    /// With values: tells the bytes of the store record just made, which has been executed.
    pub fn stored(&self, from: *const u8, len: usize) {
        if self.chunk.get() != 0 && session().is_some_and(Attached::values) {
            self.write_value(from, len);
        }
    }

    /// Finishes the record before and makes the next one ask for room, whether there is some or not.
    pub fn ask_again(&self) {
        self.finish_record();
        self.limit.set(0);
    }

    /// Finds new memory to write into.
    fn refill(&self, local: &Local) {
        let session = match session() {
            Some(session) if self.use_of.get() == OWN && local.stage.get() == local::RUNNING => session,
            _ => return self.rewind(local),
        };
        match session.mode() {
            MODE_RECORD => self.next_chunk(session, local),
            MODE_COUNT => {
                self.count(session);
                if self.base.get() == 0 || self.is_nobodys() {
                    self.rewind(local);
                }
            }
            _ => {
                self.give_up_chunk(session);
                self.rewind(local);
            }
        }
    }

    fn next_chunk(&self, session: &Attached, local: &Local) {
        if !self.give_up_chunk(session) {
            self.leave_out.set(self.leave_out.get().saturating_sub(self.end.get() - self.base.get()));
        }
        if self.leave_out.get() > 0 {
            return self.rewind(local);
        }
        if !session.keeps(self.number.get()) {
            self.number.set(self.number.get() + 1);
            self.leave_out.set(session.chunk_bytes as u64);
            return self.rewind(local);
        }
        if !self.take_chunk(session) {
            self.rewind(local);
        }
    }

    /// Publishes the chunk, if there is one.
    fn give_up_chunk(&self, session: &Attached) -> bool {
        let chunk = self.chunk.replace(0);
        if chunk != 0 {
            session.publish(chunk - 1);
        }
        chunk != 0
    }

    fn take_chunk(&self, session: &Attached) -> bool {
        let number = self.number.replace(self.number.get() + 1);
        let Some(at) = session.take(self.thread.get(), number, self.by_handler.get() != 0) else {
            return false;
        };
        self.chunk.set(at + 1);
        self.set_memory(session.area(at), session.chunk_bytes);
        if self.begun.replace(1) == 0 {
            let room = self.recorded_room(2);
            room.fill(1, &[room.position()]);
            room.complete(header(kind::THREAD_START, 0, session.process.load(Ordering::Relaxed).into()));
        }
        true
    }

    /// Goes on in scratch memory, from its start.
    fn rewind(&self, local: &Local) {
        let own = self.use_of.get() == OWN && local.stage.get() == local::RUNNING && local.scratch.get() != 0;
        if !own {
            return self.set_memory(NOBODYS.0.get().cast(), NOBODYS_BYTES - UNREAD_BYTES);
        }
        let start = scratch::part(local.scratch.get(), self.by_handler.get() != 0);
        if session().is_some_and(|session| session.mode() == MODE_COUNT) {
            // What a jump leaves out of a run is not written, and must not count.
            // SAFETY: the calling thread's own memory, of that size.
            unsafe { start.write_bytes(0, SCRATCH_BYTES) };
        }
        self.set_memory(start, SCRATCH_BYTES - UNREAD_BYTES);
    }

    fn set_memory(&self, start: *mut u8, bytes: usize) {
        self.base.set(start as u64);
        self.cursor.set(start as u64);
        self.end.set(start as u64 + bytes as u64);
    }

    fn is_nobodys(&self) -> bool {
        self.base.get() == NOBODYS.0.get() as u64
    }

    /// With `MODE_COUNT`: counts what was written since the last time, and leaves zeros.
    pub fn count(&self, session: &Attached) {
        let (base, cursor) = (self.base.get(), self.cursor.get());
        let counts = self.counts.take();
        if base != 0 && !self.is_nobodys() && self.chunk.get() == 0 {
            // SAFETY: `base..cursor` is scratch memory of this thread, filled with runs and records by it.
            let words =
                unsafe { core::slice::from_raw_parts_mut(base as *mut u64, (cursor - base) as usize / 8) };
            count::count(session, words, counts);
        }
        self.cursor.set(base);
    }

    /// Hands everything over; the next record starts anew.
    pub fn close(&self) {
        self.settle(local());
        if let Some(session) = session()
            && !self.give_up_chunk(session)
            && session.mode() == MODE_COUNT
        {
            self.count(session);
        }
        self.base.set(0);
        self.cursor.set(0);
        self.end.set(0);
        self.limit.set(0);
    }

    /// Finishes what the thread told last: it may not come to tell anything else.
    pub fn finish(&self) {
        self.settle(local());
    }

    /// Runs `wait`, during which the thread may sleep until another one does something.
    pub fn parked<T>(&self, wait: impl FnOnce() -> T) -> T {
        let chunk = self.chunk.get();
        let Some(session) = session().filter(|_| chunk != 0) else { return wait() };
        own_handler::falls_asleep(local());
        self.settle(local());
        let chunk = self.chunk.get();
        if chunk == 0 {
            return wait();
        }
        self.parked.set(session.park(chunk - 1));
        let limit = self.limit.replace(0);
        let result = wait();
        self.limit.set(limit);
        self.unpark(session);
        result
    }

    /// The thread sleeps no longer: takes its chunk back, if nobody has published it.
    fn unpark(&self, session: &Attached) {
        own_handler::wakes(local());
        let parked = self.parked.take();
        if parked.is_some() && !session.unpark(self.chunk.get() - 1, &parked) {
            self.chunk.set(0);
            self.base.set(0);
            self.cursor.set(0);
            self.end.set(0);
            self.limit.set(0);
        }
    }
}

/// Address and length of the store that ends the run at `run`; zeros if none does or it was not reached.
fn last_store_of_run(run: u64) -> (u64, u64) {
    let run = run as *const u64;
    // SAFETY: code in line has written a run there: the address of its descriptor, which says how many words follow.
    unsafe {
        let Some(descriptor) = descriptor_of(run.read()) else { return (0, 0) };
        let descriptor = descriptor as *const u8;
        let count = usize::from(descriptor.add(4).read());
        // What comes after the last one with an address was not executed.
        let Some(last) = (1..=count).rev().find(|&at| run.add(at).read() != 0) else { return (0, 0) };
        let flags = descriptor.add(8 * last + 4).read();
        if flags & RUN_STORE != 0 {
            (accessed(run.add(last).read()), 1 << (flags & !RUN_STORE))
        } else {
            (0, 0)
        }
    }
}

/// Bytes of [`NOBODYS`].
const NOBODYS_BYTES: usize = 32 << 10;

/// Memory for records of threads without their own. Any number of them write here at once; nobody reads.
#[repr(C, align(64))]
struct Nobodys(UnsafeCell<[u64; NOBODYS_BYTES / 8]>);
// SAFETY: only ever written, word by word, through raw pointers, and its contents never mean anything.
unsafe impl Sync for Nobodys {}
static NOBODYS: Nobodys = Nobodys(UnsafeCell::new([0; NOBODYS_BYTES / 8]));

/// Makes a record of the calling thread.
#[inline(always)]
pub fn record<const N: usize>(kind: u8, argument: u8, pc: u64, payload: [u64; N]) {
    local().stream.room(1 + N).write(header(kind, argument, pc), &payload);
}

/// Makes a record whose last word is a position in the global order of synchronisation.
#[inline]
pub fn record_position<const N: usize>(kind: u8, argument: u8, pc: u64, payload: [u64; N]) {
    let room = local().stream.room(2 + N);
    room.fill(1, &payload);
    room.fill(1 + N, &[room.position()]);
    room.complete(header(kind, argument, pc));
}

/// Makes a rare record that sampling must not leave out, whose last word is a position.
pub fn record_position_kept<const N: usize>(kind: u8, argument: u8, pc: u64, payload: [u64; N]) {
    let room = local().stream.room_kept(2 + N);
    room.fill(1, &payload);
    room.fill(1 + N, &[room.position()]);
    room.complete(header(kind, argument, pc));
}

/// Makes the record of an operation on files, with the positions that are asked for.
pub fn record_file(argument: u8, pc: u64, numbers: [u64; 2], positions: [bool; 2], paths: [&[u8]; 2]) {
    let lengths = paths.map(|path| path.len() as u64);
    let room = local().stream.room_kept(6 + (lengths[0] + lengths[1]).div_ceil(8) as usize);
    let positions = positions.map(|wanted| if wanted { room.position() } else { 0 });
    room.fill(1, &[lengths[0] | lengths[1] << 32, positions[0], positions[1], numbers[0], numbers[1]]);
    let mut text = paths.into_iter().flatten().copied();
    let mut word = 6;
    while let Some(first) = text.next() {
        let mut padded = [0; 8];
        padded[0] = first;
        padded[1..].iter_mut().zip(&mut text).for_each(|(to, byte)| *to = byte);
        room.fill(word, &[u64::from_le_bytes(padded)]);
        word += 1;
    }
    room.complete(header(kind::FILE, argument, pc));
}

/// Makes a rare record that sampling must not leave out and that ends with text, zero-padded to whole words.
pub fn record_text<const N: usize>(kind: u8, pc: u64, payload: [u64; N], text: &[u8]) {
    let text = &text[..text.len().min(TEXT_MAX)];
    let room = local().stream.room_kept(2 + N + text.len().div_ceil(8));
    room.fill(1, &payload);
    room.fill(1 + N, &[text.len() as u64]);
    for (word, bytes) in text.chunks(8).enumerate() {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        room.fill(2 + N + word, &[u64::from_le_bytes(padded)]);
    }
    room.complete(header(kind, 0, pc));
}
