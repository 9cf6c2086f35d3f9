//! When stores become visible and durable: store queue, private buffers, flushes, write-back pressure.

use crate::timed::{MFENCE, SFENCE, clwb, event, load, ns, nt, run, store, stream, timed, with};
use event::{FenceKind, FlushKind, Op};
use machine::{Config, Design, Time, TimedFigures};
use persistency::Domain;

/// Elapsed time and figures of one step, after a fence that ends everything before.
fn timed_step(config: &Config, before: Vec<Op>, step: Vec<Op>) -> (f64, TimedFigures) {
    let (took, simulation) = run(config, vec![before, vec![MFENCE], step, vec![]]);
    (took[2], simulation.figures())
}

#[test]
fn misses_of_stores_overlap_and_a_full_store_queue_stalls() {
    let stores = |count: u64| (0..count).map(|line| store(line * 64)).chain([MFENCE]).collect::<Vec<_>>();
    let config = with(|config| {
        config.cores.pipeline.store_queue = 2;
        config.l1.miss_registers = Some(16);
        config.l2.miss_registers = Some(16);
    });
    // Two at a time: a third enters when the first is in the cache, and its line is asked for then.
    let (two, _) = timed_step(&config, vec![], stores(2));
    let (four, figures) = timed_step(&config, vec![], stores(4));
    assert_eq!(two, 2.0 + 148.0);
    assert_eq!(four, 2.0 * (1.0 + 148.0));
    assert!(figures.threads[0].stalls.store_buffer >= ns(140), "{:?}", figures.threads[0].stalls);
    let wide = with(|config| {
        config.l1.miss_registers = Some(16);
        config.l2.miss_registers = Some(16);
    });
    assert_eq!(timed_step(&wide, vec![], stores(4)).0, 4.0 + 148.0, "all four overlap in a longer queue");
}

#[test]
fn stores_become_visible_in_order_with_tso_and_not_otherwise() {
    // A store that misses, then one that hits: how long both together take to become visible.
    let delay = |ordering| {
        let config = with(|config| config.cores.pipeline.ordering = ordering);
        let steps = vec![vec![store(0)], vec![MFENCE], vec![store(1 << 20), store(0), MFENCE], vec![]];
        let (_, simulation) = run(&config, steps);
        simulation.figures().threads[0].store_delay
    };
    let first = Time::from_ns(148);
    assert_eq!(delay(Design::Tso), first + first + first, "the second waits behind the first");
    assert!(delay(Design::Weak) < first + first + ns(10));
}

#[test]
fn clflush_goes_one_by_one_and_clwb_does_not() {
    let flushes = |kind| (0..4).map(|line| Op::Flush { addr: line * 64, kind }).chain([MFENCE]).collect();
    let dirty: Vec<Op> = (0..4).map(|line| store(line * 64)).collect();
    let (together, _) = timed_step(&timed(), dirty.clone(), flushes(FlushKind::Clwb));
    let (singly, _) = timed_step(&timed(), dirty, flushes(FlushKind::Clflush));
    assert_eq!(together, 4.0 + 37.0);
    // Each next one enters the cache a cycle after the one before is done.
    assert_eq!(singly, 1.0 + 4.0 * 37.0 + 3.0);
}

#[test]
fn a_flush_of_a_clean_line_costs_the_look_into_the_caches() {
    let (took, figures) = timed_step(&timed(), vec![load(0)], vec![clwb(0), MFENCE]);
    assert_eq!(took, 1.0 + 27.0);
    assert_eq!(figures.memories[0].total.controller_write_bytes, 0);
}

#[test]
fn where_caches_persist_flushes_cost_nothing() {
    let config = with(|config| config.memory.persistence = Domain::Eadr);
    let (took, figures) = timed_step(&config, vec![store(0)], vec![store(0), clwb(0), SFENCE]);
    assert_eq!((took, figures.memories[0].total.controller_write_bytes), (3.0, 0));
}

#[test]
fn a_store_to_a_line_on_its_way_to_memory_waits() {
    // Storing to one line and cleaning it, over and over: each store waits until the line of the one before is accepted.
    let misuse = |clean: bool| {
        let step = (0..1000).flat_map(|_| if clean { vec![store(0), clwb(0)] } else { vec![store(0)] });
        timed_step(&timed(), vec![store(0)], step.collect()).0 / 1000.0
    };
    // 37ns until the queue has it, or the 51ns that the device takes for each once the queue is full.
    assert!((37.0..52.0).contains(&misuse(true)), "{}", misuse(true));
    assert!(misuse(false) < 1.1);
}

