//! Tasks on the memory of the machine that runs the tests: they do what they say. How fast is nobody's
//! promise.

use std::time::Duration;

use measure::{
    Bench, Interleave, Kind, Locality, Mix, Op, Outcome, Pattern, Raw, Real, RealMemory, Study, Task,
};
use pmem::probe::Placement;

fn bench(memory: RealMemory) -> Real {
    Real::new(memory).with_runtime(Duration::from_millis(2), 2)
}

fn small() -> RealMemory {
    RealMemory { limit: Some(8 << 20), ..RealMemory::default() }
}

#[test]
fn every_study_runs_or_says_why_not() {
    let mut bench = bench(small());
    for mut study in Study::all() {
        study.axis = [study.axis.first(), study.axis.last()].into_iter().flatten().copied().collect();
        study.base.samples = 100;
        for point in study.points() {
            match bench.measure(&point.task).expect("it runs") {
                Outcome::Skipped(reason) => assert!(!reason.is_empty()),
                Outcome::Done(figures) => {
                    let (what, task) = (format!("{} {} {}", study.name, point.series, point.x), &point.task);
                    assert!(figures.seconds > 0.0, "{what}");
                    let bytes = figures.read_bytes + figures.write_bytes;
                    assert!(bytes > 0, "{what}");
                    match task.kind {
                        Kind::IdleLatency | Kind::Timed => {
                            assert_eq!(figures.latency.map(|latency| latency.samples), Some(100), "{what}");
                        }
                        Kind::Bandwidth => assert!(bytes.is_multiple_of(task.access_size), "{what}"),
                        Kind::LoadedLatency => assert!(figures.latency.is_some(), "{what}"),
                        Kind::BufferProbe | Kind::ReadAfterWrite => {
                            assert!(figures.line_ns.is_some(), "{what}")
                        }
                    }
                    assert_eq!(figures.ewr, None, "nobody counts what the media of real memory write");
                }
            }
        }
    }
}

#[test]
fn a_copy_reads_as_much_as_it_writes() {
    let task = Task { op: Op::Copy, access_size: 8 << 10, region: 1 << 20, ..Task::default() };
    let Outcome::Done(figures) = bench(small()).measure(&task).expect("it runs") else { panic!("skipped") };
    assert!(figures.read_bytes > 0 && figures.read_bytes == figures.write_bytes);
    let refused = |task: Task| task.fault().expect("refused");
    assert!(refused(Task { access_size: 64, ..task.clone() }).contains("multiple of 128"));
    assert!(refused(Task { kind: Kind::Timed, ..task.clone() }).contains("without a mix"));
    assert!(refused(Task { mix: Mix::Readers(1), ..task }).contains("without a mix"));
}

#[test]
fn mixes_and_ways_are_as_asked() {
    let mut bench = bench(small());
    let mut figures = |task: Task| match bench.measure(&task).expect("it runs") {
        Outcome::Done(figures) => *figures,
        Outcome::Skipped(reason) => panic!("{reason}"),
    };
    let mixed = figures(Task {
        op: Op::Store,
        mix: Mix::Turns { reads: 3, writes: 1 },
        access_size: 256,
        region: 1 << 20,
        ..Task::default()
    });
    let share = mixed.read_bytes as f64 / (mixed.read_bytes + mixed.write_bytes) as f64;
    assert!((share - 0.75).abs() < 0.01, "{share}");
    assert!(mixed.gb_per_s_range.is_some_and(|(low, high)| low <= high));
    for raw in Raw::ALL {
        for (op, pattern) in [(Op::Ntstore, Pattern::Random), (Op::StoreClwb, Pattern::Sequential)] {
            let task =
                Task { kind: Kind::ReadAfterWrite, op, pattern, raw: *raw, region: 8192, ..Task::default() };
            let after = figures(task);
            assert_eq!(after.write_ns.is_some(), *raw != Raw::Combined);
            assert_eq!(after.read_bytes, after.write_bytes);
        }
    }
}

#[test]
fn a_region_shrinks_to_the_memory_there_is_and_says_so() {
    let mut bench = bench(small());
    let task = Task { access_size: 4096, region: 2 << 30, ..Task::default() };
    match bench.measure(&task).expect("it runs") {
        Outcome::Done(figures) => assert_eq!(figures.region, Some(8 << 20)),
        Outcome::Skipped(reason) => panic!("{reason}"),
    }
    let task = Task { access_size: 64 << 20, region: 2 << 30, ..Task::default() };
    let skipped = bench.measure(&task).expect("no failure");
    assert!(matches!(&skipped, Outcome::Skipped(reason) if reason.contains("memory")), "{skipped:?}");
}

#[test]
fn what_this_machine_does_not_have_is_skipped_with_the_reason() {
    let mut bench = bench(small());
    for (task, part) in [
        (Task { threads: 10_000, ..Task::default() }, "10000 threads"),
        (Task { dimms: 1, ..Task::default() }, "interleaved"),
    ] {
        match bench.measure(&task).expect("no failure") {
            Outcome::Skipped(reason) => assert!(reason.contains(part), "{reason}"),
            Outcome::Done(_) => panic!("{task:?} was done"),
        }
    }
    // On a machine with several nodes it is done.
    let far = Task { locality: Locality::Far, region: 1 << 20, ..Task::default() };
    if let Outcome::Skipped(reason) = bench.measure(&far).expect("no failure") {
        assert!(reason.contains("node"), "{reason}");
    }
}

#[test]
fn a_file_is_measured_and_gone_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scratch");
    let memory = RealMemory {
        placement: Placement::File(path.clone()),
        interleave: Some(Interleave { dimms: 2, bytes: 4096 }),
        ..small()
    };
    let mut bench = bench(memory);
    let task = Task { op: Op::StoreClwb, region: 1 << 20, dimms: 1, ..Task::default() };
    assert!(matches!(bench.measure(&task).expect("it runs"), Outcome::Done(_)));
    assert!(path.exists());
    assert!(bench.subject().contains("scratch"));
    drop(bench);
    assert!(!path.exists());
}

#[test]
fn what_could_not_be_controlled_is_reported() {
    let bench = bench(small());
    assert!(bench.cautions().iter().any(|caution| caution.contains("Interrupts")), "{:?}", bench.cautions());
}

#[test]
fn times_of_single_accesses_come_with_the_timers_step() {
    let mut bench = bench(small());
    let task = Task { kind: Kind::IdleLatency, samples: 1000, region: 1 << 20, ..Task::default() };
    let Outcome::Done(figures) = bench.measure(&task).expect("it runs") else {
        panic!("it is possible everywhere")
    };
    let step = figures.latency.expect("it was timed").timer_step.expect("a real timer");
    let mentioned = bench.cautions().iter().any(|caution| caution.contains("The timer advances in steps of"));
    assert_eq!(mentioned, step >= 2.0, "{step} ns");
}
