//! The description of a machine: what a TOML file says, and what it must not say.

mod controller;
mod files;
mod overrides;
mod pipeline;
mod prestores;
mod sockets;
mod tlb;

pub use controller::{Controller, ControllerTiming, OtherMemory};
pub use pipeline::Pipeline;
pub use prestores::{Eager, HardwarePrestores};
pub use sockets::Sockets;
pub use tlb::{Offload, PageFaults, Tlb, TlbLevel};

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use device::check_times;

use crate::slices::Slices;
use crate::{DeviceConfig, LINE_BYTES, Replacement, Size, Time};

macro_rules! preset {
    ($name:literal) => {
        ($name, include_str!(concat!("../../presets/", $name, ".toml")))
    };
}

/// The descriptions that come with Strandline, as files that users copy and edit: DRAM, 3D XPoint and what stands in for it, CXL,
/// other memories, machines of published studies.
const PRESETS: &[(&str, &str)] = &[
    preset!("dram"),
    preset!("dram-remote"),
    preset!("xpoint"),
    preset!("xpoint-one-dimm"),
    preset!("xpoint-remote"),
    preset!("eadr"),
    preset!("cascade-lake"),
    preset!("pmep"),
    preset!("cxl-dram"),
    preset!("cxl-asic"),
    preset!("cxl-fpga"),
    preset!("cxl-switch"),
    preset!("cmm-h"),
    preset!("cxl-ssd"),
    preset!("enzian-fast"),
    preset!("enzian-slow"),
    preset!("table-3.1"),
    preset!("table-5.1"),
];

/// A machine's description. The commented files in `presets/` say what each key means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The machine's name, for reports.
    pub name: String,
    /// Seed of everything that the machine decides by chance.
    #[serde(default)]
    pub seed: u64,
    /// The cores.
    pub cores: Cores,
    /// First-level data cache of each core.
    pub l1: CacheLevel,
    /// Second-level cache of each core; holds every line of its L1.
    pub l2: CacheLevel,
    /// Last-level cache that all cores share; takes what the L2s push out.
    pub llc: CacheLevel,
    /// The memory controller.
    pub memory: Controller,
    /// One DIMM.
    pub device: DeviceConfig,
    /// What other memory than the persistent ranges lies on; absent if on the same kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_memory: Option<OtherMemory>,
    /// Sockets, if there is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<Sockets>,
    /// Pre-stores that the cores make by themselves, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prestores: Option<HardwarePrestores>,
    /// TLB, page walker and page faults; absent if addresses are used as they are. With time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb: Option<Tlb>,
    /// Where the description came from, for messages.
    #[serde(skip)]
    origin: String,
}

/// The cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// How many, 1 to 1024. Thread `t` runs on core `t % count`.
    pub count: u32,
    /// Buffers of 64 B per core in which non-temporal stores are combined and from which they go to memory, 1 to 64.
    pub combining_buffers: u32,
    /// What a core can do at once; for simulated time only.
    #[serde(default)]
    pub pipeline: Pipeline,
}

/// One level of cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// Bytes of data.
    pub size: Size,
    /// Lines per set, 1 to 64.
    pub ways: u32,
    /// Which line of a full set makes room.
    pub replacement: Replacement,
    /// What this level adds to the latency of an access that reaches it, whether it finds the line or not; for the LLC
    /// that is the way there and back. At most 1ms; defaults: L1 2.275ns, L2 4.095ns, LLC 25ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Time>,
    /// Misses that can be under way at once, 1 to 65536; at the L1 these are a core's line-fill buffers. Defaults:
    /// L1 12, L2 48, LLC 32 for each core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub miss_registers: Option<u32>,
    /// LLC only: evicted dirty lines that wait until the memory controller takes them, 1 to 65536. While there are
    /// so many, no miss can begin. Default 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_backs: Option<u32>,
    /// LLC only: from a core's request to the line, where another core's cache has it, and what it takes to make other cores' copies
    /// invalid. At most 1ms; default: the latencies of L1, L2 and LLC and of the other's L2, and without the latter for copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Time>,
    /// LLC only: slices over which lines are spread by the hash of a Xeon Scalable processor, 20 or 24, each with a power of two
    /// of sets. By default sets follow one another, as they always do in the counting machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<u32>,
    /// L2 only: the prefetcher. Default `"none"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
}

/// Which lines an L2 fetches without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetch {
    /// None.
    None,
    /// The line after each that is missed.
    NextLine,
    /// As the streamer of Intel's cores: in up to 32 pages of 4 KiB, from the second access of the L1 to a page on, the next two
    /// lines in the direction of the last two accesses, up to 20 lines ahead and within the page.
    Stream,
}

