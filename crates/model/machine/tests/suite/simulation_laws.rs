//! Whatever several cores do: every line reaches the memory side once, every moment of a core is accounted for, and the
//! same events give the same figures, however they are handed over.

use crate::timed::{push, with};
use event::{Event, FenceKind, FlushKind, NameId, Op, Order, Sink, SiteId, StrandMark};
use machine::{Config, Design, Eager, HardwarePrestores, Prefetch, Replacement, Simulation, Time};
use proptest::prelude::*;

/// Lines of the addresses that streams use: three times the LLC.
const LINES: u64 = 3072;

fn any_op() -> impl Strategy<Value = Op> {
    let addr = 0..LINES * 64;
    let len = prop_oneof![4 => 1..=16u32, 2 => Just(64), 1 => 0..400u32];
    let kind = prop_oneof![Just(FlushKind::Clwb), Just(FlushKind::Clflushopt), Just(FlushKind::Clflush)];
    let fence = prop_oneof![Just(FenceKind::Store), Just(FenceKind::Full), Just(FenceKind::Locked)];
    let range = || (addr.clone(), 0..40_000u64);
    let var = 0..3u64;
    prop_oneof![
        8 => (addr.clone(), len.clone()).prop_map(|(addr, len)| Op::Load { addr, len }),
        8 => (addr.clone(), len.clone()).prop_map(|(addr, len)| Op::Store { addr, len }),
        4 => (addr.clone(), len).prop_map(|(addr, len)| Op::StoreNt { addr, len }),
        3 => (addr.clone(), kind).prop_map(|(addr, kind)| Op::Flush { addr, kind }),
        1 => addr.clone().prop_map(|addr| Op::Demote { addr }),
        2 => fence.prop_map(Op::Fence),
        1 => var.clone().prop_map(|var| Op::Acquire { var, order: Order::Acquire, seq: 0 }),
        1 => var.clone().prop_map(|var| Op::Release { var, order: Order::Release, seq: 0 }),
        1 => var.clone().prop_map(|lock| Op::Lock { lock, shared: false, seq: 0 }),
        1 => var.prop_map(|lock| Op::Unlock { lock, seq: 0 }),
        1 => Just(Op::Phase { name: NameId(0) }),
        1 => prop_oneof![Just(Op::RegionBegin { region: 1 }), Just(Op::RegionEnd { region: 1 })],
        1 => prop_oneof![
            Just(Op::Strand(StrandMark::Barrier)),
            Just(Op::Strand(StrandMark::New)),
            Just(Op::Strand(StrandMark::Join)),
        ],
        1 => range().prop_map(|(addr, len)| Op::Map { addr, len, name: NameId(0) }),
        1 => range().prop_map(|(addr, len)| Op::Unmap { addr, len }),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let ordering = prop::sample::select(Design::ALL);
    let prefetch = prop_oneof![Just(Prefetch::None), Just(Prefetch::NextLine), Just(Prefetch::Stream)];
    let few = || prop_oneof![Just(1u32), Just(3), Just(16)];
    let share = prop_oneof![Just(0.0), Just(0.3), Just(1.0)];
    let llc = prop_oneof![Just(Replacement::Lru), Just(Replacement::QueueAware)];
    let eager = || prop_oneof![2 => Just(Eager::None), 1 => Just(Eager::Clean), 1 => Just(Eager::Demote)];
    let prestores = (eager(), eager());
    (ordering, prefetch, few(), few(), few(), share, llc, prestores).prop_map(
        |(ordering, prefetch, rob, misses, queue, share, llc, (persistent, other))| {
            with(|config| {
                let pipeline = &mut config.cores.pipeline;
                (pipeline.ordering, pipeline.rob, pipeline.load_queue) = (ordering, rob, queue);
                (pipeline.store_queue, pipeline.flush_slots, pipeline.private_lines) = (queue, misses, queue);
                (pipeline.nt_slots, pipeline.full_fence) = (misses, Time::from_ns(queue.into()));
                (pipeline.dependent_loads, pipeline.stores_behind_flushes) = (share, rob == 3);
                if let Some(timing) = &mut config.memory.timing {
                    (timing.read_queue, timing.read_crowd) = (misses, queue);
                }
                config.llc.replacement = llc;
                config.prestores = Some(HardwarePrestores { persistent, other });
                if let Some(timing) = config.memory.timing.as_mut().filter(|_| rob == 16) {
                    timing.write_queue = misses;
                }
                config.l1.miss_registers = Some(misses);
                config.l2.prefetch = Some(prefetch);
                (config.llc.miss_registers, config.llc.write_backs) = (Some(queue), Some(misses));
            })
        },
    )
}

/// Events with the thread of each; there is one thread more than cores.
fn any_stream() -> impl Strategy<Value = Vec<(u32, Event)>> {
    let event = (any_op(), 0..6u32, 0..9u32).prop_map(|(op, site, instructions)| Event {
        op,
        site: SiteId(site),
        instructions,
    });
    prop::collection::vec((0..5u32, event), 1..400)
}

fn finished(config: &Config, feed: impl FnOnce(&mut Simulation)) -> Simulation {
    let mut simulation = Simulation::new(config).expect("a valid description");
    feed(&mut simulation);
    simulation.finish().expect("a sound stream");
    simulation.audit().expect("books that balance");
    simulation
}

fn singly(config: &Config, stream: &[(u32, Event)]) -> Simulation {
    finished(config, |simulation| {
        stream.iter().for_each(|(thread, event)| push(simulation, *thread, std::slice::from_ref(event)));
    })
}

fn in_batches(config: &Config, stream: &[(u32, Event)]) -> Simulation {
    finished(config, |simulation| {
        for run in stream.chunk_by(|one, next| one.0 == next.0) {
            let events: Vec<Event> = run.iter().map(|(_, event)| *event).collect();
            push(simulation, run[0].0, &events);
        }
    })
}

proptest! {
    #[test]
    fn every_line_and_every_moment_is_accounted_for(config in any_config(), stream in any_stream()) {
        let mut simulation = singly(&config, &stream);
        let figures = simulation.figures();
        prop_assert_eq!(figures.threads.iter().map(|thread| thread.events).sum::<u64>(), stream.len() as u64);
        let stalls: machine::Time = figures.threads.iter().map(|thread| thread.stalls.total()).sum();
        prop_assert_eq!(figures.site_stalls.iter().copied().sum::<machine::Time>(), stalls);
        prop_assert!(figures.threads.iter().all(|thread| thread.finished <= figures.elapsed));
        prop_assert_eq!(figures.timeline.iter().map(|slice| slice.span.events).sum::<u64>(), stream.len() as u64);
        prop_assert_eq!(figures.phases.iter().map(|phase| phase.span.events).sum::<u64>(), stream.len() as u64);
        let drained = simulation.drain();
        prop_assert!(drained >= figures.elapsed);
        simulation.audit().unwrap();
        let caches = simulation.figures().caches;
        prop_assert_eq!(caches.iter().map(|cache| cache.held_dirty_bytes).sum::<u64>(), 0);
    }

    #[test]
    fn the_same_stream_gives_the_same_figures_however_it_is_cut(config in any_config(), stream in any_stream()) {
        let once = singly(&config, &stream).figures();
        prop_assert_eq!(&singly(&config, &stream).figures(), &once);
        prop_assert_eq!(&in_batches(&config, &stream).figures(), &once);
    }
}

/// Longer than what the machine keeps back, so that it runs in the middle of the stream.
#[test]
fn a_long_stream_gives_the_same_figures_however_it_is_cut() {
    let mut state = 0x1234_5678_u64;
    let mut random = |limit: u64| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    };
    let mut stream = Vec::new();
    for _ in 0..20_000 {
        let thread = random(6) as u32;
        for _ in 0..random(30) {
            let addr = random(LINES * 64);
            let op = match random(8) {
                0..4 => Op::Load { addr, len: 8 },
                4..7 => Op::Store { addr, len: 8 },
                _ => Op::Flush { addr, kind: FlushKind::Clwb },
            };
            stream.push((thread, Event { op, site: SiteId(1), instructions: 2 }));
        }
        stream.push((thread, Event { op: Op::Fence(FenceKind::Store), site: SiteId(2), instructions: 1 }));
    }
    let config = crate::timed::timed();
    assert!(singly(&config, &stream).figures() == in_batches(&config, &stream).figures());
}
