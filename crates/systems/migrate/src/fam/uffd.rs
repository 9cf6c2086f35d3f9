//! The kernel's userfaultfd: page faults of one address space as messages, and their answers.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::Error;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Faults on pages that are nowhere.
pub const MISSING: u64 = 1;
/// Faults on pages that are written to while protected.
pub const WRITE_PROTECT: u64 = 2;
/// Faults on pages that the file has and this address space does not map yet.
pub const MINOR: u64 = 4;

/// Messages for what the process does with its memory: fork, mremap, madvise, munmap.
pub const EVENTS: u64 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6;
/// Missing and minor faults of files in memory.
pub const SHMEM: u64 = 1 << 5 | 1 << 10;
/// Write protection that the kernel lifts by itself and remembers, also of pages that are not there.
pub const ASYNC_PROTECT: u64 = 1 | 1 << 13 | 1 << 15;

const API: u64 = 0xaa;
const IOC_API: u64 = 0xc018_aa3f;
const IOC_REGISTER: u64 = 0xc020_aa00;
const IOC_UNREGISTER: u64 = 0x8010_aa01;
const IOC_WAKE: u64 = 0x8010_aa02;
const IOC_COPY: u64 = 0xc028_aa03;
const IOC_ZERO: u64 = 0xc020_aa04;
const IOC_PROTECT: u64 = 0xc018_aa06;
const IOC_CONTINUE: u64 = 0xc020_aa07;
const IOC_NEW: u64 = 0xaa00;
const USER_MODE_ONLY: i32 = 1;

/// A message.
#[derive(Debug)]
pub enum Event {
    /// A thread waits for the page at this address.
    Fault {
        /// Address of the access, rounded down to a page.
        page: u64,
        /// Whether the file has the page and only the mapping is missing.
        minor: bool,
    },
    /// The process forked; the child's faults come from here.
    Fork(Uffd),
    /// `mremap`.
    Remap {
        /// Old address.
        from: u64,
        /// New address.
        to: u64,
        /// Bytes moved.
        bytes: u64,
    },
    /// Contents dropped by `madvise`: zeros from now on.
    Remove {
        /// First address.
        start: u64,
        /// Exclusive end.
        end: u64,
    },
    /// `munmap`.
    Unmap {
        /// First address.
        start: u64,
        /// Exclusive end.
        end: u64,
    },
}

/// What became of an attempt to install pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// So many bytes from the start on are there now, put or found.
    Bytes(u64),
    /// The process changes its mappings: read events first.
    Busy,
    /// Nothing is mapped there (any more).
    Unmapped,
    /// The process is gone.
    Gone,
}

/// A userfaultfd.
#[derive(Debug)]
pub struct Uffd(OwnedFd);

