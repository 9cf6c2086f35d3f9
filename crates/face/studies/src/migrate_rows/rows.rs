//! The rows.

use fam::study::{Pair, Part};
use report::{Axis, Unit};

use super::measure::{self, mean, migrations};
use super::store::{self, store};
use super::verb::{self, Group, Ratios, turns, verb};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

const METHOD: &str = "measured on this computer by `strandline migrate`, where it runs as root from the command line: a program in C of 96 MiB (a sweep, random pages, \
                      canneal, streamcluster; 96 and 512 MiB for downtime) through FAM (a file in /dev/shm) and by a TCP connection on this machine; one pass over all, and up to five \
                      while they end within 30 s; medians, geometric mean over the loads; delays by busy waiting. Elsewhere, and for downtime beside it: two processes at the same addresses, the pages of \
                      a frozen one into the other one's userfaultfd, by the code that the verb uses";
const NOTE: &str = "Everything but pages goes through FAM, in both systems. Threads, fault server, daemon and delays share the cores of this computer. The page server is our own, \
                    built as CRIU's";
const REDIS: &str = "measured on this computer by `strandline migrate` of Debian's Redis, where both are there: 80,000 records of 1000 bytes, clients that read (70 %) and write \
                     uniformly and connect again when it has moved; throughput of the first 20,000 operations from the stop on; one pass, and up to three while they end within 60 s; medians. \
                     Elsewhere a process that stores records stands for it";
const AS_RATIO: &str = "shape: FAM is better; value: 30 %, since processor, kernel and loads differ; percentages are read as speed ratios";
const LACKS: &str = "A fault through FAM brings 64 KiB and by the socket one page, as CRIU's does; processor, kernel, loads and the media's real speed are others than the source's, and \
                     source, target and program share two cores. What each of these contributes was not measured";

const fn row(
    id: &'static str,
    claim: &'static str,
    expected: &'static str,
    tolerance: &'static str,
    measure: fn(&Lab) -> Result<Evidence, StudyError>,
) -> Row {
    Row {
        source: Source::Migrate,
        id,
        claim,
        expected,
        tolerance,
        method: METHOD,
        calibration: "",
        note: NOTE,
        means: Means::Here(measure),
        lacks: LACKS,
    }
}

