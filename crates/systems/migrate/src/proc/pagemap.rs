//! Which pages a process has of its own: `PAGEMAP_SCAN`.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use crate::error::{Error, Result};

/// Consecutive pages: first address, first address behind them.
pub type Range = (u64, u64);

const PAGE_IS_WPALLOWED: u64 = 1 << 0;
/// Category: written since its write protection (`userfaultfd`) was set.
pub const WRITTEN: u64 = 1 << 1;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PM_SCAN_WP_MATCHING: u64 = 1 << 0;
const PM_SCAN_CHECK_WPASYNC: u64 = 1 << 1;
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

/// The pages in `start..end` of process `pid` that differ from what a fresh private mapping of the same would have:
/// neither absent, nor the file's, nor the kernel's page of zeros. With `written`, only those written since the last
/// such scan, and the range (registered for asynchronous write protection) is protected again.
///
/// # Errors
/// If the process is gone, or the kernel has no `PAGEMAP_SCAN` (Linux 6.7).
pub fn scan(pid: i32, start: u64, end: u64, written: bool) -> Result<Vec<Range>> {
    let path = format!("/proc/{pid}/pagemap");
    let file = File::open(&path).map_err(|error| Error::file(&path, "cannot be read", error))?;
    let mut found: Vec<Range> = Vec::new();
    let mut from = start;
    let mut regions = vec![Region::default(); 4096];
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
        if written {
            scan.flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC;
            scan.category_mask |= WRITTEN | PAGE_IS_WPALLOWED;
        }
        // SAFETY: `scan` and the regions that it points to outlive the call.
        let count = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let Ok(count) = usize::try_from(count) else {
            return Err(Error::call(pid, "to ask which pages it has (PAGEMAP_SCAN, Linux 6.7)"));
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
