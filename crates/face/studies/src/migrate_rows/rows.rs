//! The rows.

use fam::study::Pair;
use report::{Axis, Unit};

use super::measure::{dumps_and_stores, mean, migrations};
use super::verb::{Ratios, Verb, verb};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

const METHOD: &str = "measured on this computer: two processes at the same addresses, the pages of a frozen one through FAM (a file in /dev/shm) or a TCP \
                      connection on this machine into the other one's userfaultfd; 192 MiB (1 GiB for downtime), medians of three; delays by busy waiting. B1 to B5 and B10 also by `strandline migrate` of a \
                      program in C (a sweep, random pages), where it runs as root from the command line";
const NOTE: &str = "Everything but pages is left out, in both systems. Threads, fault server, daemon and delays share the cores of this computer. Loads are a sweep and \
                    random pages with 3 us of work at each, and a store of 1000-byte records. The page server is our own, built as CRIU's";
const AS_RATIO: &str = "shape: FAM is better; value: 30 %, since processor, kernel and loads differ; percentages are read as speed ratios";
const LACKS: &str = "A fault costs a switch to the fault server and back, which is the same both ways and more on a virtual machine than on the source's desktop; what is \
                     left of a ratio of fault times is smaller";

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
    row(
        "mig-B6",
        "Redis under YCSB, timer of 150 ms: total time 23.92 % better with one client thread, 22.48 % with four",
        "1.24, 1.22",
        AS_RATIO,
        store_total,
    ),
    row(
        "mig-B7",
        "The same: throughput during migration 22.3 % and 23.4 % higher",
        "1.22, 1.23",
        AS_RATIO,
        store_rate,
    ),
    row(
        "mig-B8",
        "Timer of 3 ms, FAM of 2 GB/s against 10 Gb/s: throughput 19.8 % and 25.69 % higher",
        "1.20, 1.26",
        AS_RATIO,
        store_capped,
    ),
    row(
        "mig-B9",
        "Timer of 3 ms, both uncapped: throughput 12.7 % and 21.79 % higher",
        "1.13, 1.22",
        AS_RATIO,
        store_short,
    ),
    row(
        "mig-B10",
        "At least: total time 15 % better, busy time 33 %, downtime 23 %, application 12 %",
        "1.15, 1.33, 1.23, 1.12",
        "shape: at least these, over all pairs of one kind",
        headline,
    ),
    row(
        "mig-B11",
        "Two migrations at a time differ little from one",
        "no number",
        "shape: total and busy ratio within a factor of 1.5 of a single migration's",
        together,
    ),
    Row {
        method: "measured on this computer: 256 MiB and 1 GiB of memory, in one range, into a new file in /dev/shm, by writev and by pairs of vmsplice and splice in the same \
                 process; medians of five, the ways taking turns",
        note: "Pairs move 2 MiB each where the process may have pipes of that size, 1 MiB else. /dev/shm stands for a DAX file system: no non-temporal stores in write",
        lacks: "Both ways spend their time in one copy and in finding pages for the file; what pairs cost beside that is smaller on this kernel",
        ..row(
            "mig-C1",
            "writev instead of vmsplice and splice: a checkpoint of one thread is 15.12 % better",
            "1.15, on all programs",
            "shape: better at all sizes; value: 10 points",
            dump_one,
        )
    },
    Row {
        method: "measured on this computer: as mig-C1, with 40 ranges apart from each other, as the VMAs of a process with several threads are",
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
        method: "measured on this computer: 64 KiB, 1 MiB and 16 MiB into a mapped file whose pages are there, by non-temporal stores, by stores, and by stores and each flush \
                 that the processor has",
        note: "The source flushes with clflush. On a virtual machine, flushes and non-temporal stores go to ordinary memory",
        lacks: "Stores alone stay in the caches of this processor, which hold all of the smaller amounts; the source's file is new memory each time",
        ..row(
            "mig-D1",
            "New files: ntstore is slightly faster than the stores alone, and much faster than stores and clflush",
            "ntstore over store just below 1; with clflush the gap is large",
            "shape: at most 1.1 for 16 MiB, and 1.5 or more with clflush",
            storing,
        )
    },
    Row {
        method: "measured on this computer: 512 MiB into a new file in /dev/shm, by write and by mmap and non-temporal stores, by bytes per call",
        note: "write issues no non-temporal stores here: /dev/shm is no DAX file system",
        lacks: "A page fault costs more on this kernel and virtual machine than a system call by far, so write wins at smaller calls already, and by more",
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

/// A ratio by the verb, in words that say so; none where it cannot be used.
fn by_verb(what: &str, least: f64, ratio: impl Fn(&Verb) -> f64) -> Result<Vec<Check>, StudyError> {
    let found =
        verb()?.map(|verb| Check::at_least(&format!("{what}, by `strandline migrate`"), least, ratio(verb)));
    Ok(found.into_iter().collect())
}

fn downtime(_: &Lab) -> Result<Evidence, StudyError> {
    let pairs = &migrations()?.downtime;
    let mut checks = better("downtime, socket over FAM", 1.24, mean(pairs, Pair::downtime)).to_vec();
    let growth = pairs.last().map_or(0.0, Pair::downtime) / pairs.first().map_or(1.0, Pair::downtime);
    checks.push(Check::at_least("the ratio at the larger size over that at the smaller", 1.0, growth));
    checks.extend(by_verb("downtime, 192 MiB, socket over FAM", 1.0, |verb| verb.small.downtime)?);
    checks.extend(by_verb("downtime, 1 GiB, socket over FAM", 1.0, |verb| verb.large.downtime)?);
    ratios(checks)
}

fn long_one(_: &Lab) -> Result<Evidence, StudyError> {
    let study = migrations()?;
    let (total, busy) = (mean(&study.long_one, Pair::total), mean(&study.long_one, Pair::busy));
    let pair = study.long_one.first();
    let beats = |points: &[(f64, f64)]| Series(points.to_vec());
    let charts = pair.map(|pair| {
        crate::chart(
            "Operations per second, from the freeze on (sweep)",
            Axis::linear("seconds"),
            Axis::linear("operations per second"),
            vec![
                crate::curve("FAM", &beats(&pair.fam.beats)),
                crate::curve("socket", &beats(&pair.socket.beats)),
            ],
        )
    });
    let mut checks = vec![
        Check::at_least("total, socket over FAM", 1.6, total),
        Check::at_least("busy, socket over FAM", 12.0, busy),
        Check::near("total, socket over FAM", 2.0, 0.3, total),
        Check::near("busy, socket over FAM", 26.74, 0.3, busy),
    ];
    checks.extend(by_verb("total, socket over FAM", 1.6, |verb| verb.long_one.total)?);
    checks.extend(by_verb("busy, socket over FAM", 12.0, |verb| verb.long_one.busy)?);
    Ok(Evidence { checks, charts: charts.into_iter().collect() })
}

fn long_two(_: &Lab) -> Result<Evidence, StudyError> {
    let study = migrations()?;
    let (total, busy) = (mean(&study.long_two, Pair::total), mean(&study.long_two, Pair::busy));
    let mut checks = vec![
        Check::at_most("total gain over that of one thread", 1.0, total / mean(&study.long_one, Pair::total)),
        Check::at_most("busy gain over that of one thread", 1.0, busy / mean(&study.long_one, Pair::busy)),
        Check::near("total, socket over FAM", 1.63, 0.3, total),
        Check::near("busy, socket over FAM", 12.72, 0.3, busy),
    ];
    checks.extend(by_verb("total, socket over FAM", 1.0, |verb| verb.long_two.total)?);
    checks.extend(by_verb("busy, socket over FAM", 1.0, |verb| verb.long_two.busy)?);
    ratios(checks)
}

fn total_and_busy(
    pairs: &[Pair],
    total: f64,
    busy: f64,
    verb: fn(&Verb) -> Ratios,
) -> Result<Evidence, StudyError> {
    let mut checks = better("total, socket over FAM", total, mean(pairs, Pair::total)).to_vec();
    checks.extend(better("busy, socket over FAM", busy, mean(pairs, Pair::busy)));
    checks.extend(by_verb("total, socket over FAM", 1.0, |found| verb(found).total)?);
    checks.extend(by_verb("busy, socket over FAM", 1.0, |found| verb(found).busy)?);
    ratios(checks)
}

fn short_capped(_: &Lab) -> Result<Evidence, StudyError> {
    total_and_busy(&migrations()?.short_capped, 1.1544, 1.3368, |verb| verb.capped)
}

fn short(_: &Lab) -> Result<Evidence, StudyError> {
    total_and_busy(&migrations()?.short, 1.1516, 1.4708, |verb| verb.small)
}

fn by_clients(
    pairs: &[Pair],
    what: &str,
    published: [f64; 2],
    ratio: fn(&Pair) -> f64,
) -> Result<Evidence, StudyError> {
    let checks = pairs
        .iter()
        .zip(published)
        .flat_map(|(pair, published)| better(&format!("{what}, {}", pair.name), published, ratio(pair)));
    ratios(checks.collect())
}

fn store_total(_: &Lab) -> Result<Evidence, StudyError> {
    by_clients(&migrations()?.store_long, "total, socket over FAM", [1.2392, 1.2248], Pair::total)
}

fn store_rate(_: &Lab) -> Result<Evidence, StudyError> {
    by_clients(&migrations()?.store_long, "throughput, FAM over socket", [1.223, 1.234], Pair::rate)
}

fn store_capped(_: &Lab) -> Result<Evidence, StudyError> {
    by_clients(&migrations()?.store_capped, "throughput, FAM over socket", [1.198, 1.2569], Pair::rate)
}

fn store_short(_: &Lab) -> Result<Evidence, StudyError> {
    by_clients(&migrations()?.store_short, "throughput, FAM over socket", [1.127, 1.2179], Pair::rate)
}

fn headline(_: &Lab) -> Result<Evidence, StudyError> {
    let study = migrations()?;
    let grids = [&study.long_one, &study.long_two, &study.short_capped, &study.short];
    let stores = [&study.store_long, &study.store_capped, &study.store_short];
    let least = |groups: &[&Vec<Pair>], ratio: fn(&Pair) -> f64| {
        groups.iter().map(|pairs| mean(pairs, ratio)).fold(f64::INFINITY, f64::min)
    };
    let mut checks = vec![
        Check::at_least("total, least", 1.15, least(&grids, Pair::total)),
        Check::at_least("busy, least", 1.33, least(&grids, Pair::busy)),
        Check::at_least("downtime", 1.23, mean(&study.downtime, Pair::downtime)),
        Check::at_least("throughput of the store, least", 1.12, least(&stores, Pair::rate)),
    ];
    let least = |verb: &Verb, part: fn(&Ratios) -> f64| {
        [&verb.small, &verb.long_one, &verb.long_two, &verb.capped]
            .map(part)
            .into_iter()
            .fold(f64::INFINITY, f64::min)
    };
    checks.extend(by_verb("total, least", 1.15, |verb| least(verb, |one| one.total))?);
    checks.extend(by_verb("busy, least", 1.33, |verb| least(verb, |one| one.busy))?);
    ratios(checks)
}

fn together(_: &Lab) -> Result<Evidence, StudyError> {
    let study = migrations()?;
    let alone = |ratio: fn(&Pair) -> f64| mean(&study.short, ratio);
    ratios(vec![
        Check::between(
            "total ratio over a single one's",
            0.67,
            1.5,
            mean(&study.together, Pair::total) / alone(Pair::total),
        ),
        Check::between(
            "busy ratio over a single one's",
            0.67,
            1.5,
            mean(&study.together, Pair::busy) / alone(Pair::busy),
        ),
    ])
}

fn dumps(ranges: usize, published: f64) -> Result<Evidence, StudyError> {
    let dumps = dumps_and_stores()?.dumps.iter().filter(|dump| dump.ranges == ranges);
    let all: Vec<f64> = dumps.map(|dump| dump.ratio).collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    ratios(vec![
        Check::at_least("pairs over writev, least", 1.0, least),
        Check::within("pairs over writev", published - 0.1, published + 0.1, mean),
    ])
}

fn dump_one(_: &Lab) -> Result<Evidence, StudyError> {
    dumps(1, 1.1512)
}

fn dump_many(_: &Lab) -> Result<Evidence, StudyError> {
    dumps(40, 1.1599)
}

fn storing(_: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    if let Some(largest) = dumps_and_stores()?.stores.last() {
        checks.push(Check::at_most("ntstore over store, 16 MiB", 1.1, largest.nt_s / largest.store_s));
        for (name, seconds) in &largest.flushed_s {
            let what = format!("store and {name} over ntstore, 16 MiB");
            checks.push(Check::at_least(
                &what,
                if *name == "clflush" { 1.5 } else { 1.0 },
                seconds / largest.nt_s,
            ));
        }
    }
    ratios(checks)
}

fn calling(_: &Lab) -> Result<Evidence, StudyError> {
    let calls = &dumps_and_stores()?.calls;
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
