//! Streams and their merging, on chunks that the tests write as the runtime would.

use std::sync::atomic::Ordering;

use event::{Collected, FenceKind, FlushKind, Op, Order, Sink, SinkError, ThreadId};
use proptest::prelude::*;

use super::decoder::Decoder;
use super::merge::Merger;
use super::testing::{FakeCode, TEXT, Writer, session};
use crate::session::SessionFile;
use abi::{access, access_word, atomic, block_header, flush, kind};

fn merger(session: &SessionFile, code: FakeCode, values: bool) -> Merger<FakeCode> {
    Merger::new(Decoder::new(code, values), session.chunks())
}

/// Takes in what the process left behind and delivers it all.
fn finish(merger: &mut Merger<FakeCode>, session: &SessionFile) -> Collected {
    let mut sink = Collected::default();
    merger.salvage(session, 1);
    merger.finish(session, &mut sink).unwrap();
    sink
}

fn ops(collected: &Collected) -> Vec<Op> {
    collected.events.iter().map(|(_, event)| event.op).collect()
}

#[test]
fn runs_become_loads_and_stores_with_sites_and_instructions() {
    let session = session(4096, 16);
    let mut code = FakeCode::default();
    let (load, store) = (code.block(5, &[3, 2], false, 7), code.block(2, &[0, 4], true, 0));
    let mut writer = Writer::new(&session, 1, 0);
    writer.block(load, &[100, 200]);
    writer.block(store, &[300, 400]);
    writer.block(store, &[0, 500]);
    let collected = finish(&mut merger(&session, code, false), &session);

    let expected = [
        Op::Load { addr: 100, len: 8 },
        Op::Load { addr: 200, len: 4 },
        Op::Load { addr: 300, len: 1 },
        Op::Store { addr: 400, len: 16 },
        Op::Store { addr: 500, len: 16 },
    ];
    assert_eq!(ops(&collected), expected);
    let instructions: Vec<u32> = collected.events.iter().map(|(_, event)| event.instructions).collect();
    // An access that was left out by a jump counts for nothing.
    assert_eq!(instructions, [5, 1, 9, 1, 1]);
    let line = |at: usize| collected.table.site(collected.events[at].1.site).unwrap().frames[0].line;
    assert_eq!([line(0), line(1)], [load as u32, load as u32 + 16]);
    assert_eq!([line(2), line(3), line(4)], [store as u32, store as u32 + 16, store as u32 + 16]);
}

#[test]
fn runs_and_records_stand_side_by_side_whatever_their_words_are() {
    runs_and_records(false);
}

#[test]
fn runs_as_they_were_sent_stand_among_records_as_well() {
    runs_and_records(true);
}

fn runs_and_records(raw: bool) {
    let session = session(4096, 16);
    let mut code = FakeCode::default();
    let block = code.block(1, &[3, 3], true, 0);
    let mut writer = Writer::new(&session, 1, 0);
    let name = u64::from_le_bytes([0xff; 8]);
    // As the runtime writes them: a store's address as its complement. An address that no process has may
    // look like anything.
    writer.block(block, &[64, !128]);
    writer.record(kind::FENCE, 0, &[]);
    writer.block(block, &[64, !192]);
    writer.record(kind::FREE, 0, &[7]);
    writer.block(block, &[1 << 63 | 320, !256]);
    writer.record(kind::PHASE, 0, &[8, name]);
    writer.block(block, &[1 << 62 | 320, !384]);
    writer.record(kind::ACCESS, access::LOAD, &[512, access_word(512, 100).unwrap()]);
    writer.record(kind::ODD_ACCESS, access::LOAD, &[512, 0]);
    writer.record(kind::ODD_ACCESS, access::STORE, &[1 << 63 | 640, 100]);
    writer.block(block, &[0, !448]);
    // What a program does last that stores to address 0: it looks like a jump over the store.
    writer.block(block, &[576, !0]);
    let mut merger = merger(&session, code, false);
    merger.decoder.raw = raw;
    let collected = finish(&mut merger, &session);
    assert_eq!(merger.streams[0].events, collected.events.len() as u64);
    let (load, store) = (|addr| Op::Load { addr, len: 8 }, |addr| Op::Store { addr, len: 8 });
    let expected = [
        load(64),
        store(128),
        Op::Fence(FenceKind::Store),
        load(64),
        store(192),
        Op::Free { addr: 7 },
        load(!(1 << 63 | 320)),
        store(256),
        Op::Phase { name: event::NameId(0) },
        load(1 << 62 | 320),
        store(384),
        Op::Load { addr: 512, len: 100 },
        Op::Store { addr: 1 << 63 | 640, len: 100 },
        store(448),
        load(576),
    ];
    assert_eq!(ops(&collected), expected);
    assert_eq!(collected.table.name(event::NameId(0)), Some(&*String::from_utf8_lossy(&[0xff; 8])));
}

