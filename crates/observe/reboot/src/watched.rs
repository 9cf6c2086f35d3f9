//! One recovery whose reads are known.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use tracer::Reads;

use crate::process::{self, Attempt, LOOK, Recipe};

/// How a recovery ended, if it was not killed after its time, and what it read, if that is known.
pub type Ended = (Option<ExitStatus>, Option<Reads>);

/// As a recovery that is not watched; says, too, what the recovery read below `folder`, if the attempt wants that. Where
/// `ptrace` is not allowed, it runs without.
pub fn run(
    recipe: &Recipe,
    attempt: &Attempt,
    folder: &Path,
    printed: impl Fn() -> io::Result<[Stdio; 2]>,
    given_up: &(dyn Fn() -> bool + Sync),
) -> io::Result<Ended> {
    if attempt.watched {
        let mut command = process::prepared(recipe, attempt, printed()?);
        let (pid, over) = (AtomicI32::new(0), AtomicBool::new(false));
        let (started, late) = (Instant::now(), AtomicBool::new(false));
        let watched = std::thread::scope(|scope| {
            // It ends the recovery after its time; else it is woken.
            let guard = scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    let left = attempt.limit.saturating_sub(started.elapsed());
                    if left.is_zero() || given_up() {
                        late.store(true, Ordering::Release);
                        if let Some(pid) = Pid::from_raw(pid.load(Ordering::Acquire)) {
                            kill_process_group(pid, Signal::KILL).ok();
                        }
                        std::thread::park_timeout(LOOK);
                    } else {
                        std::thread::park_timeout(left.min(LOOK));
                    }
                }
            });
            let watched = tracer::watch(&mut command, folder, &pid);
            over.store(true, Ordering::Release);
            guard.thread().unpark();
            watched
        });
        if let Ok((status, reads)) = watched {
            return Ok(match late.load(Ordering::Acquire) {
                true => (None, None),
                false => (Some(status), Some(reads)),
            });
        }
    }
    process::run(recipe, attempt, printed()?, &mut || given_up()).map(|status| (status, None))
}
