//! The patterns of the method's examples, and the advice that each must get.

use advise::prestores::{Advice, Choice, alternatives};
use event::{FenceKind, Op, SiteId};

use super::run::{MATRIX, Run, place, sweep};

#[test]
fn a_matrix_that_nobody_uses_soon_skips_the_cache() {
    let mut run = Run::new();
    sweep(&mut run, 10, 1 << 32, 2 << 32);
    let advice = run.advice(None);
    let row = place(&advice, 10);
    assert_eq!((row.choice, row.sizes.len()), (Choice::Skip, 1), "{advice}");
    assert!(row.sequential > 0.99 && row.sizes[0].bytes == MATRIX);
    let text = advice.to_string();
    for line in [
        "f1\n",
        "Location: code.c line 10\n",
        "Perc. Seq. Writes: 100%\n",
        "Size: 8.4MB - 100% - re-read inf - re-write inf\n",
        "Pre-store choice: skip",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
}

#[test]
fn a_matrix_that_is_read_next_is_cleaned() {
    let mut run = Run::new();
    sweep(&mut run, 10, 1 << 32, 2 << 32);
    // Whoever reads it is another function, and writes a matrix that nobody uses.
    sweep(&mut run, 20, 3 << 32, 1 << 32);
    let advice = run.advice(None);
    assert_eq!(place(&advice, 10).choice, Choice::Clean, "{advice}");
    assert_eq!(place(&advice, 20).choice, Choice::Skip, "{advice}");
    // Who reads it writes as much, and would wait in its own inner loop.
    assert_eq!(alternatives(place(&advice, 10)), [Choice::Clean], "{advice}");
    // From the last element of a line to the first read of it.
    assert_eq!(place(&advice, 10).sizes[0].reread, Some(4 * MATRIX / 8 - 30));
}

#[test]
fn reading_the_next_element_of_a_line_just_written_is_no_use_of_it() {
    let mut run = Run::new();
    for at in (0..MATRIX).step_by(8) {
        run.load(10, (1 << 32) + at, 8);
        run.store(10, (1 << 32) + at, 8);
    }
    assert_eq!(run.choice(10), Choice::Skip);
}

#[test]
fn what_the_busiest_writers_soon_read_some_of_is_not_skipped() {
    const COARSE: u64 = 64 << 10;
    /// Two matrices, each far too big for a cache and followed by a coarser one that is not. The coarse ones
    /// are read soon: `r`'s by another of the functions that do most, `u`'s by one that does little.
    fn cycle(run: &mut Run, r: u64, u: u64, input: u64) {
        for (r, u, bytes) in [(r, u, MATRIX), (r + MATRIX, u + MATRIX, COARSE)] {
            for at in (0..bytes).step_by(8) {
                (0..4).for_each(|part| run.load(10, input + at + part * 8, 8));
                run.store(10, r + at, 8);
            }
            for at in (0..bytes).step_by(8) {
                run.load(20, r + at, 8);
                run.load(20, input + at, 8);
                run.store(20, u + at, 8);
            }
        }
        (0..COARSE).step_by(8).for_each(|at| run.load(30, u + MATRIX + at, 8));
    }
    let mut run = Run::new();
    // Between the fine sweeps somebody computes for a long time.
    for n in 0..3u64 {
        cycle(&mut run, (1 << 32) + (n << 28), (3 << 32) + (n << 28), 5 << 32);
        run.compute(50_000_000);
    }
    let advice = run.advice(None);
    assert_eq!(place(&advice, 10).choice, Choice::Clean, "{advice}");
    assert_eq!(place(&advice, 20).choice, Choice::Skip, "{advice}");
}

#[test]
fn the_border_that_another_thread_reads_says_nothing_of_the_matrix() {
    let choice = |reader| {
        let mut run = Run::new();
        for thread in [0, 1] {
            run.on(thread, 97, 1, Op::ThreadStart { seq: u64::from(thread) + 1 });
        }
        sweep(&mut run, 10, 1 << 32, 2 << 32);
        for at in (MATRIX - (64 << 10)..MATRIX).step_by(8) {
            run.on(reader, 11, 2, Op::Load { addr: (1 << 32) + at, len: 8 });
        }
        run.choice(10)
    };
    assert_eq!(choice(1), Choice::Skip);
    assert_eq!(choice(0), Choice::Clean, "the thread that wrote it waits for memory");
}

#[test]
fn passes_of_a_function_over_one_matrix_have_one_fate() {
    let mut run = Run::new();
    for row in (0..MATRIX).step_by(4096) {
        for site in [10, 11] {
            for at in (row..row + 4096).step_by(8) {
                run.load(site, (1 << 32) + at, 8);
                run.store(site, (1 << 32) + at, 8);
            }
        }
    }
    let advice = run.advice(None);
    assert_eq!(place(&advice, 10).choice, Choice::Nothing, "the second pass comes soon: {advice}");
    assert_eq!(place(&advice, 11).choice, Choice::Clean, "the function reads such data: {advice}");
}

#[test]
fn a_variable_before_a_fence_is_left_alone() {
    let mut run = Run::new();
    for _ in 0..100_000 {
        run.store(10, 1 << 32, 8);
        run.fence();
    }
    assert_eq!(run.choice(10), Choice::Nothing);
}

#[test]
fn what_is_set_up_once_is_left_alone() {
    let mut run = Run::new();
    for at in (0..4096).step_by(8) {
        run.store(10, (1 << 32) + at, 8);
    }
    let advice = run.advice(None);
    let row = place(&advice, 10);
    assert!(row.choice == Choice::Nothing && row.sequential > 0.99, "{advice}");
}

#[test]
fn many_buckets_that_fill_slowly_are_no_streams() {
    let mut run = Run::new();
    let mut filled = vec![0u64; 1024];
    let mut random = 1u64;
    for _ in 0..400_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bucket = random >> 54;
        let slot = &mut filled[bucket as usize];
        run.store(10, (1 << 32) + (bucket << 20) + *slot * 4, 4);
        *slot += 1;
    }
    let advice = run.advice(None);
    let row = place(&advice, 10);
    assert_eq!(row.choice, Choice::Nothing, "{advice}");
    assert!(row.sequential < 0.5, "{advice}");
}

