//! The lints, each on a few events, and their silence on what is right.

use crash::lint::{Kind, Lint, Lints};
use crash::{Place, Platform};
use event::{
    Batch, Capabilities, Definition, Event, FenceKind, FlushKind, Frame, NameId, Op, Sampling, Sink,
    SinkError, Site, SiteId, Source, ThreadId,
};

/// Where the file is mapped, and where ordinary memory is.
const FILE: u64 = 0x10_0000;
const HEAP: u64 = 0x80_0000;

fn store(offset: u64) -> Op {
    Op::Store { addr: FILE + offset, len: 8 }
}

fn nt(offset: u64) -> Op {
    Op::StoreNt { addr: FILE + offset, len: 8 }
}

fn clwb(offset: u64) -> Op {
    Op::Flush { addr: FILE + offset, kind: FlushKind::Clwb }
}

fn clflush(offset: u64) -> Op {
    Op::Flush { addr: FILE + offset, kind: FlushKind::Clflush }
}

const SFENCE: Op = Op::Fence(FenceKind::Store);
const MFENCE: Op = Op::Fence(FenceKind::Full);
const LOCKED: Op = Op::Fence(FenceKind::Locked);

fn source(capabilities: Capabilities) -> Source {
    Source { capabilities, ..Source::synthetic("test") }
}

/// A sink that has the file, without values.
fn lints() -> Lints {
    let mut lints = Lints::new();
    lints.begin(&source(lints.needs())).expect("a source that will do");
    lints.define(Definition::Name(NameId(1), "/mnt/pool")).expect("a name");
    push(&mut lints, 0, SiteId::UNKNOWN, Op::Map { addr: FILE, len: 1 << 16, name: NameId(1) }, &[]);
    lints
}

fn push(lints: &mut Lints, thread: u32, site: SiteId, op: Op, values: &[u8]) {
    let events = [Event { op, site, instructions: 0 }];
    lints.push(Batch { thread: ThreadId(thread), time_ns: 0, events: &events, values }).expect("an event");
}

/// What is found in a run; the site of an event is its number, from 1.
fn run(events: &[(u32, Op)]) -> Vec<Lint> {
    let mut lints = lints();
    for (number, &(thread, op)) in events.iter().enumerate() {
        push(&mut lints, thread, SiteId(number as u32 + 1), op, &[]);
    }
    lints.finish().expect("an end");
    lints.findings()
}

fn one_thread(ops: &[Op]) -> Vec<Lint> {
    run(&ops.iter().map(|&op| (0, op)).collect::<Vec<_>>())
}

/// Kind, site, count and bytes of each.
fn brief(found: &[Lint]) -> Vec<(Kind, u32, u64, u64)> {
    found.iter().map(|lint| (lint.kind, lint.site.0, lint.count, lint.bytes)).collect()
}

#[test]
fn right_programs() {
    let region = |ops: &[Op]| {
        let mut all = vec![Op::RegionBegin { region: 1 }];
        all.extend(ops);
        all.push(Op::RegionEnd { region: 1 });
        all
    };
    let programs: [&[Op]; 11] = [
        &[store(0), clwb(0), SFENCE],
        &[store(0), store(8), store(64), clwb(0), clwb(64), SFENCE, store(0), clwb(0), SFENCE],
        &[store(0), clwb(0), store(0), clwb(0), SFENCE],
        &[store(0), clflush(0)],
        &[store(0), clflush(0), SFENCE],
        &[nt(0), SFENCE],
        &[store(0), clwb(0), MFENCE, MFENCE],
        &[store(0), clwb(0), LOCKED, SFENCE],
        &[store(0), clwb(0), LOCKED],
        // Ordinary memory is nobody's business, but a fence may be for it.
        &[Op::Store { addr: HEAP, len: 8 }, Op::StoreNt { addr: HEAP, len: 8 }, SFENCE],
        &[store(0), store(64), Op::MapSync { addr: FILE, len: 128 }],
    ];
    for program in programs {
        assert_eq!(one_thread(program), [], "{program:?}");
    }
    assert_eq!(one_thread(&region(&[store(0), clwb(0), SFENCE])), []);
    // Set-up before the first region is in none.
    let set_up: Vec<Op> = [store(0), clwb(0), SFENCE].into_iter().chain(region(&[nt(0), SFENCE])).collect();
    assert_eq!(one_thread(&set_up), []);
}