#[test]
fn each_kind_of_record_becomes_what_its_operation_documents() {
    let session = session(4096, 16);
    let mut writer = Writer::new(&session, 1, 7);
    writer.record(kind::THREAD_START, 0, &[1]);
    writer.record(kind::ODD_ACCESS, access::STORE_NT, &[640, (1 << 32) + 10]);
    writer.record(kind::FLUSH, flush::CLWB, &[100, 100]);
    writer.record(kind::FLUSH, flush::CLDEMOTE, &[64, 1]);
    writer.record(kind::FENCE, 0, &[]);
    writer.record(kind::ATOMIC, 2 | 4 << 4, &[8, 4, 2, 3]);
    writer.record(
        kind::MAP,
        0,
        &[4096, 8192, 10, u64::from_le_bytes(*b"/mnt/pme"), u64::from_le_bytes(*b"m\n\0\0\0\0\0\0")],
    );
    writer.record(kind::SPAWN, 0, &[9, 4]);
    writer.record(kind::THREAD_END, 0, &[5]);
    let collected = finish(&mut merger(&session, FakeCode::default(), false), &session);

    let name = event::NameId(0);
    let limit = !63_u32;
    let (var, order) = (8, Order::AcqRel);
    let expected = [
        Op::ThreadStart { seq: 1 },
        // What other records have for a code address is the number of the process here.
        Op::Process { process: TEXT as u32 + 1 },
        Op::StoreNt { addr: 640, len: limit },
        Op::StoreNt { addr: 640 + u64::from(limit), len: 74 },
        Op::Flush { addr: 64, kind: FlushKind::Clwb },
        Op::Flush { addr: 128, kind: FlushKind::Clwb },
        Op::Flush { addr: 192, kind: FlushKind::Clwb },
        Op::Demote { addr: 64 },
        Op::Fence(FenceKind::Store),
        Op::Load { addr: 8, len: 4 },
        Op::Release { var, order, seq: 2 },
        Op::Store { addr: 8, len: 4 },
        Op::Acquire { var, order, seq: 3 },
        Op::Fence(FenceKind::Locked),
        Op::Map { addr: 4096, len: 8192, name },
        Op::Spawn { child: ThreadId(1), seq: 4 },
        Op::ThreadEnd { seq: 5 },
    ];
    assert_eq!(ops(&collected), expected);
    assert_eq!(collected.table.name(name), Some("/mnt/pmem\n"));
    // One site: all records have the same return address, and the call lies before it.
    assert_eq!(collected.table.sites().count(), 1);
    assert_eq!(collected.table.sites().next().unwrap().1.address, TEXT);
}

#[test]
fn values_follow_their_stores_across_chunks_and_a_store_without_one_is_left_out() {
    let session = session(4096, 16);
    let mut code = FakeCode::default();
    let block = code.block(1, &[3, 2], true, 0);
    let mut writer = Writer::new(&session, 1, 0);
    writer.block(block, &[64, 128]);
    writer.hand_over();
    writer.record(kind::VALUE, 0, &[4, 0x0403_0201]);
    writer.record(kind::ACCESS, access::STORE, &[256, 12]);
    writer.record(kind::VALUE, 0, &[8, u64::from_le_bytes(*b"abcdefgh")]);
    writer.record(kind::VALUE, 0, &[4, u64::from_le_bytes(*b"ijkl\0\0\0\0")]);
    writer.record(kind::ATOMIC, 2 | 5 << 4, &[8, 1, 1, 2]);
    writer.record(kind::VALUE, 0, &[1, 9]);
    writer.block(block, &[64, 512]);
    let mut merger = merger(&session, code, true);
    let collected = finish(&mut merger, &session);
    let stored: Vec<_> = ops(&collected).iter().filter_map(Op::stored).collect();
    assert_eq!(stored, [(128, 4), (256, 12), (8, 1)]);
    assert_eq!(collected.values, b"\x01\x02\x03\x04abcdefghijkl\x09");
    assert_eq!(merger.decoder.stores_without_value, 1);
}

