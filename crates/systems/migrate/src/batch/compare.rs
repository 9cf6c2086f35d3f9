//! The ways of writing memory out, measured on this computer: medians of passes whose ways take turns.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::gather::{BY_CALL, PIECE, Range, splice_all, write_all};
use super::nt::{self, Flush};
use crate::fam::{Error, Memory};

/// One size of C: a dump by `writev` and by pairs of `vmsplice` and `splice`.
#[derive(Clone, Debug, Serialize)]
pub struct Dumps {
    /// Bytes dumped.
    pub bytes: u64,
    /// Ranges they lie in.
    pub ranges: usize,
    /// Seconds by `writev`.
    pub writev_s: f64,
    /// Calls that it took.
    pub writev_calls: usize,
    /// Seconds by pairs.
    pub splice_s: f64,
    /// Calls that they took.
    pub splice_calls: usize,
    /// Pairs over `writev`, the median of the passes.
    pub ratio: f64,
}

/// One amount of D1: seconds for a new file's worth of lines.
#[derive(Clone, Debug, Serialize)]
pub struct Stores {
    /// Bytes stored.
    pub bytes: u64,
    /// Non-temporal stores and a fence.
    pub nt_s: f64,
    /// Stores alone.
    pub store_s: f64,
    /// Stores and flushes and a fence, by instruction, where the processor has it.
    pub flushed_s: Vec<(&'static str, f64)>,
}

/// One size of calls of D2: seconds for a whole file.
#[derive(Clone, Debug, Serialize)]
pub struct Calls {
    /// Bytes of one call.
    pub bytes: u64,
    /// `write`.
    pub write_s: f64,
    /// Into the mapped file, by non-temporal stores.
    pub mapped_s: f64,
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

fn scratch(folder: &Path) -> Result<File, Error> {
    let path = folder.join(format!("strandline-batch-{}", std::process::id()));
    let named = format!("{}: create", path.display());
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.map_err(Error::os(named))?;
    // Known by its descriptor alone: nothing is left behind.
    let _ = std::fs::remove_file(&path);
    Ok(file)
}

/// Dumps `bytes` of memory in `ranges` ranges to a new file in a folder, both ways, `passes` times in turn.
///
/// # Errors
/// The folder can't be written or is full.
pub fn dumps(folder: &Path, bytes: u64, ranges: usize, passes: usize) -> Result<Dumps, Error> {
    // Not a multiple of what moves at a time, and apart from each other, as VMAs are.
    let each = (bytes as usize / ranges.max(1)) / 4096 * 4096;
    let memory: Vec<u8> = filled(ranges * (each + 4096));
    let list: Vec<Range> = (0..ranges)
        .map(|index| Range { start: memory.as_ptr() as usize + index * (each + 4096), bytes: each })
        .collect();
    let (mut writev, mut splice, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut writev_calls, mut splice_calls) = (0, 0);
    for pass in 0..passes {
        let one = |way: unsafe fn(&File, &[Range]) -> std::io::Result<usize>| -> Result<(f64, usize), Error> {
            let file = scratch(folder)?;
            let start = Instant::now();
            // SAFETY: `memory` is ours and only read until the file is gone.
            let calls = unsafe { way(&file, &list) }.map_err(Error::os("dump"))?;
            Ok((start.elapsed().as_secs_f64(), calls))
        };
        // Who comes first changes, so that neither profits from what the other left in caches.
        let (first, second) = if pass % 2 == 0 {
            let first = one(write_all)?;
            (first, one(splice_all)?)
        } else {
            let second = one(splice_all)?;
            (one(write_all)?, second)
        };
        (writev_calls, splice_calls) = (first.1, second.1);
        ratios.push(second.0 / first.0);
        writev.push(first.0);
        splice.push(second.0);
    }
    Ok(Dumps {
        bytes: (each * ranges) as u64,
        ranges,
        writev_s: median(writev),
        writev_calls,
        splice_s: median(splice),
        splice_calls,
        ratio: median(ratios),
    })
}

fn filled(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0u8; bytes];
    for (page, chunk) in memory.chunks_mut(4096).enumerate() {
        chunk.fill(page as u8 | 1);
    }
    memory
}

/// Stores `bytes` to memory of a new file by each way, whose pages are there already, `passes` times in turn.
///
/// # Errors
/// The folder can't be written or is full.
pub fn stores(folder: &Path, bytes: u64, passes: usize) -> Result<Stores, Error> {
    let from = filled(bytes as usize);
    let file = scratch(folder)?;
    file.set_len(bytes).map_err(Error::os("set length"))?;
    let memory = Memory::map(&file, bytes)?;
    memory.populate();
    let to = memory.address(0, bytes);
    let timed = |way: &dyn Fn()| {
        let start = Instant::now();
        way();
        start.elapsed().as_secs_f64()
    };
    let plain = || memory.write(0, &from);
    let streamed = || {
        memory.write_nt(0, &from);
        nt::store_fence();
    };
    let flushed = |how: Flush| {
        memory.write(0, &from);
        // SAFETY: mapped, and only called for instructions that are here.
        unsafe { nt::flush(to, bytes as usize, how) };
        nt::store_fence();
    };
    let here: Vec<Flush> = Flush::ALL.into_iter().filter(|how| how.is_here()).collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); 2 + here.len()];
    for _ in 0..passes {
        times[0].push(timed(&streamed));
        times[1].push(timed(&plain));
        for (slot, how) in here.iter().enumerate() {
            times[2 + slot].push(timed(&|| flushed(*how)));
        }
    }
    let mut times = times.into_iter().map(median);
    let (nt_s, store_s) = (times.next().unwrap_or(0.0), times.next().unwrap_or(0.0));
    Ok(Stores { bytes, nt_s, store_s, flushed_s: here.iter().map(|how| how.name()).zip(times).collect() })
}

