//! Memory on the other socket.

use report::Axis;

use crate::{Access, Check, Evidence, Lab, Means, Op, Order, Row, Series, Source, StudyError};

/// Rows 22 to 25, and the study of mixes.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-22",
        claim: "Remote reads take 1.79 times as long in sequence, 1.20 times at random",
        expected: "1.79, 1.20",
        tolerance: "15 %: one link latency must give both",
        method: "idle latency of loads, xpoint-remote over xpoint",
        calibration: "",
        note: "",
        means: Means::Model(read_latency),
        lacks: "One link latency adds the same 58 ns to all reads; the published difference is 61 ns for random and 134 ns for sequential reads, so that these seem to lose more on the device than the way over the link",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-23",
        claim: "Remote writes take 2.53 times as long with ntstore, 1.68 times with store+clwb",
        expected: "2.53, 1.68",
        tolerance: "15 %: one link latency must give both",
        method: "idle latency of ntstore and store+clwb, xpoint-remote over xpoint",
        calibration: "",
        note: "",
        means: Means::Model(write_latency),
        lacks: "An ntstore crosses the link twice, once to learn that no cache has its line; store+clwb crosses it once, for 58 ns, where 42 ns were published",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-24",
        claim: "Remote bandwidth is 59.2 % of local for reads, 61.7 % for writes",
        expected: "0.592 (10 remote over 16 local readers), 0.617 (4 writers)",
        tolerance: "15 % of the ratio",
        method: "sequential 256 B, xpoint-remote over xpoint with the threads named",
        calibration: "",
        note: "",
        means: Means::Model(bandwidth),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-25",
        claim: "The worst gap between local and remote is over 30 times on 3D XPoint, at most 3.3 times on DRAM",
        expected: "over 30 (no released row shows more than about 6); 3.3",
        tolerance: "shape: the worst gap at least twice DRAM's; 30 as stated; 3.3 and 15 %",
        method: "local over remote bandwidth, worst of 1, 4, 8 and 16 threads and reads : writes from only reads to only \
                 writes; xpoint and dram",
        calibration: "",
        note: "",
        means: Means::Model(worst_gap),
        lacks: "The link passes reads and writes in turns at no cost (sockets.link.mix is 0 ns), and the memory keeps no directory: on the real platform a read from the other socket may have to write the line's directory state back to the DIMM, as the vendor's optimization manual warns. So mixed traffic does not collapse",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-mix",
        claim: "With one thread local and remote are similar for any mix; with four, remote collapses as soon as writes mix in",
        expected: "similar; collapse between only reads and only writes",
        tolerance: "shapes only: similar is at least 0.5 of local for every mix; collapse is below 0.4 of local for the worst \
                    mix and below both ends",
        method: "reads : writes of R, 4:1, 3:1, 2:1, 1:1, W by 1 and 4 threads, sequential 256 B ntstore; xpoint-remote over xpoint",
        calibration: "",
        note: "",
        means: Means::Model(mixes),
        lacks: "The link passes reads and writes in turns at no cost (sockets.link.mix is 0 ns), and the memory keeps no directory: on the real platform a read from the other socket may have to write the line's directory state back to the DIMM, as the vendor's optimization manual warns. So mixed traffic does not collapse",
    },
];

fn idle_ratio(lab: &Lab, op: Op, order: Order) -> Result<f64, StudyError> {
    let idle = |machine| lab.idle(&Access::on(machine).op(op).order(order)).map(|idle| idle.mean_ns);
    Ok(idle("xpoint-remote")? / idle("xpoint")?)
}

fn read_latency(lab: &Lab) -> Result<Evidence, StudyError> {
    let (sequential, random) =
        (idle_ratio(lab, Op::Load, Order::Sequential)?, idle_ratio(lab, Op::Load, Order::Random)?);
    Ok(Evidence::of(vec![
        Check::at_least("random", 1.05, random),
        Check::at_least("sequential over random", 1.2, sequential / random),
        Check::near("sequential", 1.79, 0.15, sequential),
        Check::near("random", 1.20, 0.15, random),
    ]))
}

