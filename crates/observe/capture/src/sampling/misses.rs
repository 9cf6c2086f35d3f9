//! Loads of any program that no cache answered, by the processor's own samples.
//!
//! Every n-th such load retires with its address noted (with IBS, every n-th micro-operation, of which those that load from memory are
//! kept). Nothing of the program is changed. The processor may skip loads that follow a sampled one closely, or that wait behind a
//! long one (the *shadow* of a sample): what a loop loads right behind another miss is counted too low. Nothing here corrects that.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::perf::{Event, Record, Ring};
use super::units::{DEVICES, Unit, Wanted};
use super::{open_each, refusal, run};
use crate::CaptureError;

/// What samples of misses said of a run beside themselves.
#[derive(Clone, Copy, Debug)]
pub struct MissRun {
    /// The unit: `PEBS` or `IBS`.
    pub unit: &'static str,
    /// Each sample stands for so many misses.
    pub period: u64,
    /// Samples of misses.
    pub samples: u64,
    /// Samples that the kernel could not deliver.
    pub lost: u64,
    /// How the program ended.
    pub status: Option<ExitStatus>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// Whether [`sample_misses`] would be let.
///
/// # Errors
/// Why not.
pub fn memory_sampling() -> Result<(), String> {
    memory_sampling_in(Path::new(DEVICES)).map_err(|error| error.to_string())
}

fn memory_sampling_in(devices: &Path) -> Result<(), CaptureError> {
    let unit = Unit::find(devices, Wanted::Misses).ok_or(CaptureError::NoAddresses)?;
    Ring::open(Event::Accesses(unit.event), 0, unit.usual()).map(drop).map_err(refusal)
}

/// Runs a program and gives the process and the address of every so many-th load that no cache answered to `each`, soon after.
///
/// # Errors
/// [`CaptureError::NoAddresses`] if no unit here knows addresses, [`CaptureError::NotPermitted`] or
/// [`CaptureError::NoSampling`] if the kernel does not let us; the program has not run then.
pub fn sample_misses(command: Command, mut each: impl FnMut(u32, u64)) -> Result<MissRun, CaptureError> {
    let unit = Unit::find(Path::new(DEVICES), Wanted::Misses).ok_or(CaptureError::NoAddresses)?;
    let period = unit.usual();
    let mut rings = open_each(Event::Accesses(unit.event), period).map_err(refusal)?;
    let (mut samples, mut lost) = (0, 0);
    let (status, elapsed) = run(command, None, &mut rings, |record| match record {
        Record::Sample { pid, data: Some(access), .. } if unit.takes(&access) => {
            samples += 1;
            each(pid, access.address);
        }
        Record::Lost(count) => lost += count,
        _ => {}
    })?;
    Ok(MissRun { unit: unit.name, period, samples, lost, status, elapsed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_unit_the_reason_is_named_and_nothing_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(memory_sampling_in(folder.path()), Err(CaptureError::NoAddresses)));
        if memory_sampling().is_err() {
            let marker = folder.path().join("ran");
            let mut command = Command::new("touch");
            command.arg(&marker);
            assert!(sample_misses(command, |_, _| ()).is_err());
            assert!(!marker.exists());
        }
    }
}
