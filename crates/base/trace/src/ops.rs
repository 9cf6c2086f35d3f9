//! Operations as numbers: a code of five bits, an address, a length, and rare extras.

use event::{FenceKind, FlushKind, NameId, Op, Order, StrandMark, ThreadId};

use super::bytes::{Bytes, put_varint, zigzag};
use super::error::Malformed;

pub(super) const LOAD: u8 = 0;
pub(super) const STORE: u8 = 1;
pub(super) const STORE_NT: u8 = 2;
const CLWB: u8 = 3;
const CLFLUSHOPT: u8 = 4;
const CLFLUSH: u8 = 5;
const DEMOTE: u8 = 6;
/// From this code to [`SYNC_LAST`] an operation ends its batch.
pub(super) const FENCE_STORE: u8 = 7;
const FENCE_FULL: u8 = 8;
const FENCE_LOCKED: u8 = 9;
/// From this code to [`SYNC_LAST`] an operation has a position in the global order.
const ACQUIRE: u8 = 10;
const RELEASE: u8 = 14;
const LOCK: u8 = 18;
const LOCK_SHARED: u8 = 19;
const UNLOCK: u8 = 20;
const SPAWN: u8 = 21;
const THREAD_START: u8 = 22;
const THREAD_END: u8 = 23;
const JOIN: u8 = 24;
pub(super) const SYNC_LAST: u8 = JOIN;
const ALLOC: u8 = 25;
const FREE: u8 = 26;
const MAP: u8 = 27;
const UNMAP: u8 = 28;
const REGION_BEGIN: u8 = 29;
const REGION_END: u8 = 30;
/// A phase, and all operations for which five bits have no code. The first extra is below [`FURTHER`] for a
/// phase, its name; else it is one of the numbers here.
const PHASE: u8 = 31;
const FURTHER: u64 = 1 << 32;
const STRAND_BARRIER: u64 = FURTHER;
const NEW_STRAND: u64 = FURTHER + 1;
const JOIN_STRAND: u64 = FURTHER + 2;
const FILE_WRITE: u64 = FURTHER + 3;
const FILE_SYNC: u64 = FURTHER + 4;
const FILE_DATA_SYNC: u64 = FURTHER + 5;
const MAP_SYNC: u64 = FURTHER + 6;
const FILE_TRUNCATE: u64 = FURTHER + 7;
const FILE_CREATE: u64 = FURTHER + 8;
const FOLDER_CREATE: u64 = FURTHER + 9;
const RENAME: u64 = FURTHER + 10;
const UNLINK: u64 = FURTHER + 11;
const MAP_OFFSET: u64 = FURTHER + 12;
const RANGE_SYNC: u64 = FURTHER + 13;
const RANGE_DATA_SYNC: u64 = FURTHER + 14;
const PROCESS: u64 = FURTHER + 15;
const LINK: u64 = FURTHER + 16;
const SYMLINK: u64 = FURTHER + 17;
const EXCHANGE: u64 = FURTHER + 18;
const FILES_SYNC: u64 = FURTHER + 19;
const FILE_COLLAPSE: u64 = FURTHER + 20;
const FILE_INSERT: u64 = FURTHER + 21;
const PREFETCH: u64 = FURTHER + 22;
const CONTEXT: u64 = FURTHER + 23;

const ORDERS: [Order; 4] = [Order::Acquire, Order::Release, Order::AcqRel, Order::SeqCst];

/// The code of a load or store; meaningless for other operations.
#[inline(always)]
pub(super) fn access_code(op: &Op) -> u8 {
    if let Op::Load { .. } = op {
        LOAD
    } else if let Op::Store { .. } = op {
        STORE
    } else {
        STORE_NT
    }
}

