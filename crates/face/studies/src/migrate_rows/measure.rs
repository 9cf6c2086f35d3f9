//! The measurements that need no process of another program, once for all rows of a run.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use fam::study::{Pair, Part, Sizes, Writes, pairs, writes};

use crate::{Lab, StudyError};

/// Memory that stands for FAM.
pub(super) const FOLDER: &str = "/dev/shm";
/// Bytes of the largest dump.
const DUMP: u64 = 1 << 30;

/// Rows are judged by several threads: one measures at a time.
pub(super) static QUIET: Mutex<()> = Mutex::new(());

/// Migrations, FAM beside socket.
pub fn migrations(lab: &Lab, part: Part) -> Result<&'static [Pair], StudyError> {
    static FOUND: [OnceLock<Result<Vec<Pair>, String>>; Part::ALL.len()] =
        [const { OnceLock::new() }; Part::ALL.len()];
    let _quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    let found = FOUND[part as usize].get_or_init(|| {
        lab.doing(&format!("{part:?} through FAM and by a socket"));
        pairs(Path::new(FOLDER), Sizes::full(), part).map_err(|error| error.to_string())
    });
    found.as_deref().map_err(|error| StudyError::Migrate(error.clone()))
}

/// Dumps and stores.
pub fn dumps_and_stores(lab: &Lab) -> Result<&'static Writes, StudyError> {
    let _quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    static FOUND: OnceLock<Result<Writes, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        lab.doing("memory into files");
        writes(Path::new(FOLDER), DUMP, 5).map_err(|error| error.to_string())
    });
    found.as_ref().map_err(|error| StudyError::Migrate(error.clone()))
}

/// The geometric mean of a ratio over pairs.
pub fn mean(pairs: &[Pair], ratio: impl Fn(&Pair) -> f64) -> f64 {
    let logarithms: f64 = pairs.iter().map(|pair| ratio(pair).ln()).sum();
    (logarithms / pairs.len().max(1) as f64).exp()
}
