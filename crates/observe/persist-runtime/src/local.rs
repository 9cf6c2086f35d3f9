//! What each thread keeps, and the way in.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use space::{Env as _, Space as _};

use crate::pool::{Env, Open, opened};
use crate::{failure, mapping, signals, threads, window};

/// A thread of the program, to the engine.
pub type Thread = sfr::Thread<'static, 'static, Env>;

/// A thread's state. It has no destructor, so that it is there for the thread's last store.
pub struct Local {
    /// Whether the thread is in here already: a signal's handler then waits, and what this library itself
    /// calls is nobody's business.
    pub inside: Cell<bool>,
    /// Its log in the pool of `generation`.
    thread: Cell<*mut Thread>,
    generation: Cell<u64>,
    /// What was announced last and is to be reported once it is stored, where somebody records.
    shadow: Cell<(u64, u64)>,
    /// The store that was announced last, as address and length, if nothing else has come since: it may not
    /// have happened yet.
    pub last: Cell<(usize, usize)>,
    /// The same of a call in progress that writes to several places: where [`writing`] has the list of them.
    pub several: Cell<(*const (usize, usize), usize)>,
    /// Whether the thread has been here since a handler began.
    pub touched: Cell<bool>,
    /// Signals that wait.
    pub deferred: signals::Deferred,
    /// Whether it was inside when it called `fork`.
    pub before_fork: Cell<bool>,
    /// How often the thread's end was put off.
    pub ending: Cell<u32>,
    /// The routine that a `once` in progress is to call.
    pub routine: Cell<usize>,
    pub once: Cell<usize>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            inside: Cell::new(false),
            thread: Cell::new(ptr::null_mut()),
            generation: Cell::new(0),
            shadow: Cell::new((0, 0)),
            last: Cell::new((0, 0)),
            several: Cell::new((ptr::null(), 0)),
            touched: Cell::new(false),
            deferred: signals::Deferred::new(),
            before_fork: Cell::new(false),
            ending: Cell::new(0),
            routine: Cell::new(0),
            once: Cell::new(0),
        }
    };
}

/// Looks at the calling thread's state.
#[inline(always)]
pub fn local<R>(look: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(look)
}

