//! The state of a thread's stream of records: plain numbers, all zero at first. What is done with it is in
//! `stream/`.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use abi::BLOCK_MAX;

use crate::base::session::Parked;
use crate::state::count::Counts;
use crate::state::deferred::Deferred;

/// Words of the longest block.
pub const BLOCK_BYTES: u64 = 8 * (1 + BLOCK_MAX as u64);

/// Where a stream writes. Plain numbers and an address, zero at first, so that a stream can be put aside as a
/// whole.
#[repr(C)]
#[derive(Default)]
pub struct Stream {
    /// Where the next record goes.
    pub cursor: Cell<u64>,
    /// From here on, [`Stream::make_room`] is to be asked.
    pub limit: Cell<u64>,
    /// The same for loads, which complete nothing: not 0, too, where the limit is 0 only for the sake of a
    /// store that may come.
    pub limit_of_loads: Cell<u64>,
    /// First byte of the memory that is written to.
    pub base: Cell<u64>,
    /// The byte behind the last one.
    pub end: Cell<u64>,
    /// The chunk being filled, plus 1; 0: none, the records are lost.
    pub chunk: Cell<u32>,
    /// [`OWN`] or [`LOST`].
    pub use_of: Cell<u32>,
    /// The number of the stream's thread.
    pub thread: Cell<u32>,
    /// 1: a stream of signal handlers.
    pub by_handler: Cell<u32>,
    /// 1: the thread's start was recorded.
    pub begun: Cell<u32>,
    /// Chunks so far, kept or not.
    pub number: Cell<u64>,
    /// Bytes of records that sampling still has to leave out.
    pub leave_out: Cell<u64>,
    /// With values: where the last block went.
    pub block: Cell<u64>,
    /// With values: address and length of the store that the next record completes.
    pub store: Cell<(u64, u64)>,
    /// With values: the store whose record is made when it has been executed.
    pub deferred: Deferred,
    /// A record whose acquire position and header are written when the next record is made; 0: none.
    pub open: Cell<u64>,
    /// Its header.
    pub open_header: Cell<u64>,
    /// With values: the lock of the word that an instruction at work changes.
    pub word_lock: Cell<Option<&'static AtomicU32>>,
    /// Records that nobody will read, since they were last added up.
    pub counts: Cell<Counts>,
    /// While the thread sleeps, what takes its chunk back.
    pub parked: Cell<Parked>,
}

/// [`Stream::use_of`]: the thread's or its handlers'.
pub const OWN: u32 = 0;
/// [`Stream::use_of`]: of a handler that interrupted a handler.
pub const LOST: u32 = 1;

impl Stream {
    /// A stream whose records are lost.
    pub fn lost() -> Self {
        Stream { use_of: Cell::new(LOST), ..Stream::default() }
    }

    /// Has the next record ask for room, whatever it is.
    #[inline(always)]
    pub fn ask(&self) {
        self.limit.set(0);
        self.limit_of_loads.set(0);
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

    /// Whether there is room for `words`, and for the longest block.
    pub fn has_room(&self, words: usize) -> bool {
        let cursor = self.cursor.get();
        cursor != 0 && cursor + BLOCK_BYTES.max(8 * words as u64) <= self.end.get()
    }

    /// Goes on in other memory.
    pub fn set_memory(&self, start: *mut u8, bytes: usize) {
        self.base.set(start as u64);
        self.cursor.set(start as u64);
        self.end.set(start as u64 + bytes as u64);
    }
}