#[test]
fn an_access_in_turn_waits_with_its_position() {
    let session = session(4096, 16);
    let (mut first, mut second) = (Writer::new(&session, 1, 0), Writer::new(&session, 1, 1));
    let mut merger = merger(&session, FakeCode::default(), true);
    let mut sink = Collected::default();
    second.record(kind::ATOMIC, atomic::READ_MODIFY_WRITE | atomic::IN_ORDER, &[8, 1, 2, 3]);
    second.record(kind::VALUE, 0, &[1, 2]);
    second.hand_over();
    merger.gather(&session);
    while merger.deliver(&session, &mut sink).unwrap() {}
    assert_eq!(ops(&sink), [], "neither the load nor the store comes before its turn");

    first.record(kind::ATOMIC, atomic::STORE | atomic::IN_ORDER, &[8, 1, 1, 0]);
    first.record(kind::VALUE, 0, &[1, 1]);
    first.hand_over();
    merger.gather(&session);
    while merger.deliver(&session, &mut sink).unwrap() {}
    let (load, store) = (Op::Load { addr: 8, len: 1 }, Op::Store { addr: 8, len: 1 });
    let order = Order::AcqRel;
    let expected = [
        store,
        Op::Release { var: 8, order: Order::Release, seq: 1 },
        load,
        Op::Release { var: 8, order, seq: 2 },
        store,
        Op::Acquire { var: 8, order, seq: 3 },
        Op::Fence(FenceKind::Locked),
    ];
    assert_eq!(ops(&sink), expected);
    assert_eq!(sink.values, [1, 2]);
}

#[test]
fn where_threads_meet_without_an_access_is_no_fence() {
    let session = session(4096, 16);
    let mut writer = Writer::new(&session, 1, 0);
    writer.record(kind::ATOMIC, atomic::MEETING | 3 << 4, &[8, 0, 1, 0]);
    writer.record(kind::ATOMIC, atomic::MEETING | 2 << 4, &[8, 0, 0, 2]);
    let collected = finish(&mut merger(&session, FakeCode::default(), false), &session);
    let expected = [
        Op::Release { var: 8, order: Order::Release, seq: 1 },
        Op::Acquire { var: 8, order: Order::Acquire, seq: 2 },
    ];
    assert_eq!(ops(&collected), expected);
}

#[test]
fn a_thread_waits_for_its_turn_and_unfinished_chunks_are_read_meanwhile() {
    let session = session(4096, 16);
    let (mut first, mut second) = (Writer::new(&session, 1, 0), Writer::new(&session, 1, 1));
    let mut merger = merger(&session, FakeCode::default(), false);
    let mut sink = Collected::default();
    second.record(kind::LOCK, 0, &[64, 2]);
    second.hand_over();
    merger.gather(&session);
    assert!(!merger.deliver(&session, &mut sink).unwrap());
    assert!(merger.stalled() && !merger.look_ahead(&session));

    first.record(kind::UNLOCK, 0, &[64, 1]);
    assert!(merger.look_ahead(&session));
    while merger.deliver(&session, &mut sink).unwrap() {}
    assert_eq!(ops(&sink), [Op::Unlock { lock: 64, seq: 1 }, Op::Lock { lock: 64, shared: false, seq: 2 }]);
    // What follows in the unfinished chunk is read where the look ahead ended.
    first.record(kind::FREE, 0, &[7]);
    first.hand_over();
    merger.gather(&session);
    while merger.deliver(&session, &mut sink).unwrap() {}
    assert_eq!(ops(&sink)[2..], [Op::Free { addr: 7 }]);
    assert!(
        (0..16).all(|at| session.chunk(at).state.load(Ordering::Relaxed) == 0),
        "all chunks were given back"
    );
}

