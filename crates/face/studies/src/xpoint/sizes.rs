//! Bandwidth by access size: the knee at the media's unit and the dip at the interleave size.

use report::{Axis, Unit};

use crate::{Access, Check, Evidence, Lab, Means, Op, Order, Row, Series, Source, StudyError};

/// The study by access size.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-size-one",
        claim: "Random accesses on one DIMM lose steeply below 256 B, where DRAM does not, and are flat above",
        expected: "64 B at about a quarter of 256 B; flat from 256 B to 2 MiB",
        tolerance: "quarter: writes 0.20 to 0.35, reads up to 0.5 (their latency overlaps); flat: within 30 %; DRAM loses \
                    at most half, since 64 B is its unit",
        method: "random accesses of 64 B to 2 MiB on xpoint-one-dimm with the figure's threads (4 load, 1 ntstore, \
                 2 store+clwb); dram with 24",
        calibration: "",
        note: "that completing a unit by reading takes no energy of its own was tried because this row had missed (docs/calibration.md)",
        means: Means::Model(knee),
        lacks: "",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-s-size-six",
        claim: "On six DIMMs random accesses dip at 4 KiB and recover above; writes have small peaks at 24 and 48 KiB",
        expected: "lowest at 4 KiB; 24 and 48 KiB above their neighbours",
        tolerance: "the dip within one step (2 to 8 KiB) and at least 10 % deep, the recovery by 24 KiB at least 10 %; peaks are \
                    compared with sizes 4 KiB to either side",
        method: "random accesses of 256 B to 64 KiB on xpoint with the figure's threads (16 load, 4 ntstore, 12 store+clwb)",
        calibration: "",
        note: "In the model the dip of ntstores hardly depends on the credit or the write queue: most of it is that threads meet by chance on one DIMM while others idle",
        means: Means::Model(dip),
        lacks: "In the model a store waits for the flush before it, so that a thread is at one DIMM at a time however large its access; the peaks of store+clwb do not show. Reads recover by 8 % where 10 % were asked for",
    },
];

const POWERS: [u32; 16] = [
    64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576,
    2_097_152,
];
const STEPS: [u32; 17] = [
    256, 512, 1024, 2048, 4096, 8192, 12_288, 16_384, 20_480, 24_576, 28_672, 32_768, 40_960, 45_056, 49_152,
    53_248, 65_536,
];

fn by_size(
    lab: &Lab,
    machine: &'static str,
    op: Op,
    threads: u32,
    sizes: &[u32],
) -> Result<Series, StudyError> {
    Series::measure(sizes, |size| {
        let access = Access::on(machine).op(op).order(Order::Random).bytes(u64::from(size)).threads(threads);
        lab.run(&access).map(|run| run.gbps)
    })
}

fn knee(lab: &Lab) -> Result<Evidence, StudyError> {
    let read = by_size(lab, "xpoint-one-dimm", Op::Load, 4, &POWERS)?;
    let nt = by_size(lab, "xpoint-one-dimm", Op::Ntstore, 1, &POWERS)?;
    let clwb = by_size(lab, "xpoint-one-dimm", Op::StoreClwb, 2, &POWERS)?;
    let dram = by_size(lab, "dram", Op::Ntstore, 24, &POWERS[..7])?;
    let below = |series: &Series| series.at(64.0) / series.at(256.0);
    let flat = |series: &Series| {
        let above = series.part(256.0, 2_097_152.0);
        above.min() / above.max()
    };
    let checks = vec![
        Check::at_most("Read: 64 B over 256 B", 0.5, below(&read)),
        Check::between("Write(ntstore): 64 B over 256 B", 0.20, 0.35, below(&nt)),
        Check::between("Write(clwb): 64 B over 256 B", 0.20, 0.35, below(&clwb)),
        Check::at_least("dram, Write(ntstore): 64 B over 256 B", 0.5, below(&dram)),
        Check::at_least("Read: lowest over highest from 256 B", 0.7, flat(&read)),
        Check::at_least("Write(ntstore): lowest over highest from 256 B", 0.7, flat(&nt)),
        Check::at_least("Write(clwb): lowest over highest from 256 B", 0.7, flat(&clwb)),
    ];
    let curves = vec![
        crate::curve("Read", &read),
        crate::curve("Write(ntstore)", &nt),
        crate::curve("Write(clwb)", &clwb),
    ];
    Ok(Evidence { checks, charts: vec![size_chart("Random accesses on one DIMM", curves)] })
}

fn size_chart(title: &str, curves: Vec<report::Curve>) -> report::Curves {
    let x = Axis::log("access size", Unit::Bytes);
    crate::chart(title, x, Axis::linear("bandwidth, GB/s"), curves)
}

fn dip(lab: &Lab) -> Result<Evidence, StudyError> {
    let read = by_size(lab, "xpoint", Op::Load, 16, &STEPS)?;
    let nt = by_size(lab, "xpoint", Op::Ntstore, 4, &STEPS)?;
    let clwb = by_size(lab, "xpoint", Op::StoreClwb, 12, &STEPS)?;
    let mut checks = Vec::new();
    for (series, name) in [(&read, "Read"), (&nt, "Write(ntstore)"), (&clwb, "Write(clwb)")] {
        let before = series.part(256.0, 1024.0).max();
        checks.extend([
            Check::between(&format!("{name}: lowest at, bytes"), 2048.0, 8192.0, series.lowest()),
            Check::at_most(&format!("{name}: 4 KiB over 256 B to 1 KiB"), 0.90, series.at(4096.0) / before),
            Check::at_least(
                &format!("{name}: 24 KiB over 4 KiB"),
                1.10,
                series.at(24_576.0) / series.at(4096.0),
            ),
        ]);
    }
    for (series, name) in [(&nt, "Write(ntstore)"), (&clwb, "Write(clwb)")] {
        for (peak, sides) in [(24_576.0, [20_480.0, 28_672.0]), (49_152.0, [45_056.0, 53_248.0])] {
            let beside = series.at(sides[0]).max(series.at(sides[1]));
            let what = format!("{name}: {:.0} KiB over its neighbours", peak / 1024.0);
            checks.push(Check::at_least(&what, 1.0, series.at(peak) / beside));
        }
    }
    let curves = vec![
        crate::curve("Read", &read),
        crate::curve("Write(ntstore)", &nt),
        crate::curve("Write(clwb)", &clwb),
    ];
    Ok(Evidence { checks, charts: vec![size_chart("Random accesses on six DIMMs", curves)] })
}