/// An operation's code, address (`none` if it has no address) and length (0 if it has none); what else it has
/// goes to `extras` and its position in the global order to `seqs`.
pub(super) fn split(op: &Op, none: u64, extras: &mut Vec<u8>, seqs: &mut SeqWriter) -> (u8, u64, u32) {
    if let Op::Load { addr, len } | Op::Store { addr, len } | Op::StoreNt { addr, len } = *op {
        return (access_code(op), addr, len);
    }
    if let Some((addr, len)) = split_further(op, none, extras) {
        return (PHASE, addr, len);
    }
    let mut extra = |value: u64| put_varint(extras, value);
    let parts = match *op {
        Op::Load { .. } | Op::Store { .. } | Op::StoreNt { .. } => unreachable!("handled above"),
        Op::Flush { addr, kind } => (CLWB + kind as u8, addr),
        Op::Demote { addr } => (DEMOTE, addr),
        Op::Fence(kind) => (FENCE_STORE + kind as u8, none),
        Op::Acquire { var, order, .. } => (ACQUIRE + order as u8, var),
        Op::Release { var, order, .. } => (RELEASE + order as u8, var),
        Op::Lock { lock, shared, .. } => (if shared { LOCK_SHARED } else { LOCK }, lock),
        Op::Unlock { lock, .. } => (UNLOCK, lock),
        Op::Spawn { child, .. } => {
            extra(u64::from(child.0));
            (SPAWN, none)
        }
        Op::ThreadStart { .. } => (THREAD_START, none),
        Op::ThreadEnd { .. } => (THREAD_END, none),
        Op::Join { thread, .. } => {
            extra(u64::from(thread.0));
            (JOIN, none)
        }
        Op::Alloc { addr, len } => {
            extra(len);
            (ALLOC, addr)
        }
        Op::Free { addr } => (FREE, addr),
        Op::Map { addr, len, name } => {
            extra(len);
            extra(u64::from(name.0));
            (MAP, addr)
        }
        Op::Unmap { addr, len } => {
            extra(len);
            (UNMAP, addr)
        }
        Op::RegionBegin { region } => {
            extra(region);
            (REGION_BEGIN, none)
        }
        Op::RegionEnd { region } => {
            extra(region);
            (REGION_END, none)
        }
        Op::Phase { name } => {
            extra(u64::from(name.0));
            (PHASE, none)
        }
        // Those that share a code.
        Op::Strand(_)
        | Op::MapOffset { .. }
        | Op::MapSync { .. }
        | Op::Process { .. }
        | Op::Prefetch { .. }
        | Op::Context
        | event::file_operations!() => unreachable!("handled above"),
    };
    if let Some(seq) = op.seq() {
        seqs.put(seq);
    }
    (parts.0, parts.1, 0)
}

/// As [`split`] for the operations that share [`PHASE`]'s code, `None` for others: address and length.
fn split_further(op: &Op, none: u64, extras: &mut Vec<u8>) -> Option<(u64, u32)> {
    let file = |name: NameId| u64::from(name.0);
    let (addr, len, numbers) = match *op {
        Op::Strand(StrandMark::Barrier) => (none, 0, [Some(STRAND_BARRIER), None, None]),
        Op::Strand(StrandMark::New) => (none, 0, [Some(NEW_STRAND), None, None]),
        Op::Strand(StrandMark::Join) => (none, 0, [Some(JOIN_STRAND), None, None]),
        Op::FileWrite { file: name, offset, len } => {
            (offset, len, [Some(FILE_WRITE), Some(file(name)), None])
        }
        Op::FileSync { file: name, data_only } => {
            let number = if data_only { FILE_DATA_SYNC } else { FILE_SYNC };
            (none, 0, [Some(number), Some(file(name)), None])
        }
        Op::FileRangeSync { file: name, offset, len, data_only } => {
            let number = if data_only { RANGE_DATA_SYNC } else { RANGE_SYNC };
            (offset, len, [Some(number), Some(file(name)), None])
        }
        Op::MapSync { addr, len } => (addr, 0, [Some(MAP_SYNC), Some(len), None]),
        Op::FileTruncate { file: name, len } => (none, 0, [Some(FILE_TRUNCATE), Some(file(name)), Some(len)]),
        Op::FileCreate { file: name, folder } => {
            let number = if folder { FOLDER_CREATE } else { FILE_CREATE };
            (none, 0, [Some(number), Some(file(name)), None])
        }
        Op::Rename { from, to } => (none, 0, [Some(RENAME), Some(file(from)), Some(file(to))]),
        Op::Unlink { file: name } => (none, 0, [Some(UNLINK), Some(file(name)), None]),
        Op::Link { from, to } => (none, 0, [Some(LINK), Some(file(from)), Some(file(to))]),
        Op::Symlink { file: name, target } => {
            (none, 0, [Some(SYMLINK), Some(file(name)), Some(file(target))])
        }
        Op::Exchange { from, to } => (none, 0, [Some(EXCHANGE), Some(file(from)), Some(file(to))]),
        Op::FilesSync { file: name } => (none, 0, [Some(FILES_SYNC), Some(file(name)), None]),
        Op::FileCollapse { file: name, offset, len } => {
            (offset, 0, [Some(FILE_COLLAPSE), Some(file(name)), Some(len)])
        }
        Op::FileInsert { file: name, offset, len } => {
            (offset, 0, [Some(FILE_INSERT), Some(file(name)), Some(len)])
        }
        Op::Prefetch { addr } => (addr, 0, [Some(PREFETCH), None, None]),
        Op::Context => (none, 0, [Some(CONTEXT), None, None]),
        Op::MapOffset { addr, offset } => (addr, 0, [Some(MAP_OFFSET), Some(offset), None]),
        Op::Process { process } => (none, 0, [Some(PROCESS), Some(u64::from(process)), None]),
        Op::Load { .. }
        | Op::Store { .. }
        | Op::StoreNt { .. }
        | Op::Flush { .. }
        | Op::Demote { .. }
        | Op::Fence(_)
        | event::synchronizations!()
        | Op::Alloc { .. }
        | Op::Free { .. }
        | Op::Map { .. }
        | Op::Unmap { .. }
        | Op::RegionBegin { .. }
        | Op::RegionEnd { .. }
        | Op::Phase { .. } => return None,
    };
    numbers.into_iter().flatten().for_each(|extra| put_varint(extras, extra));
    Some((addr, len))
}

