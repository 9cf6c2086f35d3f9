//! One checkpoint after the other of a tree that goes on.

use std::path::Path;
use std::time::{Duration, Instant};

use super::checkpoint::{Checkpoint, Times, checkpoint};
use crate::error::{Error, Result};

/// Takes a checkpoint of the tree of `root` every `period`, in one folder, until the tree ends or there have been `most`.
/// After the first one only what has changed is written. `report` hears of each, and of those that were not taken (a
/// connection was open, say); the last whole one stays then.
///
/// # Errors
/// If the first one cannot be taken.
pub fn checkpoint_every(
    root: i32,
    folder: &Path,
    how: &Checkpoint,
    period: Duration,
    most: Option<u64>,
    report: &mut dyn FnMut(Result<Times>),
) -> Result<()> {
    let mut count = 0;
    let how = Checkpoint { leave_running: true, incremental: true, ..*how };
    while most.is_none_or(|most| count < most) {
        let begin = Instant::now();
        match checkpoint(root, folder, &how) {
            Err(Error::NoProcess(_) | Error::Zombie(_)) if count > 0 => break,
            Err(error) if count == 0 => return Err(error),
            other => report(other),
        }
        count += 1;
        if most != Some(count) {
            std::thread::sleep(period.saturating_sub(begin.elapsed()));
        }
    }
    Ok(())
}
