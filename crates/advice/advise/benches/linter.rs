//! What the linter costs per event, for the kinds of streams that it meets.
//!
//! `cargo bench -p advise`

use std::hint::black_box;

use advise::guidelines::Linter;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use event::{Batch, Event, FenceKind, FlushKind, NameId, Op, Sink, SiteId, Source, ThreadId};

const EVENTS: usize = 1 << 20;
const POOL: u64 = 1 << 40;

/// A source of numbers without a seed of its own: the streams are the same in every run.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A loop of two loads per store; the stores go to the stack, along a buffer, or anywhere.
fn ordinary() -> Vec<Op> {
    let mut state = 88_172_645_463_325_252;
    (0..EVENTS as u64)
        .map(|i| {
            let random = next(&mut state);
            match i % 12 {
                0..8 => Op::Load { addr: random >> 20, len: 8 },
                8 | 9 => Op::Store { addr: (1 << 46) + (random >> 32) % 64 * 8, len: 8 },
                10 => Op::Store { addr: (1 << 30) + 8 * i, len: 8 },
                _ => Op::Store { addr: (random >> 32) % (1 << 28), len: 8 },
            }
        })
        .collect()
}

/// Scattered stores, each flushed and fenced.
fn persistent() -> Vec<Op> {
    let mut state = 88_172_645_463_325_252;
    let map = Op::Map { addr: POOL, len: 1 << 30, name: NameId(1) };
    let stores = (0..EVENTS / 4).flat_map(move |_| {
        let addr = POOL + next(&mut state) % (1 << 28);
        [
            Op::Load { addr, len: 8 },
            Op::Store { addr, len: 8 },
            Op::Flush { addr, kind: FlushKind::Clwb },
            Op::Fence(FenceKind::Store),
        ]
    });
    std::iter::once(map).chain(stores).collect()
}

/// The site's number in its function.
fn kind(op: &Op) -> u32 {
    match *op {
        Op::Load { addr, .. } => 1 + addr as u32 % 4,
        Op::Store { addr, .. } => 5 + (addr >> 46) as u32 + 2 * (addr >> 30) as u32 % 4,
        _ => 0,
    }
}

fn run(events: &[Event]) -> Linter {
    let mut linter = Linter::default();
    linter.begin(&Source::synthetic("bench")).expect("accepts every source");
    for events in events.chunks(1000) {
        let batch = Batch { thread: ThreadId(0), time_ns: 0, events, values: &[] };
        linter.push(batch).expect("accepts every batch");
    }
    linter.finish().expect("finishes");
    linter
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("linter");
    let loads = (0..EVENTS as u64).map(|i| Op::Load { addr: 64 * i, len: 8 }).collect();
    for (name, ops) in [("loads", loads), ("ordinary", ordinary()), ("persistent", persistent())] {
        let events: Vec<Event> = ops
            .into_iter()
            .enumerate()
            .map(|(i, op)| Event { op, site: SiteId(i as u32 / 12 % 50 * 12 + kind(&op)), instructions: 3 })
            .collect();
        group.throughput(Throughput::Elements(events.len() as u64));
        group.sample_size(10);
        group.bench_function(name, |bencher| bencher.iter(|| black_box(run(black_box(&events)))));
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
