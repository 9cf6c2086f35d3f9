//! Reads and writes mixed, links and streams: X9, X14 to X17, X19, X20.

use super::{at, curve, mixed, reads, row, threads};
use crate::{Access, Check, Evidence, Lab, Op, Row, StudyError};

/// An ASIC card on eight lanes, its memory as it is.
pub(super) const ASIC_X8: &str = "cxl-asic device.timing.link.read_line=2.66ns device.timing.link.write_line=2.66ns device.timing.link.message=0.53ns";
/// Eight lanes and two channels of DDR4-2400, two DIMMs each, from the sheet alone.
pub(super) const VISTARA: &str = "cxl-asic device.timing.link.read_line=2.66ns device.timing.link.write_line=2.66ns \
    device.timing.link.message=0.53ns device.timing.behind.channels=2 device.timing.behind.each.ranks=4 \
    device.timing.behind.each.bank_groups=4 device.timing.behind.each.t_rcd=14.16ns device.timing.behind.each.t_cl=14.16ns \
    device.timing.behind.each.t_rp=14.16ns device.timing.behind.each.t_cwl=12.5ns device.timing.behind.each.t_bl=3.33ns \
    device.timing.behind.each.t_ccd=5ns device.timing.behind.each.t_wr=15ns device.timing.behind.each.write_to_read=21.7ns \
    device.timing.behind.each.t_refi=7.8us device.timing.behind.each.t_rfc=350ns";
/// Eight lanes, one channel of DDR5 and a limit of reads.
const D3: &str = "cxl-asic device.timing.link.read_line=2.66ns device.timing.link.write_line=2.66ns \
    device.timing.link.message=0.53ns device.timing.behind.channels=2 device.timing.reads=72";
/// CXL-DMSim's host: one channel of DDR5, small caches, so that arrays are beyond them as there.
const D8: &str = "cxl-asic other_memory.controller.dimms=1 llc.size=1920KiB l2.size=256KiB device.timing.link.read_line=2.66ns \
    device.timing.link.write_line=2.66ns device.timing.link.message=0.53ns device.timing.behind.channels=2";
const D9: &str = "cxl-fpga other_memory.controller.dimms=1 llc.size=1920KiB l2.size=256KiB";

/// Mixes.
pub const ROWS: &[Row] = &[
    Row {
        lacks: "The card's DDR5 turns round less in the model at 3:1 and 2:1 than the measured mixes show, which are flat",
        ..row(
            "X9",
            "Other mixes of the ASIC card: 4:1, 3:1, 2:1, 3:2; reads alone are below all (D1)",
            "52.9, 54.5, 54.1, 53.0",
            "5 %",
            "loads and ntstores by turns, 16 threads",
            other_mixes,
        )
    },
    row(
        "X14",
        "Eight lanes read 24.0 GB/s (D2, D13)",
        "24.1 against 24.0",
        "3 %",
        "cxl-asic on eight lanes",
        lanes,
    ),
    Row {
        lacks: "The link carries both ways at once in the model and the two channels have room; the card's half-duplex limit is lower than its sheet says",
        ..row(
            "X15",
            "Vistara from its sheet (D2): 3:1, 2:1, 1:1, below reads",
            "20.5, 21, 21",
            "7 %",
            "eight lanes, two channels of DDR4-2400",
            vistara,
        )
    },
    Row {
        lacks: "Bursts reach the model's DDR4 more evenly than the card's",
        ..row(
            "X16",
            "Vistara's latency at 30 and 60 % of the load above that at 10 % (D2)",
            "+23, +103 ns",
            "15 ns",
            "bursts of 32 loads, 16 threads",
            vistara_loaded,
        )
    },
    Row {
        note: "72 read credits were set on 17.8 GB/s of reads; the mixes are what is judged",
        lacks: "Turning round of the one DDR5 channel, not the credits, limits the mixes",
        ..row(
            "X17",
            "A card whose reads are limited gains by writes (D3)",
            "17.8 < 23.6 < 25.1 < 27.2",
            "order; 10 % with a credit limit",
            "eight lanes, one channel of DDR5, 72 reads at once",
            limited,
        )
    },
    Row {
        note: "The card's lanes and memory are not published: eight lanes and one channel of DDR5 are assumed",
        lacks: "One local channel of DDR5 loses more to turning round in the model than it does on the host, so the card is ahead; its memory was a guess",
        ..row(
            "X19",
            "STREAM on the ASIC card over local (D8)",
            ".83 .83 .82 .82",
            "6 %",
            "copy, and two loads and a store by turns for triad, 8 threads; local one channel of DDR5",
            stream_asic,
        )
    },
    Row {
        lacks: "As X19; and nothing in the model makes scale slower than copy",
        ..row(
            "X20",
            "STREAM on the FPGA card over local (D9)",
            ".64 .45 .45 .46",
            "10 %",
            "as X19",
            stream_fpga,
        )
    },
];

