//! What an observer of a run hears besides memory accesses.

use event::ThreadId;

/// Hears of locks, threads, the clock, phases, regions and allocations. An [`crate::Env`] reports to it;
/// every method does nothing unless the observer wants to know, and `()` never does.
pub trait Observer: Sync {
    /// A number for a new lock, to be used as its address.
    fn new_lock(&self) -> u64 {
        0
    }

    /// The calling thread obtained `lock`, together with others if `shared`.
    #[track_caller]
    fn locked(&self, lock: u64, shared: bool) {
        let _ = (lock, shared);
    }

    /// The calling thread is about to give up `lock`.
    #[track_caller]
    fn unlocking(&self, lock: u64) {
        let _ = lock;
    }

    /// The calling thread is about to start another one, which will call [`Observer::thread_started`] with
    /// the result.
    #[track_caller]
    fn spawning(&self) -> ThreadId {
        ThreadId(0)
    }

    /// The calling thread is `thread` and starts.
    #[track_caller]
    fn thread_started(&self, thread: ThreadId) {
        let _ = thread;
    }

    /// The calling thread ends: it will not touch the space again.
    #[track_caller]
    fn thread_ending(&self) {}

    /// The calling thread saw the end of `thread`.
    #[track_caller]
    fn joined(&self, thread: ThreadId) {
        let _ = thread;
    }

    /// The calling thread is about to read the clock.
    fn clock_read(&self) {}

    /// Another thread goes on in the place of the calling one: what it does comes after all that the caller
    /// did. Reported by environments in which one thread runs at a time.
    fn pausing(&self) {}

    /// A phase of the run starts.
    #[track_caller]
    fn phase(&self, name: &str) {
        let _ = name;
    }

    /// A number for a new failure-atomic region.
    fn new_region(&self) -> u64 {
        0
    }

    /// A failure-atomic region of that number begins.
    #[track_caller]
    fn region_begin(&self, region: u64) {
        let _ = region;
    }

    /// It ends.
    #[track_caller]
    fn region_end(&self, region: u64) {
        let _ = region;
    }

    /// `len` bytes at `offset` of the space were given to somebody.
    #[track_caller]
    fn allocated(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// What was given out at `offset` came back.
    #[track_caller]
    fn freed(&self, offset: u64) {
        let _ = offset;
    }
}

impl Observer for () {}