/// Inverse of [`split`] for all codes but loads and stores.
pub(super) fn join(
    code: u8,
    addr: u64,
    len: u32,
    extras: &mut Bytes<'_>,
    seqs: &mut SeqReader<'_>,
) -> Result<Op, Malformed> {
    let order = ORDERS[usize::from(code.wrapping_sub(ACQUIRE) & 3)];
    Ok(match code {
        CLWB => Op::Flush { addr, kind: FlushKind::Clwb },
        CLFLUSHOPT => Op::Flush { addr, kind: FlushKind::Clflushopt },
        CLFLUSH => Op::Flush { addr, kind: FlushKind::Clflush },
        DEMOTE => Op::Demote { addr },
        FENCE_STORE => Op::Fence(FenceKind::Store),
        FENCE_FULL => Op::Fence(FenceKind::Full),
        FENCE_LOCKED => Op::Fence(FenceKind::Locked),
        ACQUIRE..RELEASE => Op::Acquire { var: addr, order, seq: seqs.next()? },
        RELEASE..LOCK => Op::Release { var: addr, order, seq: seqs.next()? },
        LOCK | LOCK_SHARED => Op::Lock { lock: addr, shared: code == LOCK_SHARED, seq: seqs.next()? },
        UNLOCK => Op::Unlock { lock: addr, seq: seqs.next()? },
        SPAWN => Op::Spawn { child: ThreadId(extras.varint32()?), seq: seqs.next()? },
        THREAD_START => Op::ThreadStart { seq: seqs.next()? },
        THREAD_END => Op::ThreadEnd { seq: seqs.next()? },
        JOIN => Op::Join { thread: ThreadId(extras.varint32()?), seq: seqs.next()? },
        ALLOC => Op::Alloc { addr, len: extras.varint()? },
        FREE => Op::Free { addr },
        MAP => Op::Map { addr, len: extras.varint()?, name: NameId(extras.varint32()?) },
        UNMAP => Op::Unmap { addr, len: extras.varint()? },
        REGION_BEGIN => Op::RegionBegin { region: extras.varint()? },
        REGION_END => Op::RegionEnd { region: extras.varint()? },
        PHASE => further(addr, len, extras)?,
        _ => return Err(Malformed("an operation that stands elsewhere")),
    })
}

