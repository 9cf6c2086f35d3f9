//! Who is judged, for which machine, and what is tried.

use advise::prestores::{Choice, Options, Target, alternatives};
use event::{Definition, NameId, Op, Sampling, Sink, SiteId, Source};

use super::run::{MATRIX, Run, place, sweep};

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

/// A program that checks what it computed reads all of it, which is no use; one that does so in each of its
/// rounds needs it.
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
    // A phase that is not judged is still one of the program's, and a trial counts what it loses by a skip.
    let clean = [Choice::Clean, Choice::Skip];
    assert_eq!(tried("use", 1, None), clean);
    assert_eq!(tried("use", 1, Some("run")), clean);
    assert_eq!(tried_of("use", 40, 1, None), skip);
    assert_eq!(tried_of("use", 0, 1, None), skip);
    assert_eq!(tried("check", 8, None), clean);
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
