//! What each thread keeps of the recordings that it takes part in.
//!
//! An event costs its thread a few instructions and no shared cache line: it goes into a buffer that only this thread
//! touches. The buffer of the recording that was used last lies in `current`; a thread that alternates between recordings
//! swaps. When the thread ends, what is left goes to the recording's lost-and-found ([`Parked`]).

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use event::{Event, SiteId, ThreadId};

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