/// Writes a new file of `bytes` by calls of `call` bytes, and by non-temporal stores into the mapped file of as many at a
/// time, `passes` times in turn. The mapped way meets a page fault for each page.
///
/// # Errors
/// The folder can't be written or is full.
pub fn calls(folder: &Path, bytes: u64, call: u64, passes: usize) -> Result<Calls, Error> {
    let from = filled(call as usize);
    let pieces = bytes / call;
    let (mut written, mut mapped) = (Vec::new(), Vec::new());
    for _ in 0..passes {
        let mut file = scratch(folder)?;
        let start = Instant::now();
        for _ in 0..pieces {
            file.write_all(&from).map_err(Error::os("write"))?;
        }
        written.push(start.elapsed().as_secs_f64());
        drop(file);
        let file = scratch(folder)?;
        let start = Instant::now();
        file.set_len(pieces * call).map_err(Error::os("set length"))?;
        let memory = Memory::map(&file, pieces * call)?;
        for piece in 0..pieces {
            memory.write_nt(piece * call, &from);
            nt::store_fence();
        }
        mapped.push(start.elapsed().as_secs_f64());
    }
    Ok(Calls { bytes: call, write_s: median(written), mapped_s: median(mapped) })
}

/// System calls that `writev` saves for so many bytes, where a pair moves 2 MiB.
#[must_use]
pub fn saved_calls(bytes: u64) -> u64 {
    2 * bytes.div_ceil(PIECE as u64) - bytes.div_ceil(BY_CALL as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_saves_two_thousand() {
        assert_eq!(saved_calls(0x7fff_f000), 2047);
    }

    #[test]
    fn all_ways_are_measured_on_small_sizes() {
        let folder = tempfile::tempdir().expect("folder");
        let dumped = dumps(folder.path(), 9 << 20, 3, 2).expect("dumped");
        assert_eq!(dumped.bytes / 4096, 9 * 256);
        assert_eq!(dumped.writev_calls, 1);
        assert!(
            dumped.splice_calls >= 12,
            "{} for 3 ranges of 3 MiB: 2 pairs each, or more",
            dumped.splice_calls
        );
        let stored = stores(folder.path(), 1 << 20, 2).expect("stored");
        assert!(stored.nt_s > 0.0 && stored.store_s > 0.0 && !stored.flushed_s.is_empty());
        assert_eq!(calls(folder.path(), 4 << 20, 1 << 16, 1).expect("called").bytes, 1 << 16);
        assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 0, "nothing is left behind");
    }
}
