//! For tests: this process ends by SIGKILL after so many changes of other processes.

use std::sync::atomic::{AtomicU64, Ordering};

static LEFT: AtomicU64 = AtomicU64::new(0);

/// Ends this process by SIGKILL right after its next `changes` changes of other processes (0: never).
pub fn end_after(changes: u64) {
    LEFT.store(changes, Ordering::Relaxed);
}

/// One change has been made.
pub fn changed() {
    if LEFT.load(Ordering::Relaxed) != 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // SAFETY: no memory is involved.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
