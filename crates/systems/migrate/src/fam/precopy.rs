//! Pre-copy: pages are written to FAM while the process runs, round after round only those that it has written to since.
//!
//! The kernel write-protects pages asynchronously (it lifts the protection by itself at the first write, without a message),
//! and `PAGEMAP_SCAN` reports the pages that were written to and protects them again in one step. What the last round leaves
//! is known exactly when the process is frozen; everything else is in FAM already, so the source's busy time after the
//! freeze, and what the target has to ask for, is only the rest.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use serde::Serialize;

use super::delay::{Throttle, Way};
use super::file::FamFile;
use super::layout::{Layout, Region};
use super::pages::Pages;
use super::uffd::{self, Uffd};
use super::{Error, Vector};

/// `PAGEMAP_SCAN`, Linux 6.7.
const SCAN: u64 = 0xc060_6610;
const SCAN_PROTECT: u64 = 1;
const SCAN_CHECK: u64 = 2;
const WRITTEN: u64 = 1 << 1;

/// When rounds end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// At most so many.
    pub most: usize,
    /// Enough once a round finds no more than so many bytes.
    pub enough: u64,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { most: 8, enough: 1 << 20 }
    }
}

/// What rounds did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Precopied {
    /// Bytes written in each round.
    pub rounds: Vec<u64>,
}

/// Written pages of a running process, watched through a userfaultfd that was opened in it with
/// [`uffd::ASYNC_PROTECT`].
#[derive(Debug)]
pub struct Watch {
    pagemap: File,
    regions: Vec<Region>,
    /// Watching ends with it.
    _uffd: Uffd,
}

impl Watch {
    /// Watches regions from now on.
    ///
    /// # Errors
    /// The kernel has no asynchronous write protection, or a region can't be watched.
    pub fn start(pid: u32, uffd: Uffd, regions: &[Region]) -> Result<Watch, Error> {
        let path = format!("/proc/{pid}/pagemap");
        let pagemap = File::open(&path).map_err(Error::os(path))?;
        for region in regions {
            uffd.register(region.start, region.bytes, uffd::WRITE_PROTECT)?;
            uffd.protect(region.start, region.bytes)?;
        }
        Ok(Watch { pagemap, regions: regions.to_vec(), _uffd: uffd })
    }

    /// Ranges written to since the last call; from here on they are watched anew.
    ///
    /// # Errors
    /// The process is gone.
    pub fn written(&self) -> Result<Vec<Region>, Error> {
        let mut found = Vec::new();
        for region in &self.regions {
            let (mut at, end) = (region.start, region.start + region.bytes);
            while at < end {
                let mut out = [[0u64; 3]; 512];
                let mut argument = [
                    96,
                    SCAN_PROTECT | SCAN_CHECK,
                    at,
                    end,
                    0,
                    out.as_mut_ptr() as u64,
                    out.len() as u64,
                    0,
                    0,
                    WRITTEN,
                    0,
                    WRITTEN,
                ];
                // SAFETY: the kernel's structure of twelve words; `out` is as long as said.
                let got = unsafe { libc::ioctl(self.pagemap.as_raw_fd(), SCAN as _, argument.as_mut_ptr()) };
                if got < 0 {
                    let error = io::Error::last_os_error();
                    return Err(match error.raw_os_error() {
                        Some(libc::ESRCH) => Error::SourceLost { missing: end - at },
                        Some(libc::ENOTTY | libc::EINVAL) => Error::Unsupported(
                            "pre-copy takes a kernel with PAGEMAP_SCAN and asynchronous write protection (Linux 6.7)"
                                .into(),
                        ),
                        _ => Error::Os { what: "PAGEMAP_SCAN".into(), source: error },
                    });
                }
                found.extend(
                    out[..got as usize]
                        .iter()
                        .map(|[start, end, _]| Region { start: *start, bytes: end - start }),
                );
                if argument[4] <= at {
                    break;
                }
                at = argument[4];
            }
        }
        Ok(found)
    }
}

/// Writes the process to FAM while it runs: all of it, then round after round what it has written to since. Vectors are not
/// marked as present: [`finish`] does so once the process is frozen.
///
/// # Errors
/// The process is gone, or can't be read.
pub fn rounds(
    watch: &Watch,
    file: &FamFile,
    pages: &dyn Pages,
    throttle: &Arc<Throttle>,
    limit: Rounds,
) -> Result<Precopied, Error> {
    let mut done = Precopied::default();
    let mut next: Vec<Region> = file.layout().regions().to_vec();
    for round in 0..limit.most {
        for region in &next {
            write(file, pages, throttle, *region)?;
        }
        let bytes: u64 = next.iter().map(|region| region.bytes).sum();
        done.rounds.push(bytes);
        // More written than in the round before: it does not get any less.
        let grows = round > 1 && bytes > done.rounds[round - 1];
        if bytes <= limit.enough || grows || round + 1 == limit.most {
            break;
        }
        next = watch.written()?;
    }
    Ok(done)
}

/// After the freeze: writes what was written to since the last round if it is little, and marks as present all vectors
/// that are as the process is. Others are left to the source's daemon. Returns the bytes that are left to it.
///
/// # Errors
/// As [`rounds`].
pub fn finish(
    watch: &Watch,
    file: &FamFile,
    pages: &dyn Pages,
    throttle: &Arc<Throttle>,
    little: u64,
) -> Result<u64, Error> {
    let written = watch.written()?;
    let bytes: u64 = written.iter().map(|region| region.bytes).sum();
    let at_once = bytes <= little;
    if at_once {
        for region in &written {
            write(file, pages, throttle, *region)?;
        }
    }
    let mut left = 0;
    for (index, vector) in file.layout().vectors().iter().enumerate() {
        if at_once || !touches(&written, vector) {
            file.set_present(index);
        } else {
            left += vector.bytes;
        }
    }
    Ok(left)
}

fn touches(written: &[Region], vector: &Vector) -> bool {
    written.iter().any(|region| region.start < vector.end() && vector.start < region.start + region.bytes)
}

/// Writes a range, vector by vector.
fn write(file: &FamFile, pages: &dyn Pages, throttle: &Throttle, region: Region) -> Result<(), Error> {
    let (mut at, end) = (region.start, region.start + region.bytes);
    while at < end {
        let (bytes, offset) = piece(file.layout(), at, end)?;
        throttle.during(Way::Write, bytes, || pages.read_to(at, file.memory(), offset, bytes))?;
        at += bytes;
    }
    Ok(())
}

fn piece(layout: &Layout, at: u64, end: u64) -> Result<(u64, u64), Error> {
    let index = layout.find(at).ok_or(Error::Stray(at))?;
    let vector = layout.vectors()[index];
    Ok((vector.end().min(end) - at, vector.offset + (at - vector.start)))
}
