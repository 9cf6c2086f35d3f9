//! The machine that this runs on, as a description: caches and cores from sysfs, latencies as `measure --calibrate` kept
//! them, all else as the preset `dram` has it.

use std::fs;
use std::path::{Path, PathBuf};

use device::curve::{Curve, Curves, Point};
use machine::{CacheLevel, Config, ConfigError, Replacement, Size, Time};
use serde::{Deserialize, Serialize};

/// The name of the machine that this runs on.
pub const HOST: &str = "host";

/// Version of what is kept; what an older one kept is measured again.
pub(crate) const VERSION: u32 = 3;
/// What a description by curves takes for memory's own part of an idle load, nanoseconds: what the way to it
/// takes is fitted to the rest.
const MEMORY_NS: f64 = 40.0;

/// What `measure --calibrate` keeps, nanoseconds of an 8-byte load with nothing else under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Of the file.
    #[serde(default)]
    pub version: u32,
    /// From the first-level cache, the second-level cache, the last one, and memory.
    pub loads_ns: [f64; 4],
    /// The same on the description before calibration: memory alone.
    pub modelled_ns: f64,
    /// From one core's cache to another's; 0 with one core.
    #[serde(default)]
    pub forward_ns: f64,
    /// What a walk of the page tables adds to a load.
    #[serde(default)]
    pub walk_ns: f64,
    /// A small block from the allocator and back to it.
    #[serde(default)]
    pub alloc_ns: f64,
    /// All cores reading in order, GB/s.
    #[serde(default)]
    pub read_gbps: f64,
    /// The idle latency of a core while the others read: their GB/s, nanoseconds.
    #[serde(default)]
    pub loaded: Vec<[f64; 2]>,
}

/// A machine by its name: `host`, a preset, or the path of a file.
///
/// # Errors
/// If there is no such machine.
pub fn load(name: &str) -> Result<Config, ConfigError> {
    if name == HOST && !Path::new(HOST).exists() { host() } else { Config::load(name) }
}

/// This machine.
///
/// # Errors
/// If the preset that it is made of can't be read, which is a fault of ours.
pub fn host() -> Result<Config, ConfigError> {
    let mut config = described(Path::new("/sys/devices/system/cpu"))?;
    if let Some(kept) = kept() {
        apply(&mut config, &kept);
    }
    Ok(config)
}

/// By the files of a folder as `/sys/devices/system/cpu`.
pub(crate) fn described(cpus: &Path) -> Result<Config, ConfigError> {
    let mut plain = Config::preset("dram")?;
    HOST.clone_into(&mut plain.name);
    let mut config = plain.clone();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    config.cores.count = u32::try_from(cores).unwrap_or(1).clamp(1, 1024);
    // All processors of these kinds fetch streams ahead.
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        config.l2.prefetch = Some(machine::Prefetch::Stream);
    }
    if let Some(cycle) = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cycle(&text)) {
        config.cores.pipeline.cycle = cycle;
    }
    for index in 0..8 {
        let folder = cpus.join(format!("cpu0/cache/index{index}"));
        let text = |name: &str| fs::read_to_string(folder.join(name)).map(|text| text.trim().to_owned()).ok();
        if text("type").is_none_or(|kind| kind == "Instruction") {
            continue;
        }
        let (Some(level), Some(bytes)) = (text("level"), text("size").and_then(|size| bytes(&size))) else {
            continue;
        };
        let ways = text("ways_of_associativity").and_then(|ways| ways.parse().ok()).unwrap_or(0);
        match level.as_str() {
            "1" => fit(&mut config.l1, bytes, ways, true),
            "2" => fit(&mut config.l2, bytes, ways, true),
            "3" => fit(&mut config.llc, bytes, ways, false),
            _ => {}
        }
    }
    Ok(if config.validate().is_ok() { config } else { plain })
}

/// `48K`, `32768K`, `2M`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) =
        text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A level of so many bytes and ways, as near as a description can be.
fn fit(level: &mut CacheLevel, bytes: u64, ways: u32, power_of_two: bool) {
    // Fully associative ones state no ways.
    let ways = if ways == 0 { 16 } else { ways.min(64) };
    let mut sets = bytes.min(1 << 30) / 64 / u64::from(ways);
    if power_of_two && !sets.is_power_of_two() {
        sets = sets.next_power_of_two() / 2;
    }
    if sets == 0 {
        return;
    }
    (level.size, level.ways) = (Size(sets * 64 * u64::from(ways)), ways);
    level.slices = None;
    level.replacement = match level.replacement {
        Replacement::TreePlru if !ways.is_power_of_two() => Replacement::Lru,
        other => other,
    };
}

