//! What each thread keeps of the recordings that it takes part in.
//!
//! An event costs its thread a few instructions and no shared cache line: it goes into a buffer that only
//! this thread touches. The buffer of the recording that was used last lies in `current`; a thread that
//! alternates between recordings swaps. When the thread ends, what is left goes to the recording's
//! lost-and-found ([`Parked`]).

use std::cell::RefCell;
use std::mem;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use event::{Event, Op, SiteId, ThreadId};

/// Events of a batch at most. 16 KiB: it stays in the first-level cache.
pub(crate) const BATCH: usize = 512;
/// Entries of a thread's cache of code sites, direct-mapped.
const SITES: usize = 512;

/// One thread's unsent part of one recording.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// Number of the recording; 0 for none.
    pub recording: u64,
    /// The thread's number in it.
    pub thread: ThreadId,
    pub events: Vec<Event>,
    /// Bytes of the stores among `events`, if the recording keeps values.
    pub values: Vec<u8>,
    /// Location address and site, at [`Buffer::site_slot`].
    sites: Vec<(usize, SiteId)>,
    parked: Weak<Parked>,
}

/// Buffers whose threads ended before they were sent.
pub(crate) type Parked = Mutex<Vec<Buffer>>;

impl Buffer {
    const NONE: Buffer = Buffer {
        recording: 0,
        thread: ThreadId(0),
        events: Vec::new(),
        values: Vec::new(),
        sites: Vec::new(),
        parked: Weak::new(),
    };

    fn new(recording: u64, thread: ThreadId, parked: &Arc<Parked>) -> Self {
        Buffer {
            recording,
            thread,
            events: Vec::with_capacity(BATCH),
            values: Vec::new(),
            sites: vec![(0, SiteId::UNKNOWN); SITES],
            parked: Arc::downgrade(parked),
        }
    }

    /// The site of the location at that address, if it was used lately.
    #[inline(always)]
    pub fn cached_site(&self, location: usize) -> Option<SiteId> {
        match self.sites.get(Self::site_slot(location)) {
            Some(&(cached, site)) if cached == location => Some(site),
            _ => None,
        }
    }

    pub fn cache_site(&mut self, location: usize, site: SiteId) {
        self.sites[Self::site_slot(location)] = (location, site);
    }

    /// Locations are 24 bytes each and lie side by side.
    #[inline(always)]
    fn site_slot(location: usize) -> usize {
        location / 8 % SITES
    }
}

/// All buffers of a thread.
#[derive(Debug)]
pub(crate) struct Local {
    /// Of the recording that was used last.
    pub current: Buffer,
    others: Vec<Buffer>,
}

thread_local! {
    pub(crate) static LOCAL: RefCell<Local> =
        const { RefCell::new(Local { current: Buffer::NONE, others: Vec::new() }) };
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It is in the buffer.
    Kept,
    /// It is in the buffer, which is now to be sent.
    Full,
    /// It is not in the buffer: the thread has another recording's at hand, or sees the location for the
    /// first time.
    Unprepared,
}

/// Adds an event to the calling thread's buffer: the hot path of a recording.
///
/// `try_with` and not `with`, because only it is inlined: the event is then written once, to its place, and
/// not built elsewhere and copied, which costs more than all the rest.
#[inline(always)]
fn push(recording: u64, op: Op, location: &'static Location<'static>) -> Pushed {
    let kept = LOCAL.try_with(|local| {
        let buffer = &mut local.borrow_mut().current;
        if buffer.recording != recording {
            return Pushed::Unprepared;
        }
        let Some(site) = buffer.cached_site(std::ptr::from_ref(location).addr()) else {
            return Pushed::Unprepared;
        };
        buffer.events.push(Event { op, site, instructions: 0 });
        if buffer.events.len() >= BATCH { Pushed::Full } else { Pushed::Kept }
    });
    kept.unwrap_or(Pushed::Unprepared)
}

/// Adds a load. Like the next two it is not generic, so that it is compiled once, here, where the buffer is a
/// fixed distance from a register.
#[inline(never)]
pub(crate) fn push_load(recording: u64, addr: u64, len: u32, location: &'static Location<'static>) -> Pushed {
    push(recording, Op::Load { addr, len }, location)
}

/// Adds a store.
#[inline(never)]
pub(crate) fn push_store(
    recording: u64,
    addr: u64,
    len: u32,
    location: &'static Location<'static>,
) -> Pushed {
    push(recording, Op::Store { addr, len }, location)
}

/// Adds anything else.
#[inline(never)]
pub(crate) fn push_other(recording: u64, op: Op, location: &'static Location<'static>) -> Pushed {
    push(recording, op, location)
}

impl Local {
    /// Makes the buffer of `recording` the current one, if the thread has one.
    pub fn switch_to(&mut self, recording: u64) -> bool {
        self.others.retain(|buffer| buffer.parked.strong_count() > 0);
        let Some(at) = self.others.iter().position(|buffer| buffer.recording == recording) else {
            return self.current.recording == recording;
        };
        mem::swap(&mut self.current, &mut self.others[at]);
        true
    }

    /// Starts a buffer for `recording` and makes it the current one.
    pub fn join(&mut self, recording: u64, thread: ThreadId, parked: &Arc<Parked>) {
        let before = mem::replace(&mut self.current, Buffer::new(recording, thread, parked));
        self.others.push(before);
    }

    /// Forgets the current buffer.
    pub fn leave(&mut self) {
        self.current = Buffer::NONE;
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.others.push(mem::replace(&mut self.current, Buffer::NONE));
        for buffer in self.others.drain(..) {
            if let Some(parked) = buffer.parked.upgrade()
                && !buffer.events.is_empty()
            {
                parked.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
            }
        }
    }
}
