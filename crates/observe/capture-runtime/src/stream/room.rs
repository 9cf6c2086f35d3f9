//! Room for a record: where the next one goes.
//!
//! Records are written between `cursor` and `limit`; as long as `cursor < limit` there is room for the
//! longest block, and code in line writes without asking. Beyond it the *cold path* is called, which does
//! everything that is not ordinary ([`crate::stream::cold`]). It needs what is above this file, so it
//! [registers](set_cold_path) itself when the process begins; records before that go to memory that nobody
//! reads.
//!
//! A record's header is written last, so that the collector may read a chunk that is still being filled.
//! (Blocks are the exception: the collector takes the last one for complete only when something follows.)

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};

use abi::{BLOCK_MAX, MODE_COUNT, access_word, kind};

use crate::base::session::{Attached, session};
use crate::state::stream::{BLOCK_BYTES, Stream};
use crate::stream::busy::Busy;

/// Bytes of scratch memory in which the records go that nobody will read: more than the longest has.
pub const UNREAD_BYTES: usize = 2048;
const _: () = assert!(UNREAD_BYTES >= 8 * 8 + TEXT_MAX);
/// Bytes of the longest text in a record.
pub const TEXT_MAX: usize = 1024;
/// Room for a record.
pub struct Room<'a> {
    pub at: *mut u64,
    /// The stream, if nobody will read the record: it is only counted.
    pub unread: Option<&'a Stream>,
    /// Until the record is made, signals are put off.
    pub _busy: Busy,
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
    pub fn fill(&self, from: usize, payload: &[u64]) {
        for (word, value) in payload.iter().enumerate() {
            // SAFETY: `Stream::room` set aside as many words as the record has.
            unsafe { self.at.add(from + word).write(*value) };
        }
    }

    #[inline(always)]
    pub fn complete(&self, header: u64) {
        // SAFETY: room for the header, aligned; the collector reads it as an atomic too.
        unsafe { AtomicU64::from_ptr(self.at) }.store(header, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        if let Some(stream) = self.unread {
            stream.counts.set(stream.counts.get().and_record(header));
        }
    }
}

/// The cold path: makes sure that so many words and the longest block have room at the cursor, whatever that
/// takes.
type ColdPath = fn(&Stream, usize) -> Busy;

static COLD_PATH: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Registers the cold path. Called once, from the library's constructor.
pub fn set_cold_path(path: ColdPath) {
    COLD_PATH.store(path as *mut (), Ordering::Release);
}

impl Stream {
    /// Sets `words` aside.
    #[inline(always)]
    pub fn room(&self, words: usize) -> Room<'_> {
        let busy = if self.cursor.get() >= self.limit.get() || words > 1 + BLOCK_MAX {
            self.cold(words)
        } else {
            Busy::NOT
        };
        if self.chunk.get() != 0 {
            return Room { _busy: busy, ..self.recorded_room(words) };
        }
        if session().is_some_and(|session| session.mode() == MODE_COUNT) {
            // Behind the end, so that among the blocks, which are counted later, there is nothing else.
            return Room { at: self.end.get() as *mut u64, unread: Some(self), _busy: busy };
        }
        Room { unread: Some(self), _busy: busy, ..self.recorded_room(words) }
    }

    /// Sets `words` aside in the chunk, where they fit.
    #[inline(always)]
    pub fn recorded_room(&self, words: usize) -> Room<'static> {
        let at = self.cursor.get();
        self.cursor.set(at + 8 * words as u64);
        Room { at: at as *mut u64, unread: None, _busy: Busy::NOT }
    }

    #[cold]
    #[inline(never)]
    fn cold(&self, words: usize) -> Busy {
        let path = COLD_PATH.load(Ordering::Acquire);
        if path.is_null() {
            self.use_nobodys();
            self.set_limit();
            return Busy::NOT;
        }
        // SAFETY: `set_cold_path` has stored a function of this type.
        unsafe { core::mem::transmute::<*mut (), ColdPath>(path)(self, words) }
    }

    /// Sets the limit for the memory that is written to.
    pub fn set_limit(&self) {
        let values = self.chunk.get() != 0 && session().is_some_and(Attached::values);
        // One less than the longest block must begin by: `cursor < limit` says that it fits.
        let limit = if self.open.get() != 0 { 0 } else { (self.end.get() - BLOCK_BYTES) + 1 };
        self.limit.set(if values { 0 } else { limit });
        self.limit_of_loads.set(limit);
    }

    /// Goes on in memory that nobody reads.
    pub fn use_nobodys(&self) {
        self.set_memory(NOBODYS.0.get().cast(), NOBODYS_BYTES - UNREAD_BYTES);
    }

    /// Whether the stream writes there.
    pub fn is_nobodys(&self) -> bool {
        self.base.get() == NOBODYS.0.get() as u64
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