/// A phase, or the inverse of [`split_further`].
fn further(addr: u64, len: u32, extras: &mut Bytes<'_>) -> Result<Op, Malformed> {
    let number = extras.varint()?;
    if let Ok(name) = u32::try_from(number) {
        return Ok(Op::Phase { name: NameId(name) });
    }
    let mut name = || extras.varint32().map(NameId);
    Ok(match number {
        STRAND_BARRIER => Op::Strand(StrandMark::Barrier),
        NEW_STRAND => Op::Strand(StrandMark::New),
        JOIN_STRAND => Op::Strand(StrandMark::Join),
        FILE_WRITE => Op::FileWrite { file: name()?, offset: addr, len },
        FILE_SYNC | FILE_DATA_SYNC => Op::FileSync { file: name()?, data_only: number == FILE_DATA_SYNC },
        MAP_SYNC => Op::MapSync { addr, len: extras.varint()? },
        FILE_TRUNCATE => Op::FileTruncate { file: name()?, len: extras.varint()? },
        FILE_CREATE | FOLDER_CREATE => Op::FileCreate { file: name()?, folder: number == FOLDER_CREATE },
        RENAME => Op::Rename { from: name()?, to: name()? },
        UNLINK => Op::Unlink { file: name()? },
        LINK => Op::Link { from: name()?, to: name()? },
        SYMLINK => Op::Symlink { file: name()?, target: name()? },
        EXCHANGE => Op::Exchange { from: name()?, to: name()? },
        FILES_SYNC => Op::FilesSync { file: name()? },
        FILE_COLLAPSE => Op::FileCollapse { file: name()?, offset: addr, len: extras.varint()? },
        FILE_INSERT => Op::FileInsert { file: name()?, offset: addr, len: extras.varint()? },
        PREFETCH => Op::Prefetch { addr },
        CONTEXT => Op::Context,
        MAP_OFFSET => Op::MapOffset { addr, offset: extras.varint()? },
        PROCESS => Op::Process { process: extras.varint32()? },
        RANGE_SYNC | RANGE_DATA_SYNC => {
            Op::FileRangeSync { file: name()?, offset: addr, len, data_only: number == RANGE_DATA_SYNC }
        }
        _ => return Err(Malformed("an operation that this version does not know")),
    })
}

/// Whether a batch ends with an operation of this code.
pub(super) fn ends_batch(code: u8) -> bool {
    (FENCE_STORE..=SYNC_LAST).contains(&code)
}

/// Positions in the global order, as differences.
#[derive(Debug, Default)]
pub(super) struct SeqWriter {
    pub column: Vec<u8>,
    pub first: u64,
    pub last: u64,
}

impl SeqWriter {
    fn put(&mut self, seq: u64) {
        if self.column.is_empty() {
            self.first = seq;
        }
        put_varint(&mut self.column, zigzag(seq.wrapping_sub(self.last)));
        self.last = seq;
    }

    pub(super) fn clear(&mut self) {
        self.column.clear();
        (self.first, self.last) = (0, 0);
    }
}

/// Reads what [`SeqWriter`] wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeqReader<'a> {
    pub bytes: Bytes<'a>,
    pub last: u64,
}

impl SeqReader<'_> {
    pub(super) fn next(&mut self) -> Result<u64, Malformed> {
        self.last = self.last.wrapping_add(super::bytes::unzigzag(self.bytes.varint()?));
        Ok(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_operations_stand_as_the_document_says() {
        let mut extras = Vec::new();
        let op = Op::FileWrite { file: NameId(5), offset: 4096, len: 512 };
        assert_eq!(split(&op, 77, &mut extras, &mut SeqWriter::default()), (31, 4096, 512));
        assert_eq!(extras, [0x83, 0x80, 0x80, 0x80, 0x10, 5]);
        extras.clear();
        let op = Op::FileTruncate { file: NameId(u32::MAX), len: u64::MAX };
        assert_eq!(split(&op, 77, &mut extras, &mut SeqWriter::default()), (31, 77, 0));
        assert_eq!(extras.len(), 20, "no column may have more bytes per event");
    }

    #[test]
    fn an_operation_of_a_later_version_is_refused() {
        let mut seqs = SeqReader { bytes: Bytes::new(&[]), last: 0 };
        for (number, known) in [(MAP_OFFSET, true), (CONTEXT + 1, false), (u64::MAX, false)] {
            let mut extras = Vec::new();
            put_varint(&mut extras, number);
            extras.push(9);
            let op = join(PHASE, 8, 0, &mut Bytes::new(&extras), &mut seqs);
            assert_eq!(op.ok(), known.then_some(Op::MapOffset { addr: 8, offset: 9 }));
        }
    }
}
