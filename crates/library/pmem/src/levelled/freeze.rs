//! Writers held: stores to a range wait in the kernel until they may go on.
//!
//! `userfaultfd` write-protects the range. A store to it faults, and its thread sleeps until the range is
//! woken. It is woken when something else has been mapped there, and the store then goes to that. Loads go on
//! all the time.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// From `linux/userfaultfd.h`.
const API: u64 = 0xAA;
const FEATURES: u64 = FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_HUGETLBFS_SHMEM;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1;
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const MODE_WP: u64 = 2;
const PROTECT_WP: u64 = 1;
const IOCTL_API: libc::Ioctl = 0xC018_AA3Fu32 as libc::Ioctl;
const IOCTL_REGISTER: libc::Ioctl = 0xC020_AA00u32 as libc::Ioctl;
const IOCTL_UNREGISTER: libc::Ioctl = 0x8010_AA01u32 as libc::Ioctl;
const IOCTL_WAKE: libc::Ioctl = 0x8010_AA02u32 as libc::Ioctl;
const IOCTL_PROTECT: libc::Ioctl = 0xC018_AA06u32 as libc::Ioctl;

/// Holds writers of ranges of this process.
#[derive(Debug)]
pub struct Freezer {
    fd: OwnedFd,
}

impl Freezer {
    /// A new one.
    ///
    /// # Errors
    /// If the kernel does not let this process have one, or can't write-protect shared memory.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor, which touches no memory until ranges are registered.
        let fd = unsafe { userfaultfd(UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK) }?;
        let freezer = Freezer { fd };
        let mut api = [API, FEATURES, 0];
        freezer.call(IOCTL_API, &mut api)?;
        Ok(freezer)
    }

    /// Lets writers to `len` bytes at `address` wait from now on. No store that began before is still on its
    /// way when this returns.
    ///
    /// # Errors
    /// If the memory there can't be write-protected. Nobody waits then.
    pub fn freeze(&self, address: *mut u8, len: u64) -> io::Result<()> {
        let start = address.addr() as u64;
        self.call(IOCTL_REGISTER, &mut [start, len, MODE_WP, 0])?;
        self.call(IOCTL_PROTECT, &mut [start, len, PROTECT_WP])
    }

    /// Lets writers go on, to what is mapped there now.
    ///
    /// # Errors
    /// If the range is no address of this process.
    pub fn wake(&self, address: *mut u8, len: u64) -> io::Result<()> {
        self.call(IOCTL_WAKE, &mut [address.addr() as u64, len])
    }

    /// Lets writers go on where nothing was mapped anew.
    ///
    /// # Errors
    /// If the range was not frozen.
    pub fn thaw(&self, address: *mut u8, len: u64) -> io::Result<()> {
        self.call(IOCTL_PROTECT, &mut [address.addr() as u64, len, 0])
    }

    /// Does not hold writers there any more; somebody else may.
    ///
    /// # Errors
    /// If the range is no memory of this process.
    pub fn forget(&self, address: *mut u8, len: u64) -> io::Result<()> {
        self.call(IOCTL_UNREGISTER, &mut [address.addr() as u64, len])
    }

    fn call<const WORDS: usize>(&self, request: libc::Ioctl, words: &mut [u64; WORDS]) -> io::Result<()> {
        // SAFETY: each request's structure consists of as many 64-bit words as its number says, and the
        // callers above give these. Write protection changes no byte of memory.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, words.as_mut_ptr()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
