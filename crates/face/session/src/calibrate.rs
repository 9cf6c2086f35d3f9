//! What this machine's memory takes, measured for the machine `host`.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use machine::{Config, Size, Time};
use measure::{Bench, Kind, Model, Op, Outcome, Pattern, Real, RealMemory, Task};
use pmem::probe::Placement;

use crate::host::{Calibration, VERSION, described, file};

/// Environment variable that keeps `profile` from measuring by itself, if it is `never`.
pub const VARIABLE: &str = "STRANDLINE_CALIBRATE";

/// Whether others run so much that latencies would be wrong; a sentence that says so.
fn busy() -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let load = fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse::<f64>().ok()?;
    (load > cores * 0.75)
        .then(|| format!("this machine is busy (load {load} on {cores} cores); latencies would be wrong"))
}

/// Whether `profile` should measure this machine first: nothing is kept, nobody forbids it, and it is not busy.
#[must_use]
pub fn is_due() -> bool {
    let forbidden = std::env::var_os(VARIABLE).is_some_and(|value| value == "never");
    !forbidden && crate::host::kept().is_none() && file().is_some() && busy().is_none()
}

/// Measures what the machine `host` needs, some 5 s, and keeps it; the file, and what is in it.
///
/// # Errors
/// A sentence: the machine is busy, can't measure, or nothing can be kept.
pub fn calibrate() -> Result<(PathBuf, Calibration), String> {
    if let Some(why) = busy() {
        return Err(why);
    }
    let path = file().ok_or("there is no cache folder: set XDG_CACHE_HOME or HOME")?;
    let config = described(Path::new("/sys/devices/system/cpu")).map_err(|error| error.to_string())?;
    let kept = measured(&config)?;
    let text = serde_json::to_string_pretty(&kept).map_err(|error| error.to_string())?;
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, text + "\n"))
        .map_err(|error| format!("can't keep {}: {error}", path.display()))?;
    Ok((path, kept))
}

fn measured(config: &Config) -> Result<Calibration, String> {
    let memory = RealMemory {
        placement: Placement::Anonymous,
        node: None,
        cpus: Vec::new(),
        interleave: None,
        limit: None,
    };
    let mut real = Real::new(memory).with_runtime(Duration::from_millis(150), 3);
    let half = |size: Size| size.0 / 2 / 4096 * 4096;
    let far = (config.llc.size.0 * 8).min(1 << 30);
    let regions = [half(config.l1.size), half(config.l2.size), half(config.llc.size), far];
    let mut loads_ns = [0.0; 4];
    for (ns, region) in loads_ns.iter_mut().zip(regions) {
        *ns = idle(&mut real, region)?;
    }
    let cores = config.cores.count;
    let forward_ns = if cores > 1 { forward() } else { 0.0 };
    let kept = Calibration {
        version: VERSION,
        loads_ns,
        modelled_ns: 0.0,
        forward_ns,
        walk_ns: walk(config),
        alloc_ns: allocation(),
        read_gbps: bandwidth(&mut real, cores.min(16), far),
        loaded: loaded(&mut real, cores.min(16), far),
    };
    // With the memory that the description will have.
    let mut config = config.clone();
    if let Some(curves) = crate::host::curves(&kept) {
        crate::host::by_curves(&mut config, curves);
    }
    Ok(Calibration { modelled_ns: idle(&mut Model::new(&config).with_events(50_000), far)?, ..kept })
}

/// Idle latency of loads at random places of a region.
fn idle(bench: &mut dyn Bench, region: u64) -> Result<f64, String> {
    let task = Task {
        kind: Kind::IdleLatency,
        op: Op::Load,
        pattern: Pattern::Random,
        region,
        samples: 1 << 16,
        ..Task::default()
    };
    match bench.measure(&task) {
        Ok(Outcome::Done(figures)) => figures.mean_ns().ok_or_else(|| "no latency was measured".to_owned()),
        Ok(Outcome::Skipped(why)) => Err(why),
        Err(error) => Err(error.to_string()),
    }
}