#[test]
fn streams_and_temporaries_in_turn_stay_apart() {
    let mut run = Run::new();
    for at in (0..MATRIX).step_by(8) {
        run.store(10, (1 << 32) + at, 8);
        run.store(11, (2 << 32) + at, 8);
        // A row of 64 elements that is filled again and again.
        run.store(12, (3 << 32) + at % 512, 8);
    }
    let advice = run.advice(None);
    for site in [10, 11] {
        assert_eq!(place(&advice, site).choice, Choice::Skip, "{advice}");
        assert!(place(&advice, site).sequential > 0.99);
    }
    let temporary = place(&advice, 12);
    assert_eq!(temporary.choice, Choice::Nothing, "{advice}");
    assert!(temporary.sizes[0].rewrite.is_some_and(|distance| distance < 1000));
}

#[test]
fn the_most_conservative_size_wins() {
    let mut run = Run::new();
    sweep(&mut run, 10, 1 << 32, 2 << 32);
    for small in 0..20_000u64 {
        let tensor = (4 << 32) + small * 512;
        for at in (0..240).step_by(8) {
            run.store(10, tensor + at, 8);
            run.load(11, tensor + at, 8);
        }
    }
    let advice = run.advice(None);
    let row = place(&advice, 10);
    assert_eq!(row.choice, Choice::Clean, "{advice}");
    assert_eq!(
        row.sizes.iter().map(|size| (size.bytes, size.reread.is_some())).collect::<Vec<_>>(),
        [(MATRIX, false), (240, true)]
    );
}

#[test]
fn messages_that_are_filled_again_are_demoted() {
    for len in [64, 192] {
        let mut run = Run::new();
        for message in 0..20_000u64 {
            let slot = (1 << 32) + message % 16 * 256;
            for at in (0..len).step_by(8) {
                run.store(10, slot + at, 8);
            }
            run.compute(20);
            run.fence();
        }
        let advice = run.advice(None);
        let row = place(&advice, 10);
        assert_eq!(row.choice, Choice::Demote, "{len}: {advice}");
        assert!(row.fenced > 0.9 && row.fence_distance.is_some_and(|least| least <= 21), "{advice}");
    }
}

