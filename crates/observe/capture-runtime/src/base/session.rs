//! The session: memory shared with the collector (layout in `abi`), and how chunks of it are had.
//!
//! A writer that finds no free chunk sleeps until the collector gives one back. It must not sleep for ever:
//! - the collector may be dead: then the session is switched off and the program goes on without recording;
//! - all chunks may belong to threads that sleep themselves, perhaps until this very writer does something. A
//!   thread therefore *parks* its chunk before it waits for another ([`Attached::park`]), and a starving
//!   writer completes parked chunks in their owners' stead. Waits that we don't see (`read`, `epoll_wait`)
//!   don't park; if nothing moves for [`PATIENCE_NS`] and no chunk is left that writers did not take so far
//!   ([`Session::open_chunks`]), a chunk's worth of records is lost instead of the program's progress.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::base::sys;
use abi::{
    AREA_ALIGN, CHUNK_FILLING, CHUNK_FREE, CHUNK_FULL, CHUNK_HANDLER, CHUNK_PARKED, Chunk, FLAG_CALLS,
    FLAG_VALUES, MODE_OFF, MODE_RECORD, MODULES, Missed, Module, SESSION_ENV, SESSION_MAGIC, SESSION_VERSION,
    Session, header, kind,
};

/// Sleep between two looks at whether the collector lives.
const NAP_NS: i64 = 50_000_000;
/// How long a writer waits while the collector has nothing to do and no chunk comes free.
const PATIENCE_NS: i64 = 1_000_000_000;
/// How long a parent waits until the collector has read what a child that was killed left.
const END_PATIENCE_NS: i64 = 2_000_000_000;

/// A session that this process is part of.
pub struct Attached {
    head: &'static Session,
    chunks: *const Chunk,
    areas: *mut u8,
    /// Bytes per chunk.
    pub chunk_bytes: usize,
    chunk_count: u32,
    /// The process.
    pub pid: AtomicU32,
    /// Its number in the run.
    pub process: AtomicU32,
    path: [u8; libc::PATH_MAX as usize],
    path_len: usize,
}

struct Place(UnsafeCell<MaybeUninit<Attached>>);
// SAFETY: written once, before `READY`; read only after.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));
static READY: AtomicBool = AtomicBool::new(false);

/// The session, if there is one.
#[inline]
pub fn session() -> Option<&'static Attached> {
    if !READY.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: `READY` says that it was written, and it is never written again.
    Some(unsafe { (*PLACE.0.get()).assume_init_ref() })
}

/// Maps the session that the environment names. Called once, from the library's constructor.
///
/// # Safety
/// `environment` is a list of C strings that ends with null, or null itself.
pub unsafe fn attach(environment: *const *const c_char) {
    // SAFETY: the caller's.
    let Some(path) = (unsafe { named_in(environment) }) else { return };
    let Some(attached) = open(path) else {
        let ways: [&[u8]; 3] =
            [b"strandline: cannot join the recording session ", path.to_bytes(), b"; not recorded\n"];
        return sys::complain(&ways);
    };
    // SAFETY: nobody reads it before `READY` is set, and this function runs once.
    unsafe { (*PLACE.0.get()).write(attached) };
    READY.store(true, Ordering::Release);
}

/// What the variable says in an environment. Not by `getenv`: some programs define their own, which may
/// know nothing before `main`.
///
/// # Safety
/// As of [`attach`].
unsafe fn named_in(mut environment: *const *const c_char) -> Option<&'static CStr> {
    if environment.is_null() {
        return None;
    }
    loop {
        // SAFETY: the list has not ended yet.
        let entry = unsafe { *environment };
        if entry.is_null() {
            return None;
        }
        // SAFETY: the list's entries are C strings.
        let entry = unsafe { CStr::from_ptr(entry) };
        let value = entry.to_bytes_with_nul().strip_prefix(SESSION_ENV.as_bytes());
        if let Some(path) = value.and_then(|value| value.strip_prefix(b"=")) {
            return CStr::from_bytes_with_nul(path).ok();
        }
        // SAFETY: as above.
        environment = unsafe { environment.add(1) };
    }
}

