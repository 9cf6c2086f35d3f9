//! What a recording holds: each access once, in order, with its place in the source.

use event::{Batch, Capabilities, Collected, FenceKind, FlushKind, Op, Order, Sink, SinkError, ThreadId};
use space::{Image, Observer, Prestore, Recorded, Recording, Space};

const BASE: u64 = Recorded::<Image, Collected>::BASE;

fn recorded(values: bool) -> Recorded<Image, Collected> {
    let recording = Recording { producer: "test".to_owned(), persistent: Some("space".to_owned()), values };
    Recorded::new(Image::new(4096), Collected::default(), &recording).expect("the sink takes everything")
}

fn ops(collected: &Collected) -> Vec<Op> {
    collected.events.iter().map(|(_, event)| event.op).collect()
}

#[test]
fn one_thread_is_reported_in_order() {
    let space = recorded(false);
    space.store_u64(8, 7);
    space.load_word::<u16>(8);
    space.store(100, &[1; 30]);
    space.flush(100, 30);
    space.fence();
    space.prestore(0, 1, Prestore::Demote);
    space.prestore(0, 1, Prestore::Clean);
    space.store_nt(256, &[3; 128]);
    space.copy(0, 512, 16);
    space.load(0, &mut [0; 5]);
    let (_, collected) = space.finish().expect("the sink takes everything");
    let at = |offset| BASE + offset;
    let expected = [
        Op::ThreadStart { seq: 1 },
        Op::Map { addr: BASE, len: 4096, name: event::NameId(0) },
        Op::Store { addr: at(8), len: 8 },
        Op::Load { addr: at(8), len: 2 },
        Op::Store { addr: at(100), len: 30 },
        Op::Flush { addr: at(64), kind: FlushKind::Clwb },
        Op::Flush { addr: at(128), kind: FlushKind::Clwb },
        Op::Fence(FenceKind::Store),
        Op::Demote { addr: at(0) },
        Op::Flush { addr: at(0), kind: FlushKind::Clwb },
        Op::StoreNt { addr: at(256), len: 128 },
        Op::Load { addr: at(0), len: 16 },
        Op::Store { addr: at(512), len: 16 },
        Op::Load { addr: at(0), len: 5 },
        Op::ThreadEnd { seq: 2 },
    ];
    assert_eq!(ops(&collected), expected);
    assert_eq!(collected.table.name(event::NameId(0)), Some("space"));
    let source = collected.source.expect("a stream has a header");
    assert_eq!(source.capabilities, Capabilities::all() - Capabilities::VALUES - Capabilities::CALLS);
}

#[test]
fn events_carry_function_and_line() {
    fn writes(space: &impl Space) -> u32 {
        space.store_u64(0, 1);
        line!() - 1
    }
    let space = recorded(false);
    let line = writes(&space);
    space.store_u64(0, 2);
    let (_, collected) = space.finish().expect("the sink takes everything");
    let stores: Vec<_> = collected.events.iter().filter(|(_, event)| event.op.stored().is_some()).collect();
    let frame = |i: usize| collected.table.site(stores[i].1.site).and_then(|site| site.frame()).cloned();
    let frame = [frame(0).expect("a site"), frame(1).expect("a site")];
    assert_eq!((frame[0].line, frame[1].line), (line, line + 5));
    assert!(frame[0].file.ends_with("recorded.rs"));
    assert_eq!(frame[0].function, "recorded::writes");
    assert_eq!(frame[1].function, "recorded::events_carry_function_and_line");
}

#[test]
fn values_are_the_stored_bytes() {
    let space = recorded(true);
    space.store_u64(8, 0x0102);
    space.store(100, b"hello");
    assert_eq!(space.cas_u64(8, 0x0102, 0x0304), Ok(0x0102));
    assert_eq!(space.cas_u64(8, 0x0102, 0x0506), Err(0x0304));
    space.store_nt(64, &[9; 8]);
    space.copy(100, 200, 5);
    let (_, collected) = space.finish().expect("the sink takes everything");
    assert_eq!(
        collected.values,
        b"\x02\x01\0\0\0\0\0\0hello\x04\x03\0\0\0\0\0\0\x09\x09\x09\x09\x09\x09\x09\x09hello"
    );
    let stored: u32 = ops(&collected).iter().filter_map(Op::stored).map(|(_, len)| len).sum();
    assert_eq!(stored as usize, collected.values.len());
}

