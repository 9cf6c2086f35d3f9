//! The log of large blocks: which memory was of which site, and when. `strandline faults` holds the addresses of page
//! faults against it.
//!
//! `+ TIME ADDRESS LENGTH KEY RESIDENT BEGAN` is a block that begins to live, RESIDENT of whose whole pages
//! are in memory from an earlier life, which the allocator has kept, or because the call that began at BEGAN
//! stored to them; `- TIME START END` a range that no block has any longer. Times are of the monotonic clock
//! in nanoseconds, all numbers but times hexadecimal.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::page::{PAGE, whole};

/// Larger blocks come from new mappings.
const LOOKED_AT: usize = 256 << 20;

thread_local! {
    /// When the call began that allocates; 0 if it can't store to the block.
    static BEGAN: Cell<u64> = const { Cell::new(0) };
}

/// A call begins that allocates a large block.
pub fn begins() {
    BEGAN.set(now());
}

/// The log. Each line is written at once: a program that a signal ends, or that executes another, leaves what was noted.
#[derive(Debug)]
pub struct Log {
    file: File,
    text: String,
}

impl Log {
    /// This process's, at a path with its number behind it.
    pub fn new(path: &Path) -> Option<Log> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        Some(Log { file: File::create(name).ok()?, text: String::new() })
    }

    /// A block lives; `fresh` if its mapping is new.
    pub fn block(&mut self, address: usize, len: usize, key: u64, fresh: bool) {
        let resident = if fresh || len > LOOKED_AT { 0 } else { resident(address, len) };
        let (time, began) = (now(), BEGAN.replace(0));
        let began = if began == 0 { time } else { began };
        writeln!(self.text, "+ {time} {address:x} {len:x} {key:x} {resident:x} {began}").ok();
        self.write();
    }

    /// Nothing lives in a range any longer.
    pub fn gone(&mut self, start: usize, end: usize) {
        writeln!(self.text, "- {} {start:x} {end:x}", now()).ok();
        self.write();
    }

    fn write(&mut self) {
        self.file.write_all(self.text.as_bytes()).ok();
        self.text.clear();
    }
}

/// Whole pages of a range that are in memory.
fn resident(address: usize, len: usize) -> usize {
    let (mut at, end) = whole(address, len);
    let mut pages = [0u8; 1024];
    let mut count = 0;
    while at < end {
        let bytes = (end - at).min(pages.len() * PAGE);
        let address = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: a byte per page; the call reads none of the memory in question.
        if unsafe { libc::mincore(address, bytes, pages.as_mut_ptr()) } != 0 {
            break;
        }
        count += pages[..bytes / PAGE].iter().filter(|page| **page & 1 != 0).count();
        at += bytes;
    }
    count
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
