//! What threads and processes exchange by signals: whoever gets one goes on behind all who have sent one to
//! its process. Who sends one to itself goes on behind its handler.

use core::ffi::c_int;

use libc::{c_uint, clockid_t, pid_t, pthread_t, siginfo_t, sigset_t, sigval, timespec, useconds_t};

use crate::base::session::session;
use crate::base::sys;
use crate::real::calls::real_call;
use crate::real::next::real;
use crate::state::local::{caller, hooks, local};
use crate::stream::meeting::{acquired, released};
use crate::stream::word_lock::is_alone;

/// What stands for a process as signals reach it, where a synchronisation has an address.
const SIGNALS: u64 = 1 << 63 | 1 << 59;

/// What stands for it as its handlers have done their work.
const HANDLED: u64 = SIGNALS | 1 << 58;

/// Whether somebody wants to know: a check of the order of stores takes a handler for a thread.
fn is_followed() -> bool {
    session().is_some_and(|session| session.values() || !is_alone(session))
}

/// Sends a signal to a process by `send`; to several, if the number is not positive, which is not followed.
fn sending(pc: u64, process: pid_t, send: impl FnOnce() -> c_int) -> c_int {
    let followed = process > 0 && is_followed();
    if followed {
        released(pc, SIGNALS | u64::from(process.cast_unsigned()));
    }
    local().stream.finish();
    let result = send();
    if followed && process == own() {
        acquired(pc, HANDLED | u64::from(process.cast_unsigned()));
    }
    result
}

/// A signal has come.
pub fn got(pc: u64) {
    if is_followed() {
        acquired(pc, SIGNALS | u64::from(sys::pid()));
    }
}

/// Its handler is done.
pub fn handled() {
    if is_followed() {
        released(0, HANDLED | u64::from(sys::pid()));
    }
}

/// Waits for a signal by `wait`, which gives less than 0 if none came.
fn awaiting(pc: u64, wait: impl FnOnce() -> c_int) -> c_int {
    if session().is_none() {
        return wait();
    }
    let result = local().stream.parked(wait);
    if result >= 0 {
        got(pc);
    }
    result
}

/// Sleeps by `wait`, perhaps until a signal comes.
fn sleeping<T>(wait: impl FnOnce() -> T) -> T {
    if session().is_none() {
        return wait();
    }
    local().stream.parked(wait)
}

fn own() -> pid_t {
    sys::pid().cast_signed()
}

hooks! {
    fn raise(signal: c_int) -> c_int {
        sending(caller(), own(), || real_call!(raise(signal)))
    }
    fn kill(process: pid_t, signal: c_int) -> c_int {
        sending(caller(), process, || real_call!(kill(process, signal)))
    }
    fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
        sending(caller(), own(), || real_call!(pthread_kill(thread, signal)))
    }
    fn pthread_sigqueue(thread: pthread_t, signal: c_int, value: sigval) -> c_int {
        sending(caller(), own(), || real_call!(pthread_sigqueue(thread, signal, value)))
    }
    fn sigqueue(process: pid_t, signal: c_int, value: sigval) -> c_int {
        sending(caller(), process, || real_call!(sigqueue(process, signal, value)))
    }
    fn pause() -> c_int {
        sleeping(|| real_call!(pause()))
    }
    fn sigsuspend(set: *const sigset_t) -> c_int {
        sleeping(|| real_call!(sigsuspend(set)))
    }
    fn sleep(seconds: c_uint) -> c_uint {
        sleeping(|| real_call!(sleep(seconds)))
    }
    fn usleep(microseconds: useconds_t) -> c_int {
        sleeping(|| real_call!(usleep(microseconds)))
    }
    fn nanosleep(span: *const timespec, left: *mut timespec) -> c_int {
        sleeping(|| real_call!(nanosleep(span, left)))
    }
    fn clock_nanosleep(clock: clockid_t, flags: c_int, span: *const timespec, left: *mut timespec) -> c_int {
        sleeping(|| real_call!(clock_nanosleep(clock, flags, span, left)))
    }
    fn thrd_sleep(span: *const timespec, left: *mut timespec) -> c_int {
        sleeping(|| real_call!(thrd_sleep(span, left)))
    }
    fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
        let real = real!(c"sigwait" as fn(*const sigset_t, *mut c_int) -> c_int);
        // SAFETY: the caller's arguments. It gives 0 or an error's number.
        -awaiting(caller(), || unsafe { -real(set, signal) })
    }
    fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
        let real = real!(c"sigwaitinfo" as fn(*const sigset_t, *mut siginfo_t) -> c_int);
        // SAFETY: as above.
        awaiting(caller(), || unsafe { real(set, info) })
    }
    fn sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, span: *const timespec) -> c_int {
        let real = real!(c"sigtimedwait" as fn(*const sigset_t, *mut siginfo_t, *const timespec) -> c_int);
        // SAFETY: as above.
        awaiting(caller(), || unsafe { real(set, info, span) })
    }
}
