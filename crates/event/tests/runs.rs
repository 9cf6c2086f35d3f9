//! Runs go into a trace as they are and come out as events.
#![allow(clippy::unwrap_used)] // helpers of tests may panic as they do

mod common;
#[path = "common/runs.rs"]
mod made;

use std::collections::BTreeMap;
use std::io::Cursor;

use common::{Push, Pushes, per_thread, read};
use event::trace::{Compression, Reader, Writer};
use event::{
    Batch, EVENT, Event, FenceKind, HEAD, Heads, Op, RunBatch, RunShape, Sink, SiteId, Taken, ThreadId, Told,
};
use made::{Part, array_loop, parts, write, write_told};
use proptest::prelude::*;

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
    fn runs_as_they_were_told_come_back(parts in parts(), together in 0usize..500, flush_every in 0usize..5) {
        let (bytes, expected) = write_told(&parts, together, flush_every);
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
fn blocks_that_are_full_of_told_runs_end_with_a_run() {
    let (bytes, expected) = write_told(&array_loop(), 4000, 0);
    assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&expected));
    let reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
    assert_eq!((reader.info().events, reader.info().blocks), (300_000, 5));
}

#[test]
fn runs_without_events_or_shapes_do_no_harm() {
    let shapes = made::shapes();
    let mut writer = Writer::new(Vec::new(), "memory").unwrap();
    writer.begin(&common::source(made::NO_VALUES)).unwrap();
    let batch = |words, events, count| RunBatch {
        thread: ThreadId(0),
        time_ns: 0,
        shapes: &shapes,
        words,
        events,
        count,
        carry: 0,
    };
    // The count is not believed; nothing was executed in the first million runs.
    let nothing = [RunShape::head(0), 0].repeat(1_000_000);
    writer.push_runs(batch(&nothing, &[], 7)).unwrap();
    let one = [RunShape::head(0), 64];
    writer.push_runs(batch(&one, &[], 0)).unwrap();
    let (unknown, no_head) = ([RunShape::head(99), 64], [RunShape::head(0), 64, 1]);
    for words in [&unknown[..], &no_head, &[EVENT]] {
        assert!(writer.push_runs(batch(words, &[], 1)).is_err(), "{words:x?}");
    }
    writer.finish().unwrap();
    let read = read(&writer.into_inner()).unwrap();
    let events: Vec<_> = read.iter().flat_map(|push| &push.events).map(|event| event.op).collect();
    assert_eq!(events, [Op::Load { addr: 64, len: 8 }; 2]);
}

/// What the reader took for damage once: several times as many instructions as the shapes say, before runs of which nothing was executed, at a block's end.
#[test]
fn carries_behind_the_last_event_are_passed_over() {
    let part = |words: &[u64], carry| Part {
        thread: 0,
        time_ns: 0,
        words: Some((words.to_vec(), carry)),
        events: Vec::new(),
    };
    let (one, nothing) = ([RunShape::head(0), 64], [RunShape::head(0), 0].repeat(10));
    let parts = [part(&one, 0), part(&nothing, 7), part(&nothing, 70), part(&nothing, 700)];
    for (flush_every, more) in [(0, &parts[..0]), (4, &parts[..]), (0, &parts[..1])] {
        let parts = [&parts[..], more].concat();
        for (bytes, expected) in
            [write(&parts, Compression::None, flush_every), write_told(&parts, 0, flush_every)]
        {
            assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&expected));
        }
    }
}

/// A store to address 0 is told as the word that also stands for an event between runs, and words of a program that is killed end anywhere.
#[test]
fn told_words_without_sense_are_taken_as_they_are_translated() {
    let shapes = made::shapes();
    let name = HEAD | 0x4000;
    let mut heads = Heads::default();
    assert!(heads.learn(name, 1, &shapes[1]));
    let whole = [name, 64, !128, 8].repeat(40);
    let (nowhere, cut) = ([name, EVENT, !128, EVENT], [name, 64, !128, 8, name, 72]);
    let no_head = [EVENT, 64, 128];
    let fence = Event { op: Op::Fence(FenceKind::Store), site: SiteId(3), instructions: 2 };
    let mut writer = Writer::new(Vec::new(), "memory").unwrap();
    writer.begin(&common::source(made::NO_VALUES)).unwrap();
    let mut expected = Pushes::default();
    let thread = ThreadId(0);
    let between = Batch { thread, time_ns: 0, events: &[fence; 3], values: &[] };
    for turn in 0..3 {
        let first = &whole[..8 * turn as usize];
        for words in [first, &nowhere, &whole, &nowhere.repeat(3), &cut, &no_head, &whole] {
            let words = &words;
            let mut told = |sink: &mut dyn FnMut(Told<'_>) -> Taken| {
                sink(Told { thread, time_ns: 0, shapes: &shapes, heads: &mut heads, words, carry: turn })
            };
            let translated = told(&mut |told| told.push_to(&mut expected).unwrap());
            assert_eq!(told(&mut |told| writer.push_told(told).unwrap()), translated, "{words:x?}");
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
