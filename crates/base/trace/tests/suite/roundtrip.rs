//! What is written to a trace is what is read from it.

use std::io::Cursor;

use crate::common::{Push, per_thread, pushes, read, site, source, write};
use event::{
    Capabilities, Collected, Counts, Event, FenceKind, NameId, Op, Sink, SinkError, SiteId, Source, ThreadId,
};
use proptest::prelude::*;
use trace::{Compression, Reader, Writer};

const NO_VALUES: Capabilities = Capabilities::all().difference(Capabilities::VALUES);

fn compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(vec![Compression::None, Compression::Light, Compression::Fast])
}

proptest! {
    #[test]
    fn any_events_of_any_threads_come_back(
        pushes in pushes(false), compression in compression(), flush_every in 0usize..5,
    ) {
        let bytes = write(&pushes, NO_VALUES, compression, flush_every);
        prop_assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&pushes));
    }

    #[test]
    fn values_come_back(pushes in pushes(true), compression in compression(), flush_every in 0usize..5) {
        let bytes = write(&pushes, Capabilities::all(), compression, flush_every);
        let read = read(&bytes).unwrap();
        prop_assert_eq!(per_thread(&read), per_thread(&pushes));
        for push in &read {
            let stored: u64 = push.events.iter().filter_map(|e| e.op.value_len()).map(u64::from).sum();
            prop_assert_eq!(stored, push.values.len() as u64, "values go with their batch");
        }
    }

    #[test]
    fn the_same_events_give_the_same_bytes_and_the_same_bytes_the_same_batches(pushes in pushes(false)) {
        let bytes = write(&pushes, NO_VALUES, Compression::Fast, 3);
        prop_assert_eq!(&bytes, &write(&pushes, NO_VALUES, Compression::Fast, 3));
        prop_assert_eq!(read(&bytes).unwrap(), read(&bytes).unwrap());
    }

    #[test]
    fn a_thread_can_be_entered_at_any_event(pushes in pushes(true), flush_every in 0usize..5, at in 0u64..200) {
        let bytes = write(&pushes, Capabilities::all(), Compression::Fast, flush_every);
        let mut reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
        for (thread, (events, values)) in per_thread(&pushes) {
            let mut batches = reader.thread(ThreadId(thread)).unwrap();
            batches.seek_event(at).unwrap();
            let mut read = (Vec::new(), Vec::new());
            while let Some(batch) = batches.next().unwrap() {
                read.0.extend_from_slice(batch.events);
                read.1.extend_from_slice(batch.values);
            }
            let at = (at as usize).min(events.len());
            prop_assert_eq!(&read.0[..], &events[at..]);
            prop_assert!(values.ends_with(&read.1));
            let stored: u64 = read.0.iter().filter_map(|e| e.op.value_len()).map(u64::from).sum();
            prop_assert_eq!(stored, read.1.len() as u64);
        }
    }
}

#[test]
fn header_sites_and_names_come_back() {
    let bytes = write(&[], NO_VALUES, Compression::Fast, 0);
    let mut reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
    assert_eq!(reader.header().source, source(NO_VALUES));
    assert_eq!(reader.header().line_bytes, 64);
    let mut collected = Collected::default();
    reader.replay(&mut collected).unwrap();
    assert_eq!(collected.source, Some(source(NO_VALUES)));
    assert_eq!(collected.table.site(SiteId(7)), Some(&site()));
    assert_eq!(collected.table.name(NameId(3)), Some("/dev/shm/pool"));
    assert_eq!(reader.info().sites, 2);
    assert_eq!((reader.info().events, reader.truncated()), (0, None));
}

#[test]
fn many_blocks_and_more_sites_than_a_block_has_numbers() {
    let events: Vec<Event> = (0..200_000u32)
        .map(|i| Event {
            op: Op::Store { addr: u64::from(i.wrapping_mul(0x9e37_79b1)), len: i % 7 },
            site: SiteId(if i < 140_000 { i + 1 } else { i % 1000 }),
            instructions: i % 3,
        })
        .collect();
    let pushes: Vec<Push> = events
        .chunks(30_000)
        .enumerate()
        .map(|(i, events)| Push { thread: 5, time_ns: i as u64, events: events.to_vec(), values: vec![] })
        .collect();
    let bytes = write(&pushes, NO_VALUES, Compression::Fast, 0);
    assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&pushes));
    let info = Reader::new(Cursor::new(&bytes), "memory").unwrap().info();
    assert_eq!((info.blocks, info.threads, info.events, info.duration_ns), (4, 1, 200_000, 6));
    assert_eq!(info.bytes, bytes.len() as u64);
}

