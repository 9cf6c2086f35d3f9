//! Strand buffers of sizes at which the outcome is known, and what waits for them.

use crate::timed::{MFENCE, WAY, clwb, event, line, load, push, step, with};
use event::{Event, NameId, Op, Sink, Source, StrandMark};
use machine::{Config, Design, Persist, Simulation, TimedFigures};

const PB: Op = Op::Strand(StrandMark::Barrier);
const NS: Op = Op::Strand(StrandMark::New);
const JS: Op = Op::Strand(StrandMark::Join);

fn flush(line: u64) -> Op {
    clwb(line * 64)
}

fn on(design: Design, buffers: u32, entries: u32) -> Config {
    with(|config| {
        let pipeline = &mut config.cores.pipeline;
        (pipeline.ordering, pipeline.strand_buffers, pipeline.strand_entries) = (design, buffers, entries);
        (pipeline.persist_queue, pipeline.store_queue, pipeline.flush_slots) = (1024, 64, 64);
        pipeline.stores_wait_for_own_flush = false;
    })
}

/// Runs threads side by side on mapped memory.
fn run(config: &Config, threads: &[Vec<Event>]) -> TimedFigures {
    let mut simulation = Simulation::new(config).expect("a valid description");
    simulation.keep_persists(0, 1024);
    simulation.begin(&Source::synthetic("test")).expect("it has all marks");
    push(&mut simulation, 0, &[event(Op::Map { addr: 0, len: 1 << 30, name: NameId(0) })]);
    for (thread, events) in (0..).zip(threads) {
        push(&mut simulation, thread, events);
    }
    simulation.finish().expect("a sound stream");
    simulation.audit().expect("books that balance");
    simulation.figures()
}

fn plain(ops: impl IntoIterator<Item = Op>) -> Vec<Event> {
    ops.into_iter().map(event).collect()
}

fn of(persists: &[Persist], line: u64) -> Persist {
    *persists.iter().find(|persist| persist.line == line).expect("the line was sent")
}

/// Pairs of a log entry and an update behind it, each pair on a strand, then a join.
fn pairs(count: u64) -> Vec<Op> {
    let pair = |at: u64| {
        let (log, data) = (2 * at, 2 * at + 1);
        [line(log), flush(log), PB, line(data), flush(data), NS]
    };
    (0..count).flat_map(pair).chain([JS, MFENCE]).collect()
}

fn took(design: Design, buffers: u32, entries: u32, count: u64) -> f64 {
    step(&on(design, buffers, entries), pairs(count)).0
}

/// A sequence of numbers that is the same each time (splitmix64).
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) % below
    }
}

/// With one strand buffer a new strand begins nothing: every line leaves when all before the last barrier are durable, as in epochs.
#[test]
fn one_strand_buffer_is_epoch_order() {
    for seed in 0..50 {
        let mut random = random(seed);
        let (mut ops, mut epochs, mut epoch) = (Vec::new(), Vec::new(), 0);
        for number in 0..16 {
            ops.extend([line(number), flush(number)]);
            epochs.push(epoch);
            match random(3) {
                0 => {
                    ops.push(PB);
                    epoch += 1;
                }
                1 => ops.push(NS),
                _ => {}
            }
        }
        let order = |buffers| {
            let persists = run(&on(Design::Strand, buffers, 16), &[plain(ops.clone())]).persists;
            let lines = epochs.iter().zip(0..).map(|(&epoch, line)| (epoch, of(&persists, line)));
            let lines: Vec<(i32, Persist)> = lines.collect();
            lines.iter().all(|(before, first)| {
                lines.iter().all(|(behind, second)| behind <= before || second.left >= first.durable)
            })
        };
        assert!(order(1), "seed {seed}: {ops:?}");
        if seed == 3 {
            assert!(!order(4), "with more buffers strands overtake each other: {ops:?}");
        }
    }
}

/// With a buffer for each pair nothing but the order within pairs is left: one way to memory more than without any order, however
/// many pairs there are.
#[test]
fn a_buffer_for_each_strand_is_the_bound_and_one_way() {
    for count in [1, 4, 12] {
        let bound = took(Design::NonAtomic, 1, 1, count);
        let strands = took(Design::Strand, 16, 1024, count);
        assert!(strands >= bound && strands <= bound + WAY + 3.0, "{count} pairs: {bound} {strands}");
    }
}

#[test]
fn more_buffers_are_no_slower_and_fences_are_slowest() {
    let sizes = [(1, 4), (2, 4), (4, 4), (16, 16)];
    let by_size = sizes.map(|(buffers, entries)| took(Design::Strand, buffers, entries, 12));
    assert!(by_size.windows(2).all(|pair| pair[1] <= pair[0]) && by_size[3] < by_size[0], "{by_size:?}");
    let fences = took(Design::X86, 1, 1, 12);
    assert!(by_size[0] <= fences + 12.0 && by_size[2] < fences / 2.0, "{fences} {by_size:?}");
    assert!(took(Design::StrandNoQueue, 4, 4, 12) >= by_size[2]);
}

/// Log entry, barrier, update: a strand takes three entries, so a buffer of two holds up the queue until its log entry is durable.
#[test]
fn a_barrier_takes_an_entry() {
    let by_entries = [1, 2, 3, 4].map(|entries| took(Design::Strand, 4, entries, 8));
    assert!(by_entries[1] > by_entries[2] && by_entries[2] >= by_entries[3], "{by_entries:?}");
}

