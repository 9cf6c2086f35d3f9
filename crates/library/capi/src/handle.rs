//! What a `sl_pool *` points to.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use region::{Recovered, Sparse};

use crate::engines::{ENGINES, OpenPool, OpenReserved};
use crate::error::{Code, Failure};

/// First word of a [`Handle`]: "slpool", which most other memory does not have.
const MARK: u64 = u64::from_le_bytes(*b"sl_pool\x01");

/// A pool that was opened. It is never given back, so that a program that goes on using a pool that it closed
/// gets an error: a few words for each opening. It lies in words that a child of `fork` finds zero, so that a
/// child that goes on using its parent's pool gets one, too.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Handle {
    mark: AtomicU64,
    /// The pool; null once it is closed.
    open: AtomicPtr<Opened>,
    /// Regions under way, of all threads.
    regions: AtomicU64,
}

/// Blocks that are reserved, by their references.
type Reserved = BTreeMap<u64, Box<dyn OpenReserved>>;

/// An open pool.
pub(crate) struct Opened {
    /// Before the pool, to which they lead, so that they are dropped first.
    reserved: Mutex<Reserved>,
    pub(crate) pool: Box<dyn OpenPool>,
    pub(crate) recovered: Recovered,
    pub(crate) engine: CString,
    pub(crate) layout: CString,
    /// What is worth moving, between `sl_moving_begin` and `sl_moving_end`.
    moving: Mutex<Option<Sparse>>,
}

impl Opened {
    /// Blocks that are reserved.
    pub(crate) fn reserved(&self) -> MutexGuard<'_, Reserved> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the block that was reserved at `reference`.
    pub(crate) fn take_reserved(&self, reference: u64) -> Result<Box<dyn OpenReserved>, Failure> {
        self.reserved().remove(&reference).ok_or_else(|| not_reserved(reference))
    }

    /// What is worth moving, if that was asked for.
    pub(crate) fn moving(&self) -> MutexGuard<'_, Option<Sparse>> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No block is reserved there.
pub(crate) fn not_reserved(reference: u64) -> Failure {
    Failure::new(Code::Reference, format!("no block is reserved at the reference {reference:#x}"))
}

/// Words of a handle, with what keeps it on a line of its own.
const WORDS: usize = 8;

/// Words for handles that none has yet.
static FREE: Mutex<&[AtomicU64]> = Mutex::new(&[]);

/// Words for a handle, all zero.
pub(crate) fn take_words() -> io::Result<&'static [AtomicU64]> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if free.len() < WORDS {
        *free = pmem::own_words()?;
    }
    let (words, rest) = free.split_at(WORDS);
    *free = rest;
    Ok(words)
}

impl Handle {
    /// Opens: what the program gets.
    pub(crate) fn new(pool: Box<dyn OpenPool>, recovered: Recovered) -> Result<*const Handle, Failure> {
        const { assert!(size_of::<Handle>() <= 8 * WORDS && align_of::<Handle>() <= 8) };
        let no_memory = |error| Failure::new(Code::File, format!("no memory for one more pool: {error}"));
        let words = take_words().map_err(no_memory)?;
        let number = pool.header().engine;
        let name = ENGINES.iter().find(|engine| engine.number == number).map_or("", |engine| engine.name);
        let engine = CString::new(name).unwrap_or_default();
        let layout = CString::new(pool.header().layout.as_str()).unwrap_or_default();
        let opened = Box::into_raw(Box::new(Opened {
            reserved: Mutex::default(),
            pool,
            recovered,
            engine,
            layout,
            moving: Mutex::default(),
        }));
        // SAFETY: a handle consists of atomic words and has room there; zeros are one; nobody else has these
        // words, and they are never given back.
        let handle = unsafe { &*words.as_ptr().cast::<Handle>() };
        handle.open.store(opened, Ordering::SeqCst);
        handle.mark.store(MARK, Ordering::SeqCst);
        Ok(handle)
    }

    /// Whether the pool was opened by this process.
    pub(crate) fn is_own(&self) -> bool {
        self.mark.load(Ordering::Relaxed) == MARK
    }

    /// What the program gave.
    pub(crate) fn of(pool: *const Handle) -> Result<&'static Handle, Failure> {
        if pool.is_null() {
            return Err(Failure::new(Code::Argument, "the pool is null"));
        }
        if !pool.is_aligned() {
            return Err(Failure::new(Code::Argument, "the pointer is to no pool"));
        }
        // SAFETY: the program says that it is a pool, and those are never given back. Alignment, and the mark
        // where memory is readable, are all that can be looked at before it is believed.
        let mark = unsafe { (&raw const (*pool).mark).cast::<u64>().read() };
        match mark {
            // SAFETY: as above.
            MARK => Ok(unsafe { &*pool }),
            0 => Err(Failure::new(
                Code::State,
                "the pool was opened by the process that forked this one, and is that one's; open it here",
            )),
            _ => Err(Failure::new(Code::Argument, "the pointer is to no pool")),
        }
    }

    /// The open pool. It stays open as long as the caller's call lasts: whoever closes it while another
    /// thread is in a call breaks the contract of `sl_pool_close`.
    pub(crate) fn opened(&self) -> Result<&'static Opened, Failure> {
        // SAFETY: null, or made by `new` and given back by `close` only.
        unsafe { self.open.load(Ordering::SeqCst).as_ref() }
            .ok_or_else(|| Failure::new(Code::State, "the pool was closed"))
    }

    /// The open pool, with one more region under way.
    pub(crate) fn enter(&self) -> Result<&'static Opened, Failure> {
        self.regions.fetch_add(1, Ordering::SeqCst);
        self.opened().inspect_err(|_| self.leave())
    }

    /// Whether any thread has a region under way; the caller's own are seen for certain.
    pub(crate) fn has_regions(&self) -> bool {
        self.regions.load(Ordering::Relaxed) > 0
    }

    /// One region less is under way.
    pub(crate) fn leave(&self) {
        self.regions.fetch_sub(1, Ordering::SeqCst);
    }

    /// Closes, and leaves nothing for recovery to do if that can be.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let opened = self.open.swap(ptr::null_mut(), Ordering::SeqCst);
        if opened.is_null() {
            return Err(Failure::new(Code::State, "the pool was closed before"));
        }
        let regions = self.regions.load(Ordering::SeqCst);
        if regions > 0 {
            self.open.store(opened, Ordering::SeqCst);
            let message =
                format!("{regions} regions are under way; commit or abort them before the pool is closed");
            return Err(Failure::new(Code::State, message));
        }
        // SAFETY: made by `new`, and nobody else has swapped it out. No region refers to it, and no call of
        // another thread, as the contract of `sl_pool_close` says.
        let opened = unsafe { Box::from_raw(opened) };
        Ok(opened.pool.checkpoint()?)
    }
}
