//! Latency and bandwidth of cards that no preset was set on: X10 to X13, X18, X21 to X24.

use machine::{Config, LinkTiming, Sockets, Time};
use measure::{Bench, Kind, Locality, Model, Outcome, Pattern, Task};

use super::mixes::{ASIC_X8, VISTARA};
use super::{curve, idle, local, reads, row, threads, writes};
use crate::{Check, Evidence, Lab, Row, StudyError};

const ASIC: &str = "cxl-asic";
const FPGA: &str = "cxl-fpga";

/// Latency and bandwidth.
pub const ROWS: &[Row] = &[
    Row {
        lacks: "Between 2 and 8 threads lines under way are the same for each thread in the model; the machine's drop from 43 to 37",
        ..row(
            "X10",
            "Reads of the ASIC card at 2, 4 and 8 threads (D1)",
            "20.5, 32.9, 46.1",
            "10 %",
            "sequential loads",
            by_threads,
        )
    },
    Row {
        lacks: "32 threads keep 38 lines each under way in the model, 31 on the machine",
        ..row(
            "X11",
            "Saturated latency at 8, 16 and 32 threads (D1)",
            "409, 809, 1330 ns",
            "15 %",
            "loads without delay, one thread more measures",
            saturated,
        )
    },
    Row {
        lacks: "The card of the model has no cause for an early rise but queues of its banks and link",
        ..row(
            "X12",
            "16 bursty threads add 30 ns to the latency from 16 % of the peak on; DDR5 from 66 % on (D1)",
            "16 %; one thread never",
            "8-25 %",
            "bursts of 32 loads",
            early,
        )
    },
    Row {
        lacks: "Known: the far socket's adders add up in the model and do not on the machine (334 against 477 ns)",
        ..row(
            "X13",
            "From the far socket: 477 ns, 20.4 GB/s (D1r)",
            "477 ns; 20.4 GB/s",
            "10 %: a miss is known and is reported",
            "cxl-asic with a second socket 90 ns away (link of dram-remote's bandwidth)",
            far,
        )
    },
    row(
        "X18",
        "A second laboratory's ASIC card adds 146 ns (D8)",
        "146 ns",
        "5 %",
        "X1's setting",
        second_lab,
    ),
    Row {
        lacks: "The ratio is of cycles at a clock that is not stated; the host's own latency is 150 ns there and 113 here",
        ..row(
            "X21",
            "Agilex 7 (D10): latency over local, read and write peak, one reader",
            "2.70; 21.7, 21.3; 4.5",
            "8 %",
            "cxl-fpga",
            nomad,
        )
    },
    Row {
        lacks: "The FPGA card's adder is D9's; this one adds 280 ns",
        ..row(
            "X22",
            "Melody's card C (D6): idle latency, bandwidth",
            "394 ns; 18 GB/s",
            "5 %; 20 %",
            "cxl-fpga, as it is",
            melody_c,
        )
    },
    Row {
        lacks: "Saturated latency is lines under way by bandwidth: the published numbers of threads are not known, 32 are assumed",
        ..row(
            "X23",
            "Saturated latency of cards A and B, and of C",
            "1.2 us; 3 us",
            "30 %",
            "loads of 32 threads without delay, eight lanes; cxl-fpga",
            saturated_cards,
        )
    },
    Row {
        lacks: "Refresh alone makes tails in the model, alike on both memories; Meta's measurement agrees with that",
        ..row(
            "X24",
            "p99.9 over the median, idle: local 45 ns, cards 160 or more (disputed: alike)",
            "45; 160",
            "factor 2",
            "idle random reads",
            tails,
        )
    },
];

fn by_threads(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    for (count, expected) in [(2, 20.5), (4, 32.9), (8, 46.1)] {
        checks.push(Check::near(&format!("{count} threads, GB/s"), expected, 0.10, reads(lab, ASIC, count)?));
    }
    Ok(Evidence::of(checks))
}

fn full(lab: &Lab, machine: &'static str, count: u32) -> Result<f64, StudyError> {
    lab.run(&threads(machine, count).delay_ns(0)).map(|run| run.latency_ns)
}

fn saturated(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    for (count, expected) in [(8, 409.0), (16, 809.0), (32, 1330.0)] {
        checks.push(Check::near(&format!("{count} threads, ns"), expected, 0.15, full(lab, ASIC, count)?));
    }
    Ok(Evidence::of(checks))
}