#[test]
fn evictions_that_memory_does_not_take_stall_the_misses_that_cause_them() {
    // Each line takes the device 200ns, read or write; the write-back queue of four lines fills up.
    let slow =
        r#"{ kind = "delay", read_latency = "100ns", write_latency = "0ns", line_transfer = "200ns" }"#;
    let changes = [
        ("device.timing", slow),
        ("memory.timing.write_queue", "1"),
        ("l1.miss_registers", "16"),
        ("l2.miss_registers", "16"),
    ];
    let config = timed().with_overrides(&changes).unwrap();
    let lines = 4000;
    let stores: Vec<Op> = (0..lines).map(|line| store(line * 64)).collect();
    let (_, simulation) = run(&config, vec![stores]);
    let figures = simulation.figures();
    // A read and, as soon as the caches are full, a write per line.
    let held = 64 * 1024 / 64 + 16 * 1024 / 64;
    let transfers = (lines + lines - held) as f64;
    let expected = transfers * 200.0;
    assert!((figures.elapsed.ns() / expected - 1.0).abs() < 0.1, "{} and {expected}", figures.elapsed);
    let stalls = figures.threads[0].stalls;
    assert!(stalls.write_back.ns() > 0.3 * figures.elapsed.ns(), "{stalls:?}");
}

#[test]
fn non_temporal_lines_leave_as_there_are_combining_buffers() {
    let lines = |count: u64| (0..count).map(|line| nt(line * 64)).chain([SFENCE]).collect::<Vec<_>>();
    assert_eq!(timed_step(&timed(), vec![], lines(4)).0, 4.0 + 57.0);
    // A buffer is free after 47 ns, 10 before the write queue has its line.
    assert_eq!(timed_step(&timed(), vec![], lines(5)).0, 1.0 + 47.0 + 57.0);
    let (_, figures) = timed_step(&timed(), vec![], lines(100));
    assert!(figures.threads[0].stalls.fence_nt + figures.threads[0].stalls.store_buffer > ns(1500));
}

#[test]
fn a_full_fence_takes_time_of_its_own_and_a_store_fence_does_not() {
    let slow = with(|config| config.cores.pipeline.full_fence = ns(15));
    for (fence, longer) in [(MFENCE, 15.0), (SFENCE, 0.0)] {
        let took = |config| timed_step(config, vec![], vec![nt(0), fence]).0;
        assert_eq!(took(&slow) - took(&timed()), longer);
    }
}

#[test]
fn flushes_leave_as_there_are_slots() {
    let one = with(|config| config.cores.pipeline.flush_slots = 1);
    let lines = |count: u64| {
        let warm = (0..count).map(|line| store(line * 64)).chain([MFENCE]).collect();
        (warm, (0..count).map(|line| clwb(line * 64)).chain([SFENCE]).collect())
    };
    let took = |config, count| {
        let (warm, flushes) = lines(count);
        timed_step(config, warm, flushes).0
    };
    assert_eq!(took(&one, 8) - took(&one, 2), 6.0 * 37.0);
    assert!(took(&timed(), 8) < took(&one, 8) / 2.0);
}

#[test]
fn a_store_waits_for_the_flush_before_it_and_a_flush_does_not() {
    let waits = with(|config| config.cores.pipeline.stores_behind_flushes = true);
    let warm: Vec<Op> = (0..4).map(|line| store(line * 64)).chain([MFENCE]).collect();
    let by_turns: Vec<Op> =
        (0..4).flat_map(|line| [store(line * 64), clwb(line * 64)]).chain([SFENCE]).collect();
    let stores = (0..4).map(|line| store(line * 64));
    let stores_first: Vec<Op> = stores.chain((0..4).map(|line| clwb(line * 64))).chain([SFENCE]).collect();
    let took = |config: &Config, step: &[Op]| timed_step(config, warm.clone(), step.to_vec()).0;
    // A store and a flush take a nanosecond each to leave the store queue.
    assert_eq!(took(&waits, &by_turns), 3.0 * (37.0 + 1.0) + 2.0 + 37.0);
    assert!(took(&waits, &stores_first) < 8.0 + 37.0 + 4.0);
    assert!(took(&timed(), &by_turns) < 8.0 + 37.0 + 4.0);
    // A flush of a clean line is no reason to wait.
    let clean =
        |step: Vec<Op>| timed_step(&waits, warm.iter().copied().chain(by_turns.clone()).collect(), step).0;
    let flushes = (0..4).flat_map(|line| [clwb(line * 64), store(1 << 12)]).collect();
    assert!(clean(flushes) < 148.0 + 37.0, "one store misses");
}

