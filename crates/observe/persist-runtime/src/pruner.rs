//! The thread that commits what the program's threads have ended.

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::local::local;
use crate::pool::Open;
use crate::real::real;

/// Between two prunings, where there was something to do. What gathers meanwhile is committed at once.
const PAUSE_NS: i64 = 200_000;
/// And where there was not.
const IDLE_NS: i64 = 2_000_000;

static STOP: AtomicBool = AtomicBool::new(false);
static THREAD: Mutex<Option<libc::pthread_t>> = Mutex::new(None);

extern "C" fn prune(open: *mut c_void) -> *mut c_void {
    // It is not the program's: what it calls ends no region.
    local(|local| local.inside.set(true));
    // SAFETY: leaked by `pool::install`.
    let open = unsafe { &*open.cast_const().cast::<Open>() };
    while !STOP.load(Ordering::Acquire) {
        let pause = if open.pool.prune() { PAUSE_NS } else { IDLE_NS };
        let time = libc::timespec { tv_sec: 0, tv_nsec: pause };
        // SAFETY: a valid time; being woken early does no harm.
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, ptr::null_mut::<libc::timespec>()) };
    }
    ptr::null_mut()
}

/// Starts it, where the design wants it.
pub fn start(open: &'static Open) {
    if !open.pool.design().is_pruned() {
        return;
    }
    STOP.store(false, Ordering::Release);
    let create = real!(
        c"pthread_create",
        fn(
            *mut libc::pthread_t,
            *const libc::pthread_attr_t,
            extern "C" fn(*mut c_void) -> *mut c_void,
            *mut c_void,
        ) -> i32
    );
    let mut thread = 0;
    // SAFETY: zero bytes are a valid set of signals.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: valid sets; a new thread takes the mask on: signals are for the program's threads.
    let result = unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = create(&mut thread, ptr::null(), prune, ptr::from_ref(open).cast_mut().cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        result
    };
    // Without it the program's threads prune as their logs fill.
    if result == 0 {
        *THREAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }
}

/// Stops it.
pub fn stop() {
    STOP.store(true, Ordering::Release);
    if let Some(thread) = THREAD.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let join = real!(c"pthread_join", fn(libc::pthread_t, *mut *mut c_void) -> i32);
        // SAFETY: a thread of ours that nobody else joins.
        unsafe { join(thread, ptr::null_mut()) };
    }
}

/// There is none any more, in a child of `fork`.
pub fn forget() {
    if let Ok(mut thread) = THREAD.try_lock() {
        *thread = None;
    }
}
