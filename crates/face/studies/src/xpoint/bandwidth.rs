//! Bandwidth by threads.

use report::{Axis, Curve, Curves};

use crate::published::{self, column};
use crate::{Access, Check, Evidence, Lab, Means, Op, Row, Series, Source, StudyError};

/// Thread counts that are measured: all where peaks are narrow, fewer above.
pub(super) const THREADS: [u32; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24];

/// Rows 6 to 8, and the studies by threads.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-6",
        claim: "One DIMM peaks at 6.6 GB/s reading and 2.3 GB/s writing, a ratio of 2.9; DRAM's ratio is 1.3",
        expected: "6.6 GB/s, 2.3 GB/s, 2.9; 1.3",
        tolerance: "10 %: calibration inputs; DRAM's ratio to 15 %, text 1.3, released data 1.37",
        method: "highest bandwidth over 1 to 24 threads, sequential 256 B, xpoint-one-dimm and dram",
        calibration: "media.transfer, power.read and power.write were chosen on one DIMM's bandwidth by threads",
        note: "",
        means: Means::Model(one_dimm_peaks),
        lacks: "DRAM in the model writes at a lower share of its read bandwidth than the published machine",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-7",
        claim: "Six interleaved DIMMs give 5.8 times one DIMM's read and 5.6 times its write bandwidth",
        expected: "5.8x, 5.6x",
        tolerance: "10 %: six is the bound, and below 5 interleaving would lose noticeably",
        method: "highest bandwidth over 1 to 24 threads, sequential 256 B, xpoint over xpoint-one-dimm",
        calibration: "",
        note: "",
        means: Means::Model(interleaving),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-8",
        claim: "One DIMM peaks at 1 to 4 threads, six with store+clwb at 12; reads on six rise monotonically",
        expected: "1 to 4; 8 (released data) to 12 (text); no fall",
        tolerance: "the ranges as published; a fall of up to 3 % counts as none",
        method: "the fewest threads within 3 % of the highest bandwidth, sequential 256 B",
        calibration: "the part about one DIMM: media and power constants were chosen on its bandwidth by threads",
        note: "",
        means: Means::Model(peak_threads),
        lacks: "See xpoint-s-threads-six",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-threads-one",
        claim: "On one DIMM reads rise to 3 or 4 threads, stay, then fall; ntstore peaks at 1 thread, store+clwb at 2 to 3",
        expected: "released series; at 24 threads reads are at 0.60, ntstore at 0.36, store+clwb at 0.46 of their peaks",
        tolerance: "15 % mean error over each series: calibration input; what is left at 24 threads to 25 %",
        method: "bandwidth by threads, sequential 256 B, xpoint-one-dimm",
        calibration: "media.transfer, power.read, power.write, combining.lines, memory.timing.read_crowd and l1.miss_registers were chosen on these curves",
        note: "",
        means: Means::Model(one_dimm),
        lacks: "Stores get slower from five threads on, as they should, but ntstore by too little",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-threads-six",
        claim: "On six DIMMs reads rise monotonically and saturate at 17 threads or more, ntstore peaks at about 4, \
                store+clwb at 8 to 12; DRAM rises to saturation",
        expected: "17; 4; 8 to 12; no fall on DRAM",
        tolerance: "one step of the axis on either side (12 to 24; 3 to 6); a fall of up to 3 % counts as none",
        method: "bandwidth by threads, sequential 256 B, xpoint and dram",
        calibration: "",
        note: "memory.timing.read_queue was looked at again after this row's reads had fallen at 24 threads (docs/calibration.md)",
        means: Means::Model(six_dimms),
        lacks: "The peak of store+clwb lies where the threads' own pace, a flush and then the next store, meets what the DIMMs take",
    },
];

/// The three operations of the figures, with their names there.
pub(super) const OPS: [(Op, &str); 3] =
    [(Op::Load, "Read"), (Op::Ntstore, "Write(ntstore)"), (Op::StoreClwb, "Write(clwb)")];

/// Bandwidth by threads.
fn by_threads(lab: &Lab, machine: &'static str, op: Op) -> Result<Series, StudyError> {
    Series::measure(&THREADS, |threads| {
        lab.run(&Access::on(machine).op(op).bytes(256).threads(threads)).map(|run| run.gbps)
    })
}

/// Read, ntstore and store+clwb.
fn all(lab: &Lab, machine: &'static str) -> Result<[Series; 3], StudyError> {
    Ok([
        by_threads(lab, machine, Op::Load)?,
        by_threads(lab, machine, Op::Ntstore)?,
        by_threads(lab, machine, Op::StoreClwb)?,
    ])
}