#[test]
fn never_flushed() {
    let found = one_thread(&[store(8), store(64), clwb(64), SFENCE, store(72)]);
    assert_eq!(brief(&found), [(Kind::NeverFlushed, 1, 1, 8), (Kind::NeverFlushed, 5, 1, 8)]);
    assert_eq!(found[0].example, Some(Place::new(0, 8)));
    // A store over two lines of which one is flushed.
    let found = one_thread(&[Op::Store { addr: FILE + 60, len: 8 }, clwb(0), SFENCE]);
    assert_eq!(brief(&found), [(Kind::NeverFlushed, 1, 1, 4)]);
    assert_eq!(found[0].example, Some(Place::new(0, 64)));
    // Another thread may flush.
    assert_eq!(run(&[(0, store(0)), (1, clwb(0)), (1, SFENCE)]), []);
}

#[test]
fn not_fenced() {
    let found = one_thread(&[store(0), clwb(0)]);
    assert_eq!(brief(&found), [(Kind::NotFenced, 1, 1, 8)]);
    assert_eq!(found[0].flush, Some(SiteId(2)));
    assert_eq!(brief(&one_thread(&[nt(0), nt(8)])), [(Kind::NotFenced, 1, 1, 8), (Kind::NotFenced, 2, 1, 8)]);
    // The fence of another thread does not help, unless it flushed, too.
    assert_eq!(
        brief(&run(&[(0, store(0)), (0, clwb(0)), (1, nt(64)), (1, SFENCE)])),
        [(Kind::NotFenced, 1, 1, 8)]
    );
    assert_eq!(run(&[(0, store(0)), (0, clwb(0)), (1, clwb(0)), (1, SFENCE)]), []);
    // A later flush of the line, fenced, covers it.
    assert_eq!(run(&[(0, store(0)), (0, clwb(0)), (1, store(8)), (1, clwb(0)), (1, SFENCE)]), []);
    // An earlier one does not.
    let early = [(1, store(8)), (1, clwb(0)), (0, store(0)), (0, clwb(0)), (1, SFENCE)];
    assert_eq!(brief(&run(&early)), [(Kind::NotFenced, 3, 1, 8)]);
}

#[test]
fn not_fenced_when_the_region_ended() {
    let (begin, end) = (Op::RegionBegin { region: 1 }, Op::RegionEnd { region: 1 });
    let found = one_thread(&[begin, store(0), clwb(0), end, SFENCE]);
    assert_eq!(brief(&found), [(Kind::NotFenced, 2, 1, 8)]);
    let found = one_thread(&[begin, nt(0), end, SFENCE]);
    assert_eq!(brief(&found), [(Kind::NotFenced, 2, 1, 8)]);
    // Of each thread its own.
    let found = run(&[(0, begin), (0, store(0)), (0, clwb(0)), (1, begin), (1, end), (0, SFENCE), (0, end)]);
    assert_eq!(found, []);
}

#[test]
fn redundant_flushes() {
    let flush = |site, count| (Kind::RedundantFlush, site, count, count * 64);
    assert_eq!(brief(&one_thread(&[store(0), clwb(0), clwb(0), SFENCE])), [flush(3, 1)]);
    assert_eq!(brief(&one_thread(&[store(0), clwb(0), SFENCE, clwb(0), SFENCE])), [flush(4, 1)]);
    assert_eq!(brief(&one_thread(&[clwb(64), SFENCE])), [flush(1, 1)]);
    assert_eq!(brief(&one_thread(&[nt(0), clwb(0), SFENCE])), [flush(2, 1)]);
    // Who depends on another's store can't know of its fence; who flushed it itself can.
    assert_eq!(run(&[(0, store(0)), (0, clwb(0)), (0, SFENCE), (1, clwb(0)), (1, SFENCE)]), []);
    let again = [(0, store(0)), (0, clwb(0)), (0, SFENCE), (1, clwb(0)), (1, clwb(0)), (1, SFENCE)];
    assert_eq!(brief(&run(&again)), [flush(5, 1)]);
}

#[test]
fn redundant_fences() {
    let fence = |site| (Kind::RedundantFence, site, 1, 0);
    assert_eq!(brief(&one_thread(&[store(0), clwb(0), SFENCE, SFENCE])), [fence(4)]);
    assert_eq!(
        brief(&one_thread(&[store(0), SFENCE, clwb(0), SFENCE])),
        [fence(2)],
        "a fence before the flush orders nothing"
    );
    assert_eq!(brief(&run(&[(0, nt(0)), (1, SFENCE), (0, SFENCE)])), [fence(2)]);
}

