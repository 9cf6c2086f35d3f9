//! Effective write ratio: small stores, the write-combining buffer's size, and its link to bandwidth.

use report::{Axis, Curve, Unit};

use crate::published::{self, column};
use crate::{Access, Check, Evidence, Lab, Means, Op, Order, Row, Series, Source, StudyError};

/// Rows 9, 10 and 19, and the studies of the effective write ratio.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-9",
        claim: "Random ntstores of one thread have an EWR of 0.25 at 64 B and of 0.98 at 256 B",
        expected: "0.25, 0.98; released data 0.49 at 128 B, 0.735 at 192 B",
        tolerance: "0.03: the ratio is a count and follows from the unit's size",
        method: "EWR of random ntstores, one thread, xpoint-one-dimm",
        calibration: "",
        note: "",
        means: Means::Model(small_stores),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-10",
        claim: "The XPBuffer holds about 16 KB, 64 lines: EWR is about 1 below, amplification is sharp above",
        expected: "1.04 up to 18 KiB, 1.36 at 20 KiB, 1.82 at 32 KiB, 2.04 at 64 KiB, 2.08 beyond",
        tolerance: "the knee within one step of the probe (14 to 20 KiB); 10 % mean error over the series from 1 KiB on: \
                    calibration input",
        method: "probe that writes the first half of every 256 B line of a region, then the second halves; xpoint-one-dimm",
        calibration: "buffer_replacement, combining.age and wear.gap_interval were chosen on this series",
        note: "",
        means: Means::Model(capacity),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-19",
        claim: "Sequential ntstores to one DIMM: EWR falls from 0.98 with 1 thread to 0.62 with 8",
        expected: "0.98; 0.62 (text), 0.60 to 0.86 (released sweep, unchanged bandwidth)",
        tolerance: "0.03 with 1 thread; with 8 threads the band of the released sweep",
        method: "EWR of sequential 256 B ntstores by 1 and 8 threads in private regions, xpoint-one-dimm",
        calibration: "",
        note: "",
        means: Means::Model(writers),
        lacks: "Writers push each other's units out of the combining queue before they are whole, from five on, but less than on the device: see xpoint-s-threads-one",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-ewr",
        claim: "Bandwidth of ntstores on one DIMM is nearly linear in EWR",
        expected: "MB/s = 2370 EWR - 70 with r2 = 0.97 (fit over 330 released points)",
        tolerance: "r2 at least 0.9: fewer points here; slope to 15 %; the constant within 10 % of the slope",
        method: "ntstores of 64 B to 4 KiB, random and sequential, by 1 to 24 threads, xpoint-one-dimm; least squares",
        calibration: "",
        note: "that completing a unit by reading takes no energy of its own was tried because this row was off (docs/calibration.md)",
        means: Means::Model(linear),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-power",
        claim: "Bandwidth scales with the power budget",
        expected: "released: 1.63 GB/s at 12.5 W, 2.28 at 15 W, 2.88 at 18 W, one thread, random 4 KiB ntstores",
        tolerance: "10 % on both ratios: a budget acts on the media alone",
        method: "the same on xpoint-one-dimm with other budgets",
        calibration: "power.idle was chosen on the measured effect of other budgets, so the row shows that the model holds its input",
        note: "",
        means: Means::Model(power),
        lacks: "",
    },
];

fn small_stores(lab: &Lab) -> Result<Evidence, StudyError> {
    let ewr = Series::measure(&[64u32, 128, 192, 256], |size| {
        let access = Access::on("xpoint-one-dimm").op(Op::Ntstore).order(Order::Random);
        lab.run(&access.bytes(u64::from(size))).map(|run| run.ewr)
    })?;
    let near = |size: f64, published: f64| {
        let what = format!("EWR at {size:.0} B");
        Check::within(&what, published - 0.03, published + 0.03, ewr.at(size))
    };
    Ok(Evidence::of(vec![
        Check::at_most("64 B over 256 B", 0.35, ewr.at(64.0) / ewr.at(256.0)),
        near(64.0, 0.25),
        near(128.0, 0.489),
        near(192.0, 0.735),
        near(256.0, 0.98),
    ]))
}