/// Why a description can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither a preset nor a file.
    #[error("no machine `{asked}`: neither a preset ({}) nor a file", Config::presets().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// What was asked for.
        asked: String,
    },
    /// The file can't be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Not TOML, a key that is unknown or missing, or a value of the wrong kind.
    #[error("{file}: {source}")]
    Parse {
        /// The file.
        file: String,
        /// What is wrong and in which line.
        source: Box<toml::de::Error>,
    },
    /// A value that no machine can have.
    #[error("{file}: {key} = {value}: {remedy}")]
    Value {
        /// The file.
        file: String,
        /// The key, with its table: `l1.ways`.
        key: String,
        /// Its value.
        value: String,
        /// What to write instead.
        remedy: String,
    },
    /// Figures of a device that the operating system does not have.
    #[error(transparent)]
    Report(device::CdatError),
    /// A key to be replaced that descriptions do not have.
    #[error("{file} has no `{key}`; did you mean {near}?")]
    Key {
        /// Which description.
        file: String,
        /// The key, with its tables.
        key: String,
        /// Keys that are spelled alike.
        near: String,
    },
    /// A replaced value that does not fit.
    #[error("{file} with {setting}: {reason}")]
    Override {
        /// Which description.
        file: String,
        /// Key and value.
        setting: String,
        /// Why not.
        reason: String,
    },
}

