//! Runs: straight pieces of code whose accesses are recorded as one descriptor address and one word each.
//!
//! Nearly all of a recording is runs, and the collector does not take them apart: it puts the shape's number
//! where the descriptor's address was and hands the words on ([`event::RunBatch`]). A descriptor is read once per process.

use event::{AccessKind, RunAccess, SiteId};

use super::address_map::AddressMap;
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
    pub shape: u32,
    /// Words of a record with this header, it included.
    pub words: u16,
    /// Whether it is no run but an access by a call, which tells its length.
    pub tells_length: bool,
}

const _: () = assert!(size_of::<Run>() == 16);

/// Entries of the small table; headers whose addresses are near each other have entries near each other.
const NEAR: usize = 1 << 14;

/// The known runs of one process.
#[derive(Default)]
pub struct Runs {
    runs: Vec<Run>,
    by_header: AddressMap,
    /// The run with each of some headers that was looked up last.
    near: Vec<Run>,
}

impl Runs {
    /// Enters a run.
    pub fn learn(&mut self, header: u64, shape: u32, words: usize, tells_length: bool) {
        self.by_header.insert(header, self.runs.len() as u32);
        self.runs.push(Run { header, shape, words: words as u16, tells_length });
        if self.near.is_empty() {
            self.near = vec![Run::default(); NEAR];
        }
    }

    /// The run with this header, if it is known.
    #[inline]
    #[must_use]
    pub fn get(&mut self, header: u64) -> Option<Run> {
        // A header is a quarter of an address, and descriptors are not shorter than 16 bytes.
        let near = self.near.get_mut((header >> 2) as usize % NEAR)?;
        if near.header != header {
            *near = self.runs[self.by_header.get(header)? as usize];
        }
        Some(*near)
    }
}