fn open(path: &CStr) -> Option<Attached> {
    let fd = sys::open(path, libc::O_RDWR)?;
    let bytes = sys::file_bytes(fd).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    let start = if bytes < size_of::<Session>() {
        None
    } else {
        sys::map(bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd)
    };
    sys::close(fd);
    let start = start?;
    // SAFETY: the mapping is page-aligned, at least so long, and stays for the life of the process; the
    // collector wrote the head before it named the file, and changes only its atomics.
    let head = unsafe { &*start.cast::<Session>() };
    if head.magic != SESSION_MAGIC || head.version != SESSION_VERSION {
        return None;
    }
    let mut copy = [0; libc::PATH_MAX as usize];
    copy.get_mut(..path.count_bytes())?.copy_from_slice(path.to_bytes());
    let (chunk_bytes, count) = (head.chunk_bytes as usize, head.chunk_count as usize);
    let chunks_at = size_of::<Session>() + MODULES * size_of::<Module>();
    let areas_at = (chunks_at + count * size_of::<Chunk>()).next_multiple_of(AREA_ALIGN);
    if chunk_bytes < AREA_ALIGN || count == 0 || bytes < areas_at + count * chunk_bytes {
        return None;
    }
    // SAFETY: both are inside the mapping, as was just checked.
    let (chunks, areas) = unsafe { (start.add(chunks_at).cast(), start.add(areas_at)) };
    Some(Attached {
        head,
        chunks,
        areas,
        chunk_bytes,
        chunk_count: head.chunk_count,
        pid: AtomicU32::new(sys::pid()),
        process: AtomicU32::new(head.next_process.fetch_add(1, Ordering::Relaxed)),
        path: copy,
        path_len: path.count_bytes(),
    })
}

/// A chunk that a process was filling.
#[derive(PartialEq, Eq)]
pub struct Unfinished {
    pid: u32,
    /// The thread's number in the run.
    pub thread: u32,
    number: u64,
}

/// A chunk's flags before it was parked and since; zeros: it is not parked.
#[derive(Clone, Copy, Default)]
pub struct Parked {
    before: u32,
    during: u32,
}

impl Parked {
    /// Whether a chunk is parked.
    pub fn is_some(self) -> bool {
        self.during != 0
    }
}

