//! Tasks on a modelled machine whose figures are known beforehand.

use measure::{Bench, Figures, Kind, Locality, Mix, Model, Op, Outcome, Pattern, Raw, Setting, Study, Task};

const EVENTS: u64 = 40_000;

fn bench() -> Model {
    Model::new(&crate::common::simple()).with_events(EVENTS)
}

fn figures(task: &Task) -> Figures {
    match bench().measure(task).expect("it can be measured") {
        Outcome::Done(figures) => *figures,
        Outcome::Skipped(reason) => panic!("skipped: {reason}"),
    }
}

fn within(value: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&value), "{value} is not between {low} and {high}");
}

#[test]
fn an_idle_load_is_the_sum_of_its_way() {
    for pattern in [Pattern::Sequential, Pattern::Random] {
        let task = Task { kind: Kind::IdleLatency, pattern, samples: 2000, ..Task::default() };
        let latency = figures(&task).latency.expect("it was timed");
        // Caches; controller, device and its transfer, controller; the fence. `docs/new-device.md` has the
        // sum.
        let sum = 2.275 + 4.095 + 25.0 + 10.0 + 200.0 + 10.0 + 10.0 + 15.0;
        within(latency.mean, sum, sum + 2.0);
        within(latency.max - latency.min, 0.0, 5.0);
        assert_eq!(latency.samples, 1875, "the first sixteenth is not counted");
    }
}

#[test]
fn reads_saturate_what_the_dimms_can_move() {
    // Two DIMMs at 64 B per 10 ns: 12.8 GB/s.
    let task = Task { threads: 8, access_size: 256, ..Task::default() };
    let many = figures(&task);
    within(many.gb_per_s.expect("a rate"), 11.5, 12.81);
    assert_eq!(many.write_bytes, 0);
    assert_eq!(many.dimms.len(), 2);
    let moved = many.traffic.expect("traffic").controller_read_bytes;
    // What is under way at either end of the time.
    within(moved as f64 / many.read_bytes as f64, 0.97, 1.03);
    let one = figures(&Task { threads: 1, ..task });
    assert!(one.gb_per_s < many.gb_per_s, "{:?} {:?}", one.gb_per_s, many.gb_per_s);
}

#[test]
fn a_region_of_which_only_some_lines_are_used_says_so() {
    let task = Task { kind: Kind::ReadAfterWrite, op: Op::Ntstore, region: 256 << 30, ..Task::default() };
    let measured = |pattern| {
        let few =
            Model::new(&crate::common::simple()).with_events(6000).measure(&Task { pattern, ..task.clone() });
        match few.expect("it can be measured") {
            Outcome::Done(figures) => (figures.region, figures.sampled_lines),
            Outcome::Skipped(reason) => panic!("skipped: {reason}"),
        }
    };
    assert_eq!(measured(Pattern::Random), (None, Some(500)));
    assert_eq!(measured(Pattern::Sequential), (Some(500 * 64), None));
    let whole = figures(&Task { pattern: Pattern::Random, region: 1 << 16, ..task });
    assert_eq!((whole.region, whole.sampled_lines), (None, None));
}

#[test]
fn a_thread_that_never_comes_to_its_dimms_is_skipped_with_the_reason() {
    let task = Task { dimms: 1, threads: 2, stride: Some(8192), region: 1 << 20, ..Task::default() };
    match bench().measure(&task).expect("it is a task") {
        Outcome::Skipped(reason) => assert!(reason.starts_with("thread 1 keeps to the 1 DIMM"), "{reason}"),
        Outcome::Done(figures) => panic!("{figures:?}"),
    }
}

#[test]
fn a_single_sample_is_one() {
    let task = Task { kind: Kind::IdleLatency, samples: 1, ..Task::default() };
    assert_eq!(figures(&task).latency.map(|latency| latency.samples), Some(1));
}

#[test]
fn writes_reach_memory_by_every_way() {
    for op in [Op::Ntstore, Op::StoreClwb, Op::Store] {
        let task = Task { op, threads: 2, access_size: 256, region: 64 << 20, ..Task::default() };
        let written = figures(&task);
        let sent = written.traffic.expect("traffic").controller_write_bytes as f64;
        within(sent / written.write_bytes as f64, 0.93, 1.07);
        assert_eq!(written.ewr, Some(1.0), "{op}: the device's unit is a line");
    }
}

#[test]
fn a_copy_reads_one_half_and_writes_the_other() {
    let task = Task { op: Op::Copy, access_size: 4096, region: 64 << 20, ..Task::default() };
    let copied = figures(&task);
    assert_eq!(copied.read_bytes, copied.write_bytes);
    // Both halves are read, the second because it is stored to.
    let read = copied.traffic.expect("traffic").controller_read_bytes as f64;
    within(read / copied.read_bytes as f64, 1.9, 2.1);
}

#[test]
fn a_fence_costs_and_fewer_fences_cost_less() {
    let rate = |fence_every| {
        let task = Task { op: Op::Ntstore, fence_every, ..Task::default() };
        figures(&task).gb_per_s.expect("a rate")
    };
    let (each, some, none) = (rate(1), rate(8), rate(0));
    assert!(each < some && some < none, "{each} {some} {none}");
    // One line at a time, each until it is accepted.
    within(64.0 / each, 60.0, 130.0);
}

