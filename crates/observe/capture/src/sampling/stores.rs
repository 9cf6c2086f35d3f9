//! Stores of any program by a processor's own samples: PEBS of Intel's, IBS of AMD's.
//!
//! Every n-th store retires with its address noted (with IBS every n-th micro-operation, of which those that store are kept).
//! Nothing of the program is changed. A sample says nothing about the stores between it and the one before; sampling
//! may skip stores that follow another one closely (the *shadow* of a sample), which nothing here corrects.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use event::Site;

use super::perf::{AccessEvent, Event, Record};
use super::{Launch, Tally, open_each, refusal};
use crate::CaptureError;
use crate::symbols::{Image, Resolver};

const DEVICES: &str = "/sys/bus/event_source/devices";
/// Of IBS's samples of micro-operations: count these and not cycles.
const COUNT_OPERATIONS: u64 = 1 << 19;

/// What samples of stores said of a run beside themselves.
#[derive(Clone, Debug)]
pub struct StoreRun {
    /// The unit: `PEBS` or `IBS`.
    pub unit: &'static str,
    /// Samples of stores.
    pub samples: u64,
    /// Samples that the kernel could not deliver.
    pub lost: u64,
    /// The code sites, by the numbers that samples have; 0 is unknown.
    pub sites: Vec<Site>,
    /// How the program ended.
    pub status: Option<ExitStatus>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// Runs a program and gives the process, the address and the site's number of every `period`-th store to `each`.
/// With `stdout_to_stderr` it prints where its caller's messages go.
///
/// # Errors
/// [`CaptureError::NoAddresses`] if no unit here knows addresses, [`CaptureError::NotPermitted`] or
/// [`CaptureError::NoSampling`] if the kernel does not let us; the program has not run then.
pub fn sample_stores(
    command: &[OsString],
    period: u64,
    stdout_to_stderr: bool,
    mut each: impl FnMut(u32, u64, u32),
) -> Result<StoreRun, CaptureError> {
    let launch = Launch::of(command, stdout_to_stderr)?;
    let (unit, event) = store_event(Path::new(DEVICES)).ok_or(CaptureError::NoAddresses)?;
    let mut rings = open_each(Event::Accesses(event), period).map_err(refusal)?;
    let mut places = Places::default();
    let (status, elapsed) = launch.run(None, &mut rings, |record| places.add(record, &mut each))?;
    let (samples, lost) = (places.samples, places.tally.lost);
    Ok(StoreRun { unit, samples, lost, sites: places.resolve(), status, elapsed })
}

/// The event that samples stores with their addresses, of the units in `devices`.
fn store_event(devices: &Path) -> Option<(&'static str, AccessEvent)> {
    let number =
        |path: &str| -> Option<u32> { fs::read_to_string(devices.join(path)).ok()?.trim().parse().ok() };
    // Processors of two kinds have a unit for each; those that store most are the cores.
    for unit in ["cpu", "cpu_core"] {
        let event = fs::read_to_string(devices.join(unit).join("events/mem-stores"));
        if let Some(config) = event.ok().as_deref().and_then(config_of) {
            return Some((
                "PEBS",
                AccessEvent { kind: number(&format!("{unit}/type"))?, config, precise: true },
            ));
        }
    }
    let kind = number("ibs_op/type")?;
    Some(("IBS", AccessEvent { kind, config: COUNT_OPERATIONS, precise: false }))
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

/// Samples' instructions, numbered.
#[derive(Default)]
struct Places {
    tally: Tally,
    numbers: HashMap<(usize, u64), u32>,
    order: Vec<(usize, u64)>,
    samples: u64,
}

impl Places {
    fn add(&mut self, record: Record, each: &mut impl FnMut(u32, u64, u32)) {
        match record {
            Record::Sample { pid, address, data: Some((data, true)) } => {
                self.samples += 1;
                let site = match self.tally.place(pid, address) {
                    Some(place) => *self.numbers.entry(place).or_insert_with(|| {
                        self.order.push(place);
                        self.order.len() as u32
                    }),
                    None => 0,
                };
                each(pid, data, site);
            }
            Record::Sample { .. } => {}
            other => self.tally.add(other),
        }
    }

    fn resolve(&self) -> Vec<Site> {
        let images: Vec<Option<Image>> = self.tally.files.iter().map(|path| Image::open(path).ok()).collect();
        let mut resolver = Resolver::default();
        let named = self.order.iter().map(|&(file, offset)| {
            let address = images[file].as_ref().and_then(|image| image.address_of(offset)).unwrap_or(offset);
            resolver.site(&self.tally.files[file], address)
        });
        std::iter::once(Site::default()).chain(named).collect()
    }
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
        assert_eq!(store_event(folder.path()), None);
        write("ibs_op/type", "11\n");
        let ibs = AccessEvent { kind: 11, config: COUNT_OPERATIONS, precise: false };
        assert_eq!(store_event(folder.path()), Some(("IBS", ibs)));
        write("cpu_core/type", "4\n");
        write("cpu_core/events/mem-stores", "event=0xd0,umask=0x82\n");
        let pebs = AccessEvent { kind: 4, config: 0x82d0, precise: true };
        assert_eq!(store_event(folder.path()), Some(("PEBS", pebs)));
    }

    #[test]
    fn stores_have_numbered_sites_and_loads_none() {
        let mut places = Places::default();
        let mut seen = Vec::new();
        let mut each = |pid, data, site| seen.push((pid, data, site));
        places.add(
            Record::Map { pid: 1, start: 0x1000, len: 0x1000, offset: 0, path: b"/a".to_vec() },
            &mut each,
        );
        for (address, data, stores) in
            [(0x1010, 64, true), (0x1020, 128, true), (0x1010, 192, true), (0x1010, 0, false)]
        {
            places.add(Record::Sample { pid: 1, address, data: Some((data, stores)) }, &mut each);
        }
        places.add(Record::Sample { pid: 1, address: 0x9999, data: Some((256, true)) }, &mut each);
        assert_eq!(seen, [(1, 64, 1), (1, 128, 2), (1, 192, 1), (1, 256, 0)]);
        assert_eq!((places.samples, places.resolve().len()), (4, 3));
    }
}