fn write_latency(lab: &Lab) -> Result<Evidence, StudyError> {
    let (nt, clwb) =
        (idle_ratio(lab, Op::Ntstore, Order::Random)?, idle_ratio(lab, Op::StoreClwb, Order::Random)?);
    Ok(Evidence::of(vec![
        Check::at_least("store+clwb", 1.2, clwb),
        Check::at_least("ntstore over store+clwb", 1.2, nt / clwb),
        Check::near("ntstore", 2.53, 0.15, nt),
        Check::near("store+clwb", 1.68, 0.15, clwb),
    ]))
}

fn bandwidth(lab: &Lab) -> Result<Evidence, StudyError> {
    let run = |machine, op, threads| {
        lab.run(&Access::on(machine).op(op).bytes(256).threads(threads)).map(|run| run.gbps)
    };
    let reads = run("xpoint-remote", Op::Load, 10)? / run("xpoint", Op::Load, 16)?;
    let writes = run("xpoint-remote", Op::Ntstore, 4)? / run("xpoint", Op::Ntstore, 4)?;
    Ok(Evidence::of(vec![
        Check::at_most("reads", 0.85, reads),
        Check::at_most("writes", 0.85, writes),
        Check::near("reads", 0.592, 0.15, reads),
        Check::near("writes", 0.617, 0.15, writes),
    ]))
}

/// Reads and writes in turns; on the axis: the share of writes.
const MIXES: [(u32, u32); 6] = [(1, 0), (4, 1), (3, 1), (2, 1), (1, 1), (0, 1)];

/// Remote over local bandwidth by the share of writes.
fn remote_over_local(lab: &Lab, machines: [&'static str; 2], threads: u32) -> Result<Series, StudyError> {
    let [local, remote] = machines;
    let ratio = |(reads, writes): (u32, u32)| {
        let run = |machine| {
            let access = Access::on(machine).op(Op::Ntstore).bytes(256).threads(threads);
            lab.run(&access.mix(reads, writes)).map(|run| run.gbps)
        };
        Ok((f64::from(writes) / f64::from(reads + writes), run(remote)? / run(local)?))
    };
    MIXES.into_iter().map(ratio).collect::<Result<_, _>>().map(Series)
}

fn worst_gap(lab: &Lab) -> Result<Evidence, StudyError> {
    let worst = |machines: [&'static str; 2]| -> Result<f64, StudyError> {
        let mut worst = 0.0f64;
        for threads in [1, 4, 8, 16] {
            worst = worst.max(1.0 / remote_over_local(lab, machines, threads)?.min());
        }
        Ok(worst)
    };
    let (xpoint, dram) = (worst(["xpoint", "xpoint-remote"])?, worst(["dram", "dram-remote"])?);
    Ok(Evidence::of(vec![
        Check::at_least("worst gap, xpoint over dram", 2.0, xpoint / dram),
        Check::within("worst gap, xpoint", 30.0, f64::INFINITY, xpoint),
        Check::within("worst gap, dram", 1.0, 3.8, dram),
    ]))
}

fn mixes(lab: &Lab) -> Result<Evidence, StudyError> {
    let (one, four) = (
        remote_over_local(lab, ["xpoint", "xpoint-remote"], 1)?,
        remote_over_local(lab, ["xpoint", "xpoint-remote"], 4)?,
    );
    let ends = four.at(0.0).min(four.at(1.0));
    let checks = vec![
        Check::at_least("1 thread: worst mix, remote over local", 0.5, one.min()),
        Check::at_most("4 threads: worst mix, remote over local", 0.4, four.min()),
        Check::at_most(
            "4 threads: worst mix over the worse of only reads and only writes",
            0.8,
            four.min() / ends,
        ),
    ];
    let (x, y) = (Axis::linear("share of writes"), Axis::linear("remote over local bandwidth"));
    let curves = vec![crate::curve("1 thread", &one), crate::curve("4 threads", &four)];
    Ok(Evidence { checks, charts: vec![crate::chart("Mixed traffic to the other socket", x, y, curves)] })
}