#[test]
fn flushing_at_the_end_writes_the_same_bytes() {
    for flush_every in [64, 1024, 1 << 20] {
        let task = Task { op: Op::StoreClwb, access_size: 4096, flush_every, ..Task::default() };
        let written = figures(&task);
        let sent = written.traffic.expect("traffic").controller_write_bytes as f64;
        within(sent / written.write_bytes as f64, 0.95, 1.05);
    }
}

#[test]
fn mixes_have_their_shares() {
    let share = |mix| {
        let task = Task { op: Op::Ntstore, threads: 4, mix, access_size: 256, ..Task::default() };
        let figures = figures(&task);
        figures.read_bytes as f64 / (figures.read_bytes + figures.write_bytes) as f64
    };
    within(share(Mix::Turns { reads: 3, writes: 1 }), 0.74, 0.76);
    within(share(Mix::Turns { reads: 0, writes: 1 }), 0.0, 0.0);
    within(share(Mix::Readers(4)), 1.0, 1.0);
    within(share(Mix::Readers(2)), 0.05, 0.95);
}

#[test]
fn threads_that_keep_to_one_dimm_leave_the_other_alone() {
    let task = Task { pattern: Pattern::Random, dimms: 1, threads: 1, ..Task::default() };
    let bytes: Vec<u64> = figures(&task).dimms.iter().map(|dimm| dimm.controller_read_bytes).collect();
    assert!(bytes[0] > 0 && bytes[1] == 0, "{bytes:?}");
}

#[test]
fn delays_lower_the_load_and_with_it_the_latency() {
    let at = |ns| {
        let task = Task {
            kind: Kind::LoadedLatency,
            threads: 6,
            delay: machine::Time::from_ns(ns),
            pattern: Pattern::Random,
            ..Task::default()
        };
        let figures = figures(&task);
        (figures.gb_per_s.expect("a rate"), figures.latency.expect("it was timed").mean)
    };
    let (busy, idle) = (at(0), at(5000));
    assert!(busy.0 > 3.0 * idle.0 && busy.1 > 1.2 * idle.1, "{busy:?} {idle:?}");
    within(idle.1, 230.0, 300.0);
}

#[test]
fn reads_after_writes_are_timed_by_line() {
    let at = |raw| {
        let task =
            Task { kind: Kind::ReadAfterWrite, op: Op::Ntstore, raw, region: 1 << 16, ..Task::default() };
        figures(&Task { pattern: Pattern::Random, ..task }).line_ns.expect("it was timed")
    };
    let (separate, combined, chase) = (at(Raw::Separate), at(Raw::Combined), at(Raw::Chase));
    within(chase, 230.0, 290.0);
    assert!(separate < chase / 3.0, "{separate}: independent reads overlap");
    // The write is accepted after 60 ns; the read finds its line still in the write queue.
    within(combined, 90.0, 230.0);
}

#[test]
fn the_probe_of_the_buffer_writes_each_line_once_a_round() {
    let task = Task {
        kind: Kind::BufferProbe,
        op: Op::StoreClwb,
        access_size: 256,
        region: 8192,
        ..Task::default()
    };
    let probed = figures(&task);
    assert_eq!(probed.ewr, Some(1.0), "the device's unit is a line");
    let traffic = probed.traffic.expect("traffic");
    assert_eq!(traffic.controller_write_bytes, probed.write_bytes);
    assert_eq!(traffic.controller_read_bytes, probed.write_bytes, "a line thrown out is read again");
}

#[test]
fn what_the_machine_does_not_have_is_skipped_with_the_reason() {
    for (task, part) in [
        (Task { threads: 9, ..Task::default() }, "8"),
        (Task { kind: Kind::LoadedLatency, threads: 8, ..Task::default() }, "9 threads"),
        (Task { dimms: 3, ..Task::default() }, "2 DIMMs"),
        (Task { dimms: 1, access_size: 8192, ..Task::default() }, "4096 B"),
        (Task { locality: Locality::Far, ..Task::default() }, "one socket"),
    ] {
        match bench().measure(&task).expect("no failure") {
            Outcome::Skipped(reason) => assert!(reason.contains(part), "{reason}"),
            Outcome::Done(_) => panic!("{task:?} was done"),
        }
    }
    assert!(bench().measure(&Task { threads: 0, ..Task::default() }).is_err());
}

#[test]
fn every_study_runs_and_gives_the_same_figures_twice() {
    for mut study in Study::all() {
        // The ends of each axis, in small regions.
        study.axis = [study.axis.first(), study.axis.last()].into_iter().flatten().copied().collect();
        if study.base.region > 1 << 20 {
            study.base.region = 1 << 20;
        }
        for point in study.points() {
            if matches!(point.x, Setting::AccessSize(bytes) if bytes > 1 << 20) {
                continue;
            }
            let run = || Model::new(&crate::common::simple()).with_events(4000).measure(&point.task);
            let (first, second) = (run().expect("it runs"), run().expect("it runs"));
            assert_eq!(first, second, "{} {} {}", study.name, point.series, point.x);
        }
    }
}
