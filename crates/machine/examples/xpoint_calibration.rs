//! The preset `xpoint` beside points of four of the five series on which its constants were calibrated; the fifth, bandwidth by power
//! budget, is a row of the studies.
//!
//! `cargo run --release -p machine --example xpoint_calibration`
//!
//! A closed loop over [`MemorySide`] stands in for cores: each thread has so many lines under way and needs so long per line
//! at least. These two numbers per operation are a core's, taken from the same series on DRAM.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use machine::{Config, MemorySide, MemoryTiming, PERSISTENT, Request, Time};

/// From a core through its caches to the memory side.
const CACHES: Time = Time(31_370);

/// GB/s by threads from 1: read, ntstore, store+clwb.
const BANDWIDTH: [(u32, [f64; 3]); 14] = [
    (1, [2.92, 2.22, 1.44]),
    (2, [5.66, 2.21, 1.79]),
    (3, [6.45, 2.21, 1.79]),
    (4, [6.52, 2.20, 1.71]),
    (5, [6.51, 2.12, 1.64]),
    (6, [6.50, 1.96, 1.55]),
    (7, [6.50, 1.73, 1.48]),
    (8, [6.46, 1.53, 1.40]),
    (10, [6.29, 1.25, 1.21]),
    (12, [5.91, 1.12, 1.08]),
    (14, [5.25, 0.98, 0.98]),
    (16, [4.73, 0.94, 0.88]),
    (20, [4.10, 0.86, 0.85]),
    (24, [3.89, 0.80, 0.82]),
];

/// Media bytes per controller byte of the half-line probe, by KiB.
const AMPLIFICATION: [(f64, f64); 19] = [
    (0.25, 0.798),
    (0.5, 0.913),
    (1.0, 0.970),
    (2.0, 1.036),
    (4.0, 1.034),
    (8.0, 1.036),
    (16.0, 1.036),
    (18.0, 1.039),
    (20.0, 1.359),
    (22.0, 1.503),
    (24.0, 1.608),
    (26.0, 1.681),
    (28.0, 1.736),
    (32.0, 1.820),
    (40.0, 1.918),
    (48.0, 1.984),
    (64.0, 2.043),
    (128.0, 2.076),
    (1024.0, 2.075),
];

/// Microseconds by bytes of the hot region: 99.99th and 99.999th percentile, maximum.
const TAIL: [(u64, [f64; 3]); 9] = [
    (256, [0.320, 52.74, 56.8]),
    (4 << 10, [0.377, 50.98, 59.1]),
    (32 << 10, [0.377, 48.44, 55.4]),
    (64 << 10, [0.374, 18.54, 32.7]),
    (128 << 10, [0.375, 0.395, 30.5]),
    (256 << 10, [0.375, 0.388, 17.5]),
    (1 << 20, [0.248, 0.252, 16.3]),
    (8 << 20, [0.375, 0.386, 15.5]),
    (64 << 20, [0.375, 0.393, 15.8]),
];

#[derive(Clone, Copy, PartialEq)]
enum Op {
    Read,
    StoreNt,
    Clwb,
}

impl Op {
    /// Lines under way at once, and the least time per line.
    fn core(self) -> (usize, Time) {
        match self {
            Op::Read => (10, Time::from_ns(4)),
            Op::StoreNt => (10, Time(14_800)),
            Op::Clwb => (10, Time(44_500)),
        }
    }
}

fn request(line: u64, thread: u32) -> Request {
    Request { line: line | PERSISTENT, thread, core: thread }
}

/// GB/s and figures of sequential accesses in private regions.
#[allow(clippy::cast_precision_loss)]
fn bandwidth(config: &Config, op: Op, threads: u32, lines: u64) -> (f64, MemoryTiming) {
    let mut side = MemorySide::new(config).expect("a timed preset");
    let (depth, interval) = op.core();
    let mut turns: BinaryHeap<_> = (0..threads).map(|t| Reverse((Time(u64::from(t) * 7_000), t))).collect();
    let mut under_way = vec![VecDeque::new(); threads as usize];
    let mut next = vec![0u64; threads as usize];
    let (mut moved, mut warm, mut end) = (0u64, (Time::ZERO, 0), Time::ZERO);
    while moved < lines {
        let Reverse((now, thread)) = turns.pop().expect("each thread has a turn");
        let t = thread as usize;
        // 2 GiB each.
        let request = request(u64::from(thread) << 25 | next[t], thread);
        next[t] += 1;
        let done = match op {
            Op::Read => side.read(now + CACHES, request),
            Op::StoreNt => side.write(now, request, true),
            Op::Clwb => {
                let owned = side.read(now + CACHES, request);
                side.write(owned, request, true)
            }
        };
        moved += 1;
        under_way[t].push_back(done);
        let free = if under_way[t].len() == depth { under_way[t].pop_front().unwrap_or(now) } else { now };
        turns.push(Reverse((free.max(now + interval), thread)));
        end = now;
        if moved == lines / 5 {
            warm = (now, moved);
        }
    }
    let rate = (moved - warm.1) as f64 * 64.0 / (end - warm.0).ns();
    let [_, figures] = side.figures();
    (rate, figures)
}

