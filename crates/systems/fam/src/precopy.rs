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
use super::uffd::{self, PAGE, Uffd};
use super::{Error, Vector};

/// `PAGEMAP_SCAN`, Linux 6.7.
const SCAN: u64 = 0xc060_6610;
const SCAN_PROTECT: u64 = 1;
const WATCHED: u64 = 1 << 0;
const WRITTEN: u64 = 1 << 1;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
/// The kernel's page of zeros: read, and never written.
const ZERO: u64 = 1 << 5;

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
    /// What could not be read, since the process had given it back.
    #[serde(skip)]
    pub unread: Vec<Region>,
}

/// Written pages of a running process, watched through a userfaultfd that was opened in it with
/// [`uffd::ASYNC_PROTECT`].
#[derive(Debug)]
pub struct Watch {
    pagemap: File,
    /// Mappings.
    regions: Vec<Region>,
    /// Watching ends with it.
    _uffd: Uffd,
}

impl Watch {
    /// Watches mappings from now on, of which `present` has the pages that are there. A mapping that the
    /// process has given back meanwhile is left out.
    ///
    /// Only pages that are there are protected. One that comes to be later counts as written without that;
    /// protected addresses without a page would each take an entry in the kernel's page tables, and every
    /// look would find them: a JVM reserves gigabytes that it does not use.
    ///
    /// # Errors
    /// The kernel has no asynchronous write protection, or no mapping can be watched.
    pub fn start(pid: u32, uffd: Uffd, mappings: &[Region], present: &[Region]) -> Result<Watch, Error> {
        let path = format!("/proc/{pid}/pagemap");
        let pagemap = File::open(&path).map_err(Error::os(path))?;
        let (mut watched, mut failed) = (Vec::new(), None);
        for region in mappings {
            match uffd.register(region.start, region.bytes, uffd::WRITE_PROTECT) {
                Ok(()) => watched.push(*region),
                Err(error) => failed = Some(error),
            }
        }
        for region in present {
            // Pages that are not protected, since their mapping is gone or new, count as written.
            let _ = uffd.protect(region.start, region.bytes);
        }
        match failed {
            Some(error) if watched.is_empty() => Err(error),
            _ => Ok(Watch { pagemap, regions: watched, _uffd: uffd }),
        }
    }

    /// Ranges written to since the last call; from here on they are watched anew.
    ///
    /// # Errors
    /// The process is gone.
    pub fn written(&self) -> Result<Vec<Region>, Error> {
        // Addresses without a page are neither here nor protected, and count as written.
        self.scan(SCAN_PROTECT, ZERO, WRITTEN | ZERO, PRESENT | SWAPPED)
    }

    /// Ranges that are watched and have not been written to since the last call of [`Watch::written`]. What the process has
    /// mapped anew meanwhile is not watched, so it is not among them.
    ///
    /// # Errors
    /// The process is gone.
    pub fn clean(&self) -> Result<Vec<Region>, Error> {
        let mut found = self.scan(0, WRITTEN, WATCHED | WRITTEN, PRESENT | SWAPPED)?;
        found.sort_unstable_by_key(|region| region.start);
        let mut joined: Vec<Region> = Vec::new();
        for region in found {
            match joined.last_mut() {
                Some(last) if last.start + last.bytes == region.start => last.bytes += region.bytes,
                _ => joined.push(region),
            }
        }
        Ok(joined)
    }

    fn scan(&self, flags: u64, inverted: u64, all: u64, any: u64) -> Result<Vec<Region>, Error> {
        let mut found = Vec::new();
        let mut out = vec![[0_u64; 3]; 4096];
        for region in &self.regions {
            let (mut at, end) = (region.start, region.start + region.bytes);
            while at < end {
                let mut argument = [
                    96,
                    flags,
                    at,
                    end,
                    0,
                    out.as_mut_ptr() as u64,
                    out.len() as u64,
                    0,
                    inverted,
                    all,
                    any,
                    PRESENT,
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
            if let Err(error) = write(file, pages, throttle, *region) {
                match error {
                    Error::SourceLost { .. } => return Err(error),
                    _ => done.unread.push(*region),
                }
            }
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

/// After the freeze: lays the file out for what the process has now, and marks as present what is in it as the process has
/// it. Where all that is missing is `little` or less, it is written at once; otherwise whole vectors are left to the
/// source's daemon: so many bytes.
///
/// # Errors
/// As [`rounds`], and if there is no room.
pub fn finish(
    clean: &[Region],
    file: FamFile,
    done: &Precopied,
    now: &[Region],
    pages: &dyn Pages,
    little: u64,
) -> Result<(FamFile, u64), Error> {
    let before = file.layout().clone();
    let file = file.lay_out_again(now)?;
    let (mut dirty, mut left) = (Vec::new(), 0);
    for (index, vector) in file.layout().vectors().iter().enumerate() {
        // All of it: a file that was laid out anew begins as before where memory has grown behind a vector,
        // and what is new there was not copied, though nobody has written to it since it was looked at.
        let last = vector.bytes - PAGE;
        let stayed = before.offset(vector.start) == Some(vector.offset)
            && before.offset(vector.start + last) == Some(vector.offset + last)
            && !touches(&done.unread, vector);
        let mut missing = Vec::new();
        let mut at = vector.start;
        let first = clean.partition_point(|region| region.start + region.bytes <= vector.start);
        for region in clean[first..].iter().take_while(|region| stayed && region.start < vector.end()) {
            if at < region.start {
                missing.push((at, region.start - at));
            }
            at = region.start + region.bytes;
        }
        if at < vector.end() {
            missing.push((at, vector.end() - at));
        }
        if missing.is_empty() {
            file.set_present(index);
        } else {
            left += vector.bytes;
            dirty.push((index, missing));
        }
    }
    let all: u64 = dirty.iter().flat_map(|(_, missing)| missing).map(|(_, bytes)| bytes).sum();
    if all > little {
        return Ok((file, left));
    }
    for (index, missing) in dirty {
        let vector = file.layout().vectors()[index];
        for (start, bytes) in missing {
            pages.read_to(start, file.memory(), vector.offset + (start - vector.start), bytes)?;
        }
        file.set_present(index);
    }
    Ok((file, 0))
}

fn touches(regions: &[Region], vector: &Vector) -> bool {
    regions.iter().any(|region| region.start < vector.end() && vector.start < region.start + region.bytes)
}

/// Writes a range, vector by vector.
fn write(file: &FamFile, pages: &dyn Pages, throttle: &Throttle, region: Region) -> Result<(), Error> {
    let (mut at, end) = (region.start, region.start + region.bytes);
    while at < end {
        let Some((bytes, offset)) = piece(file.layout(), at, end) else {
            // Of a mapping that is newer than the layout: the daemon writes it.
            at += PAGE;
            continue;
        };
        throttle.during(Way::Write, bytes, || pages.read_to(at, file.memory(), offset, bytes))?;
        at += bytes;
    }
    Ok(())
}

fn piece(layout: &Layout, at: u64, end: u64) -> Option<(u64, u64)> {
    let vector = layout.vectors()[layout.find(at)?];
    Some((vector.end().min(end) - at, vector.offset + (at - vector.start)))
}
