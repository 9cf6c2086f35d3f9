//! Time against closed formulas: what one core's accesses take, alone and together.

use crate::timed::{LATENCIES, MFENCE, SFENCE, clwb, load, nt, run, store, timed, with};
use event::Op;
use machine::Size;

/// Lines so far apart that they fall into one set of every cache.
const APART: u64 = 1 << 20;

#[test]
fn idle_loads_take_the_sum_of_the_levels_that_they_reach() {
    // One cycle to enter the window, and one for the fence to leave it after the load.
    let load_alone = |addr| vec![load(addr), MFENCE];
    // L1 and L2 have eight ways, the LLC sixteen.
    let fill = |count: u64| (1..=count).map(|way| load_alone(way * APART)).collect::<Vec<_>>();
    for (others, level) in [(0, 0), (8, 2), (24, 3)] {
        let mut steps = vec![load_alone(0)];
        steps.extend(fill(others));
        steps.push(load_alone(0));
        let (took, _) = run(&timed(), steps);
        assert_eq!(took[0], 2.0 + LATENCIES[3] as f64, "the first comes from memory");
        assert_eq!(took.last().copied(), Some(2.0 + LATENCIES[level] as f64));
    }
    // Out of the L1 only: lines of its set that are of different sets of the L2.
    let config = with(|config| config.l2.size = Size(64 << 10));
    let l1_set = |way: u64| way * 512;
    let mut steps: Vec<_> = (0..9).map(|way| load_alone(l1_set(way))).collect();
    steps.push(load_alone(0));
    let (took, _) = run(&config, steps);
    assert_eq!(took.last().copied(), Some(2.0 + LATENCIES[1] as f64));
}

#[test]
fn as_many_misses_overlap_as_there_are_fill_buffers() {
    for registers in [1, 2, 4, 8] {
        let config = with(|config| {
            config.l1.miss_registers = Some(registers);
            config.l2.miss_registers = Some(64);
        });
        let count = 4000;
        let (_, simulation) = run(&config, vec![(0..count).map(|line| load(line * 64)).collect()]);
        let elapsed = simulation.now().ns();
        let expected = (count as f64 / f64::from(registers)) * 148.0;
        assert!((elapsed / expected - 1.0).abs() < 0.03, "{registers}: {elapsed} and {expected}");
    }
}

#[test]
fn a_second_miss_overlaps_with_the_first_if_the_window_holds_both() {
    for rob in [16, 64] {
        let config = with(|config| {
            config.cores.pipeline.rob = rob;
            config.cores.pipeline.load_queue = 1000;
        });
        let between = |hits: u32| {
            let mut step = vec![load(APART)];
            step.extend((0..hits).map(|_| load(0)));
            step.push(load(2 * APART));
            run(&config, vec![vec![load(0), MFENCE], step, vec![]]).0[1]
        };
        // The second enters as many instructions later as there are between them, and is done a miss after that.
        assert_eq!(between(rob - 2), f64::from(rob) + 148.0, "the last place in the window");
        // One further on it enters when the first has left.
        assert_eq!(between(rob - 1), 1.0 + 148.0 + 1.0 + 148.0);
    }
}

#[test]
fn a_load_queue_that_is_full_stalls_like_a_window_that_is() {
    let config = with(|config| config.cores.pipeline.load_queue = 8);
    let between = |hits: u32| {
        let mut step = vec![load(APART)];
        step.extend((0..hits).map(|_| load(0)));
        step.push(load(2 * APART));
        run(&config, vec![vec![load(0), MFENCE], step, vec![]]).0[1]
    };
    assert_eq!((between(6), between(7)), (8.0 + 148.0, 1.0 + 148.0 + 148.0));
}

#[test]
fn a_store_and_flush_take_until_the_write_queue_has_the_line() {
    let line_in_cache = vec![load(0), MFENCE];
    let (took, _) = run(&timed(), vec![line_in_cache.clone(), vec![store(0), clwb(0), MFENCE]]);
    // The flush enters a cycle after the store and follows it at once; then 27 + 10.
    assert_eq!(took[1], 2.0 + 37.0);
    let (took, _) = run(&timed(), vec![line_in_cache, vec![nt(0), MFENCE]]);
    assert_eq!(took[1], 1.0 + 57.0);
}

#[test]
fn a_store_fence_waits_exactly_until_the_last_line_is_accepted() {
    // Four flush slots: the fifth line leaves when the first is accepted.
    let lines = |count: u64| {
        let mut steps = vec![(0..count).map(|line| load(line * 64)).chain([MFENCE]).collect::<Vec<Op>>()];
        steps.push((0..count).map(|line| store(line * 64)).chain([MFENCE]).collect());
        steps.push((0..count).map(|line| clwb(line * 64)).chain([SFENCE]).collect());
        steps
    };
    let took = |count: u64| run(&timed(), lines(count)).0[2];
    assert_eq!(took(1), 1.0 + 37.0);
    assert_eq!(took(4), 4.0 + 37.0);
    assert_eq!(took(5), 1.0 + 37.0 + 37.0);
    assert_eq!(took(9), 1.0 + 3.0 * 37.0);
}
