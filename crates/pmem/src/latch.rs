//! A lock that the thread which uses it takes and gives up with plain stores.
//!
//! # What it avoids
//! An atomic read-modify-write waits until all earlier stores of its core are done: behind a fence as long as the fence itself, some hundred
//! nanoseconds on persistent memory. A lock taken by one makes a thread wait in each region for the fence of the last, where it could prepare the
//! next record meanwhile. A lock that lets others sleep needs another one when it is given up. Here neither happens to a thread that has a latch mostly to
//! itself; whoever waits looks again and again, at last with pauses.
//!
//! # How
//! A thread that took the latch many times in a row becomes its **owner**: it says that it is `inside` with a plain store, and looks
//! whether it is still the owner. Another thread takes the latch by swapping `held`; if there is an owner it says that there is none any more, has the
//! kernel make every thread of the process pass a full barrier (membarrier), and waits until the owner is not inside. After the barrier,
//! either the owner's store is seen, or the owner's second look will see that it is none: so the owner needs the barrier between its store and its look only when somebody
//! asks for it. The next thread to become the owner has to take it more times in a row, so that threads which take turns rarely pay for
//! barriers. Where the kernel has none, nobody becomes an owner.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::thread;
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

/// Looks in a row; then looks with the processor lent to others in between; then pauses.
const LOOKS: u32 = 64;
const LOANS: u32 = 32;
/// The longest pause, in microseconds.
const PAUSE_MAX: u64 = 256;

/// How many times in a row a thread takes a latch before it is the owner: about what a barrier costs. Twice as often each time that
/// one was needed, up to a limit.
const ROW_MIN: u32 = 64;
const ROW_MAX: u32 = 1 << 16;

/// No thread.
const NOBODY: u64 = 0;

/// The number of the calling thread, from 1. No two threads of a process have the same one.
#[inline]
pub fn thread_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(NOBODY);
    thread_local! {
        // Without a destructor, so that it is there as long as the thread is.
        static NUMBER: Cell<u64> = const { Cell::new(NOBODY) };
    }
    NUMBER.with(|number| {
        if number.get() == NOBODY {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// Whether the kernel makes barriers for this process.
fn has_barriers() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

/// A full barrier in every thread of the process.
#[cold]
fn barrier_everywhere() {
    let done = membarrier(MembarrierCommand::PrivateExpedited);
    // Registered before any latch had an owner; a process that was forked since may have to do it again.
    let done = done.or_else(|_| {
        membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
        membarrier(MembarrierCommand::PrivateExpedited)
    });
    done.expect("the kernel had barriers for this process before");
}

/// Comes back once `is_done` says so.
#[cold]
fn wait_until(is_done: impl Fn() -> bool) {
    let mut looks = 0;
    let mut pause = 8;
    while !is_done() {
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

/// The lock without what it guards.
pub struct Raw {
    /// Who is not the owner takes the latch by this.
    held: AtomicBool,
    /// Changed by the holder of `held` alone.
    owner: AtomicU64,
    /// The owner has the latch, or looks whether it can.
    inside: AtomicBool,
    /// It is the owner who has the latch, or had it last. From here on: of the latch's holder alone.
    by_owner: AtomicBool,
    /// Who took it by `held` last, how many times in a row, and how many times make an owner.
    last: AtomicU64,
    row: AtomicU32,
    asked: AtomicU32,
}

impl Raw {
    /// Whether the calling thread has the latch as its owner.
    #[inline(always)]
    fn enter(&self, me: u64) -> bool {
        if self.owner.load(Ordering::Relaxed) != me {
            return false;
        }
        self.inside.store(true, Ordering::Relaxed);
        // The processor may still look first, unless `barrier_everywhere` comes in between.
        compiler_fence(Ordering::SeqCst);
        // What was written under the latch is this thread's own: nobody else had it since it became the owner.
        if self.owner.load(Ordering::Relaxed) == me {
            return true;
        }
        self.inside.store(false, Ordering::Release);
        false
    }

    #[inline(never)]
    fn take(&self, me: u64) {
        if self.held.swap(true, Ordering::Acquire) {
            wait_until(|| !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire));
        }
        self.taken(me);
    }

    /// `held` is the calling thread's: so is the latch, once the owner has left.
    #[inline]
    fn taken(&self, me: u64) {
        if self.owner.load(Ordering::Relaxed) != NOBODY {
            self.disown();
        }
        if self.last.load(Ordering::Relaxed) != me {
            self.last.store(me, Ordering::Relaxed);
            self.row.store(0, Ordering::Relaxed);
            return;
        }
        let row = self.row.load(Ordering::Relaxed) + 1;
        self.row.store(row, Ordering::Relaxed);
        if row >= self.asked.load(Ordering::Relaxed) {
            self.own(me);
        }
    }

    #[cold]
    fn disown(&self) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        barrier_everywhere();
        wait_until(|| !self.inside.load(Ordering::Acquire));
        self.by_owner.store(false, Ordering::Relaxed);
        self.last.store(NOBODY, Ordering::Relaxed);
        self.asked.store(ROW_MAX.min(2 * self.asked.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// The holder becomes the owner.
    #[cold]
    fn own(&self, me: u64) {
        self.row.store(0, Ordering::Relaxed);
        if has_barriers() {
            self.by_owner.store(true, Ordering::Relaxed);
            self.inside.store(true, Ordering::Relaxed);
            self.owner.store(me, Ordering::Relaxed);
            self.held.store(false, Ordering::Release);
        }
    }
}

// SAFETY: who is not the owner has the latch from a swap of `held` that only one thread can see succeed, behind which there is no owner and the last
// one is not inside, until `unlock`. The owner has it from `enter` on: whoever swaps `held` meanwhile waits in `disown` for `inside`, which it sees because its barrier came
// after the owner's store; had it come before, the owner would have seen in its second look that it is none. `owner` is only set by a holder that has itself inside, and no thread
// number comes twice. `by_owner` is written by holders alone, so `unlock` gives up what was taken. The pairs of release and acquire on `held` and `inside` make what was written under the latch visible
// to the next holder; an owner follows itself.
unsafe impl lock_api::RawMutex for Raw {
    #[allow(clippy::declare_interior_mutable_const, reason = "how the trait asks for the free lock")]
    const INIT: Raw = Raw {
        held: AtomicBool::new(false),
        owner: AtomicU64::new(NOBODY),
        inside: AtomicBool::new(false),
        by_owner: AtomicBool::new(false),
        last: AtomicU64::new(NOBODY),
        row: AtomicU32::new(0),
        asked: AtomicU32::new(ROW_MIN),
    };

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        let me = thread_number();
        if !self.enter(me) {
            self.take(me);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let me = thread_number();
        if self.enter(me) {
            return true;
        }
        if self.held.swap(true, Ordering::Acquire) {
            return false;
        }
        self.taken(me);
        true
    }

    #[inline]
    unsafe fn unlock(&self) {
        let mark = if self.by_owner.load(Ordering::Relaxed) { &self.inside } else { &self.held };
        mark.store(false, Ordering::Release);
    }
}
