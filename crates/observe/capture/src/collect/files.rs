//! Records of operations on files, expanded to the events that they stand for.

use event::{NameId, Op, Order, SiteId};

use super::records::{Expansion, RECORD_INSTRUCTIONS, bytes};
use abi::file;

/// The lengths of the two paths of such a record, of which this is the first word of the payload.
#[must_use]
pub fn path_bytes(lengths: u64) -> [u64; 2] {
    [lengths & u64::from(u32::MAX), lengths >> 32]
}

/// The events of a record with this payload; `name` gives a path its number. None if it makes no sense.
///
/// What was done stands between the position that was taken before it and the one after it, as [`Op`] says.
pub fn expand(
    argument: u8,
    payload: &[u64],
    mut name: impl FnMut(&[u8]) -> NameId,
    site: SiteId,
    carry: u32,
) -> Option<Expansion> {
    let &[lengths, entered, left, first, second, ref text @ ..] = payload else { return None };
    let lengths = path_bytes(lengths).map(|len| usize::try_from(len).unwrap_or(usize::MAX));
    let text: Vec<u8> = bytes(text, lengths[0].saturating_add(lengths[1])).collect();
    let (path, other) = text.split_at_checked(lengths[0])?;
    let file = name(path);
    let (op, var) = match argument {
        file::WRITE => (Some(Op::FileWrite { file, offset: first, len: u32::try_from(second).ok()? }), file),
        file::SYNC => (Some(Op::FileSync { file, data_only: false }), file),
        file::DATA_SYNC => (Some(Op::FileSync { file, data_only: true }), file),
        file::RANGE_SYNC | file::RANGE_DATA_SYNC => {
            let (offset, len) = (first, u32::try_from(second).ok()?);
            (
                Some(Op::FileRangeSync { file, offset, len, data_only: argument == file::RANGE_DATA_SYNC }),
                file,
            )
        }
        file::TRUNCATE => (Some(Op::FileTruncate { file, len: first }), file),
        file::CREATE => (Some(Op::FileCreate { file, folder: false }), file),
        file::CREATE_FOLDER => (Some(Op::FileCreate { file, folder: true }), file),
        file::UNLINK => (Some(Op::Unlink { file }), file),
        file::RENAME => {
            let to = name(other);
            (Some(Op::Rename { from: file, to }), to)
        }
        file::LINK => {
            let to = name(other);
            (Some(Op::Link { from: file, to }), to)
        }
        file::SYMLINK => (Some(Op::Symlink { file, target: name(other) }), file),
        file::EXCHANGE => {
            let to = name(other);
            (Some(Op::Exchange { from: file, to }), to)
        }
        file::SYNC_ALL => (Some(Op::FilesSync { file }), file),
        file::COLLAPSE => (Some(Op::FileCollapse { file, offset: first, len: second }), file),
        file::INSERT => (Some(Op::FileInsert { file, offset: first, len: second }), file),
        file::DONE => (None, file),
        _ => return None,
    };
    let var = u64::from(var.0);
    let position = |seq: u64| (seq != 0).then_some(seq);
    let entered = position(entered).map(|seq| Op::Acquire { var, order: Order::Acquire, seq });
    let left = position(left).map(|seq| Op::Release { var, order: Order::Release, seq });
    Some(Expansion::several([entered, op, left, None, None], site, carry + RECORD_INSTRUCTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(argument: u8, payload: &[u64]) -> Option<Vec<Op>> {
        let name = |path: &[u8]| NameId(path.len() as u32);
        let mut expansion = expand(argument, payload, name, SiteId(1), 0)?;
        Some(std::iter::from_fn(|| expansion.peek().inspect(|_| expansion.advance())).map(|e| e.op).collect())
    }

    #[test]
    fn an_operation_stands_between_its_positions() {
        let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
        let rename = [2 | 3 << 32, 7, 8, 0, 0, word(b"/a/bc\0\0\0")];
        let (from, to, var) = (NameId(2), NameId(3), 3);
        let enter = Op::Acquire { var, order: Order::Acquire, seq: 7 };
        let leave = Op::Release { var, order: Order::Release, seq: 8 };
        assert_eq!(ops(file::RENAME, &rename), Some(vec![enter, Op::Rename { from, to }, leave]));
        // A write in pieces: the first has only the first position, and behind the last comes the other one
        // alone.
        let write = [2, 7, 0, 4096, 512, word(b"/a\0\0\0\0\0\0")];
        let op = Op::FileWrite { file: NameId(2), offset: 4096, len: 512 };
        assert_eq!(ops(file::WRITE, &write).map(|ops| ops[1..].to_vec()), Some(vec![op]));
        assert_eq!(ops(file::DONE, &[2, 0, 8, 0, 0, word(b"/a\0\0\0\0\0\0")]).map(|ops| ops.len()), Some(1));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(ops(99, &[0, 0, 0, 0, 0]), None);
        assert_eq!(ops(file::SYNC, &[1, 0, 0, 0]), None);
        assert_eq!(ops(file::SYNC, &[9, 0, 0, 0, 0, 0]), None);
        assert_eq!(ops(file::SYNC, &[u64::MAX, 0, 0, 0, 0, 0]), None);
        assert_eq!(ops(file::WRITE, &[0, 0, 0, 0, 1 << 32]), None);
    }
}
