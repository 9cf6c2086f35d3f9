//! Blocks: straight pieces of code whose accesses are recorded as one descriptor address and one word each.
//!
//! Nearly all of a recording is blocks, and the collector does not take them apart: it hands the words on
//! ([`event::RawBlocks`]). A descriptor is read once per process.

use event::{AccessKind, BlockAccess, SiteId};

use abi::{BLOCK_MAGIC, BLOCK_MAX, BLOCK_STORE};

/// Bytes of a descriptor before its accesses.
pub const DESCRIPTOR_HEAD: usize = 8;
/// Bytes of the longest descriptor.
pub const DESCRIPTOR_MAX: usize = DESCRIPTOR_HEAD + 8 * BLOCK_MAX;
/// Events of a batch at most that are reported one by one, unless a single record expands to more.
pub const BATCH: usize = 4096;

/// A descriptor as its bytes say, before its code addresses get sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Each access, with its code address, and without its site.
    pub accesses: Vec<(u64, BlockAccess)>,
    /// Instructions from the last access to the end of the basic block.
    pub after: u32,
}

impl Descriptor {
    /// Reads the descriptor that lies at `address`, if `bytes` is one.
    #[must_use]
    pub fn parse(address: u64, bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..DESCRIPTOR_HEAD)?;
        let count = usize::from(head[4]);
        if u32::from_le_bytes([head[0], head[1], head[2], head[3]]) != BLOCK_MAGIC
            || !(1..=BLOCK_MAX).contains(&count)
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
            let log2_size = entry[4] & !BLOCK_STORE;
            if log2_size > 4 {
                return None;
            }
            let kind = if entry[4] & BLOCK_STORE != 0 { AccessKind::Store } else { AccessKind::Load };
            let instructions = if at == 0 { before } else { u32::from(entry[5]) };
            let access = BlockAccess { kind, len: Some(1 << log2_size), site: SiteId::UNKNOWN, instructions };
            accesses.push((field.wrapping_add_signed(offset.into()), access));
        }
        Some(Descriptor { accesses, after: head[5].into() })
    }
}
