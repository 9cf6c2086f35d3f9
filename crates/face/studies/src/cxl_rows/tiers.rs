//! Programs on two tiers: X25 to X33, X36.

use device::Rng;
use event::{Event, FenceKind};

use super::{later, row};
use crate::pattern::{self, LINE, PERSISTENT, Pattern, VOLATILE};
use crate::{Check, Evidence, Lab, Row, StudyError};

/// One channel of DDR5 beside the card, as on the published host; caches that hold none of the data.
const ASIC: &str = "cxl-asic other_memory.controller.dimms=1 llc.size=1920KiB l2.size=256KiB";
const FPGA: &str = "cxl-fpga other_memory.controller.dimms=1 llc.size=1920KiB l2.size=256KiB";
/// Bytes of a thread's data.
const REACH: u64 = 1 << 30;

/// Tiers.
pub const ROWS: &[Row] = &[
    Row {
        note: "The node of the other socket (1.78) is not modelled with this host; the card's lanes and memory are not published",
        lacks: "The stand-in does not saturate the local channel as the program does, so that latency decides and not bandwidth",
        ..row(
            "X25",
            "XSBench, 48 cores, pages 1:1 over local: ASIC, FPGA (D8, D9)",
            "1.32, 1.04",
            "5 %",
            LOOKUPS,
            forty_eight,
        )
    },
    Row {
        lacks: "The stand-in's share of computation is a guess",
        ..row("X26", "The same on 1 core", "0.73, 0.58", "8 %", LOOKUPS, one)
    },
    Row {
        lacks: "As X25",
        ..row(
            "X27",
            "The same on 24 cores, where neither law holds",
            "1.15, 0.89",
            "10 %",
            LOOKUPS,
            twenty_four,
        )
    },
    Row {
        note: "Loads alone: the source's triad stores as well. Its card carries 24.5 GB/s beside 208 GB/s of DRAM, \
               this one 48. The tolerance of 8 % also holds a machine where the card brings nothing",
        ..row(
            "X28",
            "STREAM with pages 1:1 is twice as fast as on CXL alone; triad 9:1 over local alone",
            "2.00; 1.044",
            "2 %; 8 %",
            "sequential loads, cxl-asic: 16 threads, pages by turns; 32 threads, every tenth page on the card",
            interleaved,
        )
    },
    Row {
        note: "Lookups stand for Redis: how much of a request waits for memory is not published, so what is judged is \
               the part of the whole loss that a share of the data costs. One structure used alike throughout is \
               nearly linear by construction",
        lacks: "Nearly linear: the published times, whole percents, lie below a line at 40.5 GB",
        ..row(
            "X29",
            "Redis, time by GB on CXL: the part of the loss with all of it there",
            "0.26, 0.42, 0.63, 0.74, 0.95, 0.95 at 10.6 to 50.4 of 51.4 GB",
            "1.5 points of time, 8 of the loss",
            "as X26, with the published share of all pages on the card",
            redis,
        )
    },
    Row {
        lacks: "The published host's streams slow down more under load than the model's, which have 38 lines under way",
        ..row(
            "X30",
            "One thread streams, one chases: speed by placement",
            "all local 1; stream local .524; chase local .70; all CXL .474",
            "8 %",
            "26 loads of a stream for 4 of a chase, until both are done, cxl-asic",
            placements,
        )
    },
    Row {
        lacks: "Idle latencies only: both memories of the source are loaded, so that its local one is nearer to the \
                card's",
        ..row(
            "X31",
            "Vistara: latency by hot share of a 1 TB set, 768 GB local",
            "flat to 70 %; +4, +8, +22 % at 75, 80, 100 %",
            "4 points",
            "what does not fit is on the card: mean of both idle latencies of cxl-asic",
            hot_share,
        )
    },
    later(
        "X32",
        "SPEC gcc and mcf all on a Montage card: 18.0, 24.2 % slower",
        "18.0, 24.2 %",
        "traces of SPEC CPU 2017, which is licensed",
    ),
    later(
        "X33",
        "Share of public workloads below 10 % slowdown: cards A, B, D",
        "54, 32, 60 %",
        "some hundred public workloads recorded; ten are not a sample of them",
    ),
    later(
        "X36",
        "RMS of relative error over 33 sizes of lmbench below 17.6 and 18.3 %",
        "17.6, 18.3 %",
        "a measurement that fills caches of 96 MiB for each size within the time of `reproduce`",
    ),
];

const LOOKUPS: &str =
    "a stand-in: lookups of ten rounds of five random loads and computation; pages on both nodes by turns";

/// Where data lie: so many of each so many pages on the card.
type Share = (u64, u64);

const ON_DRAM: Share = (0, 1);
const ON_CARD: Share = (1, 1);
const BY_TURNS: Share = (1, 2);

/// The address of a line of a thread's data.
fn address(thread: u64, line: u64, (card, of): Share) -> u64 {
    let offset = thread * REACH + line * LINE;
    // A prime factor spreads the pages of a share over all data.
    let page = line / 64 * 191;
    if page % of < card { PERSISTENT + offset } else { LOCAL + offset }
}

/// Ordinary memory, apart from what is mapped as persistent.
const LOCAL: u64 = VOLATILE + (1 << 44);

/// Lookups per ns of so many cores.
fn lookups(lab: &Lab, machine: &'static str, cores: u64, share: Share) -> Result<f64, StudyError> {
    let count = if cores == 1 { 1500 } else { 150 };
    let run = lab.pattern("lookups", &[cores, share.0, share.1], machine, || {
        let thread = |thread: u64| {
            let mut draw = Rng::new(7 + thread);
            Pattern::new(count, move |events: &mut Vec<Event>| {
                for _ in 0..10 {
                    for _ in 0..5 {
                        let line = draw.below((REACH / LINE) as usize) as u64;
                        events.push(pattern::after(130, pattern::load(address(thread % 32, line, share), 8)));
                    }
                    events.push(pattern::fence(FenceKind::Full));
                }
            })
        };
        (0..cores).map(thread).collect()
    })?;
    Ok(cores as f64 / run.ns_per_iteration)
}