/// All cores reading in order, GB/s; 0 if that can't be measured.
fn bandwidth(real: &mut Real, threads: u32, region: u64) -> f64 {
    let region = region / u64::from(threads) / 4096 * 4096;
    let task = Task { kind: Kind::Bandwidth, threads, region, ..Task::default() };
    match real.measure(&task) {
        Ok(Outcome::Done(figures)) => figures.gb_per_s.unwrap_or(0.0),
        _ => 0.0,
    }
}

/// Latency while other cores read, the more the shorter they wait in between.
fn loaded(real: &mut Real, cores: u32, region: u64) -> Vec<[f64; 2]> {
    let threads = cores.saturating_sub(1);
    if threads == 0 {
        return Vec::new();
    }
    let region = region / u64::from(cores) / 4096 * 4096;
    let point = |delay| {
        let task =
            Task { kind: Kind::LoadedLatency, threads, region, delay, samples: 1 << 14, ..Task::default() };
        match real.measure(&task) {
            Ok(Outcome::Done(figures)) => Some([figures.gb_per_s?, figures.mean_ns()?]),
            _ => None,
        }
    };
    [Time::from_ns(1000), Time::from_ns(100), Time::ZERO].into_iter().filter_map(point).collect()
}

/// Half of a turn of two threads at one word.
fn forward() -> f64 {
    const TURNS: u32 = 200_000;
    let word = AtomicU32::new(0);
    let play = |own: u32| {
        let mut at = own;
        let start = Instant::now();
        while at < TURNS {
            let mut spins = 0u32;
            while word.load(Ordering::Acquire) != at {
                std::hint::spin_loop();
                spins += 1;
                // Both threads may be on one core.
                if spins > 10_000 {
                    std::thread::yield_now();
                    spins = 0;
                }
            }
            at += 1;
            word.store(at, Ordering::Release);
            at += 1;
        }
        start.elapsed()
    };
    let time = std::thread::scope(|scope| {
        let other = scope.spawn(|| play(1));
        let own = play(0);
        own.max(other.join().unwrap_or_default())
    });
    // What a handover by the scheduler takes is no latency of a cache.
    let ns = time.as_nanos() as f64 / f64::from(TURNS);
    if ns < 2000.0 { ns } else { 0.0 }
}

/// A chase through as many lines, a page apart, and next to each other: the difference is the walks'.
fn walk(config: &Config) -> f64 {
    let entries = pmem::probe::tlb_entries().unwrap_or(1536) as usize;
    let lines = (config.l2.size.0 / 64 / 2) as usize;
    let lines = lines.clamp(256, entries.max(256) * 4);
    let apart = chase(lines, (4096 + 64) / 8);
    let together = chase(lines, 8);
    (apart - together).max(0.0)
}

/// Nanoseconds of a step through lines so many words apart, in an order that no prefetcher knows.
fn chase(lines: usize, words: usize) -> f64 {
    const STEPS: usize = 1 << 20;
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 1u64;
    for at in (1..lines).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % at);
    }
    let mut next = vec![0u64; lines * words];
    for (at, &line) in order.iter().enumerate() {
        next[line * words] = (order[(at + 1) % lines] * words) as u64;
    }
    let mut best = f64::INFINITY;
    let mut at = 0u64;
    for _ in 0..4 {
        let start = Instant::now();
        for _ in 0..STEPS {
            at = next[at as usize];
        }
        best = best.min(start.elapsed().as_nanos() as f64 / STEPS as f64);
        at = black_box(at);
    }
    best
}

/// A block of 64 B from the allocator and back.
fn allocation() -> f64 {
    const BLOCKS: u32 = 1 << 20;
    let start = Instant::now();
    for _ in 0..BLOCKS {
        black_box(Box::new([0u8; 64]));
    }
    start.elapsed().as_nanos() as f64 / f64::from(BLOCKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_measurements_give_numbers() {
        assert!(chase(256, 8) > 0.0);
        assert!(allocation() > 0.0);
        assert!(forward() >= 0.0);
    }
}
