//! A piece: an extent with its segments, and what ordinary memory knows of them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use space::Space;
use zerocopy::FromZeros;

use super::directory::Entry;
use super::fingerprints::Bucket;
use super::layout::{BUCKET, Division, Root};
use crate::sealed::Sealed;
use crate::{Extent, Fixed};

/// An extent of a table.
pub(super) struct Piece {
    /// Where everything is.
    pub division: Division,
    bucket_bits: u32,
    /// The words of [`Bucket`]s.
    fingerprints: Box<[[AtomicU64; 2]]>,
    /// Per segment: the erasure that may not be durable, see [`Erasure`].
    erasures: Box<[AtomicU64]>,
}

/// The two buckets that may have a key.
#[derive(Clone, Copy)]
pub(super) struct Home<'a> {
    pub buckets: [Bucket<'a>; 2],
    /// Where they are in the space.
    pub offsets: [u64; 2],
}

/// An old pair that an update erased, flushed and did not wait for: a crash may keep it beside the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Erasure {
    /// Its slot.
    pub slot: u64,
    /// Some bits of its key's hash.
    pub hash: u64,
}

impl Erasure {
    const SLOT: u64 = (1 << 48) - 1;

    pub fn new(slot: u64, hash: u64) -> Erasure {
        Erasure { slot, hash: hash >> 8 & 0xFFFF }
    }

    /// Whether it may be of the same key.
    pub fn is_of(self, hash: u64) -> bool {
        self.hash == hash >> 8 & 0xFFFF
    }
}

fn zeros<T: FromZeros>(count: u64) -> Box<[T]> {
    match <[T]>::new_box_zeroed_with_elems(count as usize) {
        Ok(zeros) => zeros,
        Err(_) => std::alloc::handle_alloc_error(std::alloc::Layout::new::<T>()),
    }
}

impl Piece {
    /// A piece of which nothing is known yet. Takes no time: memory is touched when it is used.
    pub fn new(root: &Root, division: Division) -> Piece {
        Piece {
            division,
            bucket_bits: root.bucket_bits,
            fingerprints: zeros(division.count << root.bucket_bits),
            erasures: zeros(division.count),
        }
    }

    /// Where a segment begins.
    #[inline(always)]
    pub fn segment_offset(&self, segment: u64) -> u64 {
        self.division.base + ((segment * BUCKET) << self.bucket_bits)
    }

    /// Where the segment's word is.
    pub fn claim_offset(&self, segment: u64) -> u64 {
        self.division.table + 8 * segment
    }

    /// The buckets of a segment.
    pub fn buckets(&self, segment: u64) -> impl Iterator<Item = Bucket<'_>> {
        let first = (segment << self.bucket_bits) as usize;
        self.fingerprints[first..first + (1 << self.bucket_bits)].iter().map(Bucket::new)
    }

    /// Whether its fingerprints are there.
    #[inline(always)]
    pub fn is_loaded(&self, segment: u64) -> bool {
        Bucket::new(&self.fingerprints[(segment << self.bucket_bits) as usize]).is_loaded()
    }

    /// Which buckets may have a hash: two that follow each other in a circle.
    #[inline(always)]
    pub fn home_numbers(&self, hash: u64) -> [u64; 2] {
        let near = hash >> 8 & ((1 << self.bucket_bits) - 1);
        [near, (near + 1) & ((1 << self.bucket_bits) - 1)]
    }

    /// The first of the two buckets, and where it is.
    #[inline(always)]
    pub fn near(&self, entry: Entry, hash: u64) -> (Bucket<'_>, u64) {
        let [number, _] = self.home_numbers(hash);
        let number = (entry.segment() << self.bucket_bits) + number;
        (Bucket::new(&self.fingerprints[number as usize]), self.division.base + number * BUCKET)
    }

    #[inline(always)]
    pub fn home(&self, entry: Entry, hash: u64) -> Home<'_> {
        let first = entry.segment() << self.bucket_bits;
        let numbers = self.home_numbers(hash);
        Home {
            buckets: numbers.map(|bucket| Bucket::new(&self.fingerprints[(first + bucket) as usize])),
            offsets: numbers.map(|bucket| self.division.base + (first + bucket) * BUCKET),
        }
    }

    /// What may not be durable in that segment. For the holder of its lock.
    #[inline(always)]
    pub fn erasure(&self, segment: u64) -> Option<Erasure> {
        let word = self.erasures[segment as usize].load(Relaxed);
        (word != 0).then_some(Erasure { slot: word & Erasure::SLOT, hash: word >> 48 })
    }

    #[inline(always)]
    pub fn set_erasure(&self, segment: u64, erasure: Option<Erasure>) {
        let word = erasure.map_or(0, |erasure| erasure.hash << 48 | erasure.slot);
        self.erasures[segment as usize].store(word, Relaxed);
    }
}

/// What is free.
pub(super) struct Growth {
    /// Segments: their pieces, their numbers in these.
    pub free: Vec<(usize, u64)>,
    /// Pieces that are in use.
    pub pieces: usize,
    /// Extents that the table owns and does not use yet: a crash came in between.
    pub unused: Vec<Extent>,
}

/// Makes all segments of an extent free; the caller waits.
pub(super) fn clear_claims<S: Space>(space: &S, division: Division) {
    for at in (division.table..).step_by(8).take(division.count as usize) {
        space.store_u64(at, 0);
    }
    space.flush(division.table, 8 * division.count.max(1));
}

/// Makes sure that no slot of a segment holds a pair; the caller waits.
pub(super) fn clear_segment<S: Space, K: Fixed, V: Fixed>(
    space: &S,
    root: &Root,
    begin: u64,
    offsets: &[u64],
) {
    for bucket in (begin..begin + root.segment_bytes()).step_by(BUCKET as usize) {
        for at in offsets.iter().map(|offset| bucket + offset) {
            if Sealed::<K, V>::erase(space, at) {
                space.flush(at, 8);
            }
        }
    }
}
