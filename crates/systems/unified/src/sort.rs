//! Radix sort: four passes of eight bits, each a histogram per tile, a scan per digit, and a stable
//! scatter. Between the kernels only the totals of 256 digits come to the CPU. Keys beyond the device's
//! memory are sorted in chunks, which the CPU merges.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::host::sort::DIGITS;
use crate::{Accelerator, Error, Job, Kernel, Region};

/// Tiles of a chunk, at most.
const TILES: usize = 1 << 14;
/// Keys of a chunk, at most, so that all counts fit in a word.
const CHUNK_MAX: usize = 1 << 30;

/// Keys that fit in the device's memory at once, with all that the sort needs.
#[must_use]
pub fn chunk(accelerator: &dyn Accelerator) -> usize {
    let info = accelerator.info();
    let region = info.region_bytes_max / 4;
    // Two buffers of keys, and counts which are at most 16 MiB. A driver that does not say gets the
    // region's size.
    let counts = (TILES * DIGITS * 4) as u64;
    let all = match info.memory_bytes {
        0 => region,
        bytes => bytes.saturating_sub(counts + (1 << 20)) / 8,
    };
    usize::try_from(region.min(all)).unwrap_or(CHUNK_MAX).clamp(1, CHUNK_MAX)
}

/// Sorts keys on the device, in chunks of at most `chunk` keys.
///
/// # Errors
/// If the device has no room for a chunk or is lost. The keys are as they were then.
pub fn sort(accelerator: &dyn Accelerator, keys: &mut [u32], chunk: usize) -> Result<(), Error> {
    if chunk == 0 {
        let got = chunk.to_string();
        return Err(Error::Request { what: "keys of a chunk", got, expected: "at least 1" });
    }
    if keys.len() <= 1 {
        return Ok(());
    }
    let pieces: Vec<Vec<u32>> = keys
        .chunks(chunk.min(CHUNK_MAX))
        .map(|piece| sort_chunk(accelerator, piece))
        .collect::<Result<_, _>>()?;
    merge(&pieces, keys);
    Ok(())
}

/// Sorts what fits.
fn sort_chunk(accelerator: &dyn Accelerator, keys: &[u32]) -> Result<Vec<u32>, Error> {
    let mut from = accelerator.upload(keys)?;
    let mut to = accelerator.allocate(keys.len())?;
    passes(accelerator, &mut from, &mut to, keys.len())?;
    let mut sorted = vec![0; keys.len()];
    from.read(0, &mut sorted)?;
    Ok(sorted)
}

/// Sorts `count` keys that are on the device. They are in `from` afterwards.
///
/// # Errors
/// If the device has no room for the counts or is lost.
pub fn passes(
    accelerator: &dyn Accelerator,
    from: &mut Arc<dyn Region>,
    to: &mut Arc<dyn Region>,
    count: usize,
) -> Result<(), Error> {
    let tile = count.div_ceil(TILES).max(256);
    let tiles = count.div_ceil(tile);
    let counts = accelerator.allocate(tiles * DIGITS)?;
    let totals = accelerator.allocate(DIGITS)?;
    let bases = accelerator.allocate(DIGITS)?;
    for shift in [0, 8, 16, 24] {
        let parameters = [count as u32, tile as u32, tiles as u32, shift];
        accelerator.run(Job {
            kernel: Kernel::Histogram,
            regions: &[from, &counts],
            parameters: &parameters,
            invocations: tiles as u32,
        })?;
        accelerator.run(Job {
            kernel: Kernel::Scan,
            regions: &[&counts, &totals],
            parameters: &[tiles as u32],
            invocations: DIGITS as u32,
        })?;
        let mut sums = [0; DIGITS];
        totals.read(0, &mut sums)?;
        let mut before = 0;
        for sum in &mut sums {
            (before, *sum) = (before + *sum, before);
        }
        bases.write(0, &sums)?;
        accelerator.run(Job {
            kernel: Kernel::Scatter,
            regions: &[from, &counts, &bases, to],
            parameters: &parameters,
            invocations: tiles as u32,
        })?;
        std::mem::swap(from, to);
    }
    Ok(())
}

/// Merges sorted pieces.
fn merge(pieces: &[Vec<u32>], keys: &mut [u32]) {
    if let [one] = pieces {
        keys.copy_from_slice(one);
        return;
    }
    let head = |piece: usize, at: usize| pieces[piece].get(at).map(|&key| Reverse((key, piece, at)));
    let mut heads: BinaryHeap<_> = (0..pieces.len()).filter_map(|piece| head(piece, 0)).collect();
    for place in keys {
        let Some(Reverse((key, piece, at))) = heads.pop() else { return };
        *place = key;
        heads.extend(head(piece, at + 1));
    }
}

/// The CPU's sort beside which the device's is measured: `voracious_radix_sort`, on all cores.
pub fn on_cpu(keys: &mut [u32], threads: usize) {
    use voracious_radix_sort::RadixSort;
    keys.voracious_mt_sort(threads.max(1));
}
