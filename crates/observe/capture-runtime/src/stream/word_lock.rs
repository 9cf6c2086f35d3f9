//! Locks that put stores by atomic operations into one order with their positions.
//!
//! A position is taken, then the operation is done; between the two another thread may do both, and then the
//! positions of two stores to one word do not say which of them the word has. So both are done under a lock,
//! of which the session has some. The program knows nothing of it, and its operations may be done where no
//! lock may be waited for: in signal handlers, beside a thread that was stopped for good. Hence one waits so
//! long and no longer, and then goes on without.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::base::session::{Attached, session};
use crate::base::sys;
use crate::state::local::local;
use abi::word_lock_of;

/// How often one looks before others are let run,
const LOOKS: u32 = 100;
/// and how often these are.
const GIVE_WAYS: u32 = 2_000;
/// The same in a signal handler, which may have interrupted the thread that holds the lock.
const GIVE_WAYS_IN_HANDLER: u32 = 20;
/// Thread numbers that one thread takes.
const ALONE: u32 = 2;

/// Whether the run has had one thread only.
pub fn is_alone(session: &Attached) -> bool {
    session.head().next_thread.load(Ordering::Relaxed) <= ALONE
}

/// A lock, held while this lives; nothing while there is only one thread.
pub struct WordLock(Option<&'static AtomicU32>);

impl WordLock {
    /// The lock for the word at `addr`.
    pub fn take(addr: u64) -> WordLock {
        let Some(session) = session() else { return WordLock(None) };
        if is_alone(session) {
            return WordLock(None);
        }
        let lock = &session.head().word_locks[word_lock_of(addr)];
        let patience = match local().handlers.get() {
            0 => LOOKS + GIVE_WAYS,
            _ => LOOKS + GIVE_WAYS_IN_HANDLER,
        };
        for attempt in 0..patience {
            if lock.swap(1, Ordering::Acquire) == 0 {
                break;
            }
            if attempt < LOOKS {
                spin_loop();
            } else {
                sys::give_way();
            }
        }
        WordLock(Some(lock))
    }

    /// Goes on holding it until it is [released](Self::release).
    pub fn keep(self) -> Option<&'static AtomicU32> {
        let lock = self.0;
        core::mem::forget(self);
        lock
    }

    /// Releases a lock that was kept.
    pub fn release(kept: &'static AtomicU32) {
        drop(WordLock(Some(kept)));
    }
}

impl Drop for WordLock {
    fn drop(&mut self) {
        if let Some(lock) = self.0 {
            lock.store(0, Ordering::Release);
        }
    }
}