#[test]
fn chunks_that_wait_are_copied_out_and_a_position_that_never_comes_is_skipped() {
    let session = session(4096, 16);
    let mut merger = merger(&session, FakeCode::default(), false);
    let mut sink = Collected::default();
    let mut writer = Writer::new(&session, 1, 0);
    for at in 0..16 {
        writer.record(kind::UNLOCK, 0, &[64, 2 + at]);
        writer.hand_over();
    }
    assert!(!writer.has_room(1));
    merger.gather(&session);
    merger.deliver(&session, &mut sink).unwrap();
    assert!(sink.events.is_empty());
    assert!(merger.relieve(&session));
    assert!(writer.has_room(1));
    merger.skip();
    while merger.deliver(&session, &mut sink).unwrap() {}
    assert_eq!(merger.skipped, 1);
    // Delivered in order, and numbered without a gap.
    let positions: Vec<u64> = ops(&sink).iter().filter_map(Op::seq).collect();
    assert_eq!(positions, (1..=16).collect::<Vec<_>>());
}

#[test]
fn what_can_not_be_decoded_is_counted_and_the_next_chunk_is_read() {
    let session = session(4096, 16);
    let mut writer = Writer::new(&session, 1, 0);
    writer.record(kind::FREE, 0, &[1]);
    writer.block(0x1234_5678, &[1, 2]);
    writer.hand_over();
    writer.record(99, 0, &[]);
    writer.hand_over();
    writer.record(kind::VALUE, 0, &[1 << 40]);
    writer.hand_over();
    writer.record(kind::FREE, 0, &[2]);
    let mut merger = merger(&session, FakeCode::default(), false);
    let collected = finish(&mut merger, &session);
    assert_eq!(ops(&collected), [Op::Free { addr: 1 }, Op::Free { addr: 2 }]);
    assert_eq!(merger.decoder.undecoded, (6, Some(block_header(0x1234_5678))));
}

#[test]
fn a_sink_that_fails_ends_the_delivery() {
    struct Full;
    impl Sink for Full {
        fn name(&self) -> &'static str {
            "full"
        }
        fn push(&mut self, _: event::Batch<'_>) -> Result<(), SinkError> {
            Err(SinkError::Other("no space left".into()))
        }
    }
    let session = session(4096, 16);
    let mut writer = Writer::new(&session, 1, 0);
    writer.record(kind::FREE, 0, &[1]);
    let mut merger = merger(&session, FakeCode::default(), false);
    merger.salvage(&session, 1);
    assert!(merger.finish(&session, &mut Full).is_err());
}

/// What a synthetic thread does in one step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Access,
    /// Takes a position of the global order; the thread's next step writes its record.
    Take,
    HandOver,
    /// The collector does something.
    Collect,
}

#[test]
fn chunks_that_are_opened_are_writers_and_are_read() {
    let session = session(4096, 200);
    let open = session.open();
    assert!(open < 200);
    let writers: Vec<Writer> = (0..open as u32)
        .map(|thread| {
            let mut writer = Writer::new(&session, 1, thread);
            writer.record(kind::FENCE, 0, &[]);
            writer
        })
        .collect();
    let mut late = Writer::new(&session, 1, open as u32);
    assert!(!late.has_room(1));
    assert!(session.open_more() && late.has_room(1));
    late.record(kind::FENCE, 0, &[]);
    late.hand_over();
    let mut merger = merger(&session, FakeCode::default(), false);
    merger.gather(&session);
    let mut sink = Collected::default();
    while merger.deliver(&session, &mut sink).unwrap() {}
    assert!(sink.events.iter().any(|(_, event)| matches!(event.op, Op::Fence(_))));
    while session.open_more() {}
    assert_eq!(session.open(), 200);
    drop(writers);
}

#[test]
fn few_idle_threads_are_no_crowd_and_half_of_the_chunks_or_many_threads_are() {
    let session = session(4096, 200);
    let mut merger = merger(&session, FakeCode::default(), false);
    let mut sink = Collected::default();
    let half = session.open() as u32 / 2;
    let mut crowded = Vec::new();
    let mut writers = Vec::new();
    for thread in 0..half {
        let mut writer = Writer::new(&session, 1, thread);
        writer.record(kind::FENCE, 0, &[]);
        writers.push(writer);
        crowded.push(merger.is_crowded(&session));
    }
    assert!(crowded.pop() == Some(true) && !crowded.contains(&true));
    let mut deliver = |merger: &mut Merger<FakeCode>| {
        merger.gather(&session);
        while merger.deliver(&session, &mut sink).unwrap() {}
        merger.is_crowded(&session)
    };
    writers.iter_mut().for_each(Writer::hand_over);
    assert!(!deliver(&mut merger), "all chunks are free");
    let mut one_more = Writer::new(&session, 1, half);
    one_more.record(kind::FENCE, 0, &[]);
    one_more.hand_over();
    assert!(deliver(&mut merger), "so many threads could take half of them");
}