/// The persist queue issues in order: what waits for a full buffer holds up what goes to an empty one.
#[test]
fn the_queue_issues_in_order() {
    let ops = [line(0), line(1), line(2), flush(0), PB, flush(1), NS, flush(2)];
    let left = |entries| {
        let persists = run(&on(Design::Strand, 2, entries), &[plain(ops)]).persists;
        (of(&persists, 0), of(&persists, 2))
    };
    let (first, other) = left(1);
    assert!(other.left >= first.durable, "one entry: {first:?} {other:?}");
    let (first, other) = left(4);
    assert!(other.left < first.durable, "enough: {first:?} {other:?}");
}

/// A chain of lines 1 to 8, each behind a barrier, with the line 0 stored to behind the last.
fn chain() -> Vec<Op> {
    let warm = (0..=8).map(line).chain([MFENCE]);
    let chain = (1..=8).flat_map(|number| [flush(number), PB]);
    warm.chain(chain).chain([line(0)]).collect()
}

/// Strong persist atomicity between threads: a core that takes a dirty line over gets it when the other's strand buffers have drained, so
/// what it persists of the line comes behind what the other core's store was ordered behind.
#[test]
fn a_core_that_takes_a_line_over_waits_for_the_strand_buffers() {
    let late = Event { instructions: 560, ..event(line(0)) };
    let second = vec![late, event(flush(0))];
    let figures = run(&on(Design::Strand, 4, 16), &[plain(chain()), second]);
    let [last, taken] = [8, 0].map(|line| of(&figures.persists, line));
    assert_eq!((last.core, taken.core), (0, 1));
    assert!(taken.ready >= last.durable, "{last:?} {taken:?}");
    let apart = Event { instructions: 560, ..event(line(64)) };
    let figures = run(&on(Design::Strand, 4, 16), &[plain(chain()), vec![apart, event(flush(64))]]);
    let [last, other] = [8, 64].map(|line| of(&figures.persists, line));
    assert!(other.ready < last.durable, "a line of its own does not wait: {last:?} {other:?}");
}

/// Dirty lines that the caches give up wait for the strand buffers; a core whose write-back buffer is full waits with them.
#[test]
fn a_full_write_back_buffer_waits_for_the_strand_buffers() {
    // Lines of one set of the L2 (32 sets), more than it holds, of which the dirty ones leave.
    let dirty = (1..=8).map(|at| line(at * 32));
    let others = (9..=24).map(|at| load(at * 32 * 64));
    let warm = (1..=8).map(line);
    let pending = (1..=8).flat_map(|number| [flush(number), PB]);
    let ops: Vec<Op> = warm.chain(dirty).chain([MFENCE]).chain(pending).chain(others).collect();
    let stalled = |entries| {
        let mut config = on(Design::Strand, 4, 16);
        config.cores.pipeline.strand_write_backs = entries;
        run(&config, &[plain(ops.clone())]).threads[0].stalls.write_back.ns()
    };
    assert_eq!(stalled(64), 0.0);
    assert!(stalled(1) > 4.0 * WAY, "{}", stalled(1));
}

/// A line that lies in a write-back buffer is not in the last-level cache: what that evicts of it reaches memory behind the strand buffers' lines
/// that were before it, as the line itself would.
#[test]
fn an_evicted_line_of_a_write_back_buffer_waits_for_the_strand_buffers() {
    // Lines of one set of the L2 and of the LLC (64 sets): they push the line 0 out of both.
    let others = (1..=40).map(|at| load(at * 64 * 64));
    let chain = (1..=60).flat_map(|number| [flush(number), PB]);
    let warm = (0..=60).map(line).chain([MFENCE]);
    let mut config = on(Design::Strand, 4, 128);
    config.cores.pipeline.strand_write_backs = 64;
    let evicted = |ops: Vec<Op>| {
        let persists = run(&config, &[plain(ops)]).persists;
        let chain: Vec<Persist> = persists.iter().filter(|persist| persist.line != 0).copied().collect();
        (persists.iter().find(|persist| persist.line == 0).copied(), chain)
    };
    let (line_0, ordered) = evicted(warm.clone().chain(chain.clone()).chain(others.clone()).collect());
    let line_0 = line_0.expect("it was held back");
    assert_eq!(ordered.len(), 60);
    // Its eviction comes in the midst of the chain, and it leaves behind all of that.
    let durable = ordered.iter().map(|persist| persist.durable).max();
    assert!(Some(line_0.left) >= durable, "{line_0:?} {durable:?}");
    // Without the chain nothing holds it back: it leaves with the LLC's other evictions, as no persist of a core.
    let (line_0, ordered) = evicted(warm.chain(others.clone()).collect());
    assert!(line_0.is_none() && ordered.is_empty(), "{line_0:?}");
}

/// A flush of such a line, too, leaves behind what the write-back buffer waits for, on whatever strand it is.
#[test]
fn a_flush_of_a_line_in_a_write_back_buffer_waits_for_the_strand_buffers() {
    // The line 0 is pushed out of the L2 alone.
    let others = (1..=10).map(|at| load((at * 32 + 16 * 64) * 64));
    let chain = (1..=40).flat_map(|number| [flush(number), PB]);
    let warm = (0..=40).map(line).chain([load(2 * 32 * 64), MFENCE]);
    let config = on(Design::Strand, 4, 128);
    let ops = warm.chain(chain).chain(others).chain([NS, flush(0)]);
    let persists = run(&config, &[plain(ops)]).persists;
    let (last, flushed) = (of(&persists, 40), of(&persists, 0));
    assert!(flushed.left >= last.durable, "{last:?} {flushed:?}");
}
