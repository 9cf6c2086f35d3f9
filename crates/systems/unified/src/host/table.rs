//! The table's operations on words that nobody else changes: the definition that WGSL and CPU threads follow.

use std::sync::atomic::AtomicU32;

use super::{load, store};
use crate::Shape;
use crate::hash::{BUCKET_WORDS, SLOTS};
use crate::table::{NONE, code};

/// Evictions along a path, at most.
pub const EVICTIONS: usize = 5;
/// Marks the request that deletes.
pub const DELETE: u32 = 2;

/// The shape that a kernel's parameters describe.
fn shape(parameters: &[u32; 12]) -> Shape {
    Shape { buckets: parameters[0].wrapping_add(1), block: parameters[1].wrapping_add(1), signature_bits: 32 }
}

/// The word of a slot's signature.
pub fn slot(bucket: u32, slot: u32) -> usize {
    bucket as usize * BUCKET_WORDS + slot as usize
}

/// The slot of `bucket` with `signature`, circularly from `from`.
pub fn find(words: &[AtomicU32], bucket: u32, signature: u32, from: u32) -> Option<u32> {
    (0..SLOTS).map(|step| (from + step) % SLOTS).find(|&at| load(words, slot(bucket, at)) == signature)
}

/// Fills a slot.
pub fn fill(words: &[AtomicU32], bucket: u32, at: u32, signature: u32, location: u32) {
    store(words, slot(bucket, at + SLOTS), location);
    store(words, slot(bucket, at), signature);
}

/// Slots whose entries move one on, so that the first gets free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Buckets and slots; the last one is free.
    pub slots: [(u32, u32); EVICTIONS + 1],
    /// How many of them count.
    pub length: usize,
}

/// Looks for a path from a full bucket, beginning with a slot. It ends in a free slot.
fn path_from(words: &[AtomicU32], shape: Shape, start: u32, first: u32) -> Option<Path> {
    let mut path = Path::default();
    let (mut bucket, mut at) = (start, first);
    for step in 0..EVICTIONS {
        if path.slots[..step].contains(&(bucket, at)) {
            return None;
        }
        path.slots[step] = (bucket, at);
        let victim = load(words, slot(bucket, at));
        let next = shape.other(bucket, victim);
        if next == bucket {
            return None;
        }
        if let Some(free) = find(words, next, 0, victim % SLOTS) {
            path.slots[step + 1] = (next, free);
            path.length = step + 2;
            return Some(path);
        }
        (bucket, at) = (next, victim % SLOTS);
    }
    None
}

/// A path from one of two full buckets: each slot of each is tried.
pub fn path(words: &[AtomicU32], shape: Shape, first: u32, second: u32, signature: u32) -> Option<Path> {
    (0..2 * SLOTS).find_map(|attempt| {
        let start = if attempt % 2 == 0 { first } else { second };
        path_from(words, shape, start, (signature + attempt / 2) % SLOTS)
    })
}

/// Inserts, or replaces the location of an equal signature. Returns the code and the former location.
fn insert(words: &[AtomicU32], shape: Shape, first: u32, signature: u32, location: u32) -> (u32, u32) {
    let second = shape.other(first, signature);
    for bucket in [first, second] {
        if let Some(at) = find(words, bucket, signature, 0) {
            let former = load(words, slot(bucket, at + SLOTS));
            store(words, slot(bucket, at + SLOTS), location);
            return (code::REPLACED, former);
        }
    }
    for bucket in [first, second] {
        if let Some(at) = find(words, bucket, 0, signature % SLOTS) {
            fill(words, bucket, at, signature, location);
            return (code::INSERTED, NONE);
        }
    }
    let Some(path) = path(words, shape, first, second, signature) else { return (code::FULL, NONE) };
    for step in (1..path.length).rev() {
        let ((from, from_slot), (to, to_slot)) = (path.slots[step - 1], path.slots[step]);
        let moved = load(words, slot(from, from_slot));
        fill(words, to, to_slot, moved, load(words, slot(from, from_slot + SLOTS)));
    }
    fill(words, path.slots[0].0, path.slots[0].1, signature, location);
    (code::INSERTED, NONE)
}

/// Deletes a signature with its location, or with any for `NONE`. Returns the code and the former location.
pub fn delete(words: &[AtomicU32], shape: Shape, first: u32, signature: u32, location: u32) -> (u32, u32) {
    for bucket in [first, shape.other(first, signature)] {
        if let Some(at) = find(words, bucket, signature, 0) {
            let former = load(words, slot(bucket, at + SLOTS));
            if location != NONE && location != former {
                return (code::MISSING, NONE);
            }
            store(words, slot(bucket, at), 0);
            return (code::DELETED, former);
        }
    }
    (code::MISSING, NONE)
}

/// The kernel `search`.
pub fn search(
    id: u32,
    parameters: &[u32; 12],
    table: &[AtomicU32],
    requests: &[AtomicU32],
    results: &[AtomicU32],
) {
    let shape = shape(parameters);
    let request = id as usize * 2;
    let (hash, signature) = (load(requests, request), load(requests, request + 1));
    let first = hash & (shape.buckets - 1);
    let found = [first, shape.other(first, signature)]
        .into_iter()
        .find_map(|bucket| find(table, bucket, signature, 0).map(|at| load(table, slot(bucket, at + SLOTS))));
    store(results, id as usize, found.unwrap_or(NONE));
}

/// The kernel `change`.
pub fn change(
    id: u32,
    parameters: &[u32; 12],
    table: &[AtomicU32],
    requests: &[AtomicU32],
    segments: &[AtomicU32],
    results: &[AtomicU32],
) {
    let shape = shape(parameters);
    let (from, to) = (load(segments, id as usize * 2) as usize, load(segments, id as usize * 2 + 1) as usize);
    for request in from..to {
        let word = |at| load(requests, request * 4 + at);
        let (first, signature, location) = (word(0) & (shape.buckets - 1), word(1), word(2));
        let (code, former) = if word(3) == DELETE {
            delete(table, shape, first, signature, location)
        } else {
            insert(table, shape, first, signature, location)
        };
        store(results, request * 2, code);
        store(results, request * 2 + 1, former);
    }
    store(segments, id as usize * 2, to as u32);
}