impl Uffd {
    /// For this process, with these features, non-blocking. Without privilege only faults in user mode are seen.
    ///
    /// # Errors
    /// The kernel has no userfaultfd, not these features, or does not allow them.
    pub fn open(features: u64) -> Result<Uffd, Error> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: system call without pointers.
        let mut fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if fd < 0 {
            fd = open_device(flags);
        }
        if fd < 0 {
            // SAFETY: as above.
            fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags | USER_MODE_ONLY) };
        }
        if fd < 0 {
            return Err(Error::last("userfaultfd"));
        }
        // SAFETY: a new descriptor that nobody else owns.
        let uffd = Uffd(unsafe { OwnedFd::from_raw_fd(fd as RawFd) });
        let mut api = [API, features, 0];
        uffd.ioctl(IOC_API, &mut api).map_err(Error::os("userfaultfd's features"))?;
        Ok(uffd)
    }

    /// One that was opened, and its features chosen, in the restored process.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Uffd {
        Uffd(fd)
    }

    fn ioctl<const N: usize>(&self, request: u64, argument: &mut [u64; N]) -> io::Result<()> {
        // SAFETY: each request's structure is N words, which the kernel reads and writes during the call only.
        let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument.as_mut_ptr()) };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Faults of these kinds in the range are reported from now on.
    ///
    /// # Errors
    /// The mapping can't be served, or the range is not mapped.
    pub fn register(&self, start: u64, bytes: u64, modes: u64) -> Result<(), Error> {
        self.ioctl(IOC_REGISTER, &mut [start, bytes, modes, 0])
            .map_err(Error::os(format!("userfaultfd: register {start:#x}+{bytes:#x}")))
    }

    /// The range is the kernel's again.
    ///
    /// # Errors
    /// The range is not mapped, or the process is gone.
    pub fn unregister(&self, start: u64, bytes: u64) -> Result<(), Error> {
        self.ioctl(IOC_UNREGISTER, &mut [start, bytes]).map_err(Error::os("userfaultfd: unregister"))
    }

    /// Threads that wait for the range try again.
    ///
    /// # Errors
    /// The range makes no sense.
    pub fn wake(&self, start: u64, bytes: u64) -> Result<(), Error> {
        self.ioctl(IOC_WAKE, &mut [start, bytes]).map_err(Error::os("userfaultfd: wake"))
    }

    /// Copies pages from `from` in this process to `to` in the other, and wakes who waits.
    ///
    /// # Errors
    /// What is not in [`Installed`].
    ///
    /// # Safety
    /// `from` is readable for `bytes`.
    pub unsafe fn copy(&self, to: u64, from: *const u8, bytes: u64) -> Result<Installed, Error> {
        let mut argument = [to, from as u64, bytes, 0, 0];
        let rc = self.ioctl(IOC_COPY, &mut argument);
        answer(rc, argument[4] as i64, "userfaultfd: copy")
    }

    /// Zero pages.
    ///
    /// # Errors
    /// What is not in [`Installed`].
    pub fn zero(&self, start: u64, bytes: u64) -> Result<Installed, Error> {
        let mut argument = [start, bytes, 0, 0];
        let rc = self.ioctl(IOC_ZERO, &mut argument);
        answer(rc, argument[3] as i64, "userfaultfd: zero page")
    }

    /// Maps pages that the file has, and wakes who waits.
    ///
    /// # Errors
    /// What is not in [`Installed`].
    pub fn map(&self, start: u64, bytes: u64) -> Result<Installed, Error> {
        let mut argument = [start, bytes, 0, 0];
        let rc = self.ioctl(IOC_CONTINUE, &mut argument);
        answer(rc, argument[3] as i64, "userfaultfd: continue")
    }

    /// Write-protects the range.
    ///
    /// # Errors
    /// The range is not registered for it.
    pub fn protect(&self, start: u64, bytes: u64) -> Result<(), Error> {
        self.ioctl(IOC_PROTECT, &mut [start, bytes, 1]).map_err(Error::os("userfaultfd: write-protect"))
    }

    /// Messages that are there; none if there are none.
    ///
    /// # Errors
    /// The descriptor can't be read.
    pub fn read(&self) -> Result<Vec<Event>, Error> {
        let mut messages = [[0u64; 4]; 16];
        // SAFETY: the buffer is as long as said.
        let got =
            unsafe { libc::read(self.0.as_raw_fd(), messages.as_mut_ptr().cast(), size_of_val(&messages)) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(Vec::new()),
                _ => Err(Error::Os { what: "userfaultfd: read".into(), source: error }),
            };
        }
        messages[..got as usize / 32].iter().map(|words| event(*words)).collect()
    }
}

impl AsRawFd for Uffd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn open_device(flags: i32) -> libc::c_long {
    // SAFETY: a path that ends with zero; descriptors are closed or returned.
    unsafe {
        let device = libc::open(c"/dev/userfaultfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if device < 0 {
            return -1;
        }
        let fd = libc::ioctl(device, IOC_NEW as _, flags);
        libc::close(device);
        libc::c_long::from(fd)
    }
}

/// The kernel says both how far it got and why it stopped.
fn answer(rc: io::Result<()>, bytes: i64, what: &str) -> Result<Installed, Error> {
    let Err(error) = rc else { return Ok(Installed::Bytes(bytes as u64)) };
    if bytes > 0 {
        return Ok(Installed::Bytes(bytes as u64));
    }
    match error.raw_os_error() {
        Some(libc::EEXIST) => Ok(Installed::Bytes(PAGE)),
        Some(libc::EAGAIN) => Ok(Installed::Busy),
        Some(libc::ENOENT | libc::EINVAL) => Ok(Installed::Unmapped),
        Some(libc::ESRCH) => Ok(Installed::Gone),
        _ => Err(Error::Os { what: what.into(), source: error }),
    }
}

fn event(words: [u64; 4]) -> Result<Event, Error> {
    let [kind, a, b, c] = words;
    Ok(match kind as u8 {
        // Flags, address.
        0x12 => Event::Fault { page: b / PAGE * PAGE, minor: a & 4 != 0 },
        // SAFETY: the kernel put a new descriptor into our table for this message.
        0x13 => Event::Fork(Uffd(unsafe { OwnedFd::from_raw_fd(a as u32 as RawFd) })),
        0x14 => Event::Remap { from: a, to: b, bytes: c },
        0x15 => Event::Remove { start: a, end: b },
        0x16 => Event::Unmap { start: a, end: b },
        other => return Err(Error::Protocol(format!("userfaultfd event {other:#x}"))),
    })
}
