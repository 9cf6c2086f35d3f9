//! The order in which a trace's threads are replayed.

use std::collections::BTreeMap;
use std::io::Cursor;

use crate::common::{Push, per_thread, read, write};
use event::{Capabilities, Event, Op, SiteId};
use proptest::prelude::*;
use trace::{Compression, Reader};

const NO_VALUES: Capabilities = Capabilities::all().difference(Capabilities::VALUES);

fn load(addr: u64) -> Event {
    Event { op: Op::Load { addr, len: 8 }, site: SiteId(1), instructions: 1 }
}

fn unlock(seq: u64) -> Event {
    Event { op: Op::Unlock { lock: 64, seq }, site: SiteId(2), instructions: 1 }
}

/// A run as a producer records it: positions rise over all threads, some left out, and so do the times.
fn run() -> impl Strategy<Value = Vec<Push>> {
    prop::collection::vec((0u32..4, 0usize..6, any::<bool>(), 1u64..3, 0u64..50_000), 1..120).prop_map(
        |steps| {
            let (mut seq, mut time_ns) = (0, 0);
            let mut pushes = Vec::new();
            for (number, (thread, loads, sync, gap, wait)) in steps.into_iter().enumerate() {
                time_ns += wait;
                let mut events: Vec<Event> = (0..loads).map(|i| load((number * 100 + i) as u64)).collect();
                if sync {
                    seq += gap;
                    events.push(unlock(seq));
                }
                pushes.push(Push { thread, time_ns, events, values: vec![] });
            }
            pushes
        },
    )
}

proptest! {
    #[test]
    fn positions_rise_and_each_thread_keeps_its_order(pushes in run(), flush_every in 0usize..7) {
        let read = read(&write(&pushes, NO_VALUES, Compression::Fast, flush_every)).unwrap();
        prop_assert_eq!(per_thread(&read), per_thread(&pushes));
        let seqs: Vec<u64> = read.iter().flat_map(|push| &push.events).filter_map(|e| e.op.seq()).collect();
        prop_assert!(seqs.is_sorted());
    }

    #[test]
    fn without_synchronisation_time_decides(pushes in run(), flush_every in 0usize..7) {
        let mut pushes = pushes;
        for push in &mut pushes {
            push.events.retain(|event| event.op.seq().is_none());
        }
        let read = read(&write(&pushes, NO_VALUES, Compression::Fast, flush_every)).unwrap();
        let times: Vec<u64> = read.iter().map(|push| push.time_ns).collect();
        prop_assert!(times.is_sorted(), "{:?}", times);
    }

    #[test]
    fn a_run_can_be_entered_at_any_time(pushes in run(), flush_every in 0usize..7, at in 0u64..1_000_000) {
        let bytes = write(&pushes, NO_VALUES, Compression::Fast, flush_every);
        let mut expected: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        for push in read(&bytes).unwrap().into_iter().filter(|push| push.time_ns >= at) {
            expected.entry(push.thread).or_default().extend(push.events);
        }
        let mut reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
        let mut batches = reader.batches();
        batches.seek_time(at).unwrap();
        let (mut found, mut seqs): (BTreeMap<u32, Vec<Event>>, Vec<u64>) = Default::default();
        while let Some(batch) = batches.next().unwrap() {
            prop_assert!(batch.time_ns >= at);
            seqs.extend(batch.events.iter().filter_map(|e| e.op.seq()));
            found.entry(batch.thread.0).or_default().extend_from_slice(batch.events);
        }
        prop_assert_eq!(found, expected);
        prop_assert!(seqs.is_sorted());
    }
}

#[test]
fn a_waiting_thread_does_not_hold_up_the_others_nor_pass_them() {
    let push = |thread, time_ns, events| Push { thread, time_ns, events, values: vec![] };
    let pushes = [
        push(1, 10, vec![load(1), unlock(1)]),
        push(0, 5_000_000, vec![load(2), unlock(2)]),
        push(1, 6_000_000, vec![load(3), unlock(3)]),
        push(2, 100, vec![load(4)]),
    ];
    let read = read(&write(&pushes, NO_VALUES, Compression::Fast, 0)).unwrap();
    let order: Vec<(u32, u64)> = read.iter().map(|push| (push.thread, push.time_ns)).collect();
    assert_eq!(order, [(1, 10), (2, 100), (0, 5_000_000), (1, 6_000_000)]);
}

#[test]
fn where_positions_are_missing_the_smallest_goes_first_in_time() {
    let push = |thread, time_ns, events| Push { thread, time_ns, events, values: vec![] };
    // Thread 0 never synchronises and runs on long after; position 1 and 2 are lost.
    let late = push(0, 9_000_000, vec![load(9)]);
    let pushes = [push(0, 1, vec![load(1)]), push(1, 2_000_000, vec![unlock(3)]), late];
    for flush_every in [0, 1] {
        let read = read(&write(&pushes, NO_VALUES, Compression::Fast, flush_every)).unwrap();
        let order: Vec<(u32, u64)> = read.iter().map(|push| (push.thread, push.time_ns)).collect();
        assert_eq!(order, [(0, 1), (1, 2_000_000), (0, 9_000_000)]);
    }
}