impl Config {
    /// The names of the built-in descriptions.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The text of a built-in description, comments and all, for users to copy.
    #[must_use]
    pub fn preset_text(name: &str) -> Option<&'static str> {
        PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, text)| *text)
    }

    /// What a built-in description describes, in a line: the first of its file.
    #[must_use]
    pub fn preset_summary(name: &str) -> Option<&'static str> {
        Self::preset_text(name)?.lines().next()?.strip_prefix("# ")
    }

    /// A built-in description.
    ///
    /// # Errors
    /// [`ConfigError::Unknown`] if there is none of that name.
    pub fn preset(name: &str) -> Result<Config, ConfigError> {
        let text = Self::preset_text(name).ok_or_else(|| ConfigError::Unknown { asked: name.to_owned() })?;
        Self::parse(text, &format!("preset {name}"))
    }

    /// The preset of that name, or else the description in the file of that path.
    ///
    /// # Errors
    /// If there is neither, or the file does not describe a machine.
    pub fn load(path_or_name: &str) -> Result<Config, ConfigError> {
        if Self::preset_text(path_or_name).is_some() {
            return Self::preset(path_or_name);
        }
        if !Path::new(path_or_name).exists() {
            return Err(ConfigError::Unknown { asked: path_or_name.to_owned() });
        }
        let text = fs::read_to_string(path_or_name)
            .map_err(|source| ConfigError::Read { file: path_or_name.to_owned(), source })?;
        Self::parse(&text, path_or_name)
    }

    /// A description given as text; messages call it `origin`.
    ///
    /// # Errors
    /// If the text does not describe a machine.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text)
            .map_err(|source| ConfigError::Parse { file: origin.to_owned(), source: Box::new(source) })?;
        origin.clone_into(&mut config.origin);
        config.read_files()?;
        config.validate()?;
        Ok(config)
    }

    /// Checks every value, and those that have to fit each other.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for the first that no machine can have.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.range("cores.count", self.cores.count, 1, 1024)?;
        self.range("cores.combining_buffers", self.cores.combining_buffers, 1, 64)?;
        self.validate_level("l1", &self.l1, true)?;
        self.validate_level("l2", &self.l2, true)?;
        self.validate_level("llc", &self.llc, false)?;
        if self.l2.size < self.l1.size {
            return Err(self.wrong(
                "l2.size",
                self.l2.size,
                "the L2 holds every line of its L1: make it at least as large",
            ));
        }
        self.validate_pipeline()?;
        self.validate_memory("memory", &self.memory, "device", &self.device)?;
        if let Some(OtherMemory { controller, device }) = &self.other_memory {
            self.validate_memory("other_memory.controller", controller, "other_memory.device", device)?;
        }
        self.validate_tlb()?;
        self.validate_sockets()
    }

    fn validate_level(&self, table: &str, level: &CacheLevel, mask_indexed: bool) -> Result<(), ConfigError> {
        self.range(&format!("{table}.ways"), level.ways, 1, 64)?;
        let key = format!("{table}.size");
        let per_way = LINE_BYTES * u64::from(level.ways);
        if level.size.0 == 0 || !level.size.0.is_multiple_of(per_way) {
            return Err(self.wrong(
                &key,
                level.size,
                &format!("use a multiple of {}, 64B times {table}.ways", Size(per_way)),
            ));
        }
        if level.size.0 > 1 << 30 {
            return Err(self.wrong(&key, level.size, "use at most 1GiB"));
        }
        let sets = level.size.0 / per_way;
        if mask_indexed && !sets.is_power_of_two() {
            let remedy = format!(
                "makes {sets} sets; choose size and ways so that size / (64B * ways) is a power of two"
            );
            return Err(self.wrong(&key, level.size, &remedy));
        }
        self.validate_replacement(&format!("{table}.replacement"), level.replacement, level.ways)?;
        self.validate_level_timing(table, level)
    }

    fn validate_level_timing(&self, table: &str, level: &CacheLevel) -> Result<(), ConfigError> {
        if let Some(latency) = level.latency.filter(|latency| latency.0 > 1_000_000_000) {
            return Err(self.wrong(&format!("{table}.latency"), latency, "use at most 1ms"));
        }
        if let Some(forward) = level.forward
            && (table != "llc" || forward.0 > 1_000_000_000)
        {
            let remedy = "use at most 1ms, and only for the LLC: llc.forward";
            return Err(self.wrong(&format!("{table}.forward"), forward, remedy));
        }
        for (key, value) in [("miss_registers", level.miss_registers), ("write_backs", level.write_backs)] {
            let Some(value) = value else { continue };
            self.range(&format!("{table}.{key}"), value, 1, 65_536)?;
        }
        if let Some(write_backs) = level.write_backs.filter(|_| table != "llc") {
            let remedy = "only the LLC has a write-back queue: use llc.write_backs";
            return Err(self.wrong(&format!("{table}.write_backs"), write_backs, remedy));
        }
        if let Some(slices) = level.slices {
            if table != "llc" {
                let remedy = "only the LLC has slices: use llc.slices";
                return Err(self.wrong(&format!("{table}.slices"), slices, remedy));
            }
            if !Slices::known().any(|known| known == slices) {
                let known: Vec<_> = Slices::known().map(|known| known.to_string()).collect();
                let remedy = format!("use {}, whose hash is known, or leave it out", known.join(" or "));
                return Err(self.wrong("llc.slices", slices, &remedy));
            }
            if Slices::new(slices, level.sets()).is_none() {
                let remedy = "each slice needs a power of two of sets: change llc.size or llc.ways";
                return Err(self.wrong("llc.slices", slices, remedy));
            }
        }
        if level.prefetch.is_some() && table != "l2" {
            let remedy = "only the L2 has a prefetcher: use l2.prefetch";
            return Err(self.wrong(&format!("{table}.prefetch"), "set", remedy));
        }
        Ok(())
    }

    fn validate_replacement(
        &self,
        key: &str,
        replacement: Replacement,
        ways: u32,
    ) -> Result<(), ConfigError> {
        if replacement == Replacement::QueueAware && key != "llc.replacement" {
            return Err(self.wrong(
                key,
                "\"queue-aware\"",
                "only the LLC sees the write queues: use \"lru\"",
            ));
        }
        let fits = ways.is_power_of_two() && ways <= 64;
        if replacement != Replacement::TreePlru || fits {
            return Ok(());
        }
        let remedy = format!(
            "a tree needs a power of two of at most 64 ways, here are {ways}; use \"lru\" or \"random\""
        );
        Err(self.wrong(key, "\"tree-plru\"", &remedy))
    }

    fn range(&self, key: &str, value: u32, low: u32, high: u32) -> Result<(), ConfigError> {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        Err(self.wrong(key, value, &format!("use {low} to {high}")))
    }

    fn times(&self, table: &str, times: &[(&str, Time)]) -> Result<(), ConfigError> {
        check_times(times)
            .map_err(|fault| self.wrong(&format!("{table}.{}", fault.key), fault.value, &fault.remedy))
    }

    /// Controller and DIMM of persistent memory, or of all other.
    pub(crate) fn side(&self, persistent: bool) -> (&Controller, &DeviceConfig) {
        match &self.other_memory {
            Some(other) if !persistent => (&other.controller, &other.device),
            _ => (&self.memory, &self.device),
        }
    }

    fn wrong(&self, key: &str, value: impl ToString, remedy: &str) -> ConfigError {
        let file = if self.origin.is_empty() { "machine description" } else { &self.origin };
        ConfigError::Value {
            file: file.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            remedy: remedy.to_owned(),
        }
    }
}

impl CacheLevel {
    pub(crate) fn sets(&self) -> usize {
        usize::try_from(self.size.0 / LINE_BYTES).unwrap_or(usize::MAX) / self.ways as usize
    }
}
