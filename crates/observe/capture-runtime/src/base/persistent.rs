//! The table of the ranges that are persistent memory; `mapping/` keeps it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::session::session;
use crate::base::sys;

/// Persistent ranges at one time that are kept track of.
const RANGES: usize = 1024;
/// Bytes kept of a path.
const PATH_BYTES: usize = 512;

/// A range and the file that is mapped there.
#[derive(Clone, Copy)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    /// Where in the file it starts.
    pub offset: u64,
    /// The file's device and number.
    pub file: [u64; 2],
    pub path: [u8; PATH_BYTES],
    pub path_len: usize,
}

const UNUSED: Range = Range { start: 0, end: 0, offset: 0, file: [0; 2], path: [0; PATH_BYTES], path_len: 0 };

impl Range {
    /// What of it lies in `start..end`.
    fn part(&self, start: u64, end: u64) -> Range {
        let from = self.start.max(start);
        Range { start: from, end: self.end.min(end), offset: self.offset + (from - self.start), ..*self }
    }
}

/// Ranges, behind a lock that nobody sleeps under.
pub struct Ranges {
    locked: AtomicBool,
    /// No range has ever been below or above.
    lowest: AtomicU64,
    highest: AtomicU64,
    ranges: UnsafeCell<[Range; RANGES]>,
}
// SAFETY: `ranges` is touched only under `locked`.
unsafe impl Sync for Ranges {}

/// The persistent ranges of this process.
pub static PERSISTENT: Ranges = Ranges {
    locked: AtomicBool::new(false),
    lowest: AtomicU64::new(u64::MAX),
    highest: AtomicU64::new(0),
    ranges: UnsafeCell::new([UNUSED; RANGES]),
};

impl Ranges {
    /// Calls `f` with the table.
    fn with<T>(&self, f: impl FnOnce(&mut [Range; RANGES]) -> T) -> T {
        // A signal handler that maps while its thread is in here would wait for ever; `mmap` is not
        // async-signal-safe by POSIX, so it may not.
        while self.locked.swap(true, Ordering::Acquire) {
            sys::give_way();
        }
        // SAFETY: under the lock.
        let result = f(unsafe { &mut *self.ranges.get() });
        self.locked.store(false, Ordering::Release);
        result
    }

    /// Adds a range, which is mapped from there in the file of that path, device and number.
    pub fn add(&self, [start, end, offset]: [u64; 3], path: &[u8], file: [u64; 2]) {
        self.lowest.fetch_min(start, Ordering::Relaxed);
        self.highest.fetch_max(end, Ordering::Relaxed);
        self.with(|ranges| {
            if let Some(unused) = ranges.iter_mut().find(|range| range.end == 0) {
                let path_len = path.len().min(PATH_BYTES);
                (unused.start, unused.end, unused.offset) = (start, end, offset);
                (unused.file, unused.path_len) = (file, path_len);
                unused.path[..path_len].copy_from_slice(&path[..path_len]);
            }
        });
    }

    /// Takes `start..end` out of the next range that it overlaps; the part taken out, and the path of its
    /// file.
    pub fn take(&self, start: u64, end: u64) -> Option<Range> {
        self.with(|ranges| {
            let at = ranges.iter().position(|range| range.start < end && start < range.end)?;
            let whole = ranges[at];
            let taken = whole.part(start, end);
            ranges[at].end = if whole.start < taken.start { taken.start } else { 0 };
            if taken.end < whole.end
                && let Some(unused) = ranges.iter_mut().find(|range| range.end == 0)
            {
                *unused =
                    Range { start: taken.end, offset: whole.offset + (taken.end - whole.start), ..whole };
            }
            Some(taken)
        })
    }

    /// The part of the first range, by address, that overlaps `start..end`.
    pub fn first(&self, start: u64, end: u64) -> Option<Range> {
        self.with(|ranges| {
            let overlapping = ranges.iter().filter(|range| range.start < end && start < range.end);
            overlapping.min_by_key(|range| range.start).map(|range| range.part(start, end))
        })
    }

    /// Whether any of it lies in `start..end`.
    pub fn overlap(&self, start: u64, end: u64) -> bool {
        self.lowest.load(Ordering::Relaxed) < end
            && start < self.highest.load(Ordering::Relaxed)
            && self.with(|ranges| ranges.iter().any(|range| range.start < end && start < range.end))
    }
}

/// Whether some of these bytes are persistent and recorded.
pub fn is_in_persistent(start: u64, len: u64) -> bool {
    session().is_some() && PERSISTENT.overlap(start, start.saturating_add(len))
}

/// After a fork: nobody else holds the lock.
pub fn after_fork() {
    PERSISTENT.locked.store(false, Ordering::Release);
}
