//! Threads that share DIMMs.

use report::Axis;

use crate::{Access, Check, Evidence, Lab, Means, Op, Order, Row, Series, Source, StudyError};

/// Row 20, which is also the study of DIMMs per thread.
pub const ROWS: &[Row] = &[Row {
    source: Source::Xpoint,
    id: "xpoint-20",
    claim: "The more DIMMs each thread accesses, the less bandwidth per DIMM, while EWR stays near 1: it is the controller's \
            queues, not the XPBuffer; worst at 4 KiB",
    expected: "falling with N for 24 readers and 6 ntstore writers; EWR about 1",
    tolerance: "shapes only, no values were stated: a fall of at least 10 % from N = 1 to 6 at 4 KiB; EWR at least 0.9; the \
                fall at 4 KiB is not below that at 256 B",
    method: "24 readers or 6 ntstore writers, each on N of 6 DIMMs at random, N = 1, 2, 3, 6; 256 B and 4 KiB; xpoint",
    calibration: "",
    note: "In the model hardly any of the fall comes from the credit or the write queue: most of it is that threads meet by chance on one DIMM while others idle",
    means: Means::Model(dimms_per_thread),
    lacks: "",
}];

fn dimms_per_thread(lab: &Lab) -> Result<Evidence, StudyError> {
    let access = |op, size, dimms| {
        let threads = if op == Op::Load { 24 } else { 6 };
        let access = Access::on("xpoint").op(op).order(Order::Random).bytes(size);
        lab.run(&access.threads(threads).dimms(dimms))
    };
    let per_dimm = |op, size| {
        Series::measure(&[1u32, 2, 3, 6], |dimms| access(op, size, dimms).map(|run| run.gbps / 6.0))
    };
    let mut evidence = Evidence::default();
    let mut curves = Vec::new();
    for (op, name) in [(Op::Load, "24 readers"), (Op::Ntstore, "6 writers")] {
        let (small, page) = (per_dimm(op, 256)?, per_dimm(op, 4096)?);
        let left = |series: &Series| series.at(6.0) / series.at(1.0);
        let rises = page.0.windows(2).map(|pair| pair[1].1 / pair[0].1).fold(0.0, f64::max);
        evidence.checks.extend([
            Check::at_most(&format!("{name}, 4 KiB: N = 6 over N = 1"), 0.90, left(&page)),
            Check::at_most(&format!("{name}, 4 KiB: highest step from N to the next"), 1.03, rises),
            Check::at_most(
                &format!("{name}: what is left at 4 KiB over 256 B"),
                1.0,
                left(&page) / left(&small),
            ),
        ]);
        curves.push(crate::curve(&format!("{name}, 256 B"), &small));
        curves.push(crate::curve(&format!("{name}, 4 KiB"), &page));
    }
    for size in [256, 4096] {
        let ewr =
            Series::measure(&[1u32, 2, 3, 6], |dimms| access(Op::Ntstore, size, dimms).map(|run| run.ewr))?;
        evidence.checks.push(Check::at_least(&format!("6 writers, {size} B: lowest EWR"), 0.9, ewr.min()));
    }
    let (x, y) = (Axis::linear("DIMMs per thread"), Axis::linear("bandwidth per DIMM, GB/s"));
    evidence.charts.push(crate::chart("Bandwidth per DIMM", x, y, curves));
    Ok(evidence)
}
