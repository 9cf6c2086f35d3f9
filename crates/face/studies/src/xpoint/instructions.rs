//! Which store instruction, how often a fence, and when to flush.

use report::{Axis, Unit};

use crate::{Access, Check, Evidence, Lab, Means, Op, Row, Series, Source, StudyError};

/// Rows 15 to 17; 16 and 17 are also the studies of write size and fence interval.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-15",
        claim: "Flushing each line after its store lifts EWR from 0.26 to 0.98, and bandwidth for sizes over 64 B",
        expected: "0.26, 0.98",
        tolerance: "0.26 to 0.10 (0.16 to 0.36: the order of evictions depends on an unpublished replacement policy); 0.98 to \
                    0.03",
        method: "sequential stores of six threads with and without clwb, xpoint, well beyond the caches' size",
        calibration: "",
        note: "",
        means: Means::Model(without_flush),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-16",
        claim: "ntstore beats store+clwb in latency over 512 B and in bandwidth over 256 B",
        expected: "latency crosses at 512 B (released data: already there), bandwidth at 256 B",
        tolerance: "one step of the axis to either side: 256 to 1024 B, 128 to 512 B",
        method: "sequential writes of 64 B to 4 KiB, each ending with sfence: mean time of one thread, store+clwb of lines that are in the cache, as in the released benchmark; bandwidth of six; xpoint",
        calibration: "",
        note: "",
        means: Means::Model(nt_against_clwb),
        lacks: "In the model a store waits for the flush before it, at the pace that one thread has on DRAM, even where the lines are in its cache; the released latencies want about half of that time for each further line",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-17",
        claim: "With one thread, bandwidth by sfence interval peaks at 256 B; when to flush does not matter from 1 KB to \
                8 MB; flushing at the end is worse beyond 8 MB",
        expected: "peak at 256 B; equal; worse",
        tolerance: "peak within one step (128 to 512 B) or flat to 3 % from there; equal to 10 %; worse by at least 10 % at \
                    64 MiB",
        method: "store 64 B to 64 MiB with clwb after every 64 B or all at the end, then sfence; xpoint-one-dimm",
        calibration: "",
        note: "",
        means: Means::Model(fence_interval),
        lacks: "Flushes at the end overlap, so that they are up to 15 % ahead at some KiB, where flushing at once has each store wait for the flush before; from 64 KiB on they come on top of the fills and are 10 % behind. On the device the two are equal",
    },
];

const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

fn without_flush(lab: &Lab) -> Result<Evidence, StudyError> {
    let run =
        |op, size: u32| lab.run(&Access::on("xpoint").op(op).bytes(u64::from(size)).threads(6).fenced());
    let store = Series::measure(&SIZES, |size| run(Op::Store, size).map(|run| run.gbps))?;
    let clwb = Series::measure(&SIZES, |size| run(Op::StoreClwb, size).map(|run| run.gbps))?;
    let (evicted, flushed) = (run(Op::Store, 256)?.ewr, run(Op::StoreClwb, 256)?.ewr);
    let worst = SIZES[1..].iter().map(|size| f64::from(*size)).map(|size| clwb.at(size) / store.at(size));
    let checks = vec![
        Check::at_least("EWR with clwb over EWR without", 2.0, flushed / evicted),
        Check::at_least(
            "bandwidth with clwb over without, lowest over 64 B",
            1.0,
            worst.fold(f64::NAN, f64::min),
        ),
        Check::within("EWR without clwb", 0.16, 0.36, evicted),
        Check::within("EWR with clwb", 0.95, 1.01, flushed),
    ];
    Ok(Evidence {
        checks,
        charts: vec![chart(
            "Stores with and without clwb, six threads",
            "bandwidth, GB/s",
            &[("store", &store), ("store+clwb", &clwb)],
        )],
    })
}

fn chart(title: &str, y: &str, curves: &[(&str, &Series)]) -> report::Curves {
    let curves = curves.iter().map(|(name, series)| crate::curve(name, series)).collect();
    crate::chart(title, Axis::log("bytes between fences", Unit::Bytes), Axis::linear(y), curves)
}

fn nt_against_clwb(lab: &Lab) -> Result<Evidence, StudyError> {
    let access = |op, size: u32| Access::on("xpoint").op(op).bytes(u64::from(size));
    let latency = |op| Series::measure(&SIZES, |size| lab.timed(&access(op, size)));
    let bandwidth = |op| {
        Series::measure(&SIZES, |size| lab.run(&access(op, size).threads(6).fenced()).map(|run| run.gbps))
    };
    let (nt_ns, clwb_ns) = (latency(Op::Ntstore)?, latency(Op::StoreClwb)?);
    let (nt, clwb) = (bandwidth(Op::Ntstore)?, bandwidth(Op::StoreClwb)?);
    let checks = vec![
        Check::at_least("latency at 64 B, ntstore over store+clwb", 1.0, nt_ns.at(64.0) / clwb_ns.at(64.0)),
        Check::between("ntstore is faster from, bytes", 256.0, 1024.0, clwb_ns.overtakes(&nt_ns)),
        Check::between("ntstore has more bandwidth from, bytes", 128.0, 512.0, nt.overtakes(&clwb)),
    ];
    let charts = vec![
        chart(
            "Time of a write and its fence, one thread",
            "ns",
            &[("ntstore", &nt_ns), ("store+clwb", &clwb_ns)],
        ),
        chart("Bandwidth of six threads", "bandwidth, GB/s", &[("ntstore", &nt), ("store+clwb", &clwb)]),
    ];
    Ok(Evidence { checks, charts })
}

fn fence_interval(lab: &Lab) -> Result<Evidence, StudyError> {
    let sizes: Vec<u32> = (6..=26).map(|power| 1 << power).collect();
    let run = |size: u32, at_end| {
        let access = Access::on("xpoint-one-dimm").op(Op::StoreClwb).bytes(u64::from(size));
        lab.run(&access.fenced().flush_at_end(at_end)).map(|run| run.gbps)
    };
    let each = Series::measure(&sizes, |size| run(size, false))?;
    let end = Series::measure(&sizes, |size| run(size, true))?;
    let apart = each.0.iter().zip(&end.0).filter(|(point, _)| (1024.0..=8_388_608.0).contains(&point.0));
    let apart = apart.map(|(each, end)| (end.1 / each.1 - 1.0).abs()).fold(0.0, f64::max);
    let checks = vec![
        Check::between("peak at, bytes", 128.0, 512.0, each.peak()),
        Check::at_most("1 KiB to 8 MiB: flush at the end against each, most apart", 0.10, apart),
        Check::at_most(
            "64 MiB: flush at the end over each",
            0.90,
            end.at(67_108_864.0) / each.at(67_108_864.0),
        ),
    ];
    Ok(Evidence {
        checks,
        charts: vec![chart(
            "Bandwidth by fence interval, one thread, one DIMM",
            "bandwidth, GB/s",
            &[("clwb after every 64 B", &each), ("clwb at the end", &end)],
        )],
    })
}
