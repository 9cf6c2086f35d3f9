//! A pass of the radix sort: histogram, scan, scatter.

use std::sync::atomic::AtomicU32;

use super::{load, store};

/// Values of a digit.
pub const DIGITS: usize = 256;

/// The keys of a tile.
fn tile(id: u32, p: &[u32; 12]) -> std::ops::Range<usize> {
    let from = (id as usize * p[1] as usize).min(p[0] as usize);
    from..(from + p[1] as usize).min(p[0] as usize)
}

/// The kernel `histogram`.
pub fn histogram(id: u32, p: &[u32; 12], keys: &[AtomicU32], counts: &[AtomicU32]) {
    let mut own = [0u32; DIGITS];
    for at in tile(id, p) {
        own[(load(keys, at) >> p[3]) as usize & 255] += 1;
    }
    for (digit, &count) in own.iter().enumerate() {
        store(counts, digit * p[2] as usize + id as usize, count);
    }
}

/// The kernel `scan`.
pub fn scan(id: u32, p: &[u32; 12], counts: &[AtomicU32], totals: &[AtomicU32]) {
    let mut sum = 0;
    for at in id as usize * p[0] as usize..(id as usize + 1) * p[0] as usize {
        let count = load(counts, at);
        store(counts, at, sum);
        sum += count;
    }
    store(totals, id as usize, sum);
}

/// The kernel `scatter`.
pub fn scatter(
    id: u32,
    p: &[u32; 12],
    keys: &[AtomicU32],
    counts: &[AtomicU32],
    bases: &[AtomicU32],
    sorted: &[AtomicU32],
) {
    for at in tile(id, p) {
        let key = load(keys, at);
        let digit = (key >> p[3]) as usize & 255;
        let counter = digit * p[2] as usize + id as usize;
        let place = load(counts, counter);
        store(counts, counter, place + 1);
        store(sorted, (load(bases, digit) + place) as usize, key);
    }
}