#[test]
fn stores_behind_store_fences_ask_for_their_lines_early() {
    // Each is fenced by itself, and yet their misses overlap as far as there are fill buffers.
    let fenced = |fence: Op| -> f64 {
        let step = (0..8).flat_map(|line| [store(line * 64), clwb(line * 64), fence]).collect();
        timed_step(&timed(), vec![], step).0
    };
    let (store_fences, full_fences) = (fenced(SFENCE), fenced(MFENCE));
    assert!(full_fences > 8.0 * 148.0, "{full_fences}");
    assert!(store_fences < full_fences / 2.0, "{store_fences} {full_fences}");
    // The first four lines come together, and a line that was asked for is flushed when its turn has come, not before.
    assert!(store_fences > 148.0 + 8.0 * 37.0, "{store_fences}");
}

/// Lies in a set of the L1 and L2 that the stores leave alone.
const HOT: u64 = 256;

/// A store to two random lines, reads that hit, a fence; with or without a demotion after the store. Nanoseconds per
/// turn.
fn store_reads_fence(config: &Config, reads: u64, demote: bool) -> f64 {
    let turns = 60;
    let mut step = Vec::new();
    for turn in 0..turns {
        let addr = (1 + turn * 7919 % 4096) << 14;
        step.push(Op::Store { addr, len: 128 });
        if demote {
            step.extend([Op::Demote { addr }, Op::Demote { addr: addr + 64 }]);
        }
        step.extend((0..reads).map(|_| load(HOT)));
        step.push(MFENCE);
    }
    timed_step(config, vec![load(HOT)], step).0 / turns as f64
}

#[test]
fn demoting_after_a_weakly_ordered_store_pays_at_middle_distances() {
    let gains = |latency: &str| {
        let config = with(|config| config.cores.pipeline.ordering = Design::Weak);
        let config = config.with_overrides(&[("device.timing.read_latency", latency)]).unwrap();
        let gain =
            |reads| store_reads_fence(&config, reads, false) / store_reads_fence(&config, reads, true) - 1.0;
        [0, 50, 100, 200, 400, 800, 3200].map(gain)
    };
    let peak = |gains: [f64; 7]| (0..7).max_by(|&a, &b| gains[a].total_cmp(&gains[b])).unwrap();
    let (fast, slow) = (gains("50ns"), gains("400ns"));
    for gains in [fast, slow] {
        assert!(gains[0].abs() < 0.05 && gains[6] < 0.2, "{gains:?}");
        assert!(gains[peak(gains)] > 0.5, "{gains:?}");
    }
    assert!(peak(fast) < peak(slow), "{fast:?} {slow:?}");
}

#[test]
fn with_total_store_order_a_demotion_has_nothing_to_start() {
    let [plain, demoted] = [false, true].map(|demote| store_reads_fence(&timed(), 100, demote));
    assert!((demoted / plain - 1.0).abs() < 0.03, "{plain} {demoted}");
}

#[test]
fn a_private_buffer_that_is_full_makes_room() {
    let config = with(|config| {
        config.cores.pipeline.ordering = Design::Weak;
        config.cores.pipeline.private_lines = 4;
    });
    let stores = |count: u64| (0..count).map(|line| store(line * 64)).collect::<Vec<_>>();
    // The first lines cost nothing until the fence; then two drain while two more fill.
    assert_eq!(timed_step(&config, vec![], stores(2)).0, 2.0);
    let (_, figures) = timed_step(&config, vec![], stores(100));
    assert!(figures.threads[0].stalls.store_buffer > ns(1000), "{:?}", figures.threads[0].stalls);
}

const LOCKED: Op = Op::Fence(FenceKind::Locked);

/// A weakly ordered core with one fill buffer, whose private buffer holds all that these tests store.
fn weak(change: impl FnOnce(&mut Config)) -> Config {
    with(|config| {
        config.cores.pipeline.ordering = Design::Weak;
        config.cores.pipeline.private_lines = 32;
        config.l1.miss_registers = Some(1);
        config.l2.miss_registers = Some(32);
        change(config);
    })
}

#[test]
fn lines_of_a_private_buffer_need_no_fill_buffers() {
    let stores = |count: u64| (0..count).map(|line| store(line * 64)).chain([MFENCE]).collect::<Vec<_>>();
    // The device sends a line a nanosecond.
    assert_eq!(timed_step(&weak(|_| ()), vec![], stores(8)).0, 8.0 + 148.0 + 7.0 + 1.0);
}