/// Results mig-B1 to mig-D2.
pub const ROWS: &[Row] = &[
    row(
        "mig-B1",
        "Downtime is 23.73 % better, and more so for larger processes",
        "1.24; larger gain at larger size",
        AS_RATIO,
        downtime,
    ),
    row(
        "mig-B2",
        "Timer of 100 ms, one thread, FAM of 2 GB/s against an uncapped socket: total time 2.00 times better, busy time 26.74 times",
        "2.00, 26.74",
        "shape: total 1.6 times, busy 12 times; value: 30 %",
        long_one,
    ),
    row(
        "mig-B3",
        "The same with four threads: total time 1.63 times, busy time 12.72 times; both gains are smaller",
        "1.63, 12.72",
        "two threads here. Shape: both gains are below those of one thread; value: 30 %",
        long_two,
    ),
    row(
        "mig-B4",
        "Timer of 0 ms, FAM of 2 GB/s against 10 Gb/s: total time 15.44 % better, busy time 33.68 %",
        "1.15, 1.34",
        AS_RATIO,
        short_capped,
    ),
    row(
        "mig-B5",
        "Timer of 0 ms, FAM against the socket, both uncapped: total time 15.16 % better, busy time 47.08 %",
        "1.15, 1.47",
        AS_RATIO,
        short,
    ),
    Row {
        method: REDIS,
        ..row(
            "mig-B6",
            "Redis under YCSB, timer of 150 ms: total time 23.92 % better with one client thread, 22.48 % with four",
            "1.24, 1.22",
            AS_RATIO,
            store_total,
        )
    },
    Row {
        method: REDIS,
        ..row(
            "mig-B7",
            "The same: throughput during migration 22.3 % and 23.4 % higher",
            "1.22, 1.23",
            AS_RATIO,
            store_rate,
        )
    },
    Row {
        method: REDIS,
        ..row(
            "mig-B8",
            "Timer of 3 ms, FAM of 2 GB/s against 10 Gb/s: throughput 19.8 % and 25.69 % higher",
            "1.20, 1.26",
            AS_RATIO,
            store_capped,
        )
    },
    Row {
        method: REDIS,
        ..row(
            "mig-B9",
            "Timer of 3 ms, both uncapped: throughput 12.7 % and 21.79 % higher",
            "1.13, 1.22",
            AS_RATIO,
            store_short,
        )
    },
    row(
        "mig-B10",
        "At least: total time 15 % better, busy time 33 %, downtime 23 %, application 12 %",
        "1.15, 1.33, 1.23, 1.12",
        "shape: at least these, over all pairs of one kind",
        headline,
    ),
    Row {
        lacks: "Where nothing else runs, each message of a single migration's socket probably wakes a halted virtual processor (not measured): 24,578 faults take 2.2 s, and 1.1 s beside another migration, \
                which keeps the processors awake; at times a program stands so long that the timer of 1 ms ends them. FAM takes 0.11 s alone and 0.11 to 0.15 s beside another one",
        ..row(
            "mig-B11",
            "Two migrations at a time differ little from one",
            "no number",
            "shape: total and busy ratio within a factor of 1.5 of a single migration's",
            together,
        )
    },
    Row {
        method: "measured on this computer: how long a program in C of 128 MiB and 512 MiB stands for `strandline checkpoint --leave-running` into /dev/shm, with `--by writev` and \
                 `--by splice`; medians of five passes at most, the ways taking turns. Where the verb may not be used: memory of this process, by the same calls",
        note: "Pairs move 2 MiB each where the process may have pipes of that size, 1 MiB else. /dev/shm stands for a DAX file system: no non-temporal stores in write",
        lacks: "Pairs cost more beside the copy here than in the source, for a reason that was not measured",
        ..row(
            "mig-C1",
            "writev instead of vmsplice and splice: a checkpoint of one thread is 15.12 % better",
            "1.15, on all programs",
            "shape: better at all sizes; value: 10 points",
            dump_one,
        )
    },
    Row {
        method: "measured on this computer: as mig-C1, with four threads",
        note: "Pairs move 2 MiB each where the process may have pipes of that size, 1 MiB else. /dev/shm stands for a DAX file system: no non-temporal stores in write",
        lacks: "As mig-C1",
        ..row(
            "mig-C2",
            "The same with four threads: 15.99 %",
            "1.16, on all programs",
            "shape: better at all sizes; value: 10 points",
            dump_many,
        )
    },
    Row {
        method: "measured on this computer: 64 KiB, 1 MiB and 256 MiB into a mapped file whose pages are there, by non-temporal stores, by stores, and by stores and each flush \
                 that the processor has",
        note: "The source flushes with clflush. On a virtual machine, flushes and non-temporal stores go to ordinary memory",
        lacks: "The mapped file's pages are there before, the source's file is new memory; what this contributes was not measured",
        ..row(
            "mig-D1",
            "New files: ntstore is slightly faster than the stores alone, and much faster than stores and clflush",
            "ntstore over store just below 1; with clflush the gap is large",
            "shape: at most 1.1 for 256 MiB, and 1.5 or more with clflush",
            storing,
        )
    },
    Row {
        method: "measured on this computer: 256 MiB into a new file in /dev/shm, by write and by mmap and non-temporal stores, by bytes per call",
        note: "write issues no non-temporal stores here: /dev/shm is no DAX file system",
        lacks: "The mapped way takes a page fault for each page and write takes none; what a fault and a call cost here was not measured apart",
        ..row(
            "mig-D2",
            "A file of 2 GB: write is 7 % faster than mmap and ntstore for calls of more than 512 KB, and slower below; 9.05 times as long at 1 KB",
            "crossing at 512 KB; 0.93; 9.05",
            "shape: write wins for large calls and loses for the smallest; value: 3 points, 15 %",
            calling,
        )
    },
];

fn ratios(checks: Vec<Check>) -> Result<Evidence, StudyError> {
    Ok(Evidence { checks, charts: Vec::new() })
}

/// A ratio that is to be above 1, and near what was published.
fn better(what: &str, published: f64, got: f64) -> [Check; 2] {
    [Check::at_least(what, 1.0, got), Check::near(what, published, 0.3, got)]
}

/// Ratios by the verb, or where it cannot be used, by a study of the same kind.
fn moved(lab: &Lab, group: Group, part: Part) -> Result<Ratios, StudyError> {
    match verb(lab, group)? {
        Some(ratios) => Ok(ratios),
        None => studied(lab, part),
    }
}

/// The same of two groups that take turns.
fn both(lab: &Lab, [one, other]: [(Group, Part); 2]) -> Result<[Ratios; 2], StudyError> {
    match turns(lab, [one.0, other.0])? {
        Some(ratios) => Ok(ratios),
        None => Ok([studied(lab, one.1)?, studied(lab, other.1)?]),
    }
}