#[test]
fn pointers_to_memory_that_does_not_survive() {
    let mut lints = Lints::new();
    lints.begin(&source(Capabilities::all())).expect("a source that will do");
    lints.define(Definition::Name(NameId(1), "/mnt/pool")).expect("a name");
    let mut site = 0;
    let mut record = |op: Op, value: u64| {
        site += 1;
        let bytes = value.to_le_bytes();
        let len = op.value_len().map_or(0, |len| len as usize);
        push(&mut lints, 0, SiteId(site), op, &bytes[..len]);
    };
    record(Op::Map { addr: FILE, len: 1 << 16, name: NameId(1) }, 0);
    record(Op::Alloc { addr: HEAP, len: 32 }, 0);
    record(store(0), HEAP + 31);
    // Behind the allocation, into the file, too small for a pointer, into ordinary memory.
    record(store(8), HEAP + 32);
    record(store(16), FILE + 64);
    record(Op::Store { addr: FILE + 24, len: 4 }, HEAP);
    record(Op::Store { addr: HEAP, len: 8 }, HEAP);
    record(nt(32), HEAP);
    record(Op::Free { addr: HEAP }, 0);
    record(store(40), HEAP);
    record(Op::MapSync { addr: FILE, len: 128 }, 0);
    assert_eq!(
        brief(&lints.findings()),
        [(Kind::VolatilePointer, 3, 1, 8), (Kind::VolatilePointer, 8, 1, 8)]
    );
}

/// What is found in a run with values; the sites of its operations count from 2, behind that of the mapping.
fn with_values(ops: &[(Op, u64)]) -> Vec<Lint> {
    let mut lints = Lints::new();
    lints.begin(&source(Capabilities::all())).expect("a source that will do");
    lints.define(Definition::Name(NameId(1), "/mnt/pool")).expect("a name");
    let map = (Op::Map { addr: FILE, len: 1 << 16, name: NameId(1) }, 0);
    for (number, &(op, value)) in (1..).zip([map].iter().chain(ops)) {
        let len = op.value_len().map_or(0, |len| len as usize);
        push(&mut lints, 0, SiteId(number), op, &value.to_le_bytes()[..len]);
    }
    lints.findings()
}

fn heap(offset: u64) -> Op {
    Op::Store { addr: HEAP + offset, len: 8 }
}

fn flush_heap(offset: u64) -> Op {
    Op::Flush { addr: HEAP + offset, kind: FlushKind::Clwb }
}

#[test]
fn a_flush_of_ordinary_memory_makes_nothing_durable() {
    let found = with_values(&[(heap(0), 7), (flush_heap(0), 0), (SFENCE, 0)]);
    assert_eq!(brief(&found), [(Kind::VolatileFlush, 3, 1, 64)]);
    assert_eq!((found[0].example, found[0].kind.is_danger()), (None, false));
}

#[test]
fn a_flush_of_a_pointer_is_the_one_cause_of_what_it_leaves() {
    // The node at 256 and 320; the pointer to it beside others in a line of ordinary memory.
    let node = [(store(256), 1), (store(320), 2)];
    let whole = |flushes: &[(Op, u64)]| {
        let mut ops = vec![(heap(0), FILE), (heap(16), FILE + 256)];
        ops.extend(node);
        ops.extend(flushes);
        ops.push((SFENCE, 0));
        with_values(&ops)
    };
    let both = [(SiteId(4), Place::new(0, 256)), (SiteId(5), Place::new(0, 320))];
    // By its line and by its own address.
    for flush in [flush_heap(0), flush_heap(16)] {
        let found = whole(&[(flush, 0)]);
        assert_eq!(brief(&found), [(Kind::FlushedPointer, 6, 1, 64)], "{flush:?}");
        assert_eq!((found[0].example, &*found[0].missed), (Some(Place::new(0, 256)), &both[..]));
    }
    // What is flushed behind it is nobody's loss; what is stored only then was not meant.
    let found = whole(&[(flush_heap(0), 0), (clwb(256), 0), (clwb(320), 0), (store(512), 3)]);
    let found: Vec<_> = found.iter().map(|lint| (lint.kind, lint.missed.len())).collect();
    assert_eq!(found, [(Kind::FlushedPointer, 0), (Kind::NeverFlushed, 0)]);
    // No pointer any more, or one to what is flushed.
    for overwritten in [heap(16), Op::Store { addr: HEAP + 20, len: 4 }] {
        let found = whole(&[(overwritten, 0), (flush_heap(0), 0)]);
        assert_eq!(
            found.iter().filter(|lint| lint.kind == Kind::FlushedPointer).count(),
            0,
            "{overwritten:?}"
        );
    }
    let found = whole(&[(clwb(256), 0), (clwb(320), 0), (SFENCE, 0), (flush_heap(0), 0)]);
    assert_eq!(found.iter().map(|lint| lint.kind).collect::<Vec<_>>(), [Kind::VolatileFlush]);
}

