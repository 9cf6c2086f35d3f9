//! One lock around a call and its record.
//!
//! A thread that waits for it parks its chunk, as for a lock of the program's. A signal handler may write to
//! a file while its thread is within: then the lock is the thread's already.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::base::sys;
use crate::state::local::local;

/// The kernel's number of the thread that holds the lock; 0: nobody.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Threads that wait for it.
static WAITING: AtomicU32 = AtomicU32::new(0);
/// Longest sleep between two attempts.
const NAP_NS: i64 = 1_000_000;

/// What is done first by whoever obtains the lock, a `fn()`; null: nothing.
static FIRST: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// From now on whoever obtains the lock calls this first.
pub fn call_first(call: fn()) {
    FIRST.store(call as *mut (), Ordering::Release);
}

fn first() {
    let call = FIRST.load(Ordering::Acquire);
    if !call.is_null() {
        // SAFETY: a function of this type, of `call_first`.
        unsafe { core::mem::transmute::<*mut (), fn()>(call)() };
    }
}

/// The lock, held.
pub struct Held {
    /// Whether it was the thread's already.
    nested: bool,
}

/// Obtains the lock.
pub fn hold() -> Held {
    // SAFETY: takes nothing, touches nothing.
    let own = (unsafe { sys::call(libc::SYS_gettid, [0; 6]) }) as u32;
    if OWNER.load(Ordering::Relaxed) == own {
        return Held { nested: true };
    }
    let attempt = || OWNER.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
    if attempt().is_err() {
        local().stream.parked(|| {
            while let Err(owner) = attempt() {
                WAITING.fetch_add(1, Ordering::SeqCst);
                sys::futex_wait(&OWNER, owner, NAP_NS);
                WAITING.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
    let held = Held { nested: false };
    first();
    held
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.nested {
            OWNER.store(0, Ordering::SeqCst);
            if WAITING.load(Ordering::SeqCst) != 0 {
                sys::futex_wake(&OWNER, 1);
            }
        }
    }
}

/// After a fork: the other threads are gone.
pub fn after_fork() {
    OWNER.store(0, Ordering::Relaxed);
    WAITING.store(0, Ordering::Relaxed);
}