fn studied(lab: &Lab, part: Part) -> Result<Ratios, StudyError> {
    let pairs = migrations(lab, part)?;
    Ok(Ratios {
        downtime: mean(pairs, Pair::downtime),
        busy: mean(pairs, Pair::busy),
        total: mean(pairs, Pair::total),
    })
}

fn downtime(lab: &Lab) -> Result<Evidence, StudyError> {
    let pairs = migrations(lab, Part::Downtime)?;
    let mut checks = better("downtime, socket over FAM", 1.24, mean(pairs, Pair::downtime)).to_vec();
    let growth = pairs.last().map_or(0.0, Pair::downtime) / pairs.first().map_or(1.0, Pair::downtime);
    checks.push(Check::at_least("the ratio at the larger size over that at the smaller", 1.0, growth));
    if let Some([little, large]) = turns(lab, [Group::Little, Group::Large])? {
        let mean = (little.downtime * large.downtime).sqrt();
        let name = "by `strandline migrate`, whose socket maps no pages into pipes";
        checks.push(Check::at_least(&format!("downtime, socket over FAM, {name}"), 1.0, mean));
        let growth = large.downtime / little.downtime;
        checks.push(Check::at_least(&format!("512 MiB over 96 MiB, {name}"), 1.0, growth));
    }
    ratios(checks)
}

fn long_one(lab: &Lab) -> Result<Evidence, StudyError> {
    let got = moved(lab, Group::LongOne, Part::LongOne)?;
    ratios(vec![
        Check::at_least("total, socket over FAM", 1.6, got.total),
        Check::at_least("busy, socket over FAM", 12.0, got.busy),
        Check::near("total, socket over FAM", 2.0, 0.3, got.total),
        Check::near("busy, socket over FAM", 26.74, 0.3, got.busy),
    ])
}

fn long_two(lab: &Lab) -> Result<Evidence, StudyError> {
    let [one, two] = both(lab, [(Group::LongOne, Part::LongOne), (Group::LongTwo, Part::LongTwo)])?;
    ratios(vec![
        Check::at_most("total gain over that of one thread", 1.0, two.total / one.total),
        Check::at_most("busy gain over that of one thread", 1.0, two.busy / one.busy),
        Check::near("total, socket over FAM", 1.63, 0.3, two.total),
        Check::near("busy, socket over FAM", 12.72, 0.3, two.busy),
    ])
}

fn total_and_busy(got: Ratios, total: f64, busy: f64) -> Result<Evidence, StudyError> {
    let mut checks = better("total, socket over FAM", total, got.total).to_vec();
    checks.extend(better("busy, socket over FAM", busy, got.busy));
    ratios(checks)
}

fn short_capped(lab: &Lab) -> Result<Evidence, StudyError> {
    total_and_busy(moved(lab, Group::Capped, Part::ShortCapped)?, 1.1544, 1.3368)
}

fn short(lab: &Lab) -> Result<Evidence, StudyError> {
    total_and_busy(moved(lab, Group::Small, Part::Short)?, 1.1516, 1.4708)
}

/// What the store gains, by clients: total time and throughput.
fn gains(lab: &Lab, group: store::Group, part: Part) -> Result<Vec<(String, f64, f64)>, StudyError> {
    if let Some(gains) = store(lab, group)? {
        let named =
            gains.iter().map(|gain| (format!("{} client threads", gain.clients), gain.total, gain.rate));
        return Ok(named.collect());
    }
    let pairs = migrations(lab, part)?;
    Ok(pairs.iter().map(|pair| (pair.name.clone(), pair.total(), pair.rate())).collect())
}

fn by_clients(
    what: &str,
    gains: &[(String, f64, f64)],
    published: [f64; 2],
    part: fn(&(String, f64, f64)) -> f64,
) -> Result<Evidence, StudyError> {
    let pairs = gains.iter().zip(published);
    let checks =
        pairs.flat_map(|(gain, published)| better(&format!("{what}, {}", gain.0), published, part(gain)));
    ratios(checks.collect())
}

fn store_total(lab: &Lab) -> Result<Evidence, StudyError> {
    let gains = gains(lab, store::Group::Long, Part::StoreLong)?;
    by_clients("total, socket over FAM", &gains, [1.2392, 1.2248], |gain| gain.1)
}

const THROUGHPUT: &str = "throughput, FAM over socket";

fn store_rate(lab: &Lab) -> Result<Evidence, StudyError> {
    let gains = gains(lab, store::Group::Long, Part::StoreLong)?;
    by_clients(THROUGHPUT, &gains, [1.223, 1.234], |gain| gain.2)
}

