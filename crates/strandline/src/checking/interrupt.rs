//! An end to a search before its time: the user has had enough.
//!
//! Recoveries that are under way are killed, and what was found so far is told; nothing stays in memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use capture::Interrupts;

/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(50);

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether SIGINT, SIGTERM or SIGHUP has come while somebody watched.
pub fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// While this lives, these signals end a search and not the process.
pub struct Watch {
    watcher: Option<JoinHandle<()>>,
    over: std::sync::Arc<AtomicBool>,
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    /// The system's.
    pub fn begin() -> io::Result<Watch> {
        let mut interrupts = Interrupts::note()?;
        let over = std::sync::Arc::new(AtomicBool::new(false));
        let seen = std::sync::Arc::clone(&over);
        let watcher = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                if interrupts.take().is_some() {
                    STOPPED.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(LOOK);
            }
        });
        Ok(Watch { watcher: Some(watcher), over })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            // It has nothing to tell.
            let _ = watcher.join();
        }
    }
}
