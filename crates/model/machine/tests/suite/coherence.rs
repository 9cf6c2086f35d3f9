//! Lines that move between cores, and non-temporal stores that bypass them.

use crate::common::{Run, tiny};

const A: u64 = 0x1000;

#[test]
fn a_store_takes_the_line_from_the_core_that_has_it() {
    let mut run = Run::new(&tiny());
    for turn in 0..10 {
        run.thread(turn % 2).site(1 + turn % 2).store(A);
    }
    let figures = run.figures();
    assert_eq!(figures.caches[0].invalidations, 9);
    assert_eq!(figures.caches[2].forwards, 9);
    assert_eq!(figures.volatile.total.controller_read_bytes, 64, "the line came from memory once");
    assert_eq!(figures.volatile.total.controller_write_bytes, 0, "and went from core to core ever after");
    run.machine.drain();
    let figures = run.figures();
    assert_eq!(figures.sites[2].volatile.controller_write_bytes, 64, "the last one to store pays");
    assert_eq!(figures.sites[1].volatile.controller_write_bytes, 0);
}

#[test]
fn a_load_shares_the_line_and_the_next_store_must_ask() {
    let mut run = Run::new(&tiny());
    run.thread(0).store(A);
    run.thread(1).load(A).load(A);
    let figures = run.figures();
    assert_eq!(figures.caches[2].held_dirty_bytes, 64, "the change waits in the LLC");
    assert_eq!(figures.caches[0].invalidations, 0);
    run.thread(0).load(A).store(A);
    let figures = run.figures();
    assert_eq!(figures.caches[0].invalidations, 1);
    assert_eq!((figures.caches[0].misses, figures.caches[0].hits), (2, 3), "asking is no miss");
    assert_eq!(figures.caches[2].held_dirty_bytes, 0, "taken along");
    run.thread(1).load(A);
    assert_eq!(run.figures().caches[0].misses, 3, "its copy was gone");
}

#[test]
fn a_flush_finds_the_change_on_any_core() {
    let mut run = Run::new(&tiny());
    run.thread(0).site(1).store(A);
    run.thread(1).site(2).clwb(A);
    let figures = run.figures();
    assert_eq!(figures.volatile.total.controller_write_bytes, 64);
    assert_eq!(figures.sites[2].clean_flushes, 0);
    run.thread(0).load(A);
    assert_eq!(run.caches()[0], (1, 1), "clwb left the line where it was");
}

#[test]
fn whole_lines_leave_the_combining_buffers_at_once_and_parts_at_a_fence() {
    let mut run = Run::new(&tiny());
    run.store_nt(A, 32).store_nt(A + 32, 32);
    assert_eq!(run.figures().volatile.total.controller_write_bytes, 64);
    run.store_nt(A + 64, 24);
    assert_eq!(run.figures().held_nt_bytes, 24);
    run.fence();
    let figures = run.figures();
    assert_eq!(figures.volatile.total.controller_write_bytes, 128);
    assert_eq!((figures.volatile.partial_line_writes, figures.held_nt_bytes), (1, 0));
    assert_eq!(figures.volatile.total.read_modify_writes, 1, "the missing 40 bytes were read");
    assert_eq!(figures.sites[1].nt_bytes, 88);
    assert_eq!(run.caches()[0], (0, 0), "the caches saw nothing of it");
}

#[test]
fn a_third_line_pushes_the_first_out_of_two_buffers() {
    let mut run = Run::new(&tiny());
    run.store_nt(A, 8).store_nt(A + 64, 8).store_nt(A, 8).store_nt(A + 128, 8);
    let figures = run.figures();
    assert_eq!((figures.volatile.partial_line_writes, figures.held_nt_bytes), (1, 16));
}

#[test]
fn a_non_temporal_store_throws_the_line_out_of_every_cache() {
    let mut run = Run::new(&tiny());
    run.thread(0).store(A);
    run.thread(1).store_nt(A, 64);
    let figures = run.figures();
    assert_eq!(figures.volatile.total.controller_write_bytes, 128, "the change first, then the store");
    run.thread(0).load(A);
    assert_eq!(run.figures().caches[0].misses, 2);
}

#[test]
fn a_core_that_reads_its_own_waiting_bytes_sends_them_out_first() {
    let mut run = Run::new(&tiny());
    run.store_nt(A, 8).load(A);
    let figures = run.figures();
    assert_eq!((figures.volatile.total.controller_write_bytes, figures.held_nt_bytes), (64, 0));
    assert_eq!(figures.volatile.total.controller_read_bytes, 64);
}

#[test]
fn threads_share_cores_when_there_are_more_of_them() {
    let mut run = Run::new(&tiny());
    run.thread(1).store(A);
    run.thread(5).store(A);
    let figures = run.figures();
    assert_eq!((figures.threads, figures.caches[0].invalidations), (2, 0), "5 runs where 1 did, of 4 cores");
}