fn other_mixes(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    let alone = reads(lab, "cxl-asic", 16)?;
    for (read, write, expected) in [(4, 1, 52.9), (3, 1, 54.5), (2, 1, 54.1), (3, 2, 53.0)] {
        let got = mixed(lab, "cxl-asic", read, write)?;
        checks.push(Check::at_least(&format!("{read}:{write} over reads alone"), 1.0, got / alone));
        checks.push(Check::near(&format!("{read}:{write}, GB/s"), expected, 0.05, got));
    }
    Ok(Evidence::of(checks))
}

fn lanes(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![Check::near("reads, GB/s", 24.0, 0.03, reads(lab, ASIC_X8, 16)?)]))
}

fn vistara(lab: &Lab) -> Result<Evidence, StudyError> {
    let alone = reads(lab, VISTARA, 16)?;
    let mut checks = Vec::new();
    for (read, write, expected) in [(3, 1, 20.5), (2, 1, 21.0), (1, 1, 21.0)] {
        let got = mixed(lab, VISTARA, read, write)?;
        checks.push(Check::at_most(&format!("{read}:{write} over reads alone"), 1.0, got / alone));
        checks.push(Check::near(&format!("{read}:{write}, GB/s"), expected, 0.07, got));
    }
    Ok(Evidence::of(checks))
}

fn vistara_loaded(lab: &Lab) -> Result<Evidence, StudyError> {
    let curve = curve(threads(VISTARA, 16), lab)?;
    let peak = curve.iter().map(|point| point.0).fold(0.0, f64::max);
    let above = |share: f64| at(&curve, share * peak) - at(&curve, 0.10 * peak);
    Ok(Evidence::of(vec![
        Check::within("at 30 %, ns", 8.0, 38.0, above(0.30)),
        Check::within("at 60 %, ns", 88.0, 118.0, above(0.60)),
    ]))
}

fn limited(lab: &Lab) -> Result<Evidence, StudyError> {
    let got = [reads(lab, D3, 16)?, mixed(lab, D3, 3, 1)?, mixed(lab, D3, 2, 1)?, mixed(lab, D3, 1, 1)?];
    let mut checks = Vec::new();
    let names = ["reads", "3:1", "2:1", "1:1"];
    for (number, pair) in got.windows(2).enumerate() {
        checks.push(Check::at_least(
            &format!("{} over {}", names[number + 1], names[number]),
            1.0,
            pair[1] / pair[0],
        ));
    }
    for ((name, expected), got) in names.iter().zip([17.8, 23.6, 25.1, 27.2]).zip(got) {
        checks.push(Check::near(&format!("{name}, GB/s"), expected, 0.10, got));
    }
    Ok(Evidence::of(checks))
}

/// Copy and triad over those of the memory beside.
fn stream(lab: &Lab, machine: &'static str) -> Result<[f64; 2], StudyError> {
    let ratio = |access: Access| -> Result<f64, StudyError> {
        Ok(lab.run(&access)?.gbps / lab.run(&access.other())?.gbps)
    };
    let copy = threads(machine, 8).op(Op::Copy).bytes(128);
    Ok([ratio(copy)?, ratio(threads(machine, 8).op(Op::Store).mix(2, 1))?])
}

fn stream_asic(lab: &Lab) -> Result<Evidence, StudyError> {
    let [copy, triad] = stream(lab, D8)?;
    Ok(Evidence::of(vec![Check::near("copy", 0.83, 0.06, copy), Check::near("triad", 0.82, 0.06, triad)]))
}

fn stream_fpga(lab: &Lab) -> Result<Evidence, StudyError> {
    let [copy, triad] = stream(lab, D9)?;
    Ok(Evidence::of(vec![Check::near("copy", 0.64, 0.10, copy), Check::near("triad", 0.46, 0.10, triad)]))
}