#[test]
fn stores_outside_a_region() {
    let (begin, end) = (Op::RegionBegin { region: 1 }, Op::RegionEnd { region: 1 });
    let found = one_thread(&[begin, nt(0), SFENCE, end, nt(8), SFENCE]);
    assert_eq!(brief(&found), [(Kind::OutsideRegion, 5, 1, 8)]);
    // A region is its thread's.
    let found = run(&[(0, begin), (1, nt(0)), (1, SFENCE), (0, nt(8)), (0, SFENCE), (0, end)]);
    assert_eq!(brief(&found), [(Kind::OutsideRegion, 2, 1, 8)]);
    // Regions nest.
    assert_eq!(one_thread(&[begin, begin, end, nt(0), SFENCE, end]), []);
}

#[test]
fn reported_with_the_place_and_a_remedy() {
    let mut lints = lints();
    for (site, op) in [(1, store(8)), (1, store(72)), (2, clwb(64))] {
        push(&mut lints, 0, SiteId(site), op, &[]);
    }
    let described: Vec<String> =
        lints.findings().iter().map(|lint| lint.describe(lints.files(), lints.table())).collect();
    assert_eq!(
        described,
        [
            "what unknown site stores (8 B, first at pool+0x8) is never flushed, once",
            "what unknown site stores (8 B, first at pool+0x48) is flushed at unknown site, but not fenced, once",
        ]
    );
}

#[test]
fn inlined_code_is_one_place() {
    let mut lints = lints();
    let frame = |line| Frame { function: "put".into(), file: "map.c".into(), line };
    for (number, line) in [(1, 7), (2, 7), (3, 8)] {
        let site = Site { frames: vec![frame(line)], module: String::new(), address: number.into() };
        lints.define(Definition::Site(SiteId(number), &site)).expect("a site");
        push(&mut lints, 0, SiteId(number), store(u64::from(number) * 64), &[]);
    }
    let never = |site, count| (Kind::NeverFlushed, site, count, count * 8);
    assert_eq!(brief(&lints.findings()), [never(1, 2), never(3, 1)]);
}

#[test]
fn a_source_that_leaves_things_out_is_refused() {
    let mut lints = Lints::new();
    let blind = source(Capabilities::STORES);
    assert!(matches!(lints.begin(&blind), Err(SinkError::Lacks { .. })));
    let bursts =
        Source { sampling: Some(Sampling { recorded: 1, period: 2 }), ..source(Capabilities::all()) };
    let error = lints.begin(&bursts).expect_err("bursts are not enough");
    assert_eq!(error.to_string(), "the persistence lints need every event, and test recorded only bursts");
}

/// A lint and the checker are about the same thing: what a lint calls never flushed or not fenced is what an image may lack at the end.
#[test]
fn dangers_are_what_the_last_images_lack() {
    use crash::{Checker, Contents, Image, Oracle, Recorder};

    struct Missing(Vec<u64>);
    impl Oracle for Missing {
        fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
            for change in image.changes {
                self.0[(change.place.offset() / 8) as usize] = change.word;
            }
            let ended = image.ended == 1;
            if ended && self.0.contains(&0) { Err("lost".into()) } else { Ok(()) }
        }
    }

    let mut seed = 1u64;
    for _ in 0..500 {
        // Each word is stored to once, and what follows is chosen by chance.
        let mut order = vec![store(0), nt(64), store(128)];
        for _ in 0..6 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize;
            let offset = [0, 64, 128][at % 3];
            order.insert(at % (order.len() + 1), [clwb(offset), SFENCE, clflush(offset)][at / 7 % 3]);
        }
        let mut lints = lints();
        let mut recorder = Recorder::new(Platform::ADR);
        recorder.define(Definition::Name(NameId(1), "/mnt/pool")).expect("a name");
        let map = Op::Map { addr: FILE, len: 1 << 16, name: NameId(1) };
        let end = [Op::RegionBegin { region: 1 }, Op::RegionEnd { region: 1 }];
        for (number, op) in [map].into_iter().chain(order.iter().copied()).chain(end).enumerate() {
            let site = SiteId(number as u32);
            let events = [Event { op, site, instructions: 0 }];
            let values = 1u64.to_le_bytes();
            let values = &values[..op.value_len().map_or(0, |len| len as usize)];
            let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &events, values };
            recorder.push(batch).expect("an event");
            if number > 0 && !matches!(op, Op::RegionBegin { .. } | Op::RegionEnd { .. }) {
                push(&mut lints, 0, site, op, &[]);
            }
        }
        let history = recorder.into_history();
        let mut words = vec![1; 17];
        [0, 8, 16].iter().for_each(|&word| words[word] = 0);
        let outcome = Checker::new(&history, &Contents::default()).run(&mut Missing(words));
        let dangers = lints.findings().iter().filter(|lint| lint.kind.is_danger()).count();
        assert_eq!(outcome.failing > 0, dangers > 0, "{order:?}\n{:?}", lints.findings());
    }
}
