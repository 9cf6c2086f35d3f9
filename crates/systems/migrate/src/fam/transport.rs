//! Where the target gets pages from: the seam between fault server and medium.

use std::os::fd::RawFd;

use super::Error;
use super::space::{Space, Step};

/// A way of getting pages.
pub trait Transport: Send {
    /// Installs the page of the checkpoint at this address, and what comes with it.
    ///
    /// # Errors
    /// The page can't be had, or not be installed.
    fn fault(&mut self, page: u64, space: &mut Space) -> Result<Step, Error>;

    /// Installs a range, inside of one vector, that nobody has asked for yet.
    ///
    /// # Errors
    /// As [`Transport::fault`].
    fn push(&mut self, start: u64, bytes: u64, space: &mut Space) -> Result<Step, Error>;

    /// What becomes readable when the source has something to say unasked.
    fn news_fd(&self) -> Option<RawFd> {
        None
    }

    /// Reads what the source says unasked.
    ///
    /// # Errors
    /// The source is lost, and pages with it.
    fn news(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// All pages are installed: tells the source.
    fn bye(&mut self) {}
}
