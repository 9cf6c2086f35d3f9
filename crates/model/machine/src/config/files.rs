//! Files that a description names.

use std::fs;
use std::path::Path;

use device::{Cdat, Curve, Curves};

use super::{Config, ConfigError};
use crate::DeviceTiming;

impl Config {
    /// Reads the files that devices name. Relative paths start at the folder of the description's own file.
    pub(super) fn read_files(&mut self) -> Result<(), ConfigError> {
        let folder = Path::new(&self.origin).parent().unwrap_or(Path::new("")).to_owned();
        let mut curves = Vec::new();
        self.devices_mut().for_each(|device| curves_of(device, &mut curves));
        for curve in curves {
            read_curves(curve, &folder)?;
        }
        let mut reports = Vec::new();
        self.devices_mut().for_each(|device| reports_of(device, &mut reports));
        for report in reports {
            report.read(&folder).map_err(ConfigError::Report)?;
        }
        Ok(())
    }

    /// The device's timing, which not every description has.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if this one counts bytes only.
    pub fn device_timing(&self) -> Result<&DeviceTiming, ConfigError> {
        let remedy = "this machine counts bytes only: it needs this table, as in the preset dram";
        self.device.timing.as_ref().ok_or_else(|| self.wrong("device.timing", "absent", remedy))
    }

    fn devices_mut(&mut self) -> impl Iterator<Item = &mut DeviceTiming> {
        let other = self.other_memory.as_mut().and_then(|other| other.device.timing.as_mut());
        self.device.timing.iter_mut().chain(other)
    }
}

fn curves_of<'a>(device: &'a mut DeviceTiming, found: &mut Vec<&'a mut Curve>) {
    match device {
        DeviceTiming::Curve(curve) => found.push(curve),
        _ => device.parts_mut().for_each(|part| curves_of(part, found)),
    }
}

fn reports_of<'a>(device: &'a mut DeviceTiming, found: &mut Vec<&'a mut Cdat>) {
    match device {
        DeviceTiming::Cdat(cdat) => found.push(cdat),
        _ => device.parts_mut().for_each(|part| reports_of(part, found)),
    }
}

fn read_curves(curve: &mut Curve, folder: &Path) -> Result<(), ConfigError> {
    let path = folder.join(&curve.file);
    let file = path.display().to_string();
    let text =
        fs::read_to_string(&path).map_err(|source| ConfigError::Read { file: file.clone(), source })?;
    curve.curves = Curves::parse(&text).map_err(|error| ConfigError::Value {
        file,
        key: format!("line {}", error.line),
        value: error.text.clone(),
        remedy: error.remedy.to_owned(),
    })?;
    Ok(())
}
