//! Programs that run other programs: a process goes on behind what those that started it had done before, and
//! who waits for one goes on behind what it did.
//!
//! Between the two there may be a shell that records nothing, or a child that borrows its parent's memory. So
//! nobody is handed a number, as a fork's child is; instead each process has two places where others meet it.
//! Its descendants come by the one as they begin, because it was there before it started any ([`starting`]).
//! They, and it, leave word at the other when they end, where whoever waited for it, or for a command of its
//! own, comes by.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use libc::{FILE, pid_t};

use crate::base::session::session;
use crate::base::sys;
use crate::real::next::real;
use crate::state::local::{caller, hooks, local};
use crate::stream::meeting::{acquired, released};
use crate::stream::word_lock::is_alone;
use abi::MODULES;

/// What stands for a process that starts others, where a synchronisation has an address.
const STARTS: u64 = 1 << 63 | 1 << 62;
/// And for a process as others wait for its end.
const ENDS: u64 = STARTS | 1 << 61;
/// Processes between a program and the one that was started first, at most.
const GENERATIONS: usize = 16;

/// Those that led to the program of this process, the nearest first; 0: no more. Empty in a fork's child,
/// which its parent knows.
static ANCESTORS: [AtomicU32; GENERATIONS] = [const { AtomicU32::new(0) }; GENERATIONS];

fn ancestors() -> impl Iterator<Item = u32> {
    ANCESTORS.iter().map(|ancestor| ancestor.load(Ordering::Relaxed)).take_while(|pid| *pid != 0)
}

/// The process whose memory this is.
fn own() -> Option<u32> {
    session().map(|session| session.pid.load(Ordering::Relaxed))
}

/// A program begins: behind the one that was here before it, and behind all that led to it.
pub fn arrive() {
    let (Some(session), Some(own)) = (session(), own()) else { return };
    let mut pid = own;
    for place in &ANCESTORS {
        match sys::parent_of(pid) {
            // Whoever started the recording took no part in it.
            Some(parent) if parent > 1 && parent != session.head().collector_pid => {
                place.store(parent, Ordering::Relaxed);
                pid = parent;
            }
            _ => break,
        }
    }
    if is_alone(session) {
        return;
    }
    // A program, or a shell that has become this one.
    acquired(0, STARTS | u64::from(own));
    acquired(0, ENDS | u64::from(own));
    // What a shell or a script has started, it has waited for, for all that we know; from one of ours we hear
    // of it.
    let mut unrecorded = true;
    for ancestor in ancestors() {
        unrecorded &= !is_ours(ancestor);
        if unrecorded {
            acquired(0, ENDS | u64::from(ancestor));
        }
        acquired(0, STARTS | u64::from(ancestor));
    }
}

/// Whether the process records what it does.
fn is_ours(pid: u32) -> bool {
    let Some(session) = session() else { return false };
    let used = session.head().next_module.load(Ordering::Acquire) as usize;
    (0..used.min(MODULES)).filter_map(|at| session.module(at)).any(|module| {
        // SAFETY: in the table; `ready` orders the other fields, which do not change after.
        let module = unsafe { &*module };
        module.ready.load(Ordering::Acquire) == 1 && module.pid == pid
    })
}

/// A program ends.
pub fn leave() {
    let Some(own) = own().filter(|_| ancestors().next().is_some()) else { return };
    released(0, ENDS | u64::from(own));
    ancestors().for_each(|ancestor| released(0, ENDS | u64::from(ancestor)));
}

/// The process is about to have a child, of which the collector knows nothing before it attaches.
pub extern "C" fn expecting() {
    if let Some(session) = session() {
        session.head().starts_others.store(1, Ordering::SeqCst);
    }
}

/// The process is about to start a program.
pub fn starting(pc: u64) {
    expecting();
    if let Some(own) = own() {
        released(pc, STARTS | u64::from(own));
    }
}

/// The process is about to become another program, which may not tell us its end.
pub fn becoming() {
    starting(0);
    if let Some(own) = own() {
        released(0, ENDS | u64::from(own));
        ancestors().for_each(|ancestor| released(0, ENDS | u64::from(ancestor)));
    }
}

/// The process has been waited for.
pub fn waited(pc: u64, pid: pid_t) {
    acquired(pc, ENDS | u64::from(pid.cast_unsigned()));
}

/// After a fork, in the child.
pub fn after_fork() {
    ANCESTORS.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}

/// Waits for a command of the process's own by `wait`.
fn commanded<T>(pc: u64, wait: impl FnOnce() -> T) -> T {
    let Some(own) = own() else { return wait() };
    let result = local().stream.parked(wait);
    acquired(pc, ENDS | u64::from(own));
    result
}

hooks! {
    fn posix_spawn(
        pid: *mut pid_t,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        words: *const c_void,
        environment: *const c_void,
    ) -> c_int {
        starting(caller());
        let real = real!(c"posix_spawn" as fn(*mut pid_t, *const c_char, *const c_void, *const c_void, *const c_void, *const c_void) -> c_int);
        // SAFETY: the caller's arguments.
        unsafe { real(pid, path, actions, attributes, words, environment) }
    }
    fn posix_spawnp(
        pid: *mut pid_t,
        file: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        words: *const c_void,
        environment: *const c_void,
    ) -> c_int {
        starting(caller());
        let real = real!(c"posix_spawnp" as fn(*mut pid_t, *const c_char, *const c_void, *const c_void, *const c_void, *const c_void) -> c_int);
        // SAFETY: as above.
        unsafe { real(pid, file, actions, attributes, words, environment) }
    }
    fn system(command: *const c_char) -> c_int {
        let pc = caller();
        starting(pc);
        let real = real!(c"system" as fn(*const c_char) -> c_int);
        // SAFETY: as above.
        commanded(pc, || unsafe { real(command) })
    }
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        starting(caller());
        let real = real!(c"popen" as fn(*const c_char, *const c_char) -> *mut FILE);
        // SAFETY: as above.
        unsafe { real(command, mode) }
    }
    fn pclose(stream: *mut FILE) -> c_int {
        let real = real!(c"pclose" as fn(*mut FILE) -> c_int);
        // SAFETY: as above.
        commanded(caller(), || unsafe { real(stream) })
    }
}
