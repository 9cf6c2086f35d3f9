//! Accesses for measuring: they do what they say, take the time they take, and refuse what is outside.

use std::time::Instant;

use pmem::Mapped;
use pmem::probe::{self, Access, Clock, Move, Sample, Wait};
use proptest::prelude::*;
use space::Space;

const MOVES: [Move; 5] = [Move::Load, Move::Store, Move::StoreFlush, Move::StoreEvict, Move::StoreNt];

proptest! {
    /// Writing accesses change each byte of their range to the offset that they were given, and no other byte.
    #[test]
    fn accesses_touch_their_range_and_nothing_else(
        what in 0usize..5,
        lines in 1u64..9,
        flush_lines in 1u64..9,
        first in 0u64..24,
    ) {
        let memory = Mapped::anonymous(2048).expect("a page");
        let access = Access {
            what: MOVES[what],
            len: lines * 64,
            flush_every: flush_lines * 64,
            wait: Wait::Stores,
            ..Access::of_line(Move::Load)
        };
        let (offset, mut done) = (first * 64, 0);
        memory.store_u64(0, 77);
        memory.access(&access, &[offset], &mut done);
        prop_assert_eq!(done, 1);
        for at in (0..2048).step_by(8) {
            let inside = (offset..offset + access.len).contains(&at) && access.what != Move::Load;
            let expected = if inside { offset } else if at == 0 { 77 } else { 0 };
            prop_assert_eq!(memory.load_u64(at), expected, "{:?} at {}", access, at);
        }
    }
}

#[test]
fn samples_write_what_they_say() {
    let memory = Mapped::anonymous(4096).expect("a page");
    let mut ticks = Vec::new();
    memory.time(Sample::LoadWord, &[0, 64], &mut ticks);
    memory.time(Sample::StoreWordFlush, &[128], &mut ticks);
    memory.time(Sample::StoreLineNt, &[256], &mut ticks);
    memory.time(Sample::Whole(Access::of_line(Move::Store)), &[512], &mut ticks);
    assert_eq!(ticks.len(), 5);
    let changed: Vec<u64> = (0..4096).step_by(8).filter(|at| memory.load_u64(*at) != 0).collect();
    let expected: Vec<u64> = [128..136, 256..320, 512..576].into_iter().flat_map(|r| r.step_by(8)).collect();
    assert_eq!(changed, expected);
}

#[test]
fn a_chain_is_followed_step_by_step() {
    let memory = Mapped::anonymous(4096).expect("a page");
    for (from, to) in [(0, 640), (640, 64), (64, 128), (128, 0)] {
        memory.store_u64(from, to);
    }
    assert_eq!(memory.chase(0, 3), 128);
    assert_eq!(memory.chase(0, 4), 0);
}

#[test]
#[should_panic(expected = "outside")]
fn a_chain_can_not_leave_the_mapping() {
    let memory = Mapped::anonymous(4096).expect("a page");
    memory.store_u64(0, 4096);
    let _ = memory.chase(0, 2);
}

#[test]
fn accesses_outside_or_askew_are_refused_before_the_first() {
    let memory = Mapped::anonymous(4096).expect("a page");
    for (access, offsets) in [
        (Access::of_line(Move::Store), vec![0, 4096]),
        (Access { len: 8192, ..Access::of_line(Move::Store) }, vec![0]),
        (Access::of_line(Move::Store), vec![0, 8]),
        (Access { len: 32, ..Access::of_line(Move::Store) }, vec![0]),
        (Access { flush_every: 0, ..Access::of_line(Move::StoreFlush) }, vec![0]),
        (Access { wait_every: 0, ..Access::of_line(Move::Store) }, vec![0]),
        (Access::of_line(Move::Store), vec![!63]),
    ] {
        memory.store_u64(0, 5);
        let attempt = std::panic::catch_unwind(|| memory.access(&access, &offsets, &mut 0));
        assert!(attempt.is_err(), "{access:?} at {offsets:?}");
        assert_eq!(memory.load_u64(0), 5, "{access:?} at {offsets:?}");
    }
}

#[test]
fn the_clock_and_the_system_agree_on_a_span() {
    let clock = Clock::calibrate();
    // Counter, system, counter: the core may be taken away between any two of them.
    let (early, start, late) = (clock.ticks(), Instant::now(), clock.ticks());
    while start.elapsed().as_millis() < 20 {}
    let (before, elapsed, after) = (clock.ticks(), start.elapsed().as_nanos() as f64, clock.ticks());
    assert!(clock.ns(before - late) <= elapsed * 1.02, "{} in {elapsed} ns", clock.ns(before - late));
    assert!(clock.ns(after - early) >= elapsed * 0.98, "{} in {elapsed} ns", clock.ns(after - early));
    assert_eq!(clock.to_ticks(clock.ns(1_000_000)), 1_000_000);
}

#[test]
fn pauses_pass_time() {
    let memory = Mapped::anonymous(4096).expect("a page");
    let clock = Clock::calibrate();
    // The loop's speed was measured as fast as it gets; half of the time is far from any error of that.
    let access = Access { pause_spins: clock.to_spins(100_000.0), ..Access::of_line(Move::Load) };
    let start = clock.ticks();
    memory.access(&access, &[0, 64], &mut 0);
    assert!(clock.ns(clock.ticks() - start) >= 100_000.0);
}

#[test]
fn evicting_keeps_what_was_stored() {
    let memory = Mapped::anonymous(1 << 16).expect("pages");
    for at in (0..1 << 16).step_by(8) {
        memory.store_u64(at, at + 1);
    }
    memory.evict(0, 1 << 16);
    probe::wait(Wait::All);
    assert!((0..1 << 16).step_by(8).all(|at| memory.load_u64(at) == at + 1));
}

#[test]
fn a_copy_gives_the_second_half_the_words_of_the_first() {
    let memory = Mapped::anonymous(4096).unwrap();
    for at in (0..4096).step_by(8) {
        memory.store_u64(at, at);
    }
    memory.access(&Access { len: 512, ..Access::of_line(Move::Copy) }, &[1024], &mut 0);
    for at in (0..4096).step_by(8) {
        let copied = (1024 + 256..1024 + 512).contains(&at);
        assert_eq!(memory.load_u64(at), if copied { at - 256 } else { at });
    }
    let odd = Access { len: 192, ..Access::of_line(Move::Copy) };
    assert!(std::panic::catch_unwind(|| memory.access(&odd, &[0], &mut 0)).is_err());
}