/// Does something with the calling thread's log, if there is a pool and the thread is not in here already.
#[inline(always)]
pub fn with<R>(work: impl FnOnce(&mut Thread, &'static Open) -> R) -> Option<R> {
    let Some(open) = opened() else {
        mapping::catch_up();
        return None;
    };
    LOCAL.with(|local| {
        if local.inside.replace(true) {
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `errno` is the calling thread's own.
        let errno = unsafe { *libc::__errno_location() };
        local.touched.set(true);
        local.last.set((0, 0));
        local.several.set((ptr::null(), 0));
        let thread = local.thread(open);
        if open.recorded {
            local.report(open);
        }
        // SAFETY: of this thread alone, and nobody else refers to it: `inside` was not set before.
        let result = work(unsafe { &mut *thread }, open);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        compiler_fence(Ordering::SeqCst);
        local.inside.set(false);
        if local.deferred.any() {
            signals::deliver(&local.deferred);
        }
        Some(result)
    })
}

impl Local {
    /// The thread's log, taken if it has none.
    #[inline(always)]
    fn thread(&self, open: &'static Open) -> *mut Thread {
        if self.generation.get() != open.generation || self.thread.get().is_null() {
            self.arrive(open);
        }
        self.thread.get()
    }

    #[cold]
    fn arrive(&self, open: &'static Open) {
        // A log of a pool that is closed went with it.
        self.shadow.set((0, 0));
        let thread = match open.pool.thread() {
            Ok(thread) => thread,
            Err(error) => failure::end(&error.to_string()),
        };
        let mut thread = Box::new(thread);
        // It may be one of the C library's own, started by a timer or a message.
        thread.acquire(object(crate::calls::SYSTEM));
        self.thread.set(Box::into_raw(thread));
        self.generation.set(open.generation);
        // SAFETY: a key of ours, and a value that is not null, so that `leave` is called.
        unsafe { libc::pthread_setspecific(key(), ptr::from_ref(self).cast()) };
    }

    /// Gives the thread's log back, after its last region has ended.
    pub fn depart(&self, open: Option<&'static Open>) {
        let thread = self.thread.replace(ptr::null_mut());
        let generation = self.generation.replace(0);
        if thread.is_null() || open.is_none_or(|open| open.generation != generation) {
            return;
        }
        if let Some(open) = open.filter(|open| open.recorded) {
            self.report(open);
        }
        // SAFETY: made by `arrive`, and taken out.
        drop(unsafe { Box::from_raw(thread) });
    }

    /// Forgets the log without ending anything: of a child of `fork`.
    pub fn forget(&self) {
        self.thread.set(ptr::null_mut());
        self.generation.set(0);
        self.shadow.set((0, 0));
    }

    /// What the program stored since it was last here goes into the recording: it is stored once more.
    fn report(&self, open: &'static Open) {
        let (mut at, bytes) = self.shadow.replace((0, 0));
        let end = at + bytes;
        let space = open.pool.env().space();
        let mut piece = [0; 512];
        while at < end {
            let piece = &mut piece[..(end - at).min(512) as usize];
            // Read past the recording: these loads are not the program's.
            // SAFETY: inside the mapping; the bytes are this thread's until it releases them.
            unsafe {
                ptr::copy_nonoverlapping(
                    (open.base + at as usize) as *const u8,
                    piece.as_mut_ptr(),
                    piece.len(),
                );
            }
            space.store(at, piece);
            at += piece.len() as u64;
        }
    }
}

/// A store of the program to these bytes comes next.
#[inline(always)]
pub fn announce(address: usize, bytes: usize) {
    if mapping::is_on() {
        return mapping::mark(address, bytes);
    }
    if opened().is_none() {
        crate::process::stored_in_child(address);
    }
    with(|thread, open| {
        if let Some((offset, bytes)) = open.part(address, bytes) {
            thread.will_store(offset, bytes);
            LOCAL.with(|local| {
                local.last.set((address, bytes as usize));
                if open.recorded {
                    local.shadow.set((offset, bytes));
                }
            });
        }
    });
}

/// Makes a call that writes to these ranges, as addresses and bytes; ones outside the window count for nothing.
#[inline(always)]
pub fn writing<R>(ranges: &[(usize, usize)], call: impl FnOnce() -> R) -> R {
    let inside = |range: &&(usize, usize)| window::contains(range.0) && range.1 > 0;
    match ranges.iter().filter(inside).count() {
        0 => return call(),
        1 => ranges.iter().filter(inside).for_each(|range| announce(range.0, range.1)),
        _ => {
            announce_several(ranges);
            // However the call ends.
            let _written = Written(ranges);
            return call();
        }
    }
    call()
}

/// Stores of the program to these ranges come next, in any order.
pub fn announce_several(ranges: &[(usize, usize)]) {
    let mut inside = ranges.iter().filter(|range| window::contains(range.0) && range.1 > 0);
    if mapping::is_on() {
        return inside.for_each(|range| mapping::mark(range.0, range.1));
    }
    if opened().is_none() {
        inside.clone().for_each(|range| crate::process::stored_in_child(range.0));
    }
    with(|thread, open| {
        if let Some((offset, bytes)) = inside.next().and_then(|range| open.part(range.0, range.1)) {
            thread.will_store(offset, bytes);
        }
        for (offset, bytes) in inside.filter_map(|range| open.part(range.0, range.1)) {
            thread.will_also_store(offset, bytes);
        }
        LOCAL.with(|local| local.several.set((ranges.as_ptr(), ranges.len())));
    });
}

/// What a call has written to when it ends.
struct Written<'a>(&'a [(usize, usize)]);

impl Drop for Written<'_> {
    fn drop(&mut self) {
        let inside = || self.0.iter().filter(|range| window::contains(range.0) && range.1 > 0);
        if mapping::is_on() {
            // Only the latest mark is safe from an `msync` of another thread.
            inside().for_each(|range| mapping::mark(range.0, range.1));
            return mapping::catch_up();
        }
        LOCAL.with(|local| local.several.set((ptr::null(), 0)));
        if opened().is_some_and(|open| open.recorded) {
            with(|_, open| {
                for part in inside().filter_map(|range| open.part(range.0, range.1)) {
                    LOCAL.with(|local| {
                        local.shadow.set(part);
                        local.report(open);
                    });
                }
            });
        }
    }
}

/// A region ends here.
pub fn boundary() {
    with(|thread, _| thread.boundary());
}

/// What is released with an address.
pub fn object(address: usize) -> u64 {
    (address >> 3) as u64
}

/// The key whose destructor is called as a thread ends.
fn key() -> libc::pthread_key_t {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a place for a key, and a function that stays.
        let result: c_int = unsafe { libc::pthread_key_create(&mut key, Some(leave)) };
        if result != 0 {
            failure::end("the process has no thread-specific key left");
        }
        key
    })
}

/// A thread ends. Other destructors may store to the pool, so this one asks to be called again as often as it
/// can.
unsafe extern "C" fn leave(value: *mut c_void) {
    /// Rounds of destructors that a C library promises, less the one to leave in.
    const ROUNDS: u32 = 3;
    LOCAL.with(|local| {
        let round = local.ending.get() + 1;
        local.ending.set(round);
        if round < ROUNDS {
            // SAFETY: as in `arrive`.
            unsafe { libc::pthread_setspecific(key(), value) };
            return;
        }
        let inside = local.inside.replace(true);
        threads::ends();
        local.depart(opened());
        local.inside.set(inside);
        local.ending.set(0);
    });
    signals::left();
}
