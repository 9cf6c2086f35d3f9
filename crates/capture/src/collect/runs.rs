//! Runs: straight pieces of code whose accesses are recorded as one descriptor address and one word each.
//!
//! Nearly all of a recording is runs, and the collector does not take them apart: it puts the shape's number
//! where the descriptor's address was and hands the words on ([`event::RunBatch`]). A descriptor is read once per process.

use event::{AccessKind, HEAD, RunAccess, RunShape, SiteId};

use super::address_map::AddressMap;
use super::records::touching;
use crate::wire::{RUN_MAGIC, RUN_MAX, RUN_STORE};

/// Bytes of a descriptor before its accesses.
pub const DESCRIPTOR_HEAD: usize = 8;
/// Bytes of the longest descriptor.
pub const DESCRIPTOR_MAX: usize = DESCRIPTOR_HEAD + 8 * RUN_MAX;
/// Events of a batch at most that are told one by one, unless a single record expands to more.
pub const BATCH: usize = 4096;

/// A descriptor as its bytes say, before its code addresses get sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Each access, with its code address, and without its site.
    pub accesses: Vec<(u64, RunAccess)>,
    /// Instructions from the last access to the end of the basic block.
    pub after: u32,
}

impl Descriptor {
    /// Reads the descriptor that lies at `address`, if `bytes` is one.
    #[must_use]
    pub fn parse(address: u64, bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..DESCRIPTOR_HEAD)?;
        let count = usize::from(head[4]);
        if u32::from_le_bytes([head[0], head[1], head[2], head[3]]) != RUN_MAGIC
            || !(1..=RUN_MAX).contains(&count)
        {
            return None;
        }
        let before = u32::from(u16::from_le_bytes([head[6], head[7]]));
        let mut accesses = Vec::with_capacity(count);
        for (at, entry) in
            bytes.get(DESCRIPTOR_HEAD..DESCRIPTOR_HEAD + 8 * count)?.chunks_exact(8).enumerate()
        {
            let offset = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let field = address + (DESCRIPTOR_HEAD + 8 * at) as u64;
            let log2_size = entry[4] & !RUN_STORE;
            if log2_size > 4 {
                return None;
            }
            let kind = if entry[4] & RUN_STORE != 0 { AccessKind::Store } else { AccessKind::Load };
            let instructions = if at == 0 { before } else { u32::from(entry[5]) };
            let access = RunAccess { kind, len: Some(1 << log2_size), site: SiteId::UNKNOWN, instructions };
            accesses.push((field.wrapping_add_signed(offset.into()), access));
        }
        Some(Descriptor { accesses, after: head[5].into() })
    }
}

/// What is known of a header word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// The header; 0: nothing is known.
    header: u64,
    /// Number of its shape.
    shape: u32,
    /// Words of a record with this header, it included.
    pub words: u16,
    /// Whether it is no run but an access by a call, which tells its length.
    tells_length: bool,
}

const _: () = assert!(size_of::<Run>() == 16);

impl Run {
    /// Where a header's entry is among those that are near.
    #[inline(always)]
    #[must_use]
    pub fn place(header: u64) -> usize {
        // A header is a quarter of an address, and descriptors are not shorter than 16 bytes.
        (header >> 2) as usize % NEAR
    }

    /// Whether it is the run with this header.
    #[inline(always)]
    #[must_use]
    pub fn is(&self, header: u64) -> bool {
        self.header == header
    }

    /// Makes of its words those that batches of runs have; how many of them are no accesses. None if it is an access
    /// that does not fit into them: then they are as they were.
    #[inline(always)]
    pub fn tell(&self, words: &mut [u64]) -> Option<usize> {
        if self.tells_length {
            let [_, addr, len] = words else { return None };
            let touching = touching(*len).filter(|_| *addr != 0 && *addr & HEAD == 0)?;
            *len |= u64::from(touching) << 32;
        }
        words[0] = RunShape::head(self.shape);
        Some(1 + usize::from(self.tells_length))
    }
}

/// Entries of the small table; headers whose addresses are near each other have entries near each other.
pub const NEAR: usize = 1 << 13;

/// The known runs of one process.
pub struct Runs {
    runs: Vec<Run>,
    by_header: AddressMap,
    /// Of the headers that share a place, the one that was looked up last.
    near: Vec<Run>,
}

impl Default for Runs {
    fn default() -> Self {
        Runs { runs: Vec::new(), by_header: AddressMap::default(), near: vec![Run::default(); NEAR] }
    }
}

impl Runs {
    /// Enters a run.
    pub fn learn(&mut self, header: u64, shape: u32, words: usize, tells_length: bool) {
        self.by_header.insert(header, self.runs.len() as u32);
        self.runs.push(Run { header, shape, words: words as u16, tells_length });
    }

    /// Entries of some runs, each at its [`Run::place`].
    #[inline]
    #[must_use]
    pub fn near(&self) -> Option<&[Run; NEAR]> {
        self.near.first_chunk()
    }

    /// The run with this header, if it is known.
    #[inline]
    #[must_use]
    pub fn get(&mut self, header: u64) -> Option<Run> {
        let near = self.near.get_mut(Run::place(header))?;
        if !near.is(header) {
            *near = self.runs[self.by_header.get(header)? as usize];
        }
        Some(*near)
    }
}