/// Share of the peak at which latency is 30 ns above that of the least load.
fn rise(curve: &[(f64, f64)]) -> f64 {
    let (idle, peak) = (curve[0].1, curve.iter().map(|point| point.0).fold(0.0, f64::max));
    let pair = curve.windows(2).find(|pair| pair[1].1 >= idle + 30.0);
    pair.map_or(f64::INFINITY, |pair| {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        (x0 + (x1 - x0) * (idle + 30.0 - y0).max(0.0) / (y1 - y0).max(1e-9)) / peak
    })
}

fn early(lab: &Lab) -> Result<Evidence, StudyError> {
    let card = rise(&curve(threads(ASIC, 16), lab)?);
    let one = rise(&curve(threads(ASIC, 1), lab)?);
    let beside = rise(&curve(threads("cxl-asic cores.count=48", 16).other(), lab)?);
    Ok(Evidence::of(vec![
        Check::at_least("DDR5 later than the card", 1.0, beside / card),
        Check::within("card, share of peak", 0.08, 0.25, card),
        Check::at_least("one thread never: share", 1.0, one),
    ]))
}

fn far(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut config: Config = lab.config(ASIC, None)?;
    // Both ways and both transfers are 90 ns, what DDR5 of the far socket adds.
    let ns = |tenths: u64| Time(tenths * 100);
    let link =
        LinkTiming { latency: ns(438), message: ns(5), read_line: ns(9), write_line: ns(9), mix: Time::ZERO };
    config.sockets = Some(Sockets { count: 2, home: 0, link });
    let measure = |kind: Kind, count: u32| -> Result<measure::Figures, StudyError> {
        let pattern = if kind == Kind::IdleLatency { Pattern::Random } else { Pattern::Sequential };
        let task = Task {
            kind,
            threads: count,
            pattern,
            region: super::REGION,
            locality: Locality::Far,
            ..Task::default()
        };
        match Model::new(&config).with_events(1 << 17).measure(&task)? {
            Outcome::Done(figures) => Ok(*figures),
            Outcome::Skipped(reason) => Err(StudyError::Skipped { machine: ASIC.to_owned(), reason }),
        }
    };
    let latency = measure(Kind::IdleLatency, 1)?.latency.map_or(f64::NAN, |latency| latency.mean);
    let gbps = measure(Kind::Bandwidth, 16)?.gb_per_s.unwrap_or(f64::NAN);
    Ok(Evidence::of(vec![
        Check::near("far socket, ns", 477.0, 0.10, latency),
        Check::near("far socket, GB/s", 20.4, 0.10, gbps),
    ]))
}

fn second_lab(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![Check::near("adder, ns", 146.0, 0.05, idle(lab, ASIC)? - local(lab, ASIC)?)]))
}

fn nomad(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![
        Check::near("latency over local", 2.70, 0.08, idle(lab, FPGA)? / local(lab, FPGA)?),
        Check::near("read peak, GB/s", 21.7, 0.08, reads(lab, FPGA, 12)?),
        Check::near("write peak, GB/s", 21.3, 0.08, writes(lab, FPGA, 1)?.max(writes(lab, FPGA, 12)?)),
        Check::near("one reader, GB/s", 4.5, 0.08, reads(lab, FPGA, 1)?),
    ]))
}

fn melody_c(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![
        Check::near("idle, ns", 394.0, 0.05, idle(lab, FPGA)?),
        Check::near("reads, GB/s", 18.0, 0.20, reads(lab, FPGA, 12)?),
    ]))
}

fn saturated_cards(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![
        Check::near("A, ns", 1200.0, 0.30, full(lab, VISTARA, 32)?),
        Check::near("B, ns", 1200.0, 0.30, full(lab, ASIC_X8, 32)?),
        Check::near("C, ns", 3000.0, 0.30, full(lab, FPGA, 32)?),
    ]))
}

fn tails(lab: &Lab) -> Result<Evidence, StudyError> {
    let access = threads(ASIC, 1).order(crate::Order::Random);
    let (beside, card) = (lab.idle_tail(&access.other())?, lab.idle_tail(&access)?);
    Ok(Evidence::of(vec![
        Check::within("local, ns", 22.5, 90.0, beside),
        Check::at_least("card, ns", 80.0, card),
    ]))
}
