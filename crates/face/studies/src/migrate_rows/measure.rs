//! The measurements that need no process of another program, once for all rows of a run.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use fam::batch::{Calls, Dumps, Stores};
use fam::study::{self, Pair, Part, Sizes, pairs};

use crate::{Lab, StudyError};

/// Memory that stands for FAM.
pub(super) const FOLDER: &str = "/dev/shm";
/// Bytes of the largest dump.
const DUMP: u64 = 512 << 20;
/// Bytes of a file that is written by calls of one size, or by stores: more than caches hold.
const FILE: u64 = 256 << 20;

/// Rows are judged by several threads: one measures at a time.
pub(super) static QUIET: Mutex<()> = Mutex::new(());

/// Migrations, FAM beside socket.
pub fn migrations(lab: &Lab, part: Part) -> Result<&'static [Pair], StudyError> {
    static FOUND: [OnceLock<Result<Vec<Pair>, String>>; Part::ALL.len()] =
        [const { OnceLock::new() }; Part::ALL.len()];
    let _quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    let found = FOUND[part as usize].get_or_init(|| {
        lab.doing(&format!("{part:?} through FAM and by a socket"));
        pairs(Path::new(FOLDER), Sizes::row(), part).map_err(|error| error.to_string())
    });
    found.as_deref().map_err(|error| StudyError::Migrate(error.clone()))
}

/// What one of the ways of writing memory out took, measured once.
fn once<T>(
    lab: &Lab,
    what: &str,
    found: &'static OnceLock<Result<Vec<T>, String>>,
    measure: impl FnOnce() -> Result<Vec<T>, fam::Error>,
) -> Result<&'static [T], StudyError> {
    let _quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    let found = found.get_or_init(|| {
        lab.doing(what);
        measure().map_err(|error| error.to_string())
    });
    found.as_deref().map_err(|error| StudyError::Migrate(error.clone()))
}

/// Dumps of this process's memory.
pub fn dumps(lab: &Lab) -> Result<&'static [Dumps], StudyError> {
    static FOUND: OnceLock<Result<Vec<Dumps>, String>> = OnceLock::new();
    once(lab, "memory into files", &FOUND, || study::dumps(Path::new(FOLDER), DUMP, 3))
}

/// Stores into a mapped file.
pub fn stores(lab: &Lab) -> Result<&'static [Stores], StudyError> {
    static FOUND: OnceLock<Result<Vec<Stores>, String>> = OnceLock::new();
    once(lab, "stores and flushes", &FOUND, || study::stores(Path::new(FOLDER), FILE, 15))
}

/// Files written by calls of several sizes.
pub fn calls(lab: &Lab) -> Result<&'static [Calls], StudyError> {
    static FOUND: OnceLock<Result<Vec<Calls>, String>> = OnceLock::new();
    once(lab, "files by write and by mapping them", &FOUND, || study::calls(Path::new(FOLDER), FILE, 3))
}

/// The geometric mean of a ratio over pairs.
pub fn mean(pairs: &[Pair], ratio: impl Fn(&Pair) -> f64) -> f64 {
    let logarithms: f64 = pairs.iter().map(|pair| ratio(pair).ln()).sum();
    (logarithms / pairs.len().max(1) as f64).exp()
}
