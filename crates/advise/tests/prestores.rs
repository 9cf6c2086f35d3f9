//! Pre-stores: the patterns of the method's examples, and the advice that each must get.

use advise::prestores::{Advice, Choice, Options, PlaceAdvice, Target, Watcher, alternatives};
use event::{
    Batch, Definition, Event, FenceKind, Frame, NameId, Op, Order, Sampling, Sink, Site, SiteId, Source,
    ThreadId,
};

/// A program of one thread; site `n` is line `n` of a function that `function_of` names.
struct Run {
    watcher: Watcher,
    seq: u64,
}

/// Sites 10 to 19 are the function `f1`, and so on.
fn function_of(site: u32) -> String {
    format!("f{}", site / 10)
}

impl Run {
    fn new() -> Self {
        Run::with_options(Options::default())
    }

    fn with_options(options: Options) -> Self {
        let mut watcher = Watcher::with_options(options);
        watcher.begin(&Source::synthetic("test")).expect("the watcher takes every event");
        for site in 1..100 {
            let frame = Frame { function: function_of(site), file: "code.c".to_owned(), line: site };
            let site_of = Site { frames: vec![frame], ..Site::default() };
            watcher.define(Definition::Site(SiteId(site), &site_of)).expect("the watcher takes every event");
        }
        Run { watcher, seq: 0 }
    }

    fn on(&mut self, thread: u32, site: u32, instructions: u32, op: Op) {
        let events = [Event { op, site: SiteId(site), instructions }];
        let batch = Batch { thread: ThreadId(thread), time_ns: 0, events: &events, values: &[] };
        self.watcher.push(batch).expect("the watcher takes every event");
    }

    fn store(&mut self, site: u32, addr: u64, len: u32) {
        self.on(0, site, 2, Op::Store { addr, len });
    }

    fn load(&mut self, site: u32, addr: u64, len: u32) {
        self.on(0, site, 2, Op::Load { addr, len });
    }

    fn fence(&mut self) {
        self.on(0, 99, 1, Op::Fence(FenceKind::Locked));
    }

    /// Work without memory.
    fn compute(&mut self, instructions: u32) {
        self.seq += 1;
        let op = Op::Acquire { var: 8, order: Order::Acquire, seq: self.seq };
        self.on(0, 98, instructions, op);
    }

    fn advice(self, target: Option<Target>) -> Advice {
        let mut watcher = self.watcher;
        watcher.finish().expect("the watcher takes every event");
        watcher.advice(target)
    }

    fn choice(self, site: u32) -> Choice {
        place(&self.advice(None), site).choice
    }
}

fn place(advice: &Advice, site: u32) -> &PlaceAdvice {
    let found = advice.places().find(|place| place.line == site);
    found.unwrap_or_else(|| panic!("nothing about line {site}:\n{advice}"))
}

const MATRIX: u64 = 8 << 20;

/// Writes a matrix element by element, with a neighbouring input read beside each.
fn sweep(run: &mut Run, site: u32, out: u64, input: u64) {
    for at in (0..MATRIX).step_by(8) {
        run.load(site, input + at, 8);
        run.store(site, out + at, 8);
    }
}

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
    /// Two matrices, each far too big for a cache and followed by a coarser one that is not. The coarse ones are read soon: `r`'s by
    /// another of the functions that do most, `u`'s by one that does little.
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

/// A slot of a ring that a copy fills just before the atomic operation that publishes it: nothing can go on meanwhile.
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

#[test]
fn a_program_that_hardly_stores_is_left_alone() {
    let mut run = Run::new();
    for at in (0..MATRIX).step_by(64) {
        for part in 0..8 {
            run.load(10, (1 << 32) + at + part * 8, 8);
        }
        if at % 512 == 0 {
            run.store(10, (2 << 32) + at, 8);
        }
    }
    let advice = run.advice(None);
    assert!(!advice.phases[0].judged && advice.places().count() == 0, "{advice}");
    assert!(advice.to_string().starts_with("Not write-intensive: 1.5%"), "{advice}");
}

