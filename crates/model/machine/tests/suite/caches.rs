//! Exact sequences on caches small enough to follow by hand, and closed formulas on large ones.

use crate::common::{Run, tiny};
use event::{FlushKind, Op};
use machine::{Config, Replacement, Size};

/// The address of line `number`.
fn line(number: u64) -> u64 {
    number * 64
}

#[test]
fn lru_gives_up_the_line_not_used_for_longest() {
    let mut run = Run::new(&tiny());
    // Lines 0, 2, 4 share the L1's set 0 of two ways; 0 is used again before 4 comes, so 2 leaves.
    run.load(line(0)).load(line(2)).load(line(0)).load(line(4));
    assert_eq!(run.caches()[0], (1, 3));
    run.load(line(0));
    assert_eq!(run.caches()[0], (2, 3), "0 stayed");
    run.load(line(2));
    assert_eq!(run.caches()[0], (2, 4), "2 had left");
    // L2 has four sets: 0 and 4 share one, 2 is alone in another. 2 was found there.
    assert_eq!(run.caches()[1], (1, 3));
}

#[test]
fn a_tree_of_four_ways_gives_up_another_line_than_lru() {
    let fifth_line_evicts = |replacement| {
        let mut config = tiny();
        config.l1.ways = 4;
        config.l1.replacement = replacement;
        let mut run = Run::new(&config);
        // One set of four ways. After 0 1 2 3 0 the least recent is 1, but the tree points to 2.
        run.load(line(0)).load(line(1)).load(line(2)).load(line(3)).load(line(0)).load(line(4));
        let gone = |&candidate: &u64| {
            let before = run.machine.figures().caches[0].misses;
            let mut probe = Run::new(&config);
            probe.machine = run.machine.clone();
            probe.load(line(candidate)).figures().caches[0].misses > before
        };
        [0, 1, 2, 3].iter().copied().filter(|candidate| gone(candidate)).collect::<Vec<_>>()
    };
    assert_eq!(fifth_line_evicts(Replacement::Lru), [1]);
    assert_eq!(fifth_line_evicts(Replacement::TreePlru), [2]);
}

#[test]
fn a_dirty_line_goes_down_one_level_at_a_time_and_to_memory_at_last() {
    let mut run = Run::new(&tiny());
    // All these share one set at every level: 8 sets in the LLC.
    run.store(line(0));
    run.load(line(8)).load(line(16));
    let figures = run.figures();
    let writebacks = |figures: &machine::Figures| [0, 1, 2].map(|level| figures.caches[level].writebacks);
    assert_eq!(writebacks(&figures), [1, 1, 0], "out of L1 and L2, into the LLC");
    assert_eq!(figures.caches[2].held_dirty_bytes, 64);
    run.load(line(24));
    assert_eq!(run.figures().caches[2].evictions, 0, "the LLC's set holds 0 and 8");
    run.load(line(32));
    let figures = run.figures();
    assert_eq!(writebacks(&figures), [1, 1, 1]);
    assert_eq!(figures.volatile.total.controller_write_bytes, 64);
    assert_eq!(figures.volatile.total.media_write_bytes, 64);
    assert_eq!(figures.sites[1].volatile.evicted_bytes, 64);
}

#[test]
fn a_line_found_in_the_llc_moves_up_and_brings_its_changes() {
    let mut run = Run::new(&tiny());
    run.store(line(0)).load(line(8)).load(line(16));
    run.load(line(0));
    let figures = run.figures();
    assert_eq!(run.caches()[2], (1, 3));
    assert_eq!(figures.caches[1].held_dirty_bytes, 64, "dirty in the L2 again");
    assert_eq!(figures.caches[2].held_dirty_bytes, 0);
    assert_eq!(figures.volatile.total.controller_read_bytes, 3 * 64, "memory was not asked again");
}

#[test]
fn the_end_of_the_stream_flushes_nothing_and_a_drain_everything() {
    let mut run = Run::new(&tiny());
    run.store(line(0)).store(line(1)).store_nt(line(40), 16);
    event::Sink::finish(&mut run.machine).unwrap();
    let figures = run.figures();
    assert_eq!(figures.volatile.total.controller_write_bytes, 0);
    assert_eq!((figures.caches[0].held_dirty_bytes, figures.held_nt_bytes), (128, 16));
    run.machine.drain();
    let figures = run.figures();
    assert_eq!(figures.volatile.total.controller_write_bytes, 3 * 64);
    assert_eq!(figures.caches.iter().map(|cache| cache.held_dirty_bytes).sum::<u64>(), 0);
    assert_eq!((figures.held_nt_bytes, figures.volatile.held_dirty_bytes), (0, 0));
}

#[test]
fn a_sequential_read_misses_once_per_line() {
    let bytes = 64 << 20;
    let config = Config::preset("dram").unwrap();
    let mut run = Run::new(&config);
    for addr in (0..bytes).step_by(8) {
        run.load(addr);
    }
    let figures = run.figures();
    assert_eq!(figures.caches[0].misses, bytes / 64);
    assert_eq!(figures.caches[0].hits, bytes / 8 - bytes / 64);
    assert_eq!(figures.volatile.total.controller_read_bytes, bytes);
    let per_dimm = figures.volatile.per_dimm.iter().map(|dimm| dimm.media_read_bytes);
    assert!(per_dimm.clone().max().unwrap() - per_dimm.min().unwrap() <= 256, "evenly interleaved");
    assert_eq!(figures.sites[1].volatile.read_bytes, bytes);
}

