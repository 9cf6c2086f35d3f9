//! Stores of any program by a processor's own samples: PEBS of Intel's, IBS of AMD's.
//!
//! Every n-th store retires with its address noted (with IBS every n-th micro-operation, of which those that store are kept).
//! Nothing of the program is changed. A sample says nothing about the stores between it and the one before; sampling
//! may skip stores that follow another one closely (the *shadow* of a sample), which nothing here corrects.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use event::Site;

use super::perf::{Event, Record, Ring};
use super::units::{DEVICES, Unit, Wanted};
use super::{Tally, launch, open_each, refusal, run};
use crate::CaptureError;
use crate::symbols::{Image, Resolver};

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

/// Runs a program and gives the process, the address and the site's number of every `period`-th store to `each` (IBS: every
/// `period`-th micro-operation in whole sixteens, at least 16, if it stores).
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
    let command = launch(command, stdout_to_stderr)?;
    let unit = Unit::find(Path::new(DEVICES), Wanted::Stores).ok_or(CaptureError::NoAddresses)?;
    let mut rings = open_each(Event::Accesses(unit.event), unit.period(period)).map_err(refusal)?;
    let mut places = Places::default();
    let (status, elapsed) = run(command, None, &mut rings, |record| places.add(record, &mut each))?;
    let (samples, lost) = (places.samples, places.tally.lost);
    Ok(StoreRun { unit: unit.name, samples, lost, sites: places.resolve(), status, elapsed })
}

/// Whether [`sample_stores`] would be let; the unit's name.
///
/// # Errors
/// Those of [`sample_stores`].
pub fn store_sampling() -> Result<&'static str, CaptureError> {
    let unit = Unit::find(Path::new(DEVICES), Wanted::Stores).ok_or(CaptureError::NoAddresses)?;
    Ring::open(Event::Accesses(unit.event), 0, unit.usual()).map_err(refusal)?;
    Ok(unit.name)
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
            Record::Sample { pid, address, data: Some(access) } if access.stores => {
                self.samples += 1;
                let site = match self.tally.place(pid, address) {
                    Some(place) => *self.numbers.entry(place).or_insert_with(|| {
                        self.order.push(place);
                        self.order.len() as u32
                    }),
                    None => 0,
                };
                each(pid, access.address, site);
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
    use super::super::perf::Access;
    use super::*;

    #[test]
    fn stores_have_numbered_sites_and_loads_none() {
        let mut places = Places::default();
        let mut seen = Vec::new();
        let mut each = |pid, data, site| seen.push((pid, data, site));
        places.add(
            Record::Map { pid: 1, start: 0x1000, len: 0x1000, offset: 0, path: b"/a".to_vec(), time: 0 },
            &mut each,
        );
        for (address, data, stores) in
            [(0x1010, 64, true), (0x1020, 128, true), (0x1010, 192, true), (0x1010, 0, false)]
        {
            let access = Access { address: data, loads: !stores, stores, memory: false };
            places.add(Record::Sample { pid: 1, address, data: Some(access) }, &mut each);
        }
        let access = Access { address: 256, loads: false, stores: true, memory: false };
        places.add(Record::Sample { pid: 1, address: 0x9999, data: Some(access) }, &mut each);
        assert_eq!(seen, [(1, 64, 1), (1, 128, 2), (1, 192, 1), (1, 256, 0)]);
        assert_eq!((places.samples, places.resolve().len()), (4, 3));
    }
}