#[test]
fn a_machine_that_can_gain_nothing_gets_no_advice() {
    let matrix = || {
        let mut run = Run::new();
        sweep(&mut run, 10, 1 << 32, 2 << 32);
        run
    };
    let messages = || {
        let mut run = Run::new();
        for n in 0..10_000u64 {
            run.store(10, (1 << 32) + n % 16 * 64, 64);
            run.compute(20);
            run.fence();
        }
        run
    };
    let target =
        |unit_bytes, weakly_ordered| Some(Target { unit_bytes, weakly_ordered, cache_bytes: 1 << 20 });
    let of = |run: Run, target| place(&run.advice(target), 10).choice;
    assert_eq!(of(matrix(), target(64, false)), Choice::Nothing);
    assert_eq!(of(matrix(), target(256, false)), Choice::Skip);
    assert_eq!(of(messages(), target(256, false)), Choice::Nothing);
    assert_eq!(of(messages(), target(64, true)), Choice::Demote);
}

#[test]
fn another_threads_reading_counts() {
    let mut run = Run::new();
    for thread in [0, 1] {
        run.on(thread, 97, 1, Op::ThreadStart { seq: u64::from(thread) + 1 });
    }
    for at in (0..MATRIX).step_by(8) {
        run.on(0, 10, 2, Op::Store { addr: (1 << 32) + at, len: 8 });
        if at >= 4096 {
            run.on(1, 20, 2, Op::Load { addr: (1 << 32) + at - 4096, len: 8 });
        }
    }
    assert_eq!(run.choice(10), Choice::Clean);
}

#[test]
fn who_loads_a_table_is_not_judged_by_it() {
    let mut run = Run::new();
    for (name, text) in [(1, "load"), (2, "run"), (3, "pack")] {
        run.watcher.define(Definition::Name(NameId(name), text)).unwrap();
    }
    let phase = |run: &mut Run, name| run.on(0, 97, 1, Op::Phase { name: NameId(name) });
    phase(&mut run, 1);
    sweep(&mut run, 10, 1 << 32, 2 << 32);
    phase(&mut run, 2);
    (0..MATRIX).step_by(8).for_each(|at| run.load(10, (1 << 32) + at, 8));
    phase(&mut run, 3);
    sweep(&mut run, 10, 3 << 32, 2 << 32);
    let mut watcher = run.watcher;
    watcher.finish().unwrap();
    let advice = watcher.advice(None);
    let judged: Vec<_> = advice.phases.iter().map(|p| (p.phase.as_deref(), p.judged)).collect();
    assert_eq!(judged, [(Some("load"), false), (Some("run"), false), (Some("pack"), true)]);
    assert!(advice.to_string().starts_with("Phase: pack\nf1\n"), "{advice}");
    // The patched code is the same in every phase.
    let plan = watcher.plan(advice.places());
    assert_eq!(plan, [(SiteId(10), Choice::Skip)]);
}

/// Where some of it is read again, by others, what is right depends on the machine as well.
#[test]
fn cleaning_for_others_is_tried_against_skipping() {
    let advice = |part: u64| {
        let mut run = Run::new();
        sweep(&mut run, 10, 1 << 32, 2 << 32);
        (0..MATRIX / 100 * part).step_by(8).for_each(|at| run.load(20, (1 << 32) + at, 8));
        run.advice(None)
    };
    for (part, choice, reason) in
        [(40, Choice::Skip, "only 40% of it is read again"), (60, Choice::Clean, "but read again, 60% of it")]
    {
        let advice = advice(part);
        let place = place(&advice, 10);
        let tried = alternatives(place);
        assert_eq!((place.choice, tried.first()), (choice, Some(&choice)), "{advice}");
        assert!(tried.contains(&Choice::Skip) && tried.contains(&Choice::Clean), "{advice}");
        assert!(place.reason.contains(reason) && place.reason.contains(&format!("{part}%")), "{advice}");
    }
}

