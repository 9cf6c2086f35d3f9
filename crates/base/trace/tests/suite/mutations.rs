//! The fuzz targets' entry points in the ordinary run: valid inputs, mutated at random, with the checksums
//! made right again so that the mutation gets past them. Nothing may panic.

use std::io::Cursor;

use crate::common::{Push, pushes, write};
use event::{Capabilities, Counts, Event, Op, SiteId};
use proptest::prelude::*;
use trace::{Compression, Reader};

/// Bytes of a block's header, and where its fields are, as docs/trace-format.md has them.
const BLOCK: usize = 68;

fn u32_at(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 4].iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// Corrects all checksums from the front, as far as the file's structure goes.
fn mend(bytes: &mut [u8]) {
    let put = |at: usize, from: usize, to: usize, bytes: &mut [u8]| {
        let checksum = crc32fast::hash(&bytes[from..to]);
        bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    };
    if bytes.len() < 20 {
        return;
    }
    let mut at = 16 + u32_at(bytes, 12);
    if at + 4 > bytes.len() {
        return;
    }
    put(at, 0, at, bytes);
    at += 4;
    while at + BLOCK <= bytes.len() && bytes[at..at + 4] == *b"SLTB" {
        let end = at + BLOCK + u32_at(bytes, at + 8);
        if end > bytes.len() {
            return;
        }
        put(at + 20, at + BLOCK, end, bytes);
        put(at + 64, at, at + 64, bytes);
        at = end;
    }
    if bytes.len() - at == 32 {
        put(at + 20, at, at + 20, bytes);
    }
}

/// What the fuzz target `trace_reader` does.
fn read_all(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes), "mutated") else { return };
    let info = reader.info();
    let mut counts = Counts::default();
    if reader.replay(&mut counts).is_ok() {
        assert_eq!(counts.events, info.events);
    }
    let threads: Vec<_> = reader.threads().collect();
    for (thread, events) in threads {
        let mut batches = reader.thread(thread).expect("a thread of the index");
        if batches.seek_event(events / 2).is_ok() {
            while let Ok(Some(_)) = batches.next() {}
        }
    }
    let mut batches = reader.batches();
    if batches.seek_time(info.duration_ns / 2).is_ok() {
        while let Ok(Some(_)) = batches.next() {}
    }
}

fn mutate(bytes: &mut [u8], mutations: &[(prop::sample::Index, u8)]) {
    for (at, to) in mutations {
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = *to;
        }
    }
}

fn mutations() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(0x80), Just(1)];
    prop::collection::vec((any::<prop::sample::Index>(), byte), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_traces_are_survived(
        pushes in pushes(true), packed in any::<bool>(), flush_every in 0usize..4, mutations in mutations(),
    ) {
        let compression = if packed { Compression::Fast } else { Compression::None };
        let mut bytes = write(&pushes, Capabilities::all(), compression, flush_every);
        mutate(&mut bytes, &mutations);
        mend(&mut bytes);
        read_all(&bytes);
    }

    #[test]
    fn mutated_runs_are_survived(
        parts in crate::made::parts(), packed in any::<bool>(), flush_every in 0usize..4, mutations in mutations(),
    ) {
        let compression = if packed { Compression::Fast } else { Compression::None };
        let (mut bytes, _) = crate::made::write(&parts, compression, flush_every);
        mutate(&mut bytes, &mutations);
        mend(&mut bytes);
        read_all(&bytes);
    }

    #[test]
    fn mutated_lackey_text_is_survived(lines in prop::collection::vec((0usize..4, any::<u64>(), any::<u32>()), 0..50),
        mutations in mutations(),
    ) {
        let line = |(kind, addr, len): &(usize, u64, u32)| {
            format!("{} {addr:08x},{len}\n", ["I ", " L", " S", " M"][*kind])
        };
        let mut bytes = lines.iter().map(line).collect::<String>().into_bytes();
        mutate(&mut bytes, &mutations);
        let mut counts = Counts::default();
        if let Ok(imported) = trace::lackey::import(&bytes[..], "mutated", &mut counts) {
            prop_assert_eq!(imported.events, counts.events);
        }
    }
}

#[test]
fn mutated_trees_are_survived() {
    let events = crate::tree::Tree::new(1).take(20_000);
    let pushes = [Push { thread: 0, time_ns: 0, events, values: vec![] }];
    let bytes = write(&pushes, Capabilities::all().difference(Capabilities::VALUES), Compression::None, 0);
    let mut random = 1u64;
    for _ in 0..300 {
        let mut mutated = bytes.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % mutated.len();
            mutated[at] = (random >> 25) as u8;
        }
        mend(&mut mutated);
        read_all(&mutated);
    }
}

#[test]
fn mending_an_unchanged_trace_changes_nothing() {
    let good = write(&[], Capabilities::all(), Compression::Fast, 0);
    let mut mended = good.clone();
    mend(&mut mended);
    assert_eq!(mended, good);
}

#[test]
fn a_position_that_no_event_takes_is_corrupt_and_holds_up_no_other_thread() {
    let unlock = |seq| Event { op: Op::Unlock { lock: 0, seq }, site: SiteId::UNKNOWN, instructions: 1 };
    let push = |thread, seq| Push { thread, time_ns: 0, events: vec![unlock(seq)], values: vec![] };
    let bytes = write(&[push(0, 1), push(1, 2)], Capabilities::all(), Compression::None, 0);
    // Thread 0's event: an unlock after one instruction, of the unknown site, made a load.
    let what = bytes.windows(8).position(|bytes| bytes == [0, 0, 0, 0, 20, 0, 4, 0]).unwrap();
    let mut bad = bytes.clone();
    bad[what + 4] = 0;
    mend(&mut bad);
    let error = Reader::new(Cursor::new(&bad), "t.slt").unwrap().replay(&mut Counts::default()).unwrap_err();
    assert!(error.to_string().contains("longer than its block needs"), "{error}");
}
