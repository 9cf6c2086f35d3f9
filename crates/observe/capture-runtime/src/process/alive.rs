//! The children of this process that it forked and has not waited for.

use core::sync::atomic::{AtomicU64, Ordering};

use libc::pid_t;

/// Children that are kept track of at one time.
const CHILDREN: usize = 256;

/// Processes and above them their first thread's number, plus 1; 0: unused.
static ALIVE: [AtomicU64; CHILDREN] = [const { AtomicU64::new(0) }; CHILDREN];

/// Keeps track of a child whose first thread has this number.
pub fn add(pid: pid_t, number: u32) {
    let child = u64::from(number + 1) << 32 | u64::from(pid.cast_unsigned());
    for place in &ALIVE {
        if place.compare_exchange(0, child, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// The number of the first thread of a child that has ended.
pub fn take(pid: pid_t) -> Option<u32> {
    let of_child = |place: &&AtomicU64| place.load(Ordering::Acquire) as u32 == pid.cast_unsigned();
    let child = ALIVE.iter().find(of_child)?.swap(0, Ordering::AcqRel);
    ((child >> 32) as u32).checked_sub(1)
}

/// After a fork, in the child: the parent's children are not its own.
pub fn after_fork() {
    for place in &ALIVE {
        place.store(0, Ordering::Relaxed);
    }
}
