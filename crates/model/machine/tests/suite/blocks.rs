//! A stream of blocks gives the same figures and counts as its events.

use std::sync::Arc;

use event::{
    AccessKind, BlockAccess, BlockBatch, BlockShape, Counts, EVENT, Event, FenceKind, FlushKind, NameId, Op,
    RunSink, Sink, SiteId, ThreadId,
};
use machine::{Config, Machine};
use proptest::prelude::*;

/// Lines near each other, so that they meet in sets, and some far away.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        2 => 1u64..256,
        6 => (0u64..40, 0u64..64).prop_map(|(line, byte)| (line << 12 | 0x100_0000) + byte),
        4 => 0x200_0000u64..0x200_4000,
        1 => any::<u64>().prop_map(|addr| addr >> 1),
    ]
}

fn access() -> impl Strategy<Value = BlockAccess> {
    let kind = prop_oneof![
        6 => Just(AccessKind::Load), 4 => Just(AccessKind::Store), 1 => Just(AccessKind::StoreNt)
    ];
    let len = prop_oneof![
        12 => prop_oneof![Just(1u32), Just(4), Just(8), Just(16), Just(64)].prop_map(Some),
        1 => (0u32..300).prop_map(Some),
        1 => Just(None),
    ];
    (kind, len, 0u32..30, 0u32..9).prop_map(|(kind, len, site, instructions)| BlockAccess {
        kind,
        len,
        site: SiteId(site),
        instructions,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let op = prop_oneof![
        4 => address().prop_map(|addr| Op::Store { addr, len: 8 }),
        4 => address().prop_map(|addr| Op::Load { addr, len: 4 }),
        2 => address().prop_map(|addr| Op::Flush { addr, kind: FlushKind::Clwb }),
        1 => address().prop_map(|addr| Op::Flush { addr, kind: FlushKind::Clflush }),
        1 => address().prop_map(|addr| Op::Demote { addr }),
        1 => Just(Op::Fence(FenceKind::Store)),
        1 => address().prop_map(|addr| Op::Map { addr, len: 1 << 14, name: NameId(0) }),
        1 => address().prop_map(|addr| Op::Unmap { addr, len: 1 << 14 }),
    ];
    (op, 0u32..30).prop_map(|(op, site)| Event { op, site: SiteId(site), instructions: 1 })
}

/// A thread and its runs, by any number, with an event in front of some.
type Part = (u32, Vec<(usize, Option<Event>, Vec<u64>)>);

fn part() -> impl Strategy<Value = Part> {
    let run = (any::<usize>(), prop::option::weighted(0.1, event()), prop::collection::vec(address(), 80));
    (0u32..3, prop::collection::vec(run, 1..40))
}

fn machine(preset: &str) -> Machine {
    let mut config = Config::preset(preset).expect("a preset");
    // Small, so that lines leave it.
    config.l2.size.0 = 64 << 10;
    config.llc.size.0 = 11 * 64 * 64;
    Machine::new(&config).expect("a machine")
}

proptest! {
    #[test]
    fn runs_and_their_events_are_the_same(
        shapes in prop::collection::vec(prop::collection::vec(access(), 1..9), 1..12),
        long in prop::collection::vec(access(), 60..80),
        parts in prop::collection::vec(part(), 1..12),
        preset in prop::sample::select(vec!["xpoint", "dram"]),
    ) {
        let shapes: Vec<Arc<BlockShape>> = shapes
            .into_iter()
            .chain([long])
            .zip(1..)
            .map(|(accesses, after)| Arc::new(BlockShape { accesses, after }))
            .collect();
        let (mut by_runs, mut by_events, mut counts) = (machine(preset), machine(preset), Counts::default());
        for (thread, runs) in parts {
            let (mut words, mut events) = (Vec::new(), Vec::new());
            for (number, event, addresses) in runs {
                if let Some(event) = event {
                    words.push(EVENT);
                    events.push(event);
                }
                let number = number % shapes.len();
                let sized = addresses[79] % 3 != 0;
                let behind = if sized { shapes[number].words() - 1 } else { 0 };
                words.push(BlockShape::sized_head(number as u32, behind));
                for (access, addr) in shapes[number].accesses.iter().zip(addresses) {
                    words.push(addr);
                    if access.len.is_none() {
                        words.push(addr % 700);
                    }
                }
            }
            let mut batch = BlockBatch {
                thread: ThreadId(thread), time_ns: 0, shapes: &shapes, words: &words, events: &events, count: 0, carry: thread * 7,
            };
            batch.count = batch.items().map(|item| match item {
                event::BlockItem::Event(_) => 1,
                event::BlockItem::Block(_, shape, words) => {
                    let mut count = 0;
                    shape.accesses(words, &mut 0, |_, _, _, _| count += 1);
                    count
                }
            }).sum();
            by_runs.push_blocks(batch).expect("taken");
            batch.expanded(|batch| by_events.push(batch)).expect("taken");
            batch.expanded(|batch| counts.push(batch)).expect("taken");
            by_runs.audit().expect("the books balance");
        }
        prop_assert_eq!(by_runs.counts(), counts);
        prop_assert_eq!(by_events.counts(), counts);
        by_runs.drain();
        by_events.drain();
        by_runs.audit().expect("the books balance");
        let (mut by_runs, by_events) = (by_runs.figures(), by_events.figures());
        // Sites that were only in runs and never executed have accounts too.
        let unused = by_runs.sites.split_off(by_events.sites.len());
        prop_assert!(unused.iter().all(|site| *site == machine::SiteFigures::default()));
        prop_assert_eq!(by_runs, by_events);
    }
}