/// Differences between levels are what levels add; that of the first stays, for timing a load takes longer than it.
fn apply(config: &mut Config, kept: &Calibration) {
    let [l1, l2, llc, memory] = kept.loads_ns;
    let time = |ns: f64| Time((ns.max(0.5) * 1000.0) as u64);
    config.l2.latency = Some(time(l2 - l1));
    config.llc.latency = Some(time(llc - l2));
    if let Some(curves) = curves(kept) {
        by_curves(config, curves);
    }
    if let Some(timing) = &mut config.memory.timing {
        let more = (memory - l1) - kept.modelled_ns;
        timing.read_request = time(timing.read_request.0 as f64 / 1000.0 + more);
    }
    if kept.forward_ns > 0.0 {
        config.llc.forward = Some(time(kept.forward_ns));
    }
    if kept.read_gbps > 0.0 && curves(kept).is_none() {
        // So many channels as this takes, if each gives three quarters of what its bus can.
        let channel = match &config.device.timing {
            Some(machine::DeviceTiming::Dram(dram)) => 64_000.0 / dram.t_bl.0.max(1) as f64 * 0.75,
            _ => 16.0,
        };
        config.memory.dimms = ((kept.read_gbps / channel).ceil() as u32).clamp(1, 64);
    }
}

/// Latency of memory by the bandwidth that cores take from it, as far as it was measured: from idle to all
/// cores reading.
pub(crate) fn curves(kept: &Calibration) -> Option<Curves> {
    if kept.read_gbps <= 0.0 || kept.loaded.is_empty() {
        return None;
    }
    let idle = kept.loads_ns[3];
    let mut most = MEMORY_NS;
    let mut points = vec![Point { bandwidth: 0.0, latency: MEMORY_NS }];
    let mut loaded = kept.loaded.clone();
    loaded.sort_by(|a, b| a[0].total_cmp(&b[0]));
    for [bandwidth, ns] in loaded.into_iter().filter(|point| point[0] > 0.0 && point[0] < kept.read_gbps) {
        // More load is no less latency; noise may say otherwise.
        most = most.max(MEMORY_NS + ns - idle);
        points.push(Point { bandwidth, latency: most + points.len() as f64 * 1e-3 });
    }
    points.push(Point { bandwidth: kept.read_gbps, latency: most + points.len() as f64 * 1e-3 });
    Some(Curves::new(points.into_iter().map(|point| (1.0, point))))
}

/// Memory that is nothing but curves, in one channel.
pub(crate) fn by_curves(config: &mut Config, curves: Curves) {
    config.device.timing = Some(machine::DeviceTiming::Curve(Curve {
        file: "measured".to_owned(),
        window: Time::from_ns(1000),
        curves,
    }));
    config.memory.dimms = 1;
}

/// A core's clock cycle, as the system states it.
fn cycle(cpuinfo: &str) -> Option<Time> {
    let line = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split(':').nth(1)?.trim().parse().ok()?;
    (100.0..20_000.0).contains(&mhz).then(|| Time((1e6 / mhz) as u64))
}

/// Whether the system puts ordinary memory on large pages without being asked.
pub(crate) fn huge_pages() -> bool {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|text| text.contains("[always]"))
}

/// The file of the user's cache folder.
pub(crate) fn file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("strandline/host.json"))
}

/// What was measured here before.
#[must_use]
pub fn kept() -> Option<Calibration> {
    let kept: Calibration = serde_json::from_str(&fs::read_to_string(file()?).ok()?).ok()?;
    (kept.version == VERSION).then_some(kept)
}

/// What the rules of ordinary memory need to know of this machine, beside its description.
pub(crate) fn options(options: locality::Options) -> locality::Options {
    let kept = kept().unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    locality::Options {
        tlb_entries: pmem::probe::tlb_entries().map_or(options.tlb_entries, |entries| entries as usize),
        huge_pages: huge_pages(),
        nodes: nodes(Path::new("/sys/devices/system/node")),
        cores,
        walk_ns: kept.walk_ns,
        alloc_ns: kept.alloc_ns,
        ..options
    }
}