#[test]
fn a_private_buffer_answers_loads_until_its_line_is_visible() {
    let small = weak(|config| config.cores.pipeline.rob = 2);
    let step = [store(0), Op::Demote { addr: 0 }, load(0)].into_iter().chain((0..8).map(|_| load(HOT)));
    let (took, figures) = timed_step(&small, vec![load(HOT)], step.collect());
    assert!(took < 20.0, "{took}");
    assert!(figures.threads[0].stalls.load_miss < ns(149), "only the first of all was a miss");
}

#[test]
fn through_an_l1_that_is_written_through_a_store_goes_to_the_llc() {
    let through = weak(|config| config.cores.pipeline.visible_in_llc = true);
    let took = |config: &Config, step: &[Op]| timed_step(config, vec![store(0), load(HOT)], step.to_vec()).0;
    let fenced = [store(0), MFENCE];
    assert_eq!((took(&weak(|_| ()), &fenced), took(&through, &fenced)), (2.0 + 2.0, 2.0 + 27.0));
    // A demotion sets out before the fence, and one that comes too late takes nothing out of the L1.
    let reads = [load(HOT); 30];
    let early: Vec<Op> =
        [store(0), Op::Demote { addr: 0 }].into_iter().chain(reads).chain([MFENCE]).collect();
    let late: Vec<Op> = [store(0)].into_iter().chain(reads).chain([MFENCE]).collect();
    assert_eq!((took(&through, &late), took(&through, &early)), (32.0 + 2.0 + 27.0, 33.0 + 2.0));
    let (_, figures) = timed_step(&through, vec![store(0)], vec![Op::Demote { addr: 0 }, load(0)]);
    assert_eq!(figures.caches[0].misses, 1);
}

#[test]
fn a_weakly_ordered_atomic_waits_for_stores_and_not_for_cleans() {
    let took = |config: &Config, fence| timed_step(config, vec![store(0)], vec![clwb(0), fence]).0;
    assert_eq!(took(&weak(|_| ()), MFENCE), 1.0 + 37.0);
    assert_eq!(took(&weak(|_| ()), LOCKED), 2.0);
    assert_eq!(took(&timed(), LOCKED), took(&timed(), MFENCE), "x86's does");
}

#[test]
fn a_fence_asks_for_private_lines_when_the_loads_before_it_are_done() {
    let step = |demotes: bool| {
        let early = demotes.then_some(Op::Demote { addr: 0 });
        [store(0)].into_iter().chain(early).chain([load(1 << 20), LOCKED]).collect()
    };
    let took = |demotes| timed_step(&weak(|_| ()), vec![], step(demotes)).0;
    assert!((took(false) - 2.0 * 148.0).abs() < 5.0, "{}", took(false));
    assert!((took(true) - 148.0).abs() < 5.0, "both lines are fetched together: {}", took(true));
}

#[test]
fn a_weakly_ordered_clean_waits_for_its_own_line_only() {
    let config = weak(|config| {
        config.cores.pipeline.store_queue = 1;
        config.cores.pipeline.flush_slots = 16;
    });
    let dirty: Vec<Op> = (0..8).map(|line| store(line * 64)).collect();
    let cleans = (0..8).map(|line| clwb(line * 64));
    let step = [store(1 << 20), Op::Demote { addr: 1 << 20 }].into_iter().chain(cleans).collect();
    // Nobody waits for the line that is fetched.
    assert_eq!(timed_step(&config, dirty, step).0, 10.0);
    // Its own clean leaves when it is there.
    let own = vec![store(1 << 20), clwb(1 << 20), MFENCE];
    assert_eq!(timed_step(&config, vec![], own).0, 1.0 + 148.0 + 37.0 + 1.0);
}

/// Nobody asks memory for anything while a program computes; what its queues hold at the end is still only what could not leave by then.
#[test]
fn queues_empty_while_a_program_computes() {
    let config = with(|config| {
        let Some(machine::DeviceTiming::Delay(delay)) = &mut config.device.timing else {
            panic!("a device that is a delay")
        };
        delay.line_transfer = Time::from_ns(1000);
    });
    let queued = |nanoseconds: u32| {
        let mut events: Vec<_> = (0..8).map(|line| (0, event(nt(line * 64)))).collect();
        events.push((0, event(MFENCE)));
        // An instruction takes a nanosecond.
        events.push((0, event::Event { instructions: nanoseconds, ..event(Op::Free { addr: 0 }) }));
        let memory = &stream(&config, &events).memories[0];
        let queue = &memory.write_queue;
        assert!(nanoseconds == 1 || queue.mean <= f64::from(queue.max), "{queue:?}");
        memory.adr.queued_bytes
    };
    assert!(queued(1) > 0, "eight lines take eight microseconds");
    assert_eq!(queued(20_000), 0);
}
