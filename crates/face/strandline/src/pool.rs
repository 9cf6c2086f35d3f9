//! Pools in files.
//!
//! ```no_run
//! use strandline::pool;
//! use strandline::region::{Layout, Ptr};
//!
//! struct Books;
//! region::persistent! { Books:
//!     struct Book { year: u64, next: Ptr<Book, Books> }
//! }
//! impl Layout for Books {
//!     const NAME: &'static str = "books, 1";
//!     type Root = Ptr<Book, Books>;
//! }
//!
//! let path = std::path::Path::new("/mnt/pmem/books");
//! let pool: pool::Pool<Books> = if path.exists() { pool::open(path)?.0 } else { pool::create(path, 64 << 20)? };
//! pool.region(|tx| {
//!     let book = tx.alloc(Book { year: 1969, next: tx.get(tx.root()) })?;
//!     tx.set(tx.root(), book)
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On a DAX file system a region ends when its flushes have reached the device; on any other file it waits as
//! a rule for one sync of its log, shared with whoever waits at the same time. A file in `/dev/shm` survives
//! the process, and no more.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use persistency::Domain;
pub use pmem::Durability;
use pmem::{MapError, Mapped, Os, Synced};
use region::{Atomicity, Layout, Options, Recovered, Redo};
use space::Env;

/// A pool in a file.
pub type Pool<L, A = Redo> = region::Pool<Box<Os<Synced>>, L, A>;

/// Why a file is not opened as a pool.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// What is in it is no such pool.
    #[error("{}: {source}", .path.display())]
    Pool {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: region::Error,
    },
}

/// Makes a new file with a pool of so many bytes, or a pool at the beginning of a whole DAX device
/// (`/dev/dax0.0`), where zeros have to be.
///
/// # Errors
/// If there is such a file, no room, or the size is none for a pool. No file is left then.
pub fn create<L: Layout, A: Atomicity>(path: &Path, bytes: u64) -> Result<Pool<L, A>, Error> {
    let memory = Synced::new(pmem::Options::new().create_or_take(path, bytes)?);
    let options = Options { bytes: Some(bytes), ..Options::default() };
    let made = prepared(&memory)
        .map_err(Error::from)
        .and_then(|()| in_file(path, region::Pool::create(Box::new(Os::new(memory)), &options)));
    if made.is_err() && path.is_file() {
        // The first error is the one to tell; what can't be removed is a file of zeros.
        _ = std::fs::remove_file(path);
    }
    made
}

/// The first sync of blocks that were only reserved costs a journal's commit: better once than at every
/// region of the first pass.
fn prepared(memory: &Synced) -> Result<(), MapError> {
    let heap = space::Space::len(memory).min(4 << 20);
    memory.prefault(0, heap)
}

/// Opens the pool in a file, after recovery if that is needed: its result is returned beside the pool.
///
/// # Errors
/// If there is no such file, another process has it open, or it holds no pool of layout `L` and engine `A`, or a damaged one. Nothing was changed then, but
/// where damage of the heap or of the root object's place is found behind whole logs: then these were carried out.
pub fn open<L: Layout, A: Atomicity>(path: &Path) -> Result<(Pool<L, A>, Recovered), Error> {
    let memory = Synced::new(Mapped::open(path).map_err(|error| or_cut(path, error))?);
    memory.confirm()?;
    in_file(path, region::Pool::open(Box::new(Os::new(memory))))
}

/// Opens the pool in a file to look only: the file stays as it is, others may look at the same time, and
/// regions end with [`region::Error::ReadOnly`]. A pool that a crash left in disorder is brought into order
/// for this process alone.
///
/// # Errors
/// As [`open`], but it is enough that the file can be read; and for a whole DAX device, of which no process has a mapping of its own.
pub fn open_read_only<L: Layout, A: Atomicity>(path: &Path) -> Result<(Pool<L, A>, Recovered), Error> {
    let memory = Synced::new(Mapped::open_private(path).map_err(|error| or_cut(path, error))?);
    in_file(path, region::Pool::open_read_only(Box::new(Os::new(memory))))
}

/// Makes the file and the pool in it so many bytes long, a multiple of 8. Others go on using the pool
/// meanwhile. One that is as long stays as it is.
///
/// # Errors
/// If there is no room, or it can't grow: it is a device, or open to read only.
pub fn grow<L: Layout, A: Atomicity>(pool: &Pool<L, A>, bytes: u64) -> Result<(), Error> {
    let mut refused = None;
    let grown = pool.grow_with(bytes, |env, bytes| {
        env.space().grow(bytes).map_err(|error| {
            let text = error.to_string();
            refused = Some(error);
            region::Error::NoGrowth(text)
        })
    });
    refused.map_or_else(|| in_file(pool.env().space().memory().path(), grown), |error| Err(error.into()))
}

/// Lets the pool and its file grow, by half each time or by what can be had, when there is no room for a
/// block or for what a long region logs. Where the file can't, the pool is full ([`region::Error::NoGrowth`]
/// says why).
#[must_use]
pub fn growing<L: Layout, A: Atomicity>(pool: Pool<L, A>) -> Pool<L, A> {
    pool.growing(|env, bytes| {
        env.space().grow(bytes).map_err(|error| region::Error::NoGrowth(error.to_string()))
    })
}

/// What becomes of what was committed: whether flushes bring it to a persistent device, or each region waits
/// for a sync of the file, or it survives the process only. A pool that is open to read only is volatile.
pub fn durability<L: Layout, A: Atomicity>(pool: &Pool<L, A>) -> Durability {
    pool.env().space().memory().durability()
}

/// How often the pool has waited for the disk; 0 where flushes suffice.
pub fn syncs<L: Layout, A: Atomicity>(pool: &Pool<L, A>) -> u64 {
    pool.env().space().syncs()
}

fn in_file<T>(path: &Path, result: Result<T, region::Error>) -> Result<T, Error> {
    result.map_err(|source| Error::Pool { path: path.to_owned(), source })
}

/// Why a file can't be mapped. No space has such a length: perhaps it is a pool's file that was cut.
fn or_cut(path: &Path, error: MapError) -> Error {
    let MapError::Length { bytes, .. } = error else { return Error::Map(error) };
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8192).read_to_end(&mut beginning));
    match read.ok().and_then(|_| region::Header::cut(&beginning, bytes)) {
        Some(source) => Error::Pool { path: path.to_owned(), source },
        None => Error::Map(error),
    }
}
