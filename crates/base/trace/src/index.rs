//! Where the blocks of a trace are: written at its end, rebuilt by a scan if the writer was killed.

use std::collections::BTreeMap;

use super::bytes::{Bytes, put_varint, unzigzag, zigzag};
use super::error::Malformed;
use super::format::{BLOCK_EVENTS, BlockHeader, BlockKind};

/// Entries of one index block at most.
pub(super) const INDEX_ENTRIES: usize = 1 << 16;

/// A block of events or definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub offset: u64,
    /// Number of the first event among its thread's.
    pub first: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    /// In the file: the block's first position in the global order. Once in an [`Index`]: the first one
    /// in this or any later block of the thread. 0 if there is none.
    pub first_seq: u64,
    pub thread: u32,
    pub count: u32,
    pub definitions: bool,
}

impl Entry {
    pub(super) fn of(header: &BlockHeader, offset: u64) -> Entry {
        Entry {
            offset,
            first: header.first,
            start_ns: header.start_ns,
            end_ns: header.end_ns,
            first_seq: header.first_seq,
            thread: header.thread,
            count: header.count,
            definitions: header.kind == BlockKind::Definitions,
        }
    }
}

/// Entries as the column of an index block: differences to the entry before.
pub(super) fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut offset, mut start_ns, mut first_seq) = (0, 0, 0);
    for entry in entries {
        out.push(u8::from(entry.definitions));
        put_varint(&mut out, entry.offset.wrapping_sub(offset));
        put_varint(&mut out, u64::from(entry.count));
        offset = entry.offset;
        if entry.definitions {
            continue;
        }
        put_varint(&mut out, u64::from(entry.thread));
        put_varint(&mut out, entry.first);
        put_varint(&mut out, zigzag(entry.start_ns.wrapping_sub(start_ns)));
        put_varint(&mut out, zigzag(entry.end_ns.wrapping_sub(entry.start_ns)));
        put_varint(&mut out, zigzag(entry.first_seq.wrapping_sub(first_seq)));
        (start_ns, first_seq) = (entry.start_ns, entry.first_seq);
    }
    out
}

/// Inverse of [`encode`].
pub(super) fn decode(column: &[u8], count: u32, index: &mut Index) -> Result<(), Malformed> {
    let mut bytes = Bytes::new(column);
    let (mut offset, mut start_ns, mut first_seq) = (0u64, 0u64, 0u64);
    for _ in 0..count {
        let definitions = match bytes.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed("an unknown kind of index entry")),
        };
        offset = offset.wrapping_add(bytes.varint()?);
        let count = bytes.varint32()?;
        let mut entry =
            Entry { offset, first: 0, start_ns: 0, end_ns: 0, first_seq: 0, thread: 0, count, definitions };
        if !definitions {
            entry.thread = bytes.varint32()?;
            entry.first = bytes.varint()?;
            start_ns = start_ns.wrapping_add(unzigzag(bytes.varint()?));
            entry.start_ns = start_ns;
            entry.end_ns = start_ns.wrapping_add(unzigzag(bytes.varint()?));
            first_seq = first_seq.wrapping_add(unzigzag(bytes.varint()?));
            entry.first_seq = first_seq;
        }
        index.add(entry)?;
    }
    if bytes.is_empty() { Ok(()) } else { Err(Malformed("an index block is longer than its entries")) }
}

/// All blocks of a file.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Blocks of events per thread, in their order.
    pub threads: BTreeMap<u32, Vec<Entry>>,
    /// Where the blocks of definitions are, in their order.
    pub definitions: Vec<Entry>,
    /// Blocks of events, and events in them.
    pub blocks: u64,
    pub events: u64,
}

impl Index {
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), Malformed> {
        if entry.definitions {
            self.definitions.push(entry);
            return Ok(());
        }
        if entry.count == 0 || entry.count as usize > BLOCK_EVENTS {
            return Err(Malformed("a block with an impossible number of events"));
        }
        let blocks = self.threads.entry(entry.thread).or_default();
        let expected = blocks.last().map_or(0, |last| last.first.saturating_add(u64::from(last.count)));
        if entry.first != expected {
            return Err(Malformed("a block of this thread is missing"));
        }
        blocks.push(entry);
        self.blocks += 1;
        self.events += u64::from(entry.count);
        Ok(())
    }

    /// Turns each entry's `first_seq` into the first position from there on.
    pub(super) fn look_ahead(&mut self) {
        for blocks in self.threads.values_mut() {
            let mut next = 0;
            for entry in blocks.iter_mut().rev() {
                if entry.first_seq != 0 {
                    next = entry.first_seq;
                }
                entry.first_seq = next;
            }
        }
    }
}
