//! Code blocks go into a trace as they are and come out as events.

use std::collections::BTreeMap;
use std::io::Cursor;

use crate::common::{Push, Pushes, per_thread, read};
use crate::made::{Part, array_loop, parts, write, write_raw};
use event::{
    AnySink, Batch, BlockBatch, BlockShape, Consumed, EVENT, Event, FenceKind, HEAD, HeadTable, Op,
    RawBlocks, RunSink, Sink, SiteId, ThreadId,
};
use proptest::prelude::*;
use trace::{Compression, Reader, Writer};

proptest! {
    #[test]
    fn runs_and_events_come_back(
        parts in parts(), fast in any::<bool>(), flush_every in 0usize..5,
    ) {
        let compression = if fast { Compression::Fast } else { Compression::None };
        let (bytes, expected) = write(&parts, compression, flush_every);
        prop_assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&expected));
        prop_assert_eq!(&bytes, &write(&parts, compression, flush_every).0);
    }

    #[test]
    fn runs_as_they_were_sent_come_back(parts in parts(), together in 0usize..500, flush_every in 0usize..5) {
        let (bytes, expected) = write_raw(&parts, together, flush_every);
        prop_assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&expected));
    }

    #[test]
    fn a_thread_can_be_entered_at_any_event(parts in parts(), flush_every in 0usize..5, at in 0u64..400) {
        let (bytes, expected) = write(&parts, Compression::Fast, flush_every);
        let mut reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
        for (thread, (events, _)) in per_thread(&expected) {
            let mut batches = reader.thread(ThreadId(thread)).unwrap();
            batches.seek_event(at).unwrap();
            let mut read = Vec::new();
            while let Some(batch) = batches.next().unwrap() {
                read.extend_from_slice(batch.events);
            }
            prop_assert_eq!(&read[..], &events[(at as usize).min(events.len())..]);
        }
    }

    #[test]
    fn batches_keep_their_times(parts in parts()) {
        let (bytes, expected) = write(&parts, Compression::Fast, 0);
        let last = |pushes: &[Push]| -> BTreeMap<u32, u64> {
            pushes.iter().filter(|push| !push.events.is_empty()).map(|push| (push.thread, push.time_ns)).collect()
        };
        let read = last(&read(&bytes).unwrap());
        for (thread, time_ns) in last(&expected) {
            // Times are kept to 10 us.
            prop_assert!(read[&thread] <= time_ns && time_ns - read[&thread] < 10_000);
        }
    }
}

#[test]
fn a_loop_takes_few_bytes_and_its_blocks_stand_alone() {
    let (bytes, expected) = write(&array_loop(), Compression::None, 0);
    assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&expected));
    // Four bits and two bytes per turn of three events.
    let events = 300_000;
    assert!(bytes.len() < events * 9 / 10, "{} bytes", bytes.len());
    let mut reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
    assert_eq!((reader.info().events, reader.info().blocks), (events as u64, 5));
    let mut batches = reader.thread(ThreadId(0)).unwrap();
    batches.seek_event(250_000).unwrap();
    let first = batches.next().unwrap().unwrap().events[0].op;
    assert_eq!(first, Op::Store { addr: 0x5000_0000 + 4 * 83_333, len: 4 });
}

#[test]
fn blocks_that_are_full_of_sent_runs_end_with_a_run() {
    let (bytes, expected) = write_raw(&array_loop(), 4000, 0);
    assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&expected));
    let reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
    assert_eq!((reader.info().events, reader.info().blocks), (300_000, 5));
}

#[test]
fn runs_without_events_or_shapes_do_no_harm() {
    let shapes = crate::made::shapes();
    let mut writer = Writer::new(Vec::new(), "memory").unwrap();
    writer.begin(&crate::common::source(crate::made::NO_VALUES)).unwrap();
    let batch = |words, events, count| BlockBatch {
        thread: ThreadId(0),
        time_ns: 0,
        shapes: &shapes,
        words,
        events,
        count,
        carry: 0,
    };
    // The count is not believed; nothing was executed in the first million code blocks.
    let nothing = [BlockShape::head(0), 0].repeat(1_000_000);
    writer.push_blocks(batch(&nothing, &[], 7)).unwrap();
    let one = [BlockShape::head(0), 64];
    writer.push_blocks(batch(&one, &[], 0)).unwrap();
    let (unknown, no_head) = ([BlockShape::head(99), 64], [BlockShape::head(0), 64, 1]);
    for words in [&unknown[..], &no_head, &[EVENT]] {
        assert!(writer.push_blocks(batch(words, &[], 1)).is_err(), "{words:x?}");
    }
    writer.finish().unwrap();
    let read = read(&writer.into_inner()).unwrap();
    let events: Vec<_> = read.iter().flat_map(|push| &push.events).map(|event| event.op).collect();
    assert_eq!(events, [Op::Load { addr: 64, len: 8 }; 2]);
}

