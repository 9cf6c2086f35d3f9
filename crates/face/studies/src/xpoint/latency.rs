//! Idle latencies, their spread, and the rare long ones.

use report::{Axis, Curve, Unit};

use crate::published::{self, column};
use crate::{Access, Check, Evidence, Lab, Means, Op, Order, Row, Series, Source, StudyError, Tail};

/// Rows 1 to 5, and the study of hot regions.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-1",
        claim: "Reads take 2 to 3 times as long as on DRAM",
        expected: "sequential 2.08x, random 3.00x (169.4/81.4 ns, 305.0/101.5 ns)",
        tolerance: "10 %: the latencies are calibration inputs, the ratio must come out of them",
        method: "idle latency of 8-byte loads, xpoint over dram",
        calibration: "the four idle latencies of loads were met by choosing latencies of the device and of DRAM's controller",
        note: "",
        means: Means::Model(reads_against_dram),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-2",
        claim: "Random reads are slower than sequential ones: by 20 % on DRAM, by 80 % on 3D XPoint",
        expected: "0.80 on xpoint; 0.20 (text) or 0.25 (released data) on dram",
        tolerance: "0.10 of the ratio: the published error bars of sequential reads are 30 to 40 %",
        method: "idle latency of 8-byte loads, random over sequential, less 1",
        calibration: "the four idle latencies of loads were met by choosing latencies of the device and of DRAM's controller",
        note: "",
        means: Means::Model(random_against_sequential),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-3",
        claim: "Stores take about as long as on DRAM; ntstore takes longer than store+clwb",
        expected: "ntstore 90.4/86.9 ns, store+clwb 62.3/57.3 ns",
        tolerance: "10 %: calibration inputs",
        method: "idle latency of ntstore+mfence and of store+clwb+mfence on a cached line, xpoint and dram",
        calibration: "the idle latencies of stores are among the calibration series (write_accept of both memories)",
        note: "",
        means: Means::Model(stores_against_dram),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-4",
        claim: "Latencies vary little, except those of sequential reads",
        expected: "deviation over mean: sequential read 0.40, random read, ntstore and store+clwb 0.09 each",
        tolerance: "sequential 0.25 to 0.60, others at most 0.15: it is not said what the published bars are, and \
                    noise of the computer around the DIMM is not modelled",
        method: "standard deviation of the idle latencies on xpoint",
        calibration: "",
        note: "",
        means: Means::Model(spread),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-5",
        claim: "0.006 % of accesses take about 100 times as long, many over 50 us; fewer in a larger hot region; none on DRAM",
        expected: "share 6e-5 at 256 B, over 50 us; rarer at 1 MiB; none on DRAM",
        tolerance: "share within a factor of 2: published periods of one stall span 13,400 to 18,700 writes; 53 us within \
                    15 %; on DRAM nothing over 5 us",
        method: "ntstore of 256 B and a fence, over and over in a hot region; stalls take over 5 us and ten times the median",
        calibration: "the number of writes between two stalls and the length of a stall were chosen on this series (wear.hot, wear.stall)",
        note: "",
        means: Means::Model(outliers),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-hot-spot",
        claim: "Stalls get rarer as the hot region grows and are gone from the 99.999th percentile by 128 KiB",
        expected: "99.999 %: 47 to 53 us up to 32 KiB, 18.5 us at 64 KiB, 0.4 us from 128 KiB on",
        tolerance: "15 % on the height up to 32 KiB (calibrated); the position within one step (64 to 256 KiB)",
        method: "as xpoint-5, by size of the region",
        calibration: "wear.hot, wear.epoch, wear.stall and the thermal pauses were chosen on this series",
        note: "",
        means: Means::Model(hot_regions),
        lacks: "",
    },
];

fn reads_against_dram(lab: &Lab) -> Result<Evidence, StudyError> {
    let ratio = |order| -> Result<f64, StudyError> {
        let xpoint = lab.idle(&Access::on("xpoint").op(Op::Load).order(order))?;
        let dram = lab.idle(&Access::on("dram").op(Op::Load).order(order))?;
        Ok(xpoint.mean_ns / dram.mean_ns)
    };
    let (sequential, random) = (ratio(Order::Sequential)?, ratio(Order::Random)?);
    Ok(Evidence::of(vec![
        Check::at_least("random ratio over sequential ratio", 1.0, random / sequential),
        Check::between("sequential ratio, 2 to 3 and 10 %", 1.8, 3.3, sequential),
        Check::between("random ratio, 2 to 3 and 10 %", 1.8, 3.3, random),
        Check::near("sequential ratio", 2.08, 0.10, sequential),
        Check::near("random ratio", 3.00, 0.10, random),
    ]))
}

fn random_against_sequential(lab: &Lab) -> Result<Evidence, StudyError> {
    let gap = |machine| -> Result<f64, StudyError> {
        let random = lab.idle(&Access::on(machine).op(Op::Load).order(Order::Random))?;
        let sequential = lab.idle(&Access::on(machine).op(Op::Load).order(Order::Sequential))?;
        Ok(random.mean_ns / sequential.mean_ns - 1.0)
    };
    let (xpoint, dram) = (gap("xpoint")?, gap("dram")?);
    Ok(Evidence::of(vec![
        Check::at_least("gap on xpoint over gap on dram", 2.0, xpoint / dram),
        Check::within("gap on xpoint", 0.70, 0.90, xpoint),
        Check::within("gap on dram", 0.10, 0.35, dram),
    ]))
}