/// A slot of a ring that a copy fills just before the atomic operation that publishes it: nothing can go on
/// meanwhile.
#[test]
fn what_a_fence_follows_at_once_is_not_demoted() {
    for (room, expected) in [(0, Choice::Nothing), (20, Choice::Demote)] {
        let mut run = Run::new();
        for message in 0..20_000u64 {
            run.store(10, (1 << 32) + message % 64 * 256, 192);
            run.compute(room);
            run.fence();
        }
        assert_eq!(run.choice(10), expected, "{room}");
    }
    // Places of their own, which nothing else speaks for: the reason is the true one.
    let mut run = Run::new();
    for put in 0..20_000u64 {
        run.store(10, (1 << 32) + put * 7919 % 20_000 * 4096, 8);
        run.fence();
    }
    let advice = run.advice(None);
    let place = place(&advice, 10);
    assert!(place.choice == Choice::Nothing && place.reason.contains("come so soon"), "{}", place.reason);
}

/// A fence waits for the last of the writes alone, and each demotion before it would be paid for.
#[test]
fn what_is_written_again_before_its_fence_is_left_alone() {
    // Of a source that knows how many instructions were executed, and of one that does not.
    let cases = [(1, Choice::Demote), (30, Choice::Nothing)];
    for ((times, expected), instructions) in cases.into_iter().flat_map(|case| [(case, 1), (case, 0)]) {
        let mut run = Run::new();
        for _ in 0..20_000u64 {
            for _ in 0..times {
                for addr in (1 << 32..(1 << 32) + 128).step_by(8) {
                    run.on(0, 10, instructions, Op::Store { addr, len: 8 });
                }
            }
            (0..20).for_each(|_| run.on(0, 98, instructions, Op::Load { addr: 8, len: 8 }));
            run.on(0, 99, instructions, Op::Fence(FenceKind::Full));
        }
        let advice = run.advice(None);
        let row = place(&advice, 10);
        assert_eq!(row.choice, expected, "{times}: {advice}");
        assert!(row.fenced > 0.9, "{advice}");
    }
}

#[test]
fn one_line_rewritten_for_ever_is_left_alone() {
    let mut run = Run::new();
    for _ in 0..100_000 {
        run.store(10, 1 << 32, 64);
    }
    let advice = run.advice(None);
    let row = place(&advice, 10);
    assert_eq!(row.choice, Choice::Nothing, "{advice}");
    assert!(row.sequential < 0.01 && row.sizes[0].rewrite == Some(2), "{advice}");
}

#[test]
fn small_random_counters_are_left_alone_even_before_a_barrier() {
    let mut run = Run::new();
    let mut random = 1u64;
    for n in 0..400_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let addr = (1 << 32) + (random >> 40) * 4;
        run.load(10, addr, 4);
        run.store(10, addr, 4);
        if n % 50_000 == 49_999 {
            run.fence();
        }
    }
    let advice = run.advice(None);
    let row = place(&advice, 10);
    assert_eq!(row.choice, Choice::Nothing, "{advice}");
    assert_eq!(row.fence_distance, Some(1), "the bare minimum would say otherwise");
}

#[test]
fn a_cached_work_array_without_fences_is_left_alone() {
    let mut run = Run::new();
    for pass in 0..100u64 {
        for at in (0..16 << 10).step_by(16) {
            run.load(10, (1 << 32) + (pass % 2) * 65_536 + at, 16);
            run.store(10, (1 << 32) + (1 - pass % 2) * 65_536 + at, 16);
        }
    }
    assert_eq!(run.choice(10), Choice::Nothing);
}

#[test]
fn a_value_that_is_copied_out_and_then_fenced_skips_the_cache() {
    let mut run = Run::new();
    for value in 0..20_000u64 {
        let slot = (1 << 32) + value.wrapping_mul(0x9e37_79b9) % 100_000 * 1024;
        run.store(10, slot, 1024);
        run.compute(50);
        run.store(20, (7 << 32) + value % 4096 * 64, 8);
        run.fence();
    }
    let advice = run.advice(None);
    assert_eq!(place(&advice, 10).choice, Choice::Skip, "{advice}");
    assert!(advice.places().all(|place| place.line != 20), "too few stores to matter: {advice}");
}