impl Attached {
    /// The head.
    pub fn head(&self) -> &'static Session {
        self.head
    }

    /// Whether the bytes of stores are recorded.
    pub fn values(&self) -> bool {
        self.head.flags & FLAG_VALUES != 0
    }

    /// Whether functions record where they begin and end.
    pub fn calls(&self) -> bool {
        self.head.flags & FLAG_CALLS != 0
    }

    /// `MODE_*`.
    pub fn mode(&self) -> u32 {
        self.head.mode.load(Ordering::Relaxed)
    }

    /// Whether chunk `number` of a thread belongs to the sample.
    pub fn keeps(&self, number: u64) -> bool {
        self.head.sample_period == 0 || number % self.head.sample_period < self.head.sample_recorded
    }

    /// Says that a call is not recorded: which, of which file, and who called (0: unknown). Each is said
    /// once, one whose caller is not known only if no other of its name was, and only so many are.
    pub fn miss(&self, pc: u64, call: &[u8], file: &[u8]) {
        let missed = &self.head.missed;
        let same = |other: &Missed| {
            other.ready.load(Ordering::Acquire) == 1
                && (pc == 0 || other.pc.load(Ordering::Relaxed) == pc)
                && other.call.iter().zip(call).all(|(one, byte)| one.load(Ordering::Relaxed) == *byte)
        };
        if missed.iter().any(same) {
            return;
        }
        let at = self.head.next_missed.fetch_add(1, Ordering::Relaxed);
        let Some(missed) = missed.get(at as usize) else { return };
        missed.pid.store(self.pid.load(Ordering::Relaxed), Ordering::Relaxed);
        missed.pc.store(pc, Ordering::Relaxed);
        let write = |to: &[AtomicU8], text: &[u8]| {
            to.iter().zip(text).for_each(|(to, byte)| to.store(*byte, Ordering::Relaxed));
        };
        write(&missed.call, call);
        write(&missed.file, file);
        missed.ready.store(1, Ordering::Release);
    }

    /// The next position in the global order of synchronisation. To be recorded whatever happens.
    pub fn position(&self) -> u64 {
        self.head.sync_seq.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Two new thread numbers: the thread's, returned, and the one after it for its signal handlers.
    pub fn two_threads(&self) -> u32 {
        self.head.next_thread.fetch_add(2, Ordering::Relaxed)
    }

    /// Notes the stack of a new thread: its number plus 1, the address above its function's frame, its bytes.
    pub fn stack(&self, thread: u32, top: u64, bytes: u64, function: u64) {
        let at = self.head.next_stack.fetch_add(1, Ordering::Relaxed);
        let Some(stack) = self.head.stacks.get(at as usize) else { return };
        stack.top.store(top, Ordering::Relaxed);
        stack.bytes.store(bytes, Ordering::Relaxed);
        stack.function.store(function, Ordering::Relaxed);
        stack.thread.store(thread, Ordering::Release);
    }

    /// In the child of a fork: a process of its own, whose parent is returned.
    pub fn forked(&self) -> u32 {
        self.process.store(self.head.next_process.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.pid.swap(sys::pid(), Ordering::Relaxed)
    }

    /// Entry `at` of the module table.
    pub fn module(&self, at: usize) -> Option<*mut Module> {
        let start = (self.head as *const Session).cast::<u8>().cast_mut();
        // SAFETY: inside the mapping, which `open` checked to hold the whole table.
        (at < MODULES).then(|| unsafe { start.add(size_of::<Session>()).cast::<Module>().add(at) })
    }

    fn chunk(&self, at: u32) -> &'static Chunk {
        assert!(at < self.chunk_count);
        // SAFETY: inside the mapping, which stays; a chunk is all atomics.
        unsafe { &*self.chunks.add(at as usize) }
    }

    /// First byte of a chunk's area.
    pub fn area(&self, at: u32) -> *mut u8 {
        assert!(at < self.chunk_count);
        // SAFETY: inside the mapping.
        unsafe { self.areas.add(at as usize * self.chunk_bytes) }
    }

    /// The file that we record into.
    pub fn path(&self) -> &[u8] {
        &self.path[..self.path_len]
    }

    fn now_ns(&self) -> u64 {
        sys::monotonic_ns().saturating_sub(self.head.start_ns)
    }

    /// Gets a chunk to fill; `None` if recording is over or the patience is.
    pub fn take(&self, thread: u32, number: u64, by_handler: bool) -> Option<u32> {
        let mut waited_ns = 0;
        let at = loop {
            let seen = self.head.free.load(Ordering::SeqCst);
            if let Some(at) = self.find_free(thread.wrapping_add(number as u32)) {
                break at;
            }
            if self.mode() != MODE_RECORD {
                return None;
            }
            let collector_has_work = self.complete_parked();
            self.head.writers_wait.fetch_add(1, Ordering::SeqCst);
            let in_time = sys::futex_wait(&self.head.free, seen, NAP_NS);
            self.head.writers_wait.fetch_sub(1, Ordering::SeqCst);
            if in_time {
                continue;
            }
            if !sys::is_alive(self.head.collector_pid) {
                self.head.mode.store(MODE_OFF, Ordering::SeqCst);
                return None;
            }
            waited_ns = if collector_has_work { 0 } else { waited_ns + NAP_NS };
            if waited_ns >= PATIENCE_NS {
                // The collector may be away; there may be chunks that were for nobody yet, or that another
                // writer in this place has just opened.
                self.open_all();
                break self.find_free(thread.wrapping_add(number as u32))?;
            }
        };
        let chunk = self.chunk(at);
        chunk.thread.store(thread, Ordering::Relaxed);
        chunk.pid.store(self.pid.load(Ordering::Relaxed), Ordering::Relaxed);
        chunk.reserved.store(if by_handler { CHUNK_HANDLER } else { 0 }, Ordering::Relaxed);
        chunk.number.store(number, Ordering::Relaxed);
        chunk.start_ns.store(self.now_ns(), Ordering::Relaxed);
        Some(at)
    }

    /// Lets writers have all chunks, if there is memory for them: the collector reserves it only for those
    /// that it lets them have.
    fn open_all(&self) {
        let open = self.head.open_chunks.load(Ordering::Relaxed).clamp(1, self.chunk_count);
        let bytes = (self.chunk_count - open) as usize * self.chunk_bytes;
        if bytes > 0 && sys::populate(self.area(open), bytes) {
            self.head.open_chunks.fetch_max(self.chunk_count, Ordering::Relaxed);
        }
    }

    /// Looks for a free chunk, from a different place for each chunk of each thread.
    fn find_free(&self, from: u32) -> Option<u32> {
        let open = self.head.open_chunks.load(Ordering::Relaxed).clamp(1, self.chunk_count);
        (0..open).map(|step| from.wrapping_add(step) % open).find(|&at| {
            let state = &self.chunk(at).state;
            state.load(Ordering::Relaxed) == CHUNK_FREE
                && state
                    .compare_exchange(CHUNK_FREE, CHUNK_FILLING, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        })
    }

    /// Hands the parked chunks to the collector; whether it has any chunk to work on.
    fn complete_parked(&self) -> bool {
        let mut has_work = false;
        for at in 0..self.chunk_count {
            let chunk = self.chunk(at);
            let flags = chunk.reserved.load(Ordering::Relaxed);
            if chunk.state.load(Ordering::Acquire) == CHUNK_FILLING
                && flags & CHUNK_PARKED != 0
                && chunk
                    .reserved
                    .compare_exchange(flags, flags & CHUNK_HANDLER, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                self.publish(at);
            }
            has_work |= chunk.state.load(Ordering::Relaxed) == CHUNK_FULL;
        }
        has_work
    }

    /// Hands a chunk that the caller fills to the collector.
    pub fn publish(&self, at: u32) {
        let chunk = self.chunk(at);
        chunk.end_ns.store(self.now_ns(), Ordering::Relaxed);
        chunk.state.store(CHUNK_FULL, Ordering::SeqCst);
        self.head.full.fetch_add(1, Ordering::SeqCst);
        if self.head.collector_waits.load(Ordering::SeqCst) != 0 {
            sys::futex_wake(&self.head.full, 1);
        }
    }

    /// Allows others to publish the caller's chunk until [`Attached::unpark`]; what that needs to know.
    pub fn park(&self, at: u32) -> Parked {
        let chunk = self.chunk(at);
        let before = chunk.reserved.load(Ordering::Relaxed);
        // The thread's number distinguishes this from a later owner's parking of the same chunk.
        let during = before | CHUNK_PARKED | chunk.thread.load(Ordering::Relaxed) << 2;
        chunk.reserved.store(during, Ordering::SeqCst);
        Parked { before, during }
    }

    /// Takes the permission back; false if the chunk is the caller's no longer.
    pub fn unpark(&self, at: u32, parked: &Parked) -> bool {
        let reserved = &self.chunk(at).reserved;
        reserved.compare_exchange(parked.during, parked.before, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// A chunk that a process is filling, from the number `from` on: its own number, and its thread's chunk.
    pub fn unfinished(&self, pid: u32, from: u32) -> Option<(u32, Unfinished)> {
        (from..self.chunk_count).find_map(|at| {
            let chunk = self.chunk(at);
            let filling = chunk.state.load(Ordering::Acquire) == CHUNK_FILLING
                && chunk.pid.load(Ordering::Relaxed) == pid;
            let thread = chunk.thread.load(Ordering::Relaxed);
            filling.then(|| (at, Unfinished { pid, thread, number: chunk.number.load(Ordering::Relaxed) }))
        })
    }

    /// Makes the record of a thread's end that the thread of a dead process can't make, once the collector
    /// has read what it left; false if that takes too long.
    pub fn end_for(&self, at: u32, left: &Unfinished) -> bool {
        let mut waited_ns = 0;
        while self.unfinished(left.pid, at).is_some_and(|(same, found)| same == at && found == *left) {
            if waited_ns >= END_PATIENCE_NS {
                return false;
            }
            sys::doze();
            waited_ns += sys::DOZE_NS;
        }
        let Some(at) = self.take(left.thread, left.number + 1, false) else { return false };
        let words = self.area(at).cast::<AtomicU64>();
        // SAFETY: the chunk is the caller's, is longer than two words, and is aligned to pages.
        let (head, position) = unsafe { (&*words, &*words.add(1)) };
        position.store(self.position(), Ordering::Relaxed);
        head.store(header(kind::THREAD_END, 0, 0), Ordering::Release);
        self.publish(at);
        true
    }

    /// Publishes what this process left unfinished when it executed the program that is now starting.
    pub fn publish_leftovers(&self) {
        let pid = self.pid.load(Ordering::Relaxed);
        for at in 0..self.chunk_count {
            let chunk = self.chunk(at);
            if chunk.state.load(Ordering::Acquire) == CHUNK_FILLING
                && chunk.pid.load(Ordering::Relaxed) == pid
            {
                self.publish(at);
            }
        }
    }
}