#[test]
fn large_values_close_their_block() {
    let store = |len| Event { op: Op::Store { addr: 0, len }, site: SiteId(1), instructions: 1 };
    let events = vec![store(3 << 20), store(1), store(700_000), store(700_000), store(700_000), store(0)];
    let values = (0..(3 << 20) + 1 + 2_100_000u32).map(|i| (i >> 8) as u8).collect();
    let pushes = [Push { thread: 0, time_ns: 0, events, values }];
    let bytes = write(&pushes, Capabilities::all(), Compression::None, 0);
    assert_eq!(per_thread(&read(&bytes).unwrap()), per_thread(&pushes));
    assert_eq!(Reader::new(Cursor::new(&bytes), "memory").unwrap().info().blocks, 3);
}

#[test]
fn a_tree_takes_few_bytes_per_event() {
    let events = crate::tree::Tree::new(1).take(300_000);
    let pushes = [Push { thread: 0, time_ns: 0, events, values: vec![] }];
    for (compression, hundredths) in [(Compression::None, 250), (Compression::Fast, 60)] {
        let bytes = write(&pushes, NO_VALUES, compression, 0);
        assert!(bytes.len() * 100 < 300_000 * hundredths, "{compression:?}: {} bytes", bytes.len());
    }
}

#[test]
fn batches_end_with_fences_and_synchronisation() {
    let event = |op| Event { op, site: SiteId(1), instructions: 1 };
    let load = event(Op::Load { addr: 8, len: 8 });
    let ends = [
        event(Op::Fence(FenceKind::Locked)),
        event(Op::Release { var: 1, order: event::Order::Release, seq: 1 }),
        event(Op::Unlock { lock: 1, seq: 2 }),
        event(Op::Spawn { child: ThreadId(9), seq: 3 }),
        event(Op::ThreadEnd { seq: 4 }),
    ];
    let events: Vec<Event> = ends.iter().flat_map(|end| [load, *end]).chain([load]).collect();
    let bytes =
        write(&[Push { thread: 0, time_ns: 0, events, values: vec![] }], NO_VALUES, Compression::Fast, 0);
    let read = read(&bytes).unwrap();
    let expected: Vec<Vec<Event>> = ends.iter().map(|end| vec![load, *end]).chain([vec![load]]).collect();
    assert_eq!(read.into_iter().map(|push| push.events).collect::<Vec<_>>(), expected);
}

#[test]
fn a_sink_that_needs_more_than_the_trace_has_refuses_by_name() {
    struct Needy;
    impl Sink for Needy {
        fn name(&self) -> &'static str {
            "needy"
        }
        fn needs(&self) -> Capabilities {
            Capabilities::FLUSHES
        }
        fn push(&mut self, _: event::Batch<'_>) -> Result<(), SinkError> {
            panic!("it must not come to this")
        }
    }
    let bytes = write(&[], Capabilities::LOADS, Compression::Fast, 0);
    let error = Reader::new(Cursor::new(&bytes), "memory").unwrap().replay(&mut Needy).unwrap_err();
    assert_eq!(error.to_string(), "needy needs FLUSHES, which the source (test 1) does not record");
}

#[test]
fn values_that_are_not_those_of_the_stores_are_refused() {
    let mut writer = Writer::new(Vec::new(), "t.slt").unwrap();
    writer.begin(&Source::synthetic("test")).unwrap();
    let push = Push { thread: 0, time_ns: 0, events: vec![], values: vec![1] };
    assert!(writer.push(push.batch()).unwrap_err().to_string().contains("t.slt"));
}

#[test]
fn counts_are_those_of_the_events() {
    let events = crate::tree::Tree::new(3).take(20_000);
    let mut direct = Counts::default();
    events.iter().for_each(|event| direct.add(event));
    let bytes =
        write(&[Push { thread: 1, time_ns: 0, events, values: vec![] }], NO_VALUES, Compression::Fast, 0);
    let mut replayed = Counts::default();
    Reader::new(Cursor::new(&bytes), "memory").unwrap().replay(&mut replayed).unwrap();
    assert_eq!(replayed, direct);
}
