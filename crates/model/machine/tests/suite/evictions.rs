//! Which line the last-level cache gives up when the way out of it is full.

use crate::timed::{load, ns, run, store, with};
use event::Op;
use machine::{Config, Machine, Replacement, Time};

/// Two DIMMs that take a line each microsecond, with room for two that wait; what the L2 pushes out goes to one set of the LLC.
fn slow(replacement: Replacement) -> Config {
    with(|config| {
        (config.memory.dimms, config.llc.replacement) = (2, replacement);
        config.llc.write_backs = Some(64);
        config.memory.timing.as_mut().expect("a timed machine").write_queue = 2;
        let Some(machine::DeviceTiming::Delay(delay)) = &mut config.device.timing else {
            panic!("a device that is a delay")
        };
        delay.line_transfer = Time::from_ns(1000);
    })
}

/// An address that falls into set 0 everywhere, on the DIMM of that number.
fn on(dimm: u64, number: u64) -> u64 {
    (2 * number + dimm) * 4096
}

/// Lines that each DIMM has got in the end, when these operations were carried out.
fn written(replacement: Replacement, ops: impl Iterator<Item = Op>) -> [u64; 2] {
    let (_, simulation) = run(&slow(replacement), vec![ops.collect()]);
    let figures = simulation.figures();
    let queued = figures.memories[0].adr.queued_bytes;
    let lines = figures.memories[0].per_dimm.iter().map(|dimm| dimm.controller_write_bytes / 64);
    let lines: Vec<u64> = lines.collect();
    // All that is written comes from evictions, of which the queues hold the last.
    assert_eq!((lines.iter().sum::<u64>() + queued / 64) * 64, figures.caches[2].writebacks * 64);
    [lines[0], lines[1]]
}

/// 24 lines fill the L2's and the LLC's set, of which the oldest sixteen are of the first DIMM. Twelve more, of both, push twelve out.
fn crowded() -> impl Iterator<Item = Op> {
    let filling = (0..24).map(|number| on(u64::from(number >= 16), number));
    filling.chain((24..36).map(|number| on(number % 2, number))).map(store)
}

#[test]
fn a_line_that_cannot_leave_is_passed_over_for_one_of_another_dimm() {
    assert_eq!(written(Replacement::Lru, crowded())[1], 0, "the oldest wait for one DIMM");
    let [first, second] = written(Replacement::QueueAware, crowded());
    assert!(first > 0 && second > 2, "{first} and {second}");
}

#[test]
fn a_clean_line_leaves_before_a_dirty_one_that_has_to_wait() {
    // One DIMM, half of the lines only read.
    let ops = || (0..36).map(|number| if number < 16 { store(on(0, number)) } else { load(on(0, number)) });
    let evicted = |replacement| written(replacement, ops())[0];
    assert!(evicted(Replacement::QueueAware) < evicted(Replacement::Lru));
}

#[test]
fn where_nothing_waits_the_oldest_leaves() {
    let idle = |replacement| with(|config| (config.memory.dimms, config.llc.replacement) = (2, replacement));
    let figures = |replacement| run(&idle(replacement), crowded().map(|op| vec![op]).collect()).1.figures();
    assert_eq!(figures(Replacement::QueueAware), figures(Replacement::Lru));
}

#[test]
fn a_machine_without_time_takes_all_queues_for_full() {
    let stream = |config: &Config| {
        let mut machine = Machine::new(config).expect("a valid description");
        let events: Vec<_> =
            (0..20_000u64).map(|at| crate::timed::event(store(at * 7919 * 64 % (1 << 27)))).collect();
        let batch = event::Batch { thread: event::ThreadId(0), time_ns: 0, events: &events, values: &[] };
        event::Sink::push(&mut machine, batch).expect("a sound batch");
        machine.into_figures()
    };
    let mut small = Config::preset("xpoint").expect("a preset");
    (small.l1.size.0, small.l2.size.0, small.llc.size.0) = (4 << 10, 32 << 10, 24 * 11 * 4096);
    let mut random = small.clone();
    (small.llc.replacement, small.llc.slices) = (Replacement::QueueAware, Some(24));
    (random.llc.replacement, random.llc.slices) = (Replacement::Random, None);
    assert_eq!(stream(&small), stream(&random));
}

#[test]
fn slices_move_lines_to_other_sets_and_change_nothing_else() {
    // A sweep far beyond the caches misses everywhere.
    let sweep = |slices| {
        let config = with(|config| {
            (config.llc.size.0, config.llc.ways, config.llc.slices) = (20 * 64 * 16 * 4, 4, slices);
        });
        run(&config, (0..8192u64).map(|line| vec![store(line * 64)]).collect()).1.figures()
    };
    let (plain, sliced) = (sweep(None), sweep(Some(20)));
    assert_eq!(plain.caches[2].misses, sliced.caches[2].misses);
    assert_ne!(plain.elapsed, ns(0));
    let evicted = |figures: &machine::TimedFigures| figures.caches[2].evictions;
    assert!(evicted(&plain).abs_diff(evicted(&sliced)) * 20 < evicted(&plain));
    // Lines that share a set where sets follow one another, again and again.
    let again = |slices| {
        let config = with(|config| {
            (config.llc.size.0, config.llc.ways, config.llc.slices) = (20 * 64 * 16 * 4, 4, slices);
        });
        let lines = (0..10).flat_map(|_| (0..32u64).map(|line| vec![store(line * 320 * 64)]));
        run(&config, lines.collect()).1.figures().caches[2].misses
    };
    assert!(again(Some(20)) < again(None), "{} and {}", again(Some(20)), again(None));
}
