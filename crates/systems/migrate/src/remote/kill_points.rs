//! For tests: this process ends by SIGKILL after so many changes of other processes, words to the other side
//! of a migration, and decisions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static LEFT: AtomicU64 = AtomicU64::new(0);
static UNHELD: AtomicBool = AtomicBool::new(false);

/// Makes this process a broken source, which does not keep its tree stopped once it is the target's.
pub fn without_hold(broken: bool) {
    UNHELD.store(broken, Ordering::Relaxed);
}

/// Whether a source keeps its tree stopped.
pub fn holds() -> bool {
    !UNHELD.load(Ordering::Relaxed)
}

/// Ends this process by SIGKILL right after its next `changes` changes of other processes (0: never).
pub fn end_after(changes: u64) {
    LEFT.store(changes, Ordering::Relaxed);
}

/// One change has been made.
pub fn changed() {
    if LEFT.load(Ordering::Relaxed) != 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // SAFETY: no memory is involved.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
            // The first process of a namespace cannot kill itself.
            libc::_exit(128 + libc::SIGKILL);
        }
    }
}