fn stores_against_dram(lab: &Lab) -> Result<Evidence, StudyError> {
    let idle =
        |machine, op| lab.idle(&Access::on(machine).op(op).order(Order::Random)).map(|idle| idle.mean_ns);
    let (nt, clwb) = (idle("xpoint", Op::Ntstore)?, idle("xpoint", Op::StoreClwb)?);
    let (nt_dram, clwb_dram) = (idle("dram", Op::Ntstore)?, idle("dram", Op::StoreClwb)?);
    Ok(Evidence::of(vec![
        Check::at_least("ntstore over store+clwb, xpoint", 1.1, nt / clwb),
        Check::at_least("ntstore over store+clwb, dram", 1.1, nt_dram / clwb_dram),
        Check::between("ntstore, xpoint over dram", 0.85, 1.20, nt / nt_dram),
        Check::between("store+clwb, xpoint over dram", 0.85, 1.20, clwb / clwb_dram),
        Check::near("ntstore on xpoint, ns", 90.4, 0.10, nt),
        Check::near("store+clwb on xpoint, ns", 62.3, 0.10, clwb),
        Check::near("ntstore on dram, ns", 86.9, 0.10, nt_dram),
        Check::near("store+clwb on dram, ns", 57.3, 0.10, clwb_dram),
    ]))
}

fn spread(lab: &Lab) -> Result<Evidence, StudyError> {
    let spread = |op, order| -> Result<f64, StudyError> {
        let idle = lab.idle(&Access::on("xpoint").op(op).order(order))?;
        Ok(idle.deviation_ns / idle.mean_ns)
    };
    let sequential = spread(Op::Load, Order::Sequential)?;
    let random = spread(Op::Load, Order::Random)?;
    Ok(Evidence::of(vec![
        Check::at_least("sequential over random read", 2.0, sequential / random),
        Check::within("sequential read", 0.25, 0.60, sequential),
        Check::within("random read", 0.0, 0.15, random),
        Check::within("ntstore", 0.0, 0.15, spread(Op::Ntstore, Order::Random)?),
        Check::within("store+clwb", 0.0, 0.15, spread(Op::StoreClwb, Order::Random)?),
    ]))
}

fn outliers(lab: &Lab) -> Result<Evidence, StudyError> {
    let (small, large) = (lab.tail("xpoint", 256)?, lab.tail("xpoint", 1 << 20)?);
    let dram = lab.tail("dram", 256)?;
    Ok(Evidence::of(vec![
        Check::at_least("longest over common, 256 B", 50.0, small.max_us / small.common_us),
        Check::at_most("share at 1 MiB over share at 256 B", 0.25, large.slow_share / small.slow_share),
        Check::at_most("longest on dram, us", 5.0, dram.max_us),
        Check::within("share of stalls, 256 B", 3e-5, 12e-5, small.slow_share),
        Check::near("longest, us", 53.0, 0.15, small.max_us),
    ]))
}

fn hot_regions(lab: &Lab) -> Result<Evidence, StudyError> {
    let regions: Vec<u32> = (8..=24).map(|power| 1 << power).collect();
    let tails: Vec<Tail> =
        regions.iter().map(|region| lab.tail("xpoint", u64::from(*region))).collect::<Result<_, _>>()?;
    let curve = |name: &str, value: fn(&Tail) -> f64, published: &str| Curve {
        name: name.to_owned(),
        points: regions.iter().zip(&tails).map(|(region, tail)| (f64::from(*region), value(tail))).collect(),
        published: column(published::TAIL, published),
    };
    let curves = vec![
        curve("99.99 %", |tail| tail.p9999_us, "99.99%"),
        curve("99.999 %", |tail| tail.p99999_us, "99.999%"),
        curve("longest", |tail| tail.max_us, "Max"),
    ];
    let (common, rare) = (Series(curves[0].points.clone()), Series(curves[1].points.clone()));
    let low = rare.part(256.0, 32_768.0);
    let gone = rare.0.iter().find(|point| point.1 < 2.0).map_or(f64::INFINITY, |point| point.0);
    let checks = vec![
        Check::between("region from which 99.999 % is below 2 us, bytes", 65_536.0, 262_144.0, gone),
        Check::at_most("99.99 % at its highest, us", 2.0, common.max()),
        Check::near("99.999 % up to 32 KiB, highest, us", 52.7, 0.15, low.max()),
        Check::near("99.999 % up to 32 KiB, lowest, us", 47.6, 0.15, low.min()),
    ];
    let (x, y) = (Axis::log("hot region", Unit::Bytes), Axis::log("latency, us", Unit::Number));
    Ok(Evidence {
        checks,
        charts: vec![crate::chart("Latency of 256 B stores in a hot region", x, y, curves)],
    })
}