#[test]
fn what_a_broken_program_writes_over_the_number_of_open_chunks_hides_none() {
    let session = session(4096, 100);
    let open = session.open();
    for wrong in [0, 1, u32::MAX] {
        session.head().open_chunks.store(wrong, Ordering::Relaxed);
        assert!((open..=100).contains(&session.open()), "{wrong}");
        merger(&session, FakeCode::default(), false).gather(&session);
    }
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        6 => Just(Step::Access),
        6 => Just(Step::Take),
        1 => Just(Step::HandOver),
        2 => Just(Step::Collect),
    ];
    prop::collection::vec((0_usize..6, step), 0..3000)
}

fn collect(merger: &mut Merger<FakeCode>, session: &SessionFile, sink: &mut Collected) -> bool {
    merger.gather(session);
    merger.deliver(session, sink).unwrap() || (merger.stalled() && merger.look_ahead(session))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_keeps_program_order_and_the_global_order(steps in steps(), raw in any::<bool>()) {
        let session = session(4096, 16);
        let mut code = FakeCode::default();
        let block = code.block(1, &[3, 3], true, 0);
        let mut merger = merger(&session, code, false);
        merger.decoder.raw = raw;
        let mut sink = Collected::default();
        let mut writers: Vec<Writer> = (0..6).map(|thread| Writer::new(&session, 1, thread)).collect();
        let mut taken = [None; 6];
        let (mut last_position, mut now) = (0, 0);
        // Per thread: addresses of the accesses, and the positions negated.
        let mut expected = vec![Vec::new(); 6];
        for (thread, step) in steps {
            now += 10;
            writers[thread].now_ns = now;
            while !writers[thread].has_room(8) {
                prop_assert!(collect(&mut merger, &session, &mut sink) || merger.relieve(&session), "no way out");
            }
            if let Some(position) = taken[thread].take() {
                writers[thread].record(kind::LOCK, 0, &[64, position]);
                expected[thread].push(-(position as i64));
            }
            match step {
                Step::Access => {
                    writers[thread].block(block, &[now, now + 1]);
                    expected[thread].extend([now as i64, now as i64 + 1]);
                }
                Step::Take => {
                    last_position += 1;
                    taken[thread] = Some(last_position);
                }
                Step::HandOver => writers[thread].hand_over(),
                Step::Collect => {
                    collect(&mut merger, &session, &mut sink);
                }
            }
        }
        // A thread that took a position and died before it wrote its record leaves a gap.
        let gaps = taken.iter().flatten().count();
        merger.salvage(&session, 1);
        merger.finish(&session, &mut sink).unwrap();

        let positions: Vec<u64> = ops(&sink).iter().filter_map(Op::seq).collect();
        prop_assert_eq!(&positions, &(1..=(last_position - gaps as u64)).collect::<Vec<_>>());
        let mut gap_before: Vec<u64> = taken.iter().flatten().copied().collect();
        gap_before.sort_unstable();
        let wire = |given: u64| gap_before.iter().fold(given, |at, &gap| if gap <= at { at + 1 } else { at });
        let mut got = vec![Vec::new(); 6];
        for (thread, event) in &sink.events {
            let wire_thread = merger.streams.iter().position(|stream| stream.thread == Some(*thread)).unwrap();
            got[wire_thread].push(match event.op {
                Op::Load { addr, .. } | Op::Store { addr, .. } => addr as i64,
                Op::Lock { seq, .. } => -(wire(seq) as i64),
                other => panic!("{other:?} was never written"),
            });
        }
        let mut got: Vec<_> = got.into_iter().filter(|events| !events.is_empty()).collect();
        let mut expected: Vec<_> = expected.into_iter().filter(|events| !events.is_empty()).collect();
        got.sort();
        expected.sort();
        prop_assert_eq!(got, expected);
    }
}