/// What the reader took for damage once: several times as many instructions as the shapes say, before code
/// blocks of which nothing was executed, at a block's end.
#[test]
fn carries_behind_the_last_event_are_passed_over() {
    let part = |words: &[u64], carry| Part {
        thread: 0,
        time_ns: 0,
        words: Some((words.to_vec(), carry)),
        events: Vec::new(),
    };
    let (one, nothing) = ([BlockShape::head(0), 64], [BlockShape::head(0), 0].repeat(10));
    let parts = [part(&one, 0), part(&nothing, 7), part(&nothing, 70), part(&nothing, 700)];
    for (flush_every, more) in [(0, &parts[..0]), (4, &parts[..]), (0, &parts[..1])] {
        let parts = [&parts[..], more].concat();
        for (bytes, expected) in
            [write(&parts, Compression::None, flush_every), write_raw(&parts, 0, flush_every)]
        {
            assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&expected));
        }
    }
}

/// A store to address 0 is recorded as the word that also stands for an event between code blocks, and words
/// of a program that is killed end anywhere.
#[test]
fn words_without_sense_are_taken_as_they_are_translated() {
    let shapes = crate::made::shapes();
    let name = HEAD | 0x4000;
    let mut heads = HeadTable::default();
    assert!(heads.learn(name, 1, &shapes[1]));
    let whole = [name, 64, !128, 8].repeat(40);
    let (nowhere, cut) = ([name, EVENT, !128, EVENT], [name, 64, !128, 8, name, 72]);
    let no_head = [EVENT, 64, 128];
    let fence = Event { op: Op::Fence(FenceKind::Store), site: SiteId(3), instructions: 2 };
    let mut writer = Writer::new(Vec::new(), "memory").unwrap();
    writer.begin(&crate::common::source(crate::made::NO_VALUES)).unwrap();
    let mut expected = Pushes::default();
    let thread = ThreadId(0);
    let between = Batch { thread, time_ns: 0, events: &[fence; 3], values: &[] };
    for turn in 0..3 {
        let first = &whole[..8 * turn as usize];
        for words in [first, &nowhere, &whole, &nowhere.repeat(3), &cut, &no_head, &whole] {
            let words = &words;
            let mut push = |sink: &mut dyn FnMut(RawBlocks<'_>) -> Consumed| {
                sink(RawBlocks { thread, time_ns: 0, shapes: &shapes, heads: &mut heads, words, carry: turn })
            };
            let translated = push(&mut |raw| AnySink(&mut expected).push_raw(raw).unwrap());
            assert_eq!(push(&mut |raw| writer.push_raw(raw).unwrap()), translated, "{words:x?}");
            for sink in [&mut expected as &mut dyn Sink, &mut writer] {
                sink.push(between).unwrap();
            }
        }
        // The next block has the same memory, with other words where these were.
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(per_thread(&read(&writer.into_inner()).unwrap()), per_thread(&expected.0));
}

#[test]
fn every_flipped_bit_shows_or_does_no_harm_and_a_cut_trace_opens() {
    let parts: Vec<Part> = array_loop().into_iter().take(3).collect();
    let (bytes, expected) = write(&parts, Compression::None, 1);
    let whole = per_thread(&expected);
    for bit in (0..bytes.len() * 8).step_by(37) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        if let Ok(read) = read(&damaged) {
            let (read, whole) = (&per_thread(&read)[&0].0, &whole[&0].0);
            assert!(whole.starts_with(read), "bit {bit}");
        }
    }
    let mut longest = 0;
    for end in (bytes.len() / 3..bytes.len()).step_by(101) {
        let read = per_thread(&read(&bytes[..end]).unwrap());
        let events = read.get(&0).map_or(0, |thread| thread.0.len());
        assert!(events >= longest && events.is_multiple_of(3000));
        longest = events;
    }
    assert_eq!(longest, 9000);
}