/// Allocates, fills and frees, again and again, `bytes` at places that come round after `places`.
fn temporaries(places: u64, bytes: u64, instructions: u32) -> Advice {
    let mut run = Run::new();
    for n in 0..(128 << 20) / bytes {
        let addr = (1 << 32) + n % places * bytes;
        run.on(0, 50, 1, Op::Alloc { addr, len: bytes });
        for at in (0..bytes).step_by(64) {
            run.on(0, 10, instructions, Op::Store { addr: addr + at, len: 64 });
        }
        run.on(0, 51, 1, Op::Free { addr });
    }
    run.advice(None)
}

/// The next object in the same lines is what keeps the one before from memory.
#[test]
fn memory_that_is_freed_and_soon_allocated_again_is_left_alone() {
    for (places, bytes) in [(1, 4096), (16, 4096), (1, 16 << 20), (1000, 256)] {
        let advice = temporaries(places, bytes, 2);
        let row = place(&advice, 10);
        assert_eq!(row.choice, Choice::Nothing, "{places} of {bytes}: {advice}");
        assert!(row.sizes[0].rewrite.is_some() && row.sizes[0].allocated == Some(SiteId(50)), "{advice}");
        assert_eq!(row.sizes[0].bytes, bytes, "they are objects of their own: {advice}");
    }
}

#[test]
fn memory_that_comes_back_when_no_cache_has_it_skips_the_cache() {
    for (places, bytes) in [(1, 64 << 20), (16, 4 << 20)] {
        let advice = temporaries(places, bytes, 2);
        assert_eq!(place(&advice, 10).choice, Choice::Skip, "{places} of {bytes}: {advice}");
    }
}

#[test]
fn neighbouring_allocations_are_objects_of_their_own() {
    let mut run = Run::new();
    for object in 0..5000u64 {
        let addr = (1 << 32) + object * 256;
        run.on(0, 50, 1, Op::Alloc { addr, len: 256 });
        for at in (0..256).step_by(16) {
            run.store(10, addr + at, 16);
        }
    }
    let advice = run.advice(None);
    let sizes: Vec<u64> = place(&advice, 10).sizes.iter().map(|size| size.bytes).collect();
    assert_eq!(sizes, [256], "{advice}");
}

/// Who followed the advice must not get it again.
#[test]
fn what_the_program_sends_on_its_way_itself_needs_no_advice() {
    let swept = |send: &dyn Fn(&mut Run, u64)| {
        let mut run = Run::new();
        for at in (0..MATRIX).step_by(8) {
            run.load(10, (2 << 32) + at, 8);
            run.store(10, (1 << 32) + at, 8);
            if at % 512 == 504 {
                (0..8).for_each(|line| send(&mut run, (1 << 32) + at - 504 + line * 64));
            }
        }
        // Somebody reads it soon, so that it is to be cleaned.
        sweep(&mut run, 20, 3 << 32, 1 << 32);
        run.choice(10)
    };
    assert_eq!(swept(&|_, _| {}), Choice::Clean);
    let flush = |addr| Op::Flush { addr, kind: event::FlushKind::Clwb };
    assert_eq!(swept(&|run, addr| run.on(0, 11, 1, flush(addr))), Choice::Nothing);
    let other = |run: &mut Run, addr: u64| run.on(0, 11, 1, flush(addr + (4 << 32)));
    assert_eq!(swept(&other), Choice::Clean, "other lines are flushed");

    let mut messages = Run::new();
    for n in 0..10_000u64 {
        let addr = (1 << 32) + n % 16 * 64;
        messages.store(10, addr, 64);
        messages.on(0, 11, 1, Op::Demote { addr });
        messages.compute(20);
        messages.fence();
    }
    assert_eq!(messages.choice(10), Choice::Nothing);
}

#[test]
fn what_skips_the_caches_is_not_advised_to() {
    let mut run = Run::new();
    for at in (0..MATRIX).step_by(8) {
        run.load(10, (2 << 32) + at, 8);
        run.on(0, 10, 2, Op::StoreNt { addr: (1 << 32) + at, len: 8 });
    }
    assert_eq!(run.choice(10), Choice::Nothing);
}