/// Nodes that have memory.
fn nodes(folder: &Path) -> u32 {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    let has_memory = |path: &Path| {
        fs::read_to_string(path.join("meminfo")).is_ok_and(|text| !text.contains("MemTotal:       0 kB"))
    };
    let count = names
        .filter(|name| name.file_name().to_str().is_some_and(is_node) && has_memory(&name.path()))
        .count();
    (count as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_what_its_files_say() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |index: u32, of: [&str; 4]| {
            let path = folder.path().join(format!("cpu0/cache/index{index}"));
            fs::create_dir_all(&path).expect("a folder");
            for (name, text) in ["level", "type", "size", "ways_of_associativity"].iter().zip(of) {
                fs::write(path.join(name), format!("{text}\n")).expect("a file");
            }
        };
        write(0, ["1", "Data", "48K", "12"]);
        write(1, ["1", "Instruction", "64K", "4"]);
        write(2, ["2", "Unified", "1280K", "20"]);
        write(3, ["3", "Unified", "36864K", "12"]);
        let config = described(folder.path()).expect("a machine");
        assert_eq!((config.name.as_str(), config.l1.size.0, config.l1.ways), ("host", 48 << 10, 12));
        assert_eq!((config.l2.size.0, config.llc.size.0), (1280 << 10, 36 << 20));
        assert_eq!(config.l1.replacement, Replacement::Lru, "twelve ways are no tree");
        assert_eq!(config.device.unit.0, 64);
        let none = described(&folder.path().join("none")).expect("a machine");
        assert_eq!(none.l1.size, Config::preset("dram").expect("a preset").l1.size);
    }

    #[test]
    fn what_was_measured_moves_the_latencies() {
        let mut config = described(Path::new("/nowhere")).expect("a machine");
        let before = config.memory.timing.clone().expect("timed").read_request;
        let (loads_ns, modelled_ns, forward_ns) = ([20.0, 24.0, 45.0, 150.0], 100.0, 60.0);
        let kept =
            Calibration { loads_ns, modelled_ns, forward_ns, read_gbps: 30.0, ..Calibration::default() };
        apply(&mut config, &kept);
        assert_eq!(
            (config.llc.forward, config.memory.dimms),
            (Some(Time(60_000)), 2),
            "30 GB/s take two channels"
        );
        assert_eq!((config.l2.latency, config.llc.latency), (Some(Time(4000)), Some(Time(21_000))));
        assert_eq!(config.memory.timing.as_ref().expect("timed").read_request.0, before.0 + 30_000);
        config.validate().expect("still a machine");
    }

    #[test]
    fn memory_under_load_is_what_was_measured() {
        let mut config = described(Path::new("/nowhere")).expect("a machine");
        let loaded = vec![[12.0, 180.0], [4.0, 110.0], [6.0, 105.0], [99.0, 500.0]];
        let kept = Calibration {
            loads_ns: [1.0, 4.0, 20.0, 100.0],
            modelled_ns: 100.0,
            read_gbps: 20.0,
            loaded,
            ..Calibration::default()
        };
        apply(&mut config, &kept);
        config.validate().expect("still a machine");
        let Some(machine::DeviceTiming::Curve(curve)) = &config.device.timing else { panic!("no curve") };
        let (_, points) = curve.curves.shares().next().expect("a share");
        let points: Vec<_> = points.iter().map(|point| (point.bandwidth, point.latency.round())).collect();
        assert_eq!(points, [(0.0, 40.0), (4.0, 50.0), (6.0, 50.0), (12.0, 120.0), (20.0, 120.0)]);
        assert_eq!(curves(&Calibration::default()), None, "nothing was measured");
    }

    #[test]
    fn clock_and_nodes_are_read() {
        assert_eq!(cycle("processor: 0\ncpu MHz\t\t: 2500.000\n"), Some(Time(400)));
        assert_eq!(cycle("no clock"), None);
        let folder = tempfile::tempdir().expect("a folder");
        for (name, memory) in [
            ("node0", "Node 0 MemTotal:       100 kB"),
            ("node1", "Node 1 MemTotal:       0 kB"),
            ("possible", ""),
        ] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
            fs::write(folder.path().join(name).join("meminfo"), memory).expect("a file");
        }
        assert_eq!(nodes(folder.path()), 1, "a node without memory is none");
    }
}
