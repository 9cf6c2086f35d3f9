//! What the protocol needs beside the NVM: the seam between it and the world.
//!
//! The real host ([`crate::Real`]) has processes, files and mappings. A simulated one, in tests, has threads
//! for processes and ranges of
//! the recorded memory for files, so that the crash checker sees a file write that was not synced as what it
//! is: a store that may be lost.

use std::io;
use std::ops::Range;
use std::path::Path;

use space::{Env, Space};

/// How a region's memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One process has the file; its memory is a private mapping, and writes go through the NVM cache.
    Private,
    /// Several processes see the same data; `msync` brings them to the file.
    Shared,
    /// As private, but the program stores to the mapping itself, and [`crate::Process::sync`] commits
    /// whatever changed in one step.
    Atomic,
}

impl Mode {
    /// One word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Private => "private",
            Mode::Shared => "shared",
            Mode::Atomic => "atomic",
        }
    }
}

/// The world of one process.
pub trait Host: Sync {
    /// NVM, with the locks and threads of this process.
    type Env: Env;
    /// Ordinary memory that all processes see; at least [`crate::SHARED_BYTES`] of it, zero at first.
    type Shared: Space;
    /// A held lock.
    type Guard<'a>
    where
        Self: 'a;
    /// A backing file.
    type File: Backing;
    /// A region's memory.
    type View: View;

    /// The NVM.
    fn env(&self) -> &Self::Env;
    /// What all processes see and a crash may lose.
    fn shared(&self) -> &Self::Shared;
    /// Which slot this process has, below [`crate::layout::SLOTS`]. No other process that lives has it.
    fn slot(&self) -> u32;
    /// The process's number, for messages.
    fn pid(&self) -> u64;
    /// Takes the lock of that number, below [`crate::LOCKS`], that all processes share; and whether the one
    /// who held it died with it.
    fn lock(&self, number: u32) -> (Self::Guard<'_>, bool);
    /// Slots whose processes have ended without leaving.
    fn dead(&self) -> Vec<u32>;
    /// A slot is empty: a new process may have it.
    fn retire(&self, slot: u32);
    /// Opens a backing file; with a length, makes it if it is missing, and reserves so many bytes.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path, make: Option<u64>) -> io::Result<Self::File>;
    /// Maps the first `len` bytes of a file.
    ///
    /// # Errors
    /// The system's.
    fn view(&self, file: &Self::File, len: u64, mode: Mode) -> io::Result<Self::View>;
    /// While the value lives, this thread may store to NVM that is protected against stray stores.
    fn permit(&self) -> Permit {
        Permit::default()
    }
}

/// See [`Host::permit`].
pub type Permit = pmem::protect::Permit;

/// A file behind the NVM. What was written is durable after [`Backing::sync`], and may be earlier.
pub trait Backing: Send + Sync {
    /// Reads all of `bytes` at `offset`; behind the file's end there are zeros.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Waits until all that was written is durable.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;
    /// Which file it is, under whatever name.
    fn identity(&self) -> [u64; 2];
}

/// A region's memory, which the program reads through a pointer.
pub trait View: Send + Sync {
    /// Stores what was committed.
    fn apply(&self, offset: u64, bytes: &[u8]);
    /// Reads.
    fn read(&self, offset: u64, bytes: &mut [u8]);
    /// Of a shared mapping: waits until the range, of whole pages, is in the file.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self, range: Range<u64>) -> io::Result<()>;
    /// Of a private mapping: the pages that differ, or may differ, from the file; `None` if the system can't
    /// say.
    fn changed(&self) -> Option<Vec<u64>> {
        None
    }
    /// Address of the first byte, 0 if there is none.
    fn address(&self) -> usize;
}
