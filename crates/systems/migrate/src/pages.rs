//! The seam between a restored process and whatever holds its pages: a source of pages, and who serves the faults.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes in a page.
pub const PAGE: u64 = 4096;

/// A range of addresses of the restored process whose pages come on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address; a multiple of [`PAGE`].
    pub start: u64,
    /// Length in bytes; a multiple of [`PAGE`].
    pub len: u64,
}

/// Whether a source has a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The page has been read.
    Read,
    /// The process never had this page: it is zero.
    Absent,
}

/// The pages of one process by address.
pub trait Pages: Send + Sync {
    /// Reads the page at `address` (a multiple of [`PAGE`]) into `page` ([`PAGE`] bytes).
    ///
    /// # Errors
    /// If the page exists and cannot be read; the process must not go on with another content.
    fn fetch(&self, address: u64, page: &mut [u8]) -> io::Result<Presence>;

    /// The longest present range that holds `address` or lies behind it: `(start, length)` in bytes. `None` if nothing
    /// is present from there on. Who pushes pages that nobody asked for goes by it.
    fn next(&self, address: u64) -> Option<(u64, u64)>;
}

/// Who answers the faults of a restored process.
pub trait PageServer {
    /// Serves `uffd`, with whose file descriptor the `regions` have been registered for missing pages, until every page
    /// is installed or the process is gone. The process is running.
    ///
    /// # Errors
    /// If a page cannot be had: the caller then kills the process, since its memory is lost.
    fn serve(&self, uffd: OwnedFd, regions: &[Region], source: Arc<dyn Pages>) -> io::Result<()>;
}