fn capacity(lab: &Lab) -> Result<Evidence, StudyError> {
    let published = column(published::WRITE_AMPLIFICATION, "WriteAmp");
    let mut measured = Series::default();
    for (region, _) in &published {
        // Regions are whole numbers of bytes.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        measured.0.push((*region, lab.probe("xpoint-one-dimm", *region as u64)?));
    }
    let knee = measured.0.iter().rfind(|point| point.1 < 1.2).map_or(f64::NAN, |point| point.0);
    let from_1k: Vec<_> = published.iter().copied().filter(|point| point.0 >= 1024.0).collect();
    let checks = vec![
        Check::between("largest region with amplification below 1.2, bytes", 14_336.0, 20_480.0, knee),
        Check::at_most("amplification from 1 KiB to 8 KiB", 1.15, measured.part(1024.0, 8192.0).max()),
        Check::at_least("amplification at 64 KiB", 1.7, measured.at(65_536.0)),
        Check::within("mean error from 1 KiB on", 0.0, 0.10, measured.error(&from_1k)),
        Check::near("amplification at 64 KiB", 2.04, 0.10, measured.at(65_536.0)),
    ];
    let curve = Curve { published, ..crate::curve("amplification", &measured) };
    let (x, y) = (Axis::log("region", Unit::Bytes), Axis::linear("bytes on media per byte written"));
    Ok(Evidence { checks, charts: vec![crate::chart("Half-line probe", x, y, vec![curve])] })
}

fn writers(lab: &Lab) -> Result<Evidence, StudyError> {
    let ewr = |threads| {
        lab.run(&Access::on("xpoint-one-dimm").op(Op::Ntstore).bytes(256).threads(threads)).map(|run| run.ewr)
    };
    let (one, eight) = (ewr(1)?, ewr(8)?);
    Ok(Evidence::of(vec![
        Check::at_most("8 threads over 1", 0.90, eight / one),
        Check::within("1 thread", 0.95, 1.01, one),
        Check::within("8 threads", 0.60, 0.86, eight),
    ]))
}

fn power(lab: &Lab) -> Result<Evidence, StudyError> {
    let budget = |watts| {
        let access = Access::on("xpoint-one-dimm").set("device.timing.power.average", watts);
        lab.run(&access.op(Op::Ntstore).order(Order::Random).bytes(4096)).map(|run| run.gbps)
    };
    let (low, middle, high) = (budget("12.5")?, budget("15.0")?, budget("18.0")?);
    Ok(Evidence::of(vec![
        Check::at_most("12.5 W over 15 W", 0.95, low / middle),
        Check::at_least("18 W over 15 W", 1.05, high / middle),
        Check::near("12.5 W over 15 W", 0.715, 0.10, low / middle),
        Check::near("18 W over 15 W", 1.263, 0.10, high / middle),
    ]))
}

fn linear(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut points = Series::default();
    for order in [Order::Sequential, Order::Random] {
        for size in [64, 128, 192, 256, 512, 1024, 4096] {
            for threads in [1, 2, 4, 8, 16, 24] {
                let access = Access::on("xpoint-one-dimm").op(Op::Ntstore).order(order);
                let run = lab.run(&access.bytes(size).threads(threads))?;
                points.0.push((run.ewr, run.gbps * 1000.0));
            }
        }
    }
    points.0.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (slope, constant, explained) = points.line();
    let checks = vec![
        Check::at_least("r2", 0.9, explained),
        Check::near("slope, MB/s", 2370.0, 0.15, slope),
        Check::within("constant, MB/s", -237.0, 237.0, constant),
    ];
    let line = |ewr: f64| (ewr, 2370.0 * ewr - 70.0);
    let published = (1..=10).map(|tenth| line(f64::from(tenth) / 10.0)).collect();
    let curve = Curve { published, ..crate::curve("ntstore", &points) };
    let (x, y) = (Axis::linear("EWR"), Axis::linear("bandwidth, MB/s"));
    Ok(Evidence { checks, charts: vec![crate::chart("Bandwidth by EWR, one DIMM", x, y, vec![curve])] })
}
