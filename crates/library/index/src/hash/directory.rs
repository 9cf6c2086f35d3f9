//! The directory: from the first bits of a hash to the segment that has it. In ordinary memory; readers use
//! it without a lock.
//!
//! When it grows, a new array takes the place of the old one, which stays until the table is closed, so that
//! nobody who still reads it has to be waited for. All old ones together are as long as the new one.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::layout::{Claim, DEPTH_MAX, first_bits};

/// A segment, and how many bits of a hash lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Entry {
    const PIECE: u32 = 56;
    const DEPTH: u32 = 48;

    pub fn new(piece: usize, segment: u64, depth: u32) -> Entry {
        Entry((piece as u64) << Self::PIECE | u64::from(depth) << Self::DEPTH | segment)
    }

    /// The number of its piece.
    #[inline(always)]
    pub fn piece(self) -> usize {
        (self.0 >> Self::PIECE) as usize
    }

    /// Its number in the piece.
    #[inline(always)]
    pub fn segment(self) -> u64 {
        self.0 & ((1 << Self::DEPTH) - 1)
    }

    #[inline(always)]
    pub fn depth(self) -> u32 {
        (self.0 >> Self::DEPTH) as u8 as u32
    }

    /// The same segment, at another depth.
    pub fn at_depth(self, depth: u32) -> Entry {
        Entry::new(self.piece(), self.segment(), depth)
    }
}

/// Arrays of entries, one for each depth that the directory has had.
pub(super) struct Directory {
    depth: AtomicU32,
    levels: [OnceLock<Box<[AtomicU64]>>; DEPTH_MAX as usize + 1],
}

impl Directory {
    /// A directory of these segments, which together have all hashes.
    pub fn new(segments: impl Iterator<Item = (Claim, Entry)> + Clone) -> Self {
        let depth = segments.clone().map(|(claim, _)| claim.depth).max().unwrap_or(0);
        let level: Box<[AtomicU64]> = (0..1u64 << depth).map(|_| AtomicU64::new(0)).collect();
        let directory = Directory { depth: depth.into(), levels: [const { OnceLock::new() }; _] };
        for (claim, entry) in segments {
            Self::fill(&level, depth, claim, entry);
        }
        _ = directory.levels[depth as usize].set(level);
        directory
    }

    #[inline(always)]
    fn level(&self, depth: u32) -> &[AtomicU64] {
        match self.levels[depth as usize].get() {
            Some(level) => level,
            None => unreachable!("a depth is announced after its level is there"),
        }
    }

    /// The segment of that hash.
    #[inline(always)]
    pub fn entry(&self, hash: u64) -> Entry {
        let depth = self.depth.load(Acquire);
        Entry(self.level(depth)[first_bits(hash, depth) as usize].load(Acquire))
    }

    fn fill(level: &[AtomicU64], depth: u32, claim: Claim, entry: Entry) {
        let each = depth - claim.depth;
        let first = (claim.prefix << each) as usize;
        for word in &level[first..first + (1 << each)] {
            word.store(entry.0, Release);
        }
    }

    /// From now on these hashes are that segment's. One thread at a time.
    pub fn set(&self, claim: Claim, entry: Entry) {
        let depth = self.depth.load(Relaxed);
        if claim.depth > depth {
            let old = self.level(depth);
            let copy = |at: u64| AtomicU64::new(old[at as usize >> 1].load(Relaxed));
            let level: Box<[AtomicU64]> = (0..1u64 << claim.depth).map(copy).collect();
            Self::fill(&level, claim.depth, claim, entry);
            _ = self.levels[claim.depth as usize].set(level);
            self.depth.store(claim.depth, Release);
        } else {
            Self::fill(self.level(depth), depth, claim, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_lead_to_their_segments() {
        let mut claims = vec![Claim { depth: 0, prefix: 0 }];
        let number = |at: usize| at as u64;
        let directory = Directory::new([(claims[0], Entry::new(0, 0, 0))].into_iter());
        for step in 0..200u64 {
            let at = (step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % claims.len();
            if claims[at].depth == 10 {
                continue;
            }
            let [low, high] = claims[at].halves();
            claims[at] = low;
            claims.push(high);
            directory.set(low, Entry::new(at % 3, number(at), low.depth));
            let new = claims.len() - 1;
            directory.set(high, Entry::new(new % 3, number(new), high.depth));
        }
        for (at, claim) in claims.iter().enumerate() {
            for hash in [claim.begin() << 32, (claim.end() << 32).wrapping_sub(1)] {
                assert!(claim.covers(hash));
                let entry = directory.entry(hash);
                assert_eq!(
                    (entry.piece(), entry.segment(), entry.depth()),
                    (at % 3, number(at), claim.depth)
                );
            }
        }
    }
}
