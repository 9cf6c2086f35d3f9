//! The unit of speed: one 8-byte store to a random line of a 64 MiB shared mapping, flushed and fenced.

use std::path::{Path, PathBuf};

use pmem::Mapped;
use space::{LINE, Space};

use crate::clock::thread_cpu_ns;
use crate::error::Error;

const BYTES: u64 = 64 << 20;
/// Stores of one measurement: about a millisecond.
const STORES: u64 = 4000;

/// Measures the unit.
pub struct Unit {
    memory: Mapped,
    file: Option<PathBuf>,
    random: u64,
}

impl Unit {
    /// In a file of its own in `/dev/shm`, or in memory of the process where there is none.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new() -> Result<Unit, Error> {
        let folder = Path::new("/dev/shm");
        let file = folder.is_dir().then(|| folder.join(format!("strandline-unit-{}", std::process::id())));
        let memory = match &file {
            Some(file) => Mapped::create(file, BYTES)?,
            None => Mapped::anonymous(BYTES)?,
        };
        let unit = Unit { memory, file, random: 88_172_645_463_325_252 };
        unit.memory.prefault(0, BYTES)?;
        Ok(unit)
    }

    /// CPU time of one store, nanoseconds, as it is now.
    pub fn measure(&mut self) -> f64 {
        let (memory, mut random) = (&self.memory, self.random);
        let spent = thread_cpu_ns(|| {
            for number in 0..STORES {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = random % (BYTES / LINE) * LINE;
                memory.store_u64(at, number);
                memory.persist(at, 8);
            }
        });
        self.random = random;
        spent as f64 / STORES as f64
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            _ = std::fs::remove_file(file);
        }
    }
}
