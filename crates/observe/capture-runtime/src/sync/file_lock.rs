//! Locks on files, which processes have by `flock`, `fcntl` and `lockf`.
//!
//! Who gets one goes on behind all who gave one up on the same file, whatever part of it they had. A process
//! gives its locks up, too, when it closes the file or ends.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use libc::off_t;

use crate::base::session::session;
use crate::base::sys::status;
use crate::real::calls::real_call;
use crate::state::local::{caller, hooks, local};
use crate::stream::meeting::{acquired, released};
use crate::stream::word_lock::is_alone;

/// What stands for a file's locks where a synchronisation has an address.
const LOCKS: u64 = 1 << 63 | 1 << 60;
/// The bits below.
const NUMBERS: u64 = (1 << 60) - 1;
/// Files that are kept in mind at one time.
const FILES: usize = 64;

/// What stands for the files that this process has locked, and not given up by a call; 0: a free place.
static LOCKED: [AtomicU64; FILES] = [const { AtomicU64::new(0) }; FILES];

/// What stands for the locks of the file behind a descriptor.
fn locks(fd: c_int) -> Option<u64> {
    // Orders matter for checks, and while there is one thread not even for them; but a program may begin only
    // later that was not started by this one.
    session().filter(|session| session.values() || !is_alone(session))?;
    let status = status(fd)?;
    Some(LOCKS | (status.st_ino ^ status.st_dev.rotate_left(32)) & NUMBERS)
}

fn obtained(pc: u64, fd: c_int) {
    let Some(locks) = locks(fd) else { return };
    acquired(pc, locks);
    if LOCKED.iter().any(|place| place.load(Ordering::Relaxed) == locks) {
        return;
    }
    let enter =
        |place: &AtomicU64| place.compare_exchange(0, locks, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    // Without a place, an end without an unlocking is not recorded.
    let _ = LOCKED.iter().any(enter);
}

/// To be called before a lock is given up.
fn giving_up(pc: u64, fd: c_int) {
    if let Some(locks) = locks(fd) {
        released(pc, locks);
    }
}

/// To be called before a descriptor is closed.
pub fn closing(pc: u64, fd: c_int) {
    if LOCKED.iter().any(|place| place.load(Ordering::Relaxed) != 0)
        && let Some(locks) = locks(fd)
        && LOCKED.iter().any(|place| place.load(Ordering::Relaxed) == locks)
    {
        released(pc, locks);
    }
}

/// The process ends.
pub fn end() {
    for place in &LOCKED {
        let locks = place.swap(0, Ordering::Relaxed);
        if locks != 0 {
            released(0, locks);
        }
    }
}

/// Carries out what may wait for a lock.
fn locking(pc: u64, fd: c_int, lock: impl FnOnce() -> c_int) -> c_int {
    if session().is_none() {
        return lock();
    }
    let result = local().stream.parked(lock);
    if result >= 0 {
        obtained(pc, fd);
    }
    result
}

/// `fcntl` with any of its arguments.
fn controlling(pc: u64, fd: c_int, command: c_int, argument: usize) -> c_int {
    let control = || real_call!(fcntl(fd, command, argument));
    if !matches!(command, libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW)
        || argument == 0
    {
        return control();
    }
    // SAFETY: what these commands get.
    let kind = unsafe { (*(argument as *const libc::flock)).l_type };
    if c_int::from(kind) != libc::F_UNLCK {
        return locking(pc, fd, control);
    }
    giving_up(pc, fd);
    control()
}

fn locking_from_here(pc: u64, fd: c_int, command: c_int, len: off_t) -> c_int {
    let lock = || real_call!(lockf(fd, command, len));
    match command {
        libc::F_LOCK | libc::F_TLOCK => locking(pc, fd, lock),
        libc::F_ULOCK => {
            giving_up(pc, fd);
            lock()
        }
        _ => lock(),
    }
}

hooks! {
    fn flock(fd: c_int, operation: c_int) -> c_int {
        let (pc, lock) = (caller(), || real_call!(flock(fd, operation)));
        if operation & libc::LOCK_UN == 0 {
            // A lock of another kind gives up the one before.
            closing(pc, fd);
            return locking(pc, fd, lock);
        }
        giving_up(pc, fd);
        lock()
    }
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        controlling(caller(), fd, command, argument)
    }
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        controlling(caller(), fd, command, argument)
    }
    fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
        locking_from_here(caller(), fd, command, len)
    }
    fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int {
        locking_from_here(caller(), fd, command, len)
    }
}
