//! Measured CXL memory: cards, mixes, switches and tiers.

mod calibration;
mod cards;
mod mixes;
mod tiers;

pub use calibration::ROWS as CALIBRATION;
pub use cards::ROWS as CARDS;
pub use mixes::ROWS as MIXES;
pub use tiers::ROWS as TIERS;

use crate::{Access, Evidence, Lab, Means, Op, Order, Row, Source, StudyError};

/// Bytes of a thread's buffer.
const REGION: u64 = 64 << 20;
/// Accesses between two delays of the load generator.
const BURST: u32 = 32;

/// A row that the model judges.
const fn row(
    id: &'static str,
    claim: &'static str,
    expected: &'static str,
    tolerance: &'static str,
    method: &'static str,
    judge: fn(&Lab) -> Result<Evidence, StudyError>,
) -> Row {
    Row {
        source: Source::Cxl,
        id,
        claim,
        expected,
        tolerance,
        method,
        calibration: "",
        note: "",
        means: Means::Model(judge),
        lacks: "",
    }
}

/// A row that is not judged yet.
const fn later(id: &'static str, claim: &'static str, expected: &'static str, why: &'static str) -> Row {
    Row {
        source: Source::Cxl,
        id,
        claim,
        expected,
        tolerance: "see docs/reproduce.md",
        method: "none",
        calibration: "",
        note: "",
        means: Means::Later(why),
        lacks: "",
    }
}

/// So many threads on a machine.
fn threads(machine: &'static str, threads: u32) -> Access {
    Access::on(machine).threads(threads).region(REGION)
}

/// Reads, GB/s.
fn reads(lab: &Lab, machine: &'static str, count: u32) -> Result<f64, StudyError> {
    lab.run(&threads(machine, count)).map(|run| run.gbps)
}

/// Non-temporal writes, GB/s.
fn writes(lab: &Lab, machine: &'static str, count: u32) -> Result<f64, StudyError> {
    lab.run(&threads(machine, count).op(Op::Ntstore)).map(|run| run.gbps)
}

/// Reads and non-temporal writes by turns, 16 threads, GB/s.
fn mixed(lab: &Lab, machine: &'static str, read: u32, write: u32) -> Result<f64, StudyError> {
    lab.run(&threads(machine, 16).op(Op::Ntstore).mix(read, write)).map(|run| run.gbps)
}

/// Idle latency of random reads of a machine's card, ns.
fn idle(lab: &Lab, machine: &'static str) -> Result<f64, StudyError> {
    lab.idle(&threads(machine, 1).order(Order::Random)).map(|idle| idle.mean_ns)
}

/// And of the memory beside it.
fn local(lab: &Lab, machine: &'static str) -> Result<f64, StudyError> {
    lab.idle(&threads(machine, 1).order(Order::Random).other()).map(|idle| idle.mean_ns)
}

/// Bandwidth, and latency beside it, of bursty threads.
fn loaded(access: Access, lab: &Lab, delay: u64) -> Result<(f64, f64), StudyError> {
    let run = lab.run(&access.burst(BURST).delay_ns(delay))?;
    Ok((run.gbps, run.latency_ns))
}

/// Delays between bursts, from little load to all.
const DELAYS: [u64; 10] = [60_000, 16_000, 8_000, 4_000, 2_400, 1_600, 1_100, 800, 500, 0];

/// Bandwidth and latency by [`DELAYS`].
fn curve(access: Access, lab: &Lab) -> Result<Vec<(f64, f64)>, StudyError> {
    DELAYS.iter().map(|&delay| loaded(access, lab, delay)).collect()
}

/// The latency at a bandwidth.
fn at(curve: &[(f64, f64)], gbps: f64) -> f64 {
    let pair = curve.windows(2).find(|pair| pair[0].0 <= gbps && gbps <= pair[1].0);
    pair.map_or(f64::NAN, |pair| {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        y0 + (y1 - y0) * (gbps - x0) / (x1 - x0).max(1e-9)
    })
}