#[allow(clippy::cast_precision_loss)]
fn idle(config: &Config, op: &str) -> f64 {
    let mut side = MemorySide::new(config).expect("a timed preset");
    let mut random = 88_172_645_463_325_252u64;
    let (mut now, mut sum) = (Time::ZERO, Time::ZERO);
    let rounds = 20_000;
    for line in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let line = if op == "random" { (random >> 20) % (1 << 24) } else { line };
        let done = side.read(now + CACHES, request(line, 0));
        sum += done - now;
        now = done + Time::from_ns(60);
    }
    sum.ns() / rounds as f64
}

/// The half-line probe: each line is fetched, changed and flushed, one after the other.
#[allow(clippy::cast_precision_loss)]
fn amplification(config: &Config, units: u64, rounds: u64) -> f64 {
    let mut side = MemorySide::new(config).expect("a timed preset");
    let mut now = Time::ZERO;
    let mut before = Default::default();
    for round in 0..rounds {
        if round == rounds / 4 {
            [_, before] = side.figures().map(|memory| memory.total);
        }
        for half in [0, 2] {
            for unit in 0..units {
                for line in [unit * 4 + half, unit * 4 + half + 1] {
                    let owned = side.read(now + CACHES, request(line, 0));
                    now = side.write(owned + CACHES, request(line, 0), true);
                }
            }
            now += Time::from_ns(30);
        }
    }
    let [_, after] = side.figures().map(|memory| memory.total.since(&before));
    after.media_write_bytes as f64 / after.controller_write_bytes as f64
}

/// Percentiles of 256 B at a time, in order, in a hot region.
fn tail(config: &Config, bytes: u64, samples: u64) -> [f64; 3] {
    let mut side = MemorySide::new(config).expect("a timed preset");
    let mut latencies: Vec<Time> = Vec::new();
    let mut now = Time::ZERO;
    for sample in 0..samples {
        let first = sample * 4 % (bytes / 64);
        let done = (0..4).map(|line| side.write(now, request(first + line, 0), true)).max().unwrap_or(now);
        latencies.push(done - now + Time::from_ns(60));
        now = done + Time::from_ns(140);
    }
    latencies.sort_unstable();
    [9999, 99_999, 100_000].map(|share| {
        let at = (latencies.len() as u64 * share / if share == 9999 { 10_000 } else { 100_000 }) as usize;
        latencies[at.min(latencies.len() - 1)].ns() / 1e3
    })
}

fn main() {
    let mut config = Config::preset("xpoint").expect("a preset");
    for change in std::env::args().skip(1) {
        let (key, value) = change.split_once('=').expect("KEY=VALUE");
        config = config.with_overrides(&[(key, value)]).expect("a valid change");
    }
    config.memory.dimms = 1;

    println!("idle latency, ns: model / measured");
    println!("  sequential {:6.1} / 169.4", idle(&config, "sequential"));
    println!("  random     {:6.1} / 305.0", idle(&config, "random"));

    println!("one DIMM, GB/s by threads: model / measured (EWR)");
    let mut errors = [0.0f64; 3];
    for (threads, measured) in BANDWIDTH {
        print!("  {threads:2}");
        for (n, op) in [Op::Read, Op::StoreNt, Op::Clwb].into_iter().enumerate() {
            let (rate, figures) = bandwidth(&config, op, threads, 150_000);
            errors[n] += (rate / measured[n] - 1.0).abs() / BANDWIDTH.len() as f64;
            let ewr = figures.total.ewr().unwrap_or(0.0);
            print!(
                "   {rate:5.2} / {:5.2} {:+4.0}% ({ewr:4.2})",
                measured[n],
                (rate / measured[n] - 1.0) * 100.0
            );
        }
        println!();
    }
    println!("  mean error {:.1}% {:.1}% {:.1}%", errors[0] * 100.0, errors[1] * 100.0, errors[2] * 100.0);

    println!("write amplification of the half-line probe by KiB: model / measured");
    for (kib, measured) in AMPLIFICATION {
        let units = (kib * 4.0) as u64;
        let model = amplification(&config, units, (60_000 / units).max(8));
        println!("  {kib:7} {model:6.3} / {measured:6.3} {:+4.0}%", (model / measured - 1.0) * 100.0);
    }

    println!("latency of 256 B in a hot region, us: 99.99 %, 99.999 %, max: model / measured");
    for (bytes, measured) in TAIL {
        let model = tail(&config, bytes, 1_000_000);
        println!(
            "  {bytes:8} {:6.2} / {:5.2}   {:6.2} / {:5.2}   {:6.2} / {:5.2}",
            model[0], measured[0], model[1], measured[1], model[2], measured[2]
        );
    }
}