fn store_capped(lab: &Lab) -> Result<Evidence, StudyError> {
    let gains = gains(lab, store::Group::Capped, Part::StoreCapped)?;
    by_clients(THROUGHPUT, &gains, [1.198, 1.2569], |gain| gain.2)
}

fn store_short(lab: &Lab) -> Result<Evidence, StudyError> {
    let gains = gains(lab, store::Group::Short, Part::StoreShort)?;
    by_clients(THROUGHPUT, &gains, [1.127, 1.2179], |gain| gain.2)
}

fn headline(lab: &Lab) -> Result<Evidence, StudyError> {
    let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
    // The source's least come of its tables with the short timers.
    let grids = [(Group::Capped, Part::ShortCapped), (Group::Small, Part::Short)];
    let grids: Vec<Ratios> =
        grids.into_iter().map(|(group, part)| moved(lab, group, part)).collect::<Result<_, _>>()?;
    let rates: Vec<f64> =
        gains(lab, store::Group::Short, Part::StoreShort)?.iter().map(|gain| gain.2).collect();
    let totals: Vec<f64> = grids.iter().map(|one| one.total).collect();
    let busy: Vec<f64> = grids.iter().map(|one| one.busy).collect();
    ratios(vec![
        Check::at_least("total, least", 1.15, least(&totals)),
        Check::at_least("busy, least", 1.33, least(&busy)),
        Check::at_least("downtime", 1.23, mean(migrations(lab, Part::Downtime)?, Pair::downtime)),
        Check::at_least("throughput of the store, least", 1.12, least(&rates)),
    ])
}

fn together(lab: &Lab) -> Result<Evidence, StudyError> {
    let [one, two] = both(lab, [(Group::Single, Part::Short), (Group::Together, Part::Together)])?;
    let busy = two.busy / one.busy;
    ratios(vec![
        Check::between("total ratio over a single one's", 0.67, 1.5, two.total / one.total),
        Check::between("busy ratio over a single one's", 0.67, 1.5, busy),
    ])
}

fn dumps(lab: &Lab, threads: u64, ranges: usize, published: f64) -> Result<Evidence, StudyError> {
    let all: Vec<f64> = match verb::dumps(lab, threads)? {
        Some(found) => found.into_iter().map(|(_, ratio)| ratio).collect(),
        None => {
            let dumps = measure::dumps(lab)?.iter().filter(|dump| dump.ranges == ranges);
            dumps.map(|dump| dump.ratio).collect()
        }
    };
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    ratios(vec![
        Check::at_least("pairs over writev, least", 1.0, least),
        Check::within("pairs over writev", published - 0.1, published + 0.1, mean),
    ])
}

fn dump_one(lab: &Lab) -> Result<Evidence, StudyError> {
    dumps(lab, 1, 1, 1.1512)
}

fn dump_many(lab: &Lab) -> Result<Evidence, StudyError> {
    dumps(lab, 4, 40, 1.1599)
}

fn storing(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    if let Some(largest) = measure::stores(lab)?.last() {
        checks.push(Check::at_most("ntstore over store, 256 MiB", 1.1, largest.nt_s / largest.store_s));
        for (name, seconds) in &largest.flushed_s {
            let what = format!("store and {name} over ntstore, 256 MiB");
            checks.push(Check::at_least(
                &what,
                if *name == "clflush" { 1.5 } else { 1.0 },
                seconds / largest.nt_s,
            ));
        }
    }
    ratios(checks)
}

fn calling(lab: &Lab) -> Result<Evidence, StudyError> {
    let calls = measure::calls(lab)?;
    let points: Vec<(f64, f64)> =
        calls.iter().map(|call| (call.bytes as f64, call.write_s / call.mapped_s)).collect();
    let (least, most) =
        (points.first().map_or(0.0, |point| point.1), points.last().map_or(0.0, |point| point.1));
    let chart = crate::chart(
        "write over mmap and non-temporal stores",
        Axis::log("bytes per call", Unit::Bytes),
        Axis::linear("time of write over that of mmap"),
        vec![crate::curve("/dev/shm", &Series(points))],
    );
    let checks = vec![
        Check::at_most("write over mmap, largest calls", 1.0, most),
        Check::at_least("write over mmap, calls of 1 KiB", 1.0, least),
        Check::within("write over mmap, largest calls", 0.90, 0.96, most),
        Check::near("write over mmap, calls of 1 KiB", 9.05, 0.15, least),
    ];
    Ok(Evidence { checks, charts: vec![chart] })
}