fn over_local(lab: &Lab, cores: u64, expected: [f64; 2], tolerance: f64) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    for ((name, machine), expected) in [("ASIC", ASIC), ("FPGA", FPGA)].into_iter().zip(expected) {
        let ratio = lookups(lab, machine, cores, BY_TURNS)? / lookups(lab, machine, cores, ON_DRAM)?;
        checks.push(Check::near(&format!("1:1 over local, {name}"), expected, tolerance, ratio));
    }
    Ok(Evidence::of(checks))
}

fn forty_eight(lab: &Lab) -> Result<Evidence, StudyError> {
    over_local(lab, 48, [1.32, 1.04], 0.05)
}

fn one(lab: &Lab) -> Result<Evidence, StudyError> {
    over_local(lab, 1, [0.73, 0.58], 0.08)
}

fn twenty_four(lab: &Lab) -> Result<Evidence, StudyError> {
    over_local(lab, 24, [1.15, 0.89], 0.10)
}

fn interleaved(lab: &Lab) -> Result<Evidence, StudyError> {
    let rate = |threads: u64, share: Share| -> Result<f64, StudyError> {
        let words = [threads, share.0, share.1];
        let run = lab.pattern("sequential", &words, "cxl-asic llc.size=1920KiB l2.size=256KiB", || {
            let thread = |thread: u64| {
                let mut line = 0;
                Pattern::new(16_000, move |events: &mut Vec<Event>| {
                    line += 1;
                    events.push(pattern::load(address(thread, line, share), 64));
                })
            };
            (0..threads).map(thread).collect()
        })?;
        Ok(1.0 / run.ns_per_iteration)
    };
    Ok(Evidence::of(vec![
        Check::near("1:1 over CXL alone", 2.0, 0.02, rate(16, BY_TURNS)? / rate(16, ON_CARD)?),
        Check::near("9:1 over DRAM alone", 217.7 / 208.5, 0.08, rate(32, (1, 10))? / rate(32, ON_DRAM)?),
    ]))
}

/// Time over that with all on DRAM, less 1, by the published GB of 51.4 on the card, over the same with all there.
fn redis(lab: &Lab) -> Result<Evidence, StudyError> {
    let points = [(10.6, 0.05), (20.5, 0.08), (30.5, 0.12), (40.5, 0.14), (47.6, 0.18), (50.4, 0.18)];
    let local = lookups(lab, ASIC, 1, ON_DRAM)?;
    let loss = |share: Share| Ok::<_, StudyError>(local / lookups(lab, ASIC, 1, share)? - 1.0);
    let all = loss(ON_CARD)?;
    let mut checks = Vec::new();
    for (gb, expected) in points {
        let (part, tolerance) = (expected / 0.19, 0.015 / 0.19);
        let got = loss(((gb * 10.0) as u64, 514))? / all;
        checks.push(Check::within(&format!("{gb} GB on CXL"), part - tolerance, part + tolerance, got));
    }
    Ok(Evidence::of(checks))
}

fn placements(lab: &Lab) -> Result<Evidence, StudyError> {
    let time = |stream: Share, chase: Share| -> Result<f64, StudyError> {
        let machine = "cxl-asic llc.size=1920KiB l2.size=256KiB";
        let run =
            lab.pattern("stream and chase", &[stream.0, stream.1, chase.0, chase.1], machine, || {
                let (mut line, mut draw) = (0, Rng::new(3));
                let streaming = Pattern::new(4000, move |events: &mut Vec<Event>| {
                    for number in 0..26 {
                        line += 1;
                        events.push(pattern::load(address(0, line, stream), 8));
                        if number % 7 == 6 {
                            events.push(pattern::fence(FenceKind::Full));
                        }
                    }
                });
                let chasing = Pattern::new(4000, move |events: &mut Vec<Event>| {
                    for _ in 0..4 {
                        let line = draw.below((REACH / LINE) as usize) as u64;
                        events.push(pattern::load(address(1, line, chase), 8));
                        events.push(pattern::fence(FenceKind::Full));
                    }
                });
                vec![streaming, chasing]
            })?;
        Ok(run.ns_per_iteration)
    };
    let all = time(ON_DRAM, ON_DRAM)?;
    let (stream, chase) = (all / time(ON_DRAM, ON_CARD)?, all / time(ON_CARD, ON_DRAM)?);
    Ok(Evidence::of(vec![
        Check::at_least("chase local over stream local", 1.0, chase / stream),
        Check::near("stream local", 0.524, 0.08, stream),
        Check::near("chase local", 0.70, 0.08, chase),
        Check::near("all on CXL", 0.474, 0.08, all / time(ON_CARD, ON_CARD)?),
    ]))
}

fn hot_share(lab: &Lab) -> Result<Evidence, StudyError> {
    let local = super::local(lab, "cxl-asic")?;
    let adder = super::idle(lab, "cxl-asic")? - local;
    let by = |hot: f64| 100.0 * ((hot - 0.768) / hot).max(0.0) * adder / local;
    let points = [(0.70, 1.0), (0.75, 4.0), (0.80, 8.0), (1.0, 22.0)];
    let check = |(hot, expected): (f64, f64)| {
        Check::within(
            &format!("hot {:.0} %: longer by, %", hot * 100.0),
            expected - 4.0,
            expected + 4.0,
            by(hot),
        )
    };
    Ok(Evidence::of(points.map(check).to_vec()))
}
