//! The log of large blocks: which memory was of which site, and when. `strandline faults` holds the addresses of page
//! faults against it.
//!
//! `+ TIME ADDRESS LENGTH KEY` is a block that begins to live, `- TIME START END` a range that no block has any longer.
//! Times are of the monotonic clock in nanoseconds, all numbers but times hexadecimal.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Bytes that wait before they are written.
const WAITING: usize = 64 << 10;

/// The log.
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

    /// A block lives.
    pub fn block(&mut self, address: usize, len: usize, key: u64) {
        writeln!(self.text, "+ {} {address:x} {len:x} {key:x}", now()).ok();
        self.full();
    }

    /// Nothing lives in a range any longer.
    pub fn gone(&mut self, start: usize, end: usize) {
        writeln!(self.text, "- {} {start:x} {end:x}", now()).ok();
        self.full();
    }

    fn full(&mut self) {
        if self.text.len() >= WAITING {
            self.write();
        }
    }

    /// Writes what waits.
    pub fn write(&mut self) {
        self.file.write_all(self.text.as_bytes()).ok();
        self.text.clear();
    }
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