#[test]
fn a_swap_is_reported_as_the_vocabulary_says() {
    let space = recorded(false);
    let _ = space.cas_u64(64, 0, 1);
    let _ = space.cas_u64(64, 0, 1);
    let (_, collected) = space.finish().expect("the sink takes everything");
    let (addr, var) = (BASE + 64, BASE + 64);
    let expected = [
        Op::Load { addr, len: 8 },
        Op::Release { var, order: Order::AcqRel, seq: 2 },
        Op::Store { addr, len: 8 },
        Op::Acquire { var, order: Order::AcqRel, seq: 3 },
        Op::Fence(FenceKind::Locked),
        Op::Load { addr, len: 8 },
        Op::Acquire { var, order: Order::Acquire, seq: 4 },
        Op::Fence(FenceKind::Locked),
    ];
    assert_eq!(ops(&collected)[2..10], expected);
}

#[test]
fn observer_events_follow_the_accesses() {
    let space = recorded(false);
    space.phase("load");
    space.region_begin(3);
    space.allocated(512, 64);
    space.freed(512);
    space.region_end(3);
    let lock = space.new_lock();
    space.locked(lock, true);
    space.unlocking(lock);
    assert_ne!(lock, space.new_lock());
    let (_, collected) = space.finish().expect("the sink takes everything");
    let expected = [
        Op::Phase { name: event::NameId(1) },
        Op::RegionBegin { region: 3 },
        Op::Alloc { addr: BASE + 512, len: 64 },
        Op::Free { addr: BASE + 512 },
        Op::RegionEnd { region: 3 },
        Op::Lock { lock, shared: true, seq: 2 },
        Op::Unlock { lock, seq: 3 },
    ];
    assert_eq!(ops(&collected)[2..9], expected);
}

/// Checks what a sink is promised: positions in order, batches that end at fences, one thread each.
#[derive(Default)]
struct Promises {
    seq: u64,
    batches: u64,
}

impl Sink for Promises {
    fn name(&self) -> &'static str {
        "promises"
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.batches += 1;
        for (i, event) in batch.events.iter().enumerate() {
            if let Some(seq) = event.op.seq() {
                assert_eq!(seq, self.seq + 1, "positions have no gaps");
                self.seq = seq;
            }
            let last = i + 1 == batch.events.len();
            assert!(last || !matches!(event.op, Op::Fence(FenceKind::Store)), "a batch ends at a fence");
        }
        Ok(())
    }
}

#[test]
fn threads_keep_the_promises_and_lose_nothing() {
    let recording = Recording::persistent("test", "space");
    let sink = event::Tee(Promises::default(), event::Counts::default());
    let space = Recorded::new(Image::new(4096), sink, &recording).expect("the sink takes everything");
    std::thread::scope(|scope| {
        let work = |thread: u64| {
            let space = &space;
            // These threads never say that they end: what they leave behind must not be lost.
            scope.spawn(move || {
                for i in 0..1000 {
                    space.store_u64(thread * 64, i);
                    if i % 10 == 0 {
                        let _ = space.cas_u64(1024, i, i);
                        space.persist(thread * 64, 8);
                    }
                }
            })
        };
        let handles: Vec<_> = (0..4).map(work).collect();
        handles.into_iter().for_each(|handle| handle.join().expect("the thread does not panic"));
    });
    let (_, event::Tee(promises, counts)) = space.finish().expect("the sink takes everything");
    assert!(promises.batches > 400);
    // Every plain store, and the swaps that wrote.
    assert!((4000..=4400).contains(&counts.stores));
    assert_eq!(counts.fences, 400);
}

/// Fails at the third batch.
struct Failing(u32);

impl Sink for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }
    fn push(&mut self, _: Batch<'_>) -> Result<(), SinkError> {
        self.0 += 1;
        if self.0 == 3 { Err(SinkError::Other("disk full".to_owned())) } else { Ok(()) }
    }
}

#[test]
fn a_failing_sink_is_reported_at_the_end() {
    let recording = Recording::persistent("test", "space");
    let space = Recorded::new(Image::new(4096), Failing(0), &recording).expect("it begins well");
    for i in 0..100 {
        space.store_u64(0, i);
        space.fence();
    }
    assert_eq!(space.load_u64(0), 99, "the program itself goes on");
    let Err(error) = space.finish() else { panic!("the sink failed") };
    assert_eq!(error.to_string(), "disk full");
}

#[test]
fn two_recordings_in_turn_on_one_thread() {
    let (a, b) = (recorded(false), recorded(false));
    for i in 0..10 {
        a.store_u64(0, i);
        b.load_u64(0);
    }
    let (_, a) = a.finish().expect("the sink takes everything");
    let (_, b) = b.finish().expect("the sink takes everything");
    assert_eq!(ops(&a).iter().filter(|op| op.stored().is_some()).count(), 10);
    assert_eq!(ops(&b).iter().filter(|op| matches!(op, Op::Load { .. })).count(), 10);
    assert!(a.events.iter().chain(&b.events).all(|(thread, _)| *thread == ThreadId(0)));
}
