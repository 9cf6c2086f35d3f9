//! A lock that is given up with one plain store.
//!
//! A lock that lets others sleep must look, when it is given up, whether somebody does, and that takes an instruction which waits until all earlier
//! stores have left the core: behind a fence, as long as the fence itself. Whoever waits here looks again and again instead, at last with pauses.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Looks in a row; then looks with the processor lent to others in between; then pauses.
const LOOKS: u32 = 64;
const LOANS: u32 = 32;
/// The longest pause, in microseconds.
const PAUSE_MAX: u64 = 256;

/// The lock without what it guards.
pub struct Raw {
    held: AtomicBool,
}

impl Raw {
    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        let mut pause = 8;
        loop {
            if !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire) {
                return;
            }
            looks += 1;
            if looks < LOOKS {
                spin_loop();
            } else if looks < LOOKS + LOANS {
                thread::yield_now();
            } else {
                thread::sleep(Duration::from_micros(pause));
                pause = PAUSE_MAX.min(2 * pause);
            }
        }
    }
}

// SAFETY: `held` goes from false to true by a swap that only one thread can see succeed, and back only by `unlock`, whose caller holds the
// lock; the pair of acquire and release makes what was written under it visible to the next holder.
unsafe impl lock_api::RawMutex for Raw {
    #[allow(clippy::declare_interior_mutable_const, reason = "how the trait asks for the free lock")]
    const INIT: Raw = Raw { held: AtomicBool::new(false) };

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        !self.held.swap(true, Ordering::Acquire)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.held.store(false, Ordering::Release);
    }
}
