//! Latency under load, and readers beside writers.

use report::{Axis, Unit};

use crate::{Access, Check, Evidence, Lab, Means, Op, Order, Row, Series, Source, StudyError};

/// The studies under load, by split of readers and writers, and by power.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-load",
        claim: "Latency under load is a hockey stick; 3D XPoint meets its wall earlier and higher than DRAM and, unlike \
                DRAM, earlier for random than for sequential accesses",
        expected: "latency at the wall well over idle; walls of random and sequential accesses far apart",
        tolerance: "shapes only, no values were stated: at least twice the idle latency at the wall; sequential over random \
                    bandwidth at least 1.5, on DRAM at most 1.3",
        method: "16 threads of 64 B loads, 4 of ntstores, with 0 to 8 us between accesses",
        calibration: "",
        note: "memory.timing.write_queue was looked at again after this row had missed (docs/calibration.md)",
        means: Means::Model(under_load),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-split",
        claim: "With 16 threads split into readers and writers 3D XPoint is strongly asymmetric; PMEP and remote DRAM mislead",
        expected: "16 readers far above 16 writers; the emulators' curves differ",
        tolerance: "shapes only: readers over writers at least 2.5 (one DIMM's ratio is 2.9) against at most 1.8 on DRAM; an \
                    emulator misleads if its curve, over its value for readers only, is 25 % off at half of the splits",
        method: "total bandwidth of 16 threads, 0 to 16 of them writing, sequential 256 B ntstore, on xpoint, dram, \
                 dram-remote and pmep",
        calibration: "",
        note: "",
        means: Means::Model(splits),
        lacks: "DRAM in the model writes at a lower share of its read bandwidth than the published machine",
    },
];

/// Latency in ns by bandwidth in GB/s as the delay between accesses shrinks.
fn loaded(lab: &Lab, machine: &'static str, op: Op, order: Order) -> Result<Series, StudyError> {
    let threads = if op == Op::Load { 16 } else { 4 };
    let points = [8000, 2000, 1000, 500, 250, 125, 60, 30, 0].iter().map(|delay| {
        let access = Access::on(machine).op(op).order(order).bytes(64).threads(threads).delay_ns(*delay);
        lab.run(&access).map(|run| (run.gbps, run.latency_ns))
    });
    points.collect::<Result<_, _>>().map(Series)
}

fn under_load(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut evidence = Evidence::default();
    for (op, name) in [(Op::Load, "Read"), (Op::Ntstore, "Write(ntstore)")] {
        let xpoint = loaded(lab, "xpoint", op, Order::Sequential)?;
        let random = loaded(lab, "xpoint", op, Order::Random)?;
        let dram = loaded(lab, "dram", op, Order::Sequential)?;
        let dram_random = loaded(lab, "dram", op, Order::Random)?;
        let wall = |series: &Series| series.0.iter().map(|point| point.0).fold(0.0, f64::max);
        let check = |what: &str| format!("{name}: {what}");
        evidence.checks.extend([
            Check::at_most(&check("random wall, xpoint over dram"), 0.7, wall(&random) / wall(&dram_random)),
            Check::at_least(&check("random latency at the wall over idle"), 2.0, random.max() / random.min()),
            Check::at_least(
                &check("random latency at the wall, xpoint over dram"),
                1.5,
                random.max() / dram_random.max(),
            ),
            Check::at_least(&check("sequential over random wall"), 1.5, wall(&xpoint) / wall(&random)),
            Check::at_most(
                &check("sequential over random wall, dram"),
                1.3,
                wall(&dram) / wall(&dram_random),
            ),
        ]);
        evidence.charts.push(crate::chart(
            &format!("Latency under load, {name}"),
            Axis::linear("bandwidth, GB/s"),
            Axis::log("latency", Unit::Nanoseconds),
            vec![
                crate::curve("xpoint, sequential", &xpoint),
                crate::curve("xpoint, random", &random),
                crate::curve("dram, sequential", &dram),
                crate::curve("dram, random", &dram_random),
            ],
        ));
    }
    Ok(evidence)
}

/// Total bandwidth by number of writers among 16 threads.
fn by_writers(lab: &Lab, machine: &'static str) -> Result<Series, StudyError> {
    Series::measure(&[0u32, 2, 4, 6, 8, 10, 12, 14, 16], |writers| {
        let access = Access::on(machine).op(Op::Ntstore).bytes(256).threads(16).readers(16 - writers);
        lab.run(&access).map(|run| run.gbps)
    })
}

fn splits(lab: &Lab) -> Result<Evidence, StudyError> {
    let (xpoint, dram) = (by_writers(lab, "xpoint")?, by_writers(lab, "dram")?);
    let (remote, pmep) = (by_writers(lab, "dram-remote")?, by_writers(lab, "pmep")?);
    let asymmetry = |series: &Series| series.at(0.0) / series.at(16.0);
    // The share of the splits with writers at which one would expect something else of 3D XPoint.
    let misled = |series: &Series| {
        let off = |at: f64| (series.at(at) / series.at(0.0)) / (xpoint.at(at) / xpoint.at(0.0)) - 1.0;
        let splits = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0];
        splits.iter().map(|at| if off(*at).abs() > 0.25 { 0.125 } else { 0.0 }).sum()
    };
    let checks = vec![
        Check::at_least("readers only over writers only, xpoint", 2.5, asymmetry(&xpoint)),
        Check::at_most("readers only over writers only, dram", 1.8, asymmetry(&dram)),
        Check::at_least("share of splits at which remote DRAM misleads", 0.5, misled(&remote)),
        Check::at_least("share of splits at which PMEP misleads", 0.5, misled(&pmep)),
    ];
    let curves = [("xpoint", &xpoint), ("dram", &dram), ("dram-remote", &remote), ("pmep", &pmep)];
    let chart = crate::chart(
        "Bandwidth of 16 threads by how many of them write",
        Axis::linear("writers"),
        Axis::linear("bandwidth, GB/s"),
        curves.map(|(name, series)| crate::curve(name, series)).into(),
    );
    Ok(Evidence { checks, charts: vec![chart] })
}
