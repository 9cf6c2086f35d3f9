//! What the microbenchmarks run.

use std::sync::atomic::AtomicU32;

use super::{load, store};

/// The kernel `read`: words at a distance of all invocations, so that neighbours read neighbouring words.
pub fn read(id: u32, p: &[u32; 12], words: &[AtomicU32], sums: &[AtomicU32]) {
    let mut sum = 0u32;
    for step in 0..p[0] as usize {
        sum = sum.wrapping_add(load(words, step * p[1] as usize + id as usize));
    }
    store(sums, id as usize, sum);
}

/// The kernel `write`.
pub fn write(id: u32, p: &[u32; 12], words: &[AtomicU32]) {
    for step in 0..p[0] as usize {
        store(words, step * p[1] as usize + id as usize, p[2]);
    }
}

/// The kernel `copy`.
pub fn copy(id: u32, p: &[u32; 12], from: &[AtomicU32], to: &[AtomicU32]) {
    for step in 0..p[0] as usize {
        let at = step * p[1] as usize + id as usize;
        store(to, at, load(from, at));
    }
}

/// The kernel `chase`: each word has the index of the next.
pub fn chase(id: u32, p: &[u32; 12], words: &[AtomicU32], ends: &[AtomicU32]) {
    let mut at = id;
    for _ in 0..p[0] {
        at = load(words, at as usize);
    }
    store(ends, id as usize, at);
}
