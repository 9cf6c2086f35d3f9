//! Copies of file descriptors of another process (`pidfd_getfd`).

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Gets copies from one process.
#[derive(Debug)]
pub struct Copies(OwnedFd);

impl Copies {
    /// From process `pid`.
    ///
    /// # Errors
    /// If it is gone.
    pub fn new(pid: i32) -> io::Result<Self> {
        // SAFETY: no memory is involved.
        owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }).map(Self)
    }

    /// A copy of its file descriptor `fd`, closed on exec.
    ///
    /// # Errors
    /// If there is none, or it may not be had.
    pub fn get(&self, fd: i32) -> io::Result<OwnedFd> {
        // SAFETY: no memory is involved.
        owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), fd, 0) })
    }
}

/// The file descriptor that a system call returned.
///
/// # Errors
/// The system's, if it returned none.
pub fn owned(result: i64) -> io::Result<OwnedFd> {
    let fd = i32::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the system call has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