/// Prints what a decoded event costs: `cargo test --release -p capture -- --ignored --nocapture decoding`.
#[test]
#[ignore = "a measurement"]
fn decoding_speed() {
    struct Count(u64, u64);
    impl Sink for Count {
        fn name(&self) -> &'static str {
            "count"
        }
        fn push(&mut self, batch: event::Batch<'_>) -> Result<(), SinkError> {
            self.0 += batch.events.len() as u64;
            self.1 += 1;
            Ok(())
        }
    }
    fn cpu_time() -> std::time::Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    let session = session(65536, 64);
    let mut code = FakeCode::default();
    let blocks: Vec<(u64, usize)> = (0..2000)
        .map(|at| [1, 2, 1, 3, 5, 2, 1, 4][at % 8])
        .map(|k| (code.block(2, &vec![3; k], k % 2 == 1, 2), k))
        .collect();
    let mut merger = merger(&session, code, false);
    let mut sink = Count(0, 0);
    let mut random = 1_u64;
    let (mut expected, mut spent) = (0, std::time::Duration::ZERO);
    for round in 0..20 {
        let mut writer = Writer::new(&session, 1, round);
        let mut at = 0;
        for _ in 0..150_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Mostly the block that follows in the text, sometimes another.
            at = if random >> 60 == 0 { (random >> 33) as usize } else { at + 1 } % blocks.len();
            let (block, accesses) = blocks[at];
            writer.block(block, &[random | 1, random | 2, random | 4, 8, 16][..accesses]);
            expected += accesses as u64;
        }
        writer.hand_over();
        let start = cpu_time();
        merger.gather(&session);
        while merger.deliver(&session, &mut sink).unwrap() {}
        // The first round reads the descriptors.
        if round == 0 {
            (sink.0, expected) = (0, 0);
        } else {
            spent += cpu_time() - start;
        }
    }
    assert_eq!(sink.0, expected);
    println!(
        "{} events in {spent:?}, {:.2} ns each, {} batches",
        sink.0,
        spent.as_nanos() as f64 / sink.0 as f64,
        sink.1
    );
}

#[test]
fn events_say_where_their_functions_were_called() {
    for raw in [false, true] {
        let session = session(4096, 16);
        let mut code = FakeCode::default();
        let block = code.block(1, &[3], false, 2);
        let mut writer = Writer::new(&session, 1, 0);
        writer.record(kind::ENTER, 0, &[500, 1000]);
        writer.block(block, &[100]);
        // A function without accesses.
        writer.record(kind::ENTER, 0, &[700, 900]);
        writer.record(kind::LEAVE, 0, &[900]);
        writer.block(block, &[200]);
        writer.record(kind::ENTER, 0, &[600, 900]);
        writer.block(block, &[300]);
        writer.block(block, &[400]);
        writer.record(kind::FREE, 0, &[7]);
        // It was left by a jump to a function with this frame.
        writer.record(kind::LEAVE, 0, &[1000]);
        writer.block(block, &[500]);
        let mut merger = merger(&session, code, false);
        merger.decoder.raw = raw;
        let collected = finish(&mut merger, &session);
        let load = |addr| Op::Load { addr, len: 8 };
        let (jump, free) = (Op::Context, Op::Free { addr: 7 });
        let expected = [jump, load(100), load(200), jump, load(300), load(400), free, jump, load(500)];
        assert_eq!(ops(&collected), expected);
        assert_eq!(merger.streams[0].events, expected.len() as u64);
        let calls: Vec<Vec<u32>> = collected
            .events
            .iter()
            .filter(|(_, event)| event.op == Op::Context)
            .map(|(_, event)| collected.table.site(event.site))
            .map(|site| {
                site.map_or_else(Vec::new, |site| site.frames.iter().map(|frame| frame.line).collect())
            })
            .collect();
        assert_eq!(calls, [vec![499], vec![599, 499], vec![]]);
        // No instruction is lost.
        let instructions: u32 = collected.events.iter().map(|(_, event)| event.instructions).sum();
        assert_eq!(instructions, 5 + 4 * 2 + 1);
    }
}
