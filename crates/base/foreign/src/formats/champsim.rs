//! ChampSim's records of 64 bytes: an instruction's address, whether it is a branch and was taken, registers, two addresses
//! that it writes and four that it reads.

/// Bytes of a record.
pub(crate) const RECORD: usize = 64;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) code: u64,
    pub(crate) writes: [u64; 2],
    pub(crate) reads: [u64; 4],
}

/// What a record says; `None` if it is none.
pub(crate) fn record(bytes: &[u8]) -> Option<Record> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (branch, taken) = (*bytes.get(8)?, *bytes.get(9)?);
    if branch > 1 || taken > 1 {
        return None;
    }
    Some(Record {
        code: word(0)?,
        writes: [word(16)?, word(24)?],
        reads: [word(32)?, word(40)?, word(48)?, word(56)?],
    })
}

/// Whether a file begins with records: no text, and the addresses of code are near each other.
pub(crate) fn fits(head: &[u8]) -> bool {
    let records: Vec<Record> = head.chunks_exact(RECORD).take(16).map_while(record).collect();
    let whole = (head.len() / RECORD).min(16);
    whole > 0
        && records.len() == whole
        && head[..RECORD].contains(&0)
        && records.iter().all(|record| record.code != 0 && record.code >> 56 == records[0].code >> 56)
        && records.iter().any(|record| record.reads.iter().chain(&record.writes).any(|addr| *addr != 0))
}