#[test]
fn a_loop_that_fits_a_level_misses_there_only_once() {
    for (bytes, level) in [(16 << 10, 0), (512 << 10, 1), (8 << 20, 2)] {
        let mut run = Run::new(&Config::preset("xpoint").unwrap());
        for addr in (0..bytes).step_by(64).cycle().take(4 * bytes as usize / 64) {
            run.load(addr);
        }
        assert_eq!(run.caches()[level].1, bytes / 64, "{} in level {level}", Size(bytes));
    }
}

#[test]
fn wide_and_crossing_accesses_touch_each_of_their_lines() {
    let mut run = Run::new(&Config::preset("dram").unwrap());
    run.op(Op::Load { addr: 60, len: 8 });
    assert_eq!(run.caches()[0], (0, 2));
    run.op(Op::Store { addr: 0, len: 4096 });
    assert_eq!(run.caches()[0], (2, 64));
    run.op(Op::Load { addr: 0, len: 0 });
    assert_eq!(run.caches()[0], (2, 64));
    let figures = run.figures();
    assert_eq!((figures.sites[1].loads, figures.sites[1].stores, figures.sites[1].store_bytes), (2, 1, 4096));
    run.op(Op::Store { addr: u64::MAX - 3, len: 64 });
    assert_eq!(run.caches()[0], (2, 65), "what lies beyond the last address is cut off");
}

#[test]
fn clwb_keeps_a_line_and_the_others_drop_it() {
    for (kind, reloads) in [(FlushKind::Clwb, 0), (FlushKind::Clflushopt, 1), (FlushKind::Clflush, 1)] {
        let mut run = Run::new(&tiny());
        run.store(line(3)).site(2).flush(line(3), kind).site(3).load(line(3));
        let figures = run.figures();
        assert_eq!(figures.volatile.total.controller_write_bytes, 64, "{kind:?}");
        assert_eq!(figures.caches[0].misses, 1 + reloads, "{kind:?}");
        let stored = figures.sites[1].volatile;
        assert_eq!((stored.controller_write_bytes, stored.evicted_bytes), (64, 0), "the storing site pays");
        assert_eq!((figures.sites[2].flushes, figures.sites[2].clean_flushes), (1, 0));
    }
}

#[test]
fn flushes_without_a_change_to_write_are_kept_apart() {
    let mut run = Run::new(&tiny());
    run.site(2).clwb(line(0));
    run.site(1).load(line(0)).site(2).clwb(line(0));
    run.site(1).store(line(0)).site(2).clwb(line(0)).clwb(line(0));
    // Dirty in the LLC counts as dirty.
    run.site(1).store(line(0)).load(line(8)).load(line(16)).site(2).clwb(line(0));
    let figures = run.figures();
    assert_eq!((figures.sites[2].flushes, figures.sites[2].clean_flushes), (5, 3));
    assert_eq!(figures.volatile.total.controller_write_bytes, 128);
}

#[test]
fn a_demotion_moves_the_line_to_the_llc_with_its_changes() {
    let mut run = Run::new(&tiny());
    run.store(line(5)).op(Op::Demote { addr: line(5) });
    let figures = run.figures();
    assert_eq!(figures.caches.iter().map(|cache| cache.held_dirty_bytes).collect::<Vec<_>>(), [0, 0, 64]);
    run.load(line(5));
    assert_eq!(run.caches(), [(0, 2), (0, 2), (1, 1)]);
    run.op(Op::Demote { addr: line(999) });
    assert_eq!(run.caches(), [(0, 2), (0, 2), (1, 1)], "nothing to demote");
}

#[test]
fn a_source_that_sees_no_loads_is_refused_by_name() {
    let mut source = event::Source::synthetic("stores-only 1.0");
    source.capabilities -= event::Capabilities::LOADS;
    let mut machine = machine::Machine::new(&tiny()).unwrap();
    let refused = event::Sink::begin(&mut machine, &source).unwrap_err().to_string();
    assert!(refused.contains("LOADS") && refused.contains("stores-only 1.0"), "{refused}");
}

#[test]
fn numbers_that_only_damage_explains_are_errors() {
    let mut machine = machine::Machine::new(&tiny()).unwrap();
    let op = Op::Load { addr: 0, len: 8 };
    let events = [event::Event { op, site: event::SiteId(u32::MAX), instructions: 0 }];
    let mut push = |thread| {
        let batch =
            event::Batch { thread: event::ThreadId(thread), time_ns: 0, events: &events, values: &[] };
        event::Sink::push(&mut machine, batch).unwrap_err().to_string()
    };
    assert!(push(0).contains("site 4294967295"));
    assert!(push(u32::MAX).contains("thread 4294967295"));
}
