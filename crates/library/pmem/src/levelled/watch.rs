//! Which pages were written: the kernel notes the first store to each page after it was asked.
//!
//! `userfaultfd` write-protects the range in its asynchronous mode: a store to a page lifts the protection,
//! and the thread goes on. `PAGEMAP_SCAN` returns the pages whose protection is gone and protects them again,
//! in one step for each page, so no store falls between two scans.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// From `linux/userfaultfd.h`.
const API: u64 = 0xAA;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1;
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const MODE_WP: u64 = 2;
const IOCTL_API: libc::Ioctl = 0xC018_AA3Fu32 as libc::Ioctl;
const IOCTL_REGISTER: libc::Ioctl = 0xC020_AA00u32 as libc::Ioctl;
const IOCTL_UNREGISTER: libc::Ioctl = 0x8010_AA01u32 as libc::Ioctl;
/// From `linux/fs.h`.
const IOCTL_SCAN: libc::Ioctl = 0xC060_6610u32 as libc::Ioctl;
const SCAN_WP_MATCHING: u64 = 1;
const SCAN_CHECK_WPASYNC: u64 = 2;
const PAGE_IS_WRITTEN: u64 = 2;
/// Present or swapped: a page that was never touched counts as written otherwise.
const PAGE_IS_THERE: u64 = 8 | 16;
/// Runs of pages that one call returns at most.
const RUNS: usize = 512;

/// Watches ranges of this process for stores.
#[derive(Debug)]
pub struct Watcher {
    fd: OwnedFd,
    pagemap: File,
}

/// A run of pages, as the kernel returns it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Run {
    start: u64,
    end: u64,
    categories: u64,
}

impl Watcher {
    /// A new one.
    ///
    /// # Errors
    /// If the kernel is too old (6.7 is the first that can), or lets this process not do so.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor, which touches no memory until ranges are registered.
        let fd = unsafe { userfaultfd(UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK) }?;
        let watcher = Watcher { fd, pagemap: File::open("/proc/self/pagemap")? };
        let features = FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_HUGETLBFS_SHMEM | FEATURE_WP_ASYNC;
        watcher.call(IOCTL_API, &mut [API, features, 0])?;
        Ok(watcher)
    }

    /// Watches `len` bytes at `address` from now on.
    ///
    /// # Errors
    /// If the memory is of a kind that can't be write-protected, or somebody else watches it.
    pub fn watch(&self, address: *mut u8, len: u64) -> io::Result<()> {
        self.call(IOCTL_REGISTER, &mut [address.addr() as u64, len, MODE_WP, 0])
    }

    /// Does no longer watch `len` bytes at `address`.
    ///
    /// # Errors
    /// If the range is no memory of this process.
    pub fn forget(&self, address: *mut u8, len: u64) -> io::Result<()> {
        self.call(IOCTL_UNREGISTER, &mut [address.addr() as u64, len])
    }

    /// Calls `written` with the first and the last byte's successor of each run of pages of 4 KiB in a range
    /// that was stored to since the last scan, or since it was mapped or watched anew.
    ///
    /// # Errors
    /// If a part of the range is not watched.
    pub fn scan(&self, address: *mut u8, len: u64, mut written: impl FnMut(u64, u64)) -> io::Result<()> {
        let (mut start, end) = (address.addr() as u64, address.addr() as u64 + len);
        let mut runs = [Run::default(); RUNS];
        while start < end {
            // Size, flags, start, end, where the walk ended, results, their number, most pages, inverted,
            // required, any of, returned.
            let mut argument = [
                96,
                SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC,
                start,
                end,
                0,
                runs.as_mut_ptr().expose_provenance() as u64,
                RUNS as u64,
                0,
                0,
                PAGE_IS_WRITTEN,
                PAGE_IS_THERE,
                PAGE_IS_WRITTEN,
            ];
            // SAFETY: the structure is the request's twelve words; its results are `RUNS` runs, which the
            // kernel writes to while they are borrowed here. Write protection changes no byte of memory.
            let found = unsafe { libc::ioctl(self.pagemap.as_raw_fd(), IOCTL_SCAN, argument.as_mut_ptr()) };
            if found < 0 {
                return Err(io::Error::last_os_error());
            }
            runs.iter().take(found as usize).for_each(|run| written(run.start, run.end));
            if argument[4] <= start {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            start = argument[4];
        }
        Ok(())
    }

    fn call<const WORDS: usize>(&self, request: libc::Ioctl, words: &mut [u64; WORDS]) -> io::Result<()> {
        // SAFETY: each request's structure consists of as many 64-bit words as its number says, and the
        // callers above give these. Write protection changes no byte of memory.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, words.as_mut_ptr()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    use super::*;

    #[test]
    fn pages_that_were_stored_to_are_found_once() {
        let Ok(watcher) = Watcher::new() else {
            eprintln!("skipped: the kernel can't watch pages asynchronously");
            return;
        };
        let len = 64 * 4096;
        // SAFETY: new memory at an address of the kernel's choice.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let base = base.expect("memory").cast::<u8>();
        watcher.watch(base, len as u64).expect("anonymous memory can be watched");
        let scan = || {
            let mut pages = Vec::new();
            let first = base.addr() as u64;
            let push = |start: u64, end: u64| pages.extend((start - first) / 4096..(end - first) / 4096);
            watcher.scan(base, len as u64, push).expect("a scan");
            pages
        };
        scan();
        for page in [3, 4, 40] {
            // SAFETY: within the mapping above, which nobody else uses.
            unsafe { base.add(page * 4096 + 8).write_volatile(1) };
        }
        assert_eq!(scan(), [3, 4, 40]);
        assert_eq!(scan(), [0u64; 0]);
        // SAFETY: as above.
        unsafe { base.add(4 * 4096).write_volatile(2) };
        assert_eq!(scan(), [4]);
        watcher.forget(base, len as u64).expect("it was watched");
    }
}
