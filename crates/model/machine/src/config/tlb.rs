//! Translation of addresses: the table `[tlb]`. Without it, addresses are used as they are and cost nothing.

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use crate::{Size, Time};

/// TLB, page walker and, if wanted, page faults. Of effect with time only. `tlb = {}` is a server core of the Cascade Lake
/// generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tlb {
    /// Size of all pages: `4KiB`, `2MiB`, `1GiB`. Default `4KiB`.
    pub page: Size,
    /// TLB levels from the core outwards, 1 to 4. Default: 64 entries in 4 ways (32 of pages of 2 MiB and more), then 1536 in 12
    /// ways.
    pub levels: Vec<TlbLevel>,
    /// Entries of upper levels of the page tables that the walker keeps, 0 to 4096. Default 32.
    pub walk_entries: u32,
    /// Pages that are not there when they are first used. Without this table, all pages are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<PageFaults>,
}

/// One level of TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbLevel {
    /// Entries, 1 to 65536; a power of two of sets.
    pub entries: u32,
    /// Entries per set, 1 to 64.
    pub ways: u32,
    /// Entries for pages above 4 KiB, if they have others. Default: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_entries: Option<u32>,
    /// What a hit here takes beyond a hit in the first level, which takes nothing. Default 0.
    #[serde(default)]
    pub latency: Time,
}

/// What first uses of pages cost. Kernel times are given, by the user or by a measurement: the model has no kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageFaults {
    /// A first store by the kernel, zeroing included. The zeroing's stores go through the core's caches; where they take longer than
    /// this, so does the fault. Default 700ns.
    pub write: Time,
    /// A first load by the kernel, which maps its page of zeros. Default 350ns.
    pub read: Time,
    /// The part of either under the lock of the page tables, which all cores share. Default 100ns.
    pub locked: Time,
    /// Free pages at the beginning. Default: enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// What a fault by the kernel takes longer when there are none. Default 10us.
    pub reclaim: Time,
    /// A page-fault offload engine, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<Offload>,
}

/// A page-fault offload engine: the walker completes faults with pages out of a table per core, which a kernel thread refills.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Offload {
    /// Entries of a core's table, 1 to 65536. Default 64, as published.
    pub ring: u32,
    /// Between two refills, at least 1us. Default 2ms, as published.
    pub period: Time,
    /// The thread's work per page: accounting for one, zeroing the next. Default 500ns.
    pub refill: Time,
    /// The core whose time the thread takes; by default it has a processor of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
}

impl Default for Tlb {
    fn default() -> Self {
        let level = |entries, ways, huge_entries, latency| TlbLevel { entries, ways, huge_entries, latency };
        Tlb {
            page: Size(4096),
            levels: vec![level(64, 4, Some(32), Time::ZERO), level(1536, 12, None, Time(3_185))],
            walk_entries: 32,
            faults: None,
        }
    }
}

impl Default for PageFaults {
    fn default() -> Self {
        PageFaults {
            write: Time::from_ns(700),
            read: Time::from_ns(350),
            locked: Time::from_ns(100),
            free: None,
            reclaim: Time::from_ns(10_000),
            offload: None,
        }
    }
}

impl Default for Offload {
    fn default() -> Self {
        Offload { ring: 64, period: Time::from_ns(2_000_000), refill: Time::from_ns(500), worker: None }
    }
}

impl Tlb {
    /// Bits of an address within a page.
    pub(crate) fn page_bits(&self) -> u32 {
        self.page.0.trailing_zeros()
    }

    /// Entries of a level for pages of this size.
    pub(crate) fn entries(&self, level: &TlbLevel) -> u32 {
        if self.page.0 > 4096 { level.huge_entries.unwrap_or(level.entries) } else { level.entries }
    }
}

impl Config {
    pub(super) fn validate_tlb(&self) -> Result<(), ConfigError> {
        let Some(tlb) = &self.tlb else { return Ok(()) };
        if ![4096, 2 << 20, 1 << 30].contains(&tlb.page.0) {
            return Err(self.wrong("tlb.page", tlb.page, "use 4KiB, 2MiB or 1GiB"));
        }
        self.range("tlb.levels", tlb.levels.len() as u32, 1, 4)?;
        self.range("tlb.walk_entries", tlb.walk_entries, 0, 4096)?;
        for (at, level) in tlb.levels.iter().enumerate() {
            let key = format!("tlb.levels[{at}]");
            self.range(&format!("{key}.ways"), level.ways, 1, 64)?;
            for entries in [level.entries, level.huge_entries.unwrap_or(level.entries)] {
                self.range(&format!("{key}.entries"), entries, 1, 65_536)?;
                let sets = entries / level.ways;
                if !entries.is_multiple_of(level.ways) || !sets.is_power_of_two() {
                    let remedy = "entries / ways must be a power of two of sets";
                    return Err(self.wrong(&format!("{key}.entries"), entries, remedy));
                }
            }
            self.times(&key, &[("latency", level.latency)])?;
        }
        let Some(faults) = &tlb.faults else { return Ok(()) };
        let PageFaults { write, read, locked, reclaim, .. } = *faults;
        self.times(
            "tlb.faults",
            &[("write", write), ("read", read), ("locked", locked), ("reclaim", reclaim)],
        )?;
        let Some(offload) = &faults.offload else { return Ok(()) };
        self.range("tlb.faults.offload.ring", offload.ring, 1, 65_536)?;
        if let Some(worker) = offload.worker {
            self.range("tlb.faults.offload.worker", worker, 0, self.cores.count - 1)?;
        }
        if !(1_000_000..=1_000_000_000_000).contains(&offload.period.0) {
            return Err(self.wrong("tlb.faults.offload.period", offload.period, "use 1us to 1s"));
        }
        self.times("tlb.faults.offload", &[("refill", offload.refill)])
    }
}
