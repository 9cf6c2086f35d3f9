//! The unit of a processor that samples accesses with their addresses: PEBS of Intel's, IBS of AMD's.

use std::fs;
use std::path::Path;

use super::perf::{Access, AccessEvent};

/// Where the kernel shows its units.
pub(super) const DEVICES: &str = "/sys/bus/event_source/devices";
/// Of IBS's samples of micro-operations: count these and not cycles.
const COUNT_OPERATIONS: u64 = 1 << 19;
/// `MEM_LOAD_RETIRED.L3_MISS`, which every Intel core since Haswell has under this number.
const LOADS_THAT_MISSED: u64 = 0x20d1;

/// What is to be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Loads that no cache answered.
    Misses,
    /// Stores.
    Stores,
}

/// A unit and its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// `PEBS` or `IBS`.
    pub(super) name: &'static str,
    /// What it samples.
    pub(super) event: AccessEvent,
    wanted: Wanted,
}

impl Unit {
    /// The one among the units in `devices` that samples what is wanted.
    pub(super) fn find(devices: &Path, wanted: Wanted) -> Option<Unit> {
        let text = |path: &str| fs::read_to_string(devices.join(path)).ok();
        let number = |path: &str| -> Option<u32> { text(path)?.trim().parse().ok() };
        // Processors of two kinds have a unit for each; those that access most are the cores.
        for unit in ["cpu", "cpu_core"] {
            let config = match wanted {
                Wanted::Misses => text(&format!("{unit}/events/mem-loads")).map(|_| LOADS_THAT_MISSED),
                Wanted::Stores => text(&format!("{unit}/events/mem-stores")).as_deref().and_then(config_of),
            };
            if let Some(config) = config {
                let kind = number(&format!("{unit}/type"))?;
                return Some(Unit {
                    name: "PEBS",
                    event: AccessEvent { kind, config, precise: true },
                    wanted,
                });
            }
        }
        let kind = number("ibs_op/type")?;
        let event = AccessEvent { kind, config: COUNT_OPERATIONS, precise: false };
        Some(Unit { name: "IBS", event, wanted })
    }

    /// Whether a sample is of what is wanted. PEBS counts nothing else; IBS takes any micro-operation.
    pub(super) fn takes(&self, access: &Access) -> bool {
        match self.wanted {
            Wanted::Stores => access.stores,
            Wanted::Misses => access.loads && (self.event.precise || access.memory),
        }
    }

    /// The interval nearest to `period` that the unit can have. PEBS's is as given; IBS counts in sixteens, and draws the last
    /// digits itself.
    pub(super) fn period(&self, period: u64) -> u64 {
        if self.event.precise { period.max(1) } else { (period / 16).max(1) * 16 }
    }

    /// The interval for samples of misses, in what the unit counts: prime, or sixteen times a prime, so as not to beat with a
    /// program's loops. Y. Ni (Santa Cruz 2022, 4.4) measured less than 1 % of the time for every 10,007th miss; IBS counts micro-operations.
    pub(super) fn usual(&self) -> u64 {
        if self.event.precise { 10_007 } else { 16 * 16_381 }
    }
}

/// `event=0xd0,umask=0x82` as the number that the processor takes.
fn config_of(text: &str) -> Option<u64> {
    let mut config = 0;
    for term in text.trim().split(',') {
        let (name, value) = term.split_once('=')?;
        let value = u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()?;
        match name {
            "event" => config |= value & 0xff,
            "umask" => config |= (value & 0xff) << 8,
            _ => return None,
        }
    }
    (config != 0).then_some(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_name_of_an_event_is_read() {
        assert_eq!(config_of("event=0xd0,umask=0x82\n"), Some(0x82d0));
        assert_eq!(config_of("event=0xcd,umask=0x1,ldlat=3"), None);
        assert_eq!(config_of(""), None);
    }

    #[test]
    fn units_are_found_where_the_kernel_shows_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let find = |wanted| Unit::find(folder.path(), wanted).map(|unit| (unit.name, unit.event));
        assert_eq!((find(Wanted::Stores), find(Wanted::Misses)), (None, None));
        write("ibs_op/type", "11\n");
        let ibs = AccessEvent { kind: 11, config: COUNT_OPERATIONS, precise: false };
        assert_eq!((find(Wanted::Stores), find(Wanted::Misses)), (Some(("IBS", ibs)), Some(("IBS", ibs))));
        write("cpu_core/type", "4\n");
        write("cpu_core/events/mem-stores", "event=0xd0,umask=0x82\n");
        let pebs = |config| ("PEBS", AccessEvent { kind: 4, config, precise: true });
        assert_eq!((find(Wanted::Stores), find(Wanted::Misses)), (Some(pebs(0x82d0)), Some(("IBS", ibs))));
        write("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
        assert_eq!(find(Wanted::Misses), Some(pebs(LOADS_THAT_MISSED)));
    }

    #[test]
    fn ibs_keeps_loads_from_memory_and_has_intervals_of_sixteen() {
        let ibs = AccessEvent { kind: 11, config: COUNT_OPERATIONS, precise: false };
        let ibs = Unit { name: "IBS", event: ibs, wanted: Wanted::Misses };
        let pebs = AccessEvent { kind: 4, config: LOADS_THAT_MISSED, precise: true };
        let pebs = Unit { name: "PEBS", event: pebs, wanted: Wanted::Misses };
        let load = Access { address: 1, loads: true, stores: false, memory: false };
        assert!(!ibs.takes(&load) && pebs.takes(&load) && ibs.takes(&Access { memory: true, ..load }));
        assert!(!ibs.takes(&Access { memory: true, loads: false, stores: true, ..load }));
        assert_eq!((ibs.period(17), ibs.period(10_007), pebs.period(17)), (16, 10_000, 17));
        let prime = |number: u64| {
            (2..number).take_while(|one| one * one <= number).all(|one| !number.is_multiple_of(one))
        };
        assert!(prime(pebs.usual()) && ibs.usual().is_multiple_of(16) && prime(ibs.usual() / 16));
    }
}
