//! The machine that this runs on, as a description: caches and cores from sysfs, latencies as `measure --calibrate` kept
//! them, all else as the preset `dram` has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::{CacheLevel, Config, ConfigError, Replacement, Size, Time};
use measure::{Bench, Kind, Model, Op, Outcome, Pattern, Real, RealMemory, Task};
use pmem::probe::Placement;
use serde::{Deserialize, Serialize};

/// The name of the machine that this runs on.
pub const HOST: &str = "host";

/// What `measure --calibrate` keeps, nanoseconds of an 8-byte load with nothing else under way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// From the first-level cache, the second-level cache, the last one, and memory.
    pub loads_ns: [f64; 4],
    /// The same on the description before calibration: memory alone.
    pub modelled_ns: f64,
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
fn described(cpus: &Path) -> Result<Config, ConfigError> {
    let mut plain = Config::preset("dram")?;
    HOST.clone_into(&mut plain.name);
    let mut config = plain.clone();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    config.cores.count = u32::try_from(cores).unwrap_or(1).clamp(1, 1024);
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
    if let Some(timing) = &mut config.memory.timing {
        let more = (memory - l1) - kept.modelled_ns;
        timing.read_request = time(timing.read_request.0 as f64 / 1000.0 + more);
    }
}

/// Whether the system puts ordinary memory on large pages without being asked.
pub(crate) fn huge_pages() -> bool {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|text| text.contains("[always]"))
}

/// The file of the user's cache folder.
fn file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("strandline/host.json"))
}

/// What was measured here before.
#[must_use]
pub fn kept() -> Option<Calibration> {
    serde_json::from_str(&fs::read_to_string(file()?).ok()?).ok()
}

/// Measures latencies of some 10 s and keeps them; the file, and what is in it.
///
/// # Errors
/// A sentence: the machine is busy, can't measure, or nothing can be kept.
pub fn calibrate() -> Result<(PathBuf, Calibration), String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let busy =
        fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    if let Some(load) = busy.filter(|load| *load > cores * 0.75) {
        return Err(format!("this machine is busy (load {load} on {cores} cores); latencies would be wrong"));
    }
    let path = file().ok_or("there is no cache folder: set XDG_CACHE_HOME or HOME")?;
    let config = described(Path::new("/sys/devices/system/cpu")).map_err(|error| error.to_string())?;
    let memory = RealMemory {
        placement: Placement::Anonymous,
        node: None,
        cpus: Vec::new(),
        interleave: None,
        limit: None,
    };
    let mut real = Real::new(memory).with_runtime(Duration::from_millis(200), 3);
    let half = |size: Size| size.0 / 2 / 4096 * 4096;
    let regions = [half(config.l1.size), half(config.l2.size), half(config.llc.size), config.llc.size.0 * 8];
    let mut loads_ns = [0.0; 4];
    for (ns, region) in loads_ns.iter_mut().zip(regions) {
        *ns = idle(&mut real, region)?;
    }
    let modelled_ns = idle(&mut Model::new(&config).with_events(50_000), config.llc.size.0 * 8)?;
    let kept = Calibration { loads_ns, modelled_ns };
    let text = serde_json::to_string_pretty(&kept).map_err(|error| error.to_string())?;
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, text + "\n"))
        .map_err(|error| format!("can't keep {}: {error}", path.display()))?;
    Ok((path, kept))
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
        apply(&mut config, &Calibration { loads_ns: [20.0, 24.0, 45.0, 150.0], modelled_ns: 100.0 });
        assert_eq!((config.l2.latency, config.llc.latency), (Some(Time(4000)), Some(Time(21_000))));
        assert_eq!(config.memory.timing.as_ref().expect("timed").read_request.0, before.0 + 30_000);
        config.validate().expect("still a machine");
    }
}
