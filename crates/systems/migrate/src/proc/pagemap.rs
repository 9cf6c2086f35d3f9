//! Which pages a process has of its own: `PAGEMAP_SCAN`.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use crate::error::{Error, Result};

/// Consecutive pages: first address, first address behind them.
pub type Range = (u64, u64);

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The pages of one process.
#[derive(Debug)]
pub struct Pagemap {
    pid: i32,
    file: File,
}

impl Pagemap {
    /// Of process `pid`.
    ///
    /// # Errors
    /// If it is gone.
    pub fn open(pid: i32) -> Result<Self> {
        let path = format!("/proc/{pid}/pagemap");
        let file = File::open(&path).map_err(|error| Error::file(&path, "cannot be read", error))?;
        Ok(Self { pid, file })
    }

    /// The pages in `start..end` that differ from what a fresh private mapping of the same would have: neither
    /// absent, nor the file's, nor the kernel's page of zeros.
    ///
    /// # Errors
    /// If the process is gone, or the kernel has no `PAGEMAP_SCAN` (Linux 6.7).
    pub fn scan(&self, start: u64, end: u64) -> Result<Vec<Range>> {
        let mut found: Vec<Range> = Vec::new();
        let mut from = start;
        let most = ((end - start) / 4096).clamp(1, 4096) as usize;
        let mut regions = vec![Region::default(); most];
        while from < end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: from,
                end,
                vec: regions.as_mut_ptr() as u64,
                vec_len: regions.len() as u64,
                category_inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
                category_mask: PAGE_IS_FILE | PAGE_IS_PFNZERO,
                category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                return_mask: PAGE_IS_PRESENT,
                ..Scan::default()
            };
            // SAFETY: `scan` and the regions that it points to outlive the call.
            let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
            let Ok(count) = usize::try_from(count) else {
                return Err(Error::call(self.pid, "to ask which pages it has (PAGEMAP_SCAN, Linux 6.7)"));
            };
            for region in &regions[..count] {
                match found.last_mut() {
                    Some(last) if last.1 == region.start => last.1 = region.end,
                    _ => found.push((region.start, region.end)),
                }
            }
            from = scan.walk_end.max(from + 4096);
        }
        Ok(found)
    }
}
