//! What the tests share: programs that use the runtime, and a collector simple enough to be believed.
#![allow(dead_code)] // each test uses its part

pub mod program;
pub mod session;

use std::collections::BTreeMap;

use abi::{BLOCK_STORE, access_word, accessed, descriptor_of, kind, kind_of};

/// Where records of a header with an address are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: u8,
    pub argument: u8,
    pub pc: u64,
    pub words: Vec<u64>,
}

/// Kind given to runs: the words are addresses, `pc` is the descriptor's address.
pub const RUN: u8 = 0;

/// Takes a chunk's words apart, up to the first header that is zero. `accesses` says how many addresses
/// follow a descriptor's.
pub fn records(words: &[u64], accesses: impl Fn(u64) -> usize) -> Vec<Record> {
    let mut found = Vec::new();
    let mut at = 0;
    while words.get(at).is_some_and(|&header| header != 0) {
        let header = words[at];
        if let Some(pc) = descriptor_of(header) {
            let end = at + 1 + accesses(pc);
            let words = words[at + 1..end].iter().map(|&word| accessed(word)).collect();
            found.push(Record { kind: RUN, argument: 0, pc, words });
            at = end;
            continue;
        }
        let (kind, argument, pc) = (kind_of(header), (header >> 48) as u8, header & 0xffff_ffff_ffff);
        let text = |from: usize| from + (words[at + from] as usize).div_ceil(8);
        let payload = match kind {
            kind::FENCE => 0,
            kind::THREAD_START | kind::THREAD_END | kind::FREE | kind::REGION_BEGIN | kind::REGION_END => 1,
            kind::ACCESS | kind::ODD_ACCESS | kind::FLUSH | kind::LOCK | kind::UNLOCK | kind::SPAWN => 2,
            kind::JOIN | kind::ALLOC | kind::UNMAP => 2,
            kind::ATOMIC => 4,
            kind::MAP => text(3),
            kind::VALUE | kind::PHASE => text(1),
            _ => panic!("word {at} is no header: {header:#x}, after {:x?}", found.last()),
        };
        let mut recorded = words[at + 1..at + 1 + payload].to_vec();
        if kind == kind::ACCESS {
            let len = recorded[1] & u64::from(u32::MAX);
            assert_eq!(access_word(recorded[0], len), Some(recorded[1]), "{:x?}", found.last());
            recorded[1] = len;
        }
        found.push(Record { kind, argument, pc, words: recorded });
        at += 1 + payload;
    }
    found
}

/// A program without runs has none.
pub fn no_runs(descriptor: u64) -> usize {
    panic!("a run at {descriptor:#x} in a program without code in line")
}

/// The text of a record that ends with text, whose length is word `at`.
pub fn text(record: &Record, at: usize) -> Vec<u8> {
    let bytes: Vec<u8> = record.words[at + 1..].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes[..record.words[at] as usize].to_vec()
}

/// The positions that a record takes in the global order.
pub fn positions(record: &Record) -> Vec<u64> {
    match record.kind {
        kind::ATOMIC => record.words[2..].iter().copied().filter(|&position| position != 0).collect(),
        kind::LOCK | kind::UNLOCK | kind::SPAWN | kind::JOIN => vec![record.words[1]],
        kind::THREAD_START | kind::THREAD_END => vec![record.words[0]],
        _ => Vec::new(),
    }
}

/// All records that take a position, by position; panics if one is taken twice or left out.
pub fn in_order(threads: &BTreeMap<u32, Vec<Record>>) -> Vec<(u32, Record)> {
    let mut ordered = BTreeMap::new();
    for (&thread, records) in threads {
        for record in records {
            for position in positions(record) {
                let other = ordered.insert(position, (thread, record.clone()));
                assert!(other.is_none(), "position {position} was given twice");
            }
        }
    }
    for (at, position) in ordered.keys().enumerate() {
        assert_eq!(*position, at as u64 + 1, "a position is missing");
    }
    ordered.into_values().collect()
}

/// Number of accesses, and the last one's size if it is a store, of a descriptor's bytes.
pub fn descriptor(bytes: &[u8]) -> (usize, Option<usize>) {
    assert_eq!(bytes[..4], abi::BLOCK_MAGIC.to_le_bytes());
    let count = usize::from(bytes[4]);
    let flags = bytes[8 * count + 4];
    (count, (flags & BLOCK_STORE != 0).then(|| 1 << (flags & !BLOCK_STORE)))
}
