//! Entries of a log.

use space::{LINE, Space};

/// Words before an embedded entry's bytes.
pub(super) const HEAD: u64 = 24;
/// Bytes before a log page's first entry.
pub(super) const FIRST: u64 = LINE;
/// Kinds.
const DATA: u64 = 1;
const EMBEDDED: u64 = 2;
const GOES_ON: u64 = 3;

/// What an entry says of a page of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Its content is that data page's.
    Data { page: u64, len: u64, data: u64 },
    /// These bytes of it are replaced; `bytes` is where they stand.
    Embedded { page: u64, len: u64, at: u64, count: u64, bytes: u64 },
    /// The log goes on in the next log page.
    GoesOn,
}

impl Entry {
    /// Bytes of an embedded entry in its log.
    pub(super) fn embedded(count: u64) -> u64 {
        (HEAD + count).next_multiple_of(LINE)
    }

    /// Bytes that it takes in its log.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Entry::Embedded { count, .. } => Entry::embedded(count),
            Entry::Data { .. } | Entry::GoesOn => LINE,
        }
    }

    /// The entry at `at` of a log page that ends at `end`; `None` if there is none.
    pub(super) fn read<S: Space>(space: &S, at: u64, end: u64) -> Option<Entry> {
        if at + LINE > end {
            return (at == end).then_some(Entry::GoesOn);
        }
        let [first, page, len, data] = [0, 8, 16, 24].map(|word| space.load_u64(at + word));
        match first & 0xFF {
            DATA => Some(Entry::Data { page, len, data }),
            EMBEDDED => {
                let (count, within) = (first >> 8 & 0xFF_FFFF, first >> 32);
                let entry = Entry::Embedded { page, len, at: within, count, bytes: at + HEAD };
                (at + entry.bytes() <= end).then_some(entry)
            }
            GOES_ON => Some(Entry::GoesOn),
            _ => None,
        }
    }

    /// The entry as it stands in a log; `content` are an embedded one's bytes.
    pub(super) fn encode(self, content: &[u8], buffer: &mut Vec<u8>) {
        let words = match self {
            Entry::Data { page, len, data } => [DATA, page, len, data],
            Entry::Embedded { page, len, at, count, .. } => [EMBEDDED | count << 8 | at << 32, page, len, 0],
            Entry::GoesOn => [GOES_ON, 0, 0, 0],
        };
        buffer.clear();
        words.iter().for_each(|word| buffer.extend_from_slice(&word.to_le_bytes()));
        if let Entry::Embedded { .. } = self {
            buffer.truncate(HEAD as usize);
            buffer.extend_from_slice(content);
        }
        buffer.resize(self.bytes() as usize, 0);
    }
}