/// A program that checks what it computed reads all of it, which is no use; one that does so in each of its rounds needs it.
#[test]
fn what_only_a_check_reads_skips_the_cache() {
    let tried_of = |reader: &str, part: u64, rounds: u64, phase: Option<&str>| {
        let options = Options { phase: phase.map(str::to_owned), ..Options::default() };
        let mut run = Run::with_options(options);
        for (name, text) in [(1, "run"), (2, reader)] {
            run.watcher.define(Definition::Name(NameId(name), text)).unwrap();
        }
        for matrix in (1..=rounds).map(|round| round << 40) {
            run.on(0, 97, 1, Op::Phase { name: NameId(1) });
            sweep(&mut run, 10, matrix, matrix + (1 << 32));
            // By two threads.
            (0..2).for_each(|_| run.on(0, 97, 1, Op::Phase { name: NameId(2) }));
            (0..MATRIX / 100 * part).step_by(8).for_each(|at| run.load(20, matrix + at, 8));
        }
        alternatives(place(&run.advice(None), 10))
    };
    let tried = |reader: &str, rounds: u64, phase| tried_of(reader, 100, rounds, phase);
    let skip = [Choice::Skip, Choice::Clean];
    assert_eq!(tried("check", 1, None), skip);
    assert_eq!(tried("check", 1, Some("run")), skip);
    // A phase that is not judged is still one of the program's, and no trial counts what it loses by a skip.
    assert_eq!(tried("use", 1, None), [Choice::Clean]);
    assert_eq!(tried("use", 1, Some("run")), [Choice::Clean]);
    assert_eq!(tried_of("use", 40, 1, None), [Choice::Clean]);
    assert_eq!(tried_of("use", 0, 1, None), skip);
    assert_eq!(tried("check", 8, None), [Choice::Clean]);
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
fn what_skips_the_caches_is_not_told_to() {
    let mut run = Run::new();
    for at in (0..MATRIX).step_by(8) {
        run.load(10, (2 << 32) + at, 8);
        run.on(0, 10, 2, Op::StoreNt { addr: (1 << 32) + at, len: 8 });
    }
    assert_eq!(run.choice(10), Choice::Nothing);
}

#[test]
fn what_all_fits_into_a_machines_cache_has_no_evictions_to_forestall() {
    let advised_of = |source: &Source, cache_bytes, weakly_ordered| {
        let mut run = Run::new();
        run.watcher.begin(source).expect("the watcher takes every event");
        sweep(&mut run, 10, 1 << 32, 2 << 32);
        place(&run.advice(Some(Target { unit_bytes: 256, weakly_ordered, cache_bytes })), 10).choice
    };
    let advised =
        |cache_bytes, weakly_ordered| advised_of(&Source::synthetic("test"), cache_bytes, weakly_ordered);
    // Two matrices are touched.
    assert_eq!(advised(MATRIX, false), Choice::Skip);
    assert_eq!(advised(3 * MATRIX, false), Choice::Nothing);
    assert_eq!(advised(3 * MATRIX, true), Choice::Nothing);
    // Of what was seen only in bursts nobody knows how much it is.
    let bursts = Source { sampling: Some(Sampling { recorded: 1, period: 9 }), ..Source::synthetic("test") };
    assert_eq!(advised_of(&bursts, 3 * MATRIX, false), Choice::Skip);
    let fenced = || {
        let mut run = Run::new();
        for n in 0..10_000u64 {
            run.store(10, (1 << 32) + n * 64, 64);
            run.compute(20);
            run.fence();
        }
        run
    };
    let target = |weakly_ordered| Some(Target { unit_bytes: 256, weakly_ordered, cache_bytes: MATRIX });
    assert_eq!(place(&fenced().advice(target(true)), 10).choice, Choice::Skip, "a fence waits for it");
    assert_eq!(place(&fenced().advice(target(false)), 10).choice, Choice::Nothing);
}