fn thread_chart(title: &str, measured: &[Series], table: &str) -> Curves {
    let curves = measured
        .iter()
        .zip(OPS)
        .map(|(series, (_, name))| Curve { published: column(table, name), ..crate::curve(name, series) });
    crate::chart(title, Axis::linear("threads"), Axis::linear("bandwidth, GB/s"), curves.collect())
}

fn one_dimm_peaks(lab: &Lab) -> Result<Evidence, StudyError> {
    let [read, nt, _] = all(lab, "xpoint-one-dimm")?;
    let [dram_read, dram_nt, _] = all(lab, "dram")?;
    let (ratio, dram_ratio) = (read.max() / nt.max(), dram_read.max() / dram_nt.max());
    Ok(Evidence::of(vec![
        Check::at_least("read over write, xpoint over dram", 1.5, ratio / dram_ratio),
        Check::near("read, GB/s", 6.6, 0.10, read.max()),
        Check::near("write, GB/s", 2.3, 0.10, nt.max()),
        Check::near("read over write", 2.9, 0.10, ratio),
        Check::near("read over write, dram", 1.3, 0.15, dram_ratio),
    ]))
}

fn interleaving(lab: &Lab) -> Result<Evidence, StudyError> {
    let [read, nt, clwb] = all(lab, "xpoint")?;
    let [read_one, nt_one, clwb_one] = all(lab, "xpoint-one-dimm")?;
    let reads = read.max() / read_one.max();
    let writes = nt.max().max(clwb.max()) / nt_one.max().max(clwb_one.max());
    Ok(Evidence::of(vec![
        Check::between("gain of reads", 4.0, 6.1, reads),
        Check::between("gain of writes", 4.0, 6.1, writes),
        Check::near("gain of reads", 5.8, 0.10, reads),
        Check::near("gain of writes", 5.6, 0.10, writes),
    ]))
}

fn peak_threads(lab: &Lab) -> Result<Evidence, StudyError> {
    let one = all(lab, "xpoint-one-dimm")?;
    let [read, _, clwb] = all(lab, "xpoint")?;
    let mut checks: Vec<Check> = one
        .iter()
        .zip(OPS)
        .map(|(series, (_, name))| {
            Check::between(&format!("one DIMM, {name}: peak, threads"), 1.0, 4.0, series.peak())
        })
        .collect();
    checks.push(Check::between("six DIMMs, Write(clwb): peak, threads", 8.0, 12.0, clwb.peak()));
    checks.push(Check::at_most("six DIMMs, Read: fall", 0.03, read.fall()));
    Ok(Evidence::of(checks))
}

fn one_dimm(lab: &Lab) -> Result<Evidence, StudyError> {
    let measured = all(lab, "xpoint-one-dimm")?;
    let [read, nt, clwb] = &measured;
    let mut checks = vec![
        Check::between("Read: peak, threads", 3.0, 4.0, read.peak()),
        Check::at_most("Read: fall from the peak to 8 threads", 0.10, 1.0 - read.at(8.0) / read.max()),
        Check::between("Write(ntstore): peak, threads", 1.0, 1.0, nt.peak()),
        Check::between("Write(clwb): peak, threads", 2.0, 3.0, clwb.peak()),
    ];
    for ((series, (_, name)), left) in measured.iter().zip(OPS).zip([0.60, 0.36, 0.46]) {
        let (what, got) = (format!("{name}: 24 threads over peak"), series.at(24.0) / series.max());
        checks.push(Check::at_most(&what, 0.85, got));
        checks.push(Check::near(&what, left, 0.25, got));
        let error = series.error(&column(published::ONE_DIMM, name));
        checks.push(Check::within(&format!("{name}: mean error"), 0.0, 0.15, error));
    }
    let chart = thread_chart("Bandwidth by threads, one DIMM", &measured, published::ONE_DIMM);
    Ok(Evidence { checks, charts: vec![chart] })
}

fn six_dimms(lab: &Lab) -> Result<Evidence, StudyError> {
    let (measured, dram) = (all(lab, "xpoint")?, all(lab, "dram")?);
    let [read, nt, clwb] = &measured;
    let mut checks = vec![
        Check::at_most("Read: fall", 0.03, read.fall()),
        Check::between("Read: saturation, threads", 12.0, 24.0, read.peak()),
        Check::between("Write(ntstore): peak, threads", 3.0, 6.0, nt.peak()),
        Check::between("Write(clwb): peak, threads", 8.0, 12.0, clwb.peak()),
    ];
    for (series, (_, name)) in dram.iter().zip(OPS) {
        checks.push(Check::at_most(&format!("dram, {name}: fall"), 0.03, series.fall()));
    }
    let charts = vec![
        thread_chart("Bandwidth by threads, six DIMMs", &measured, ""),
        thread_chart("Bandwidth by threads, DRAM", &dram, published::DRAM),
    ];
    Ok(Evidence { checks, charts })
}
