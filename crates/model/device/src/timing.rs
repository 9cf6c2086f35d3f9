//! Which device a description names, and the device built from it.

use serde::{Deserialize, Serialize};

use crate::cached::{Cached, CachedDevice};
use crate::cdat::{Cdat, CdatDevice};
use crate::curve::{Curve, CurveDevice};
use crate::cxl::{Cxl, CxlDevice};
use crate::delay::{Delay, DelayDevice};
use crate::dram::{Dram, DramDevice};
use crate::flash::{Flash, FlashDevice};
use crate::fpga::{Fpga, FpgaDevice};
use crate::injected::{Injected, InjectedDevice};
use crate::interleaved::{Interleaved, InterleavedDevice};
use crate::xpoint::{Xpoint, XpointDevice};
use crate::{Device, DeviceConfig, Fault};

/// Which device hangs on a channel, and its numbers: the table `[device.timing]`, by its key `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DeviceTiming {
    /// A latency and a bandwidth, nothing else.
    Delay(Delay),
    /// Banks with rows behind a bus.
    Dram(Dram),
    /// Dies with a page register each.
    Flash(Flash),
    /// Memory of an accelerator that keeps the directory.
    Fpga(Fpga),
    /// A link, and any device at its end.
    Cxl(Cxl),
    /// A direct-mapped cache before any device.
    Cached(Cached),
    /// Several equal devices by turns.
    Interleaved(Interleaved),
    /// Any device, delayed and throttled as emulators do it.
    Injected(Injected),
    /// What a device reports of itself.
    Cdat(Cdat),
    /// Measured curves.
    Curve(Curve),
    /// 3D XPoint.
    Xpoint(Box<Xpoint>),
}

impl DeviceTiming {
    /// The first number that no device can have.
    pub fn check(&self) -> Result<(), Fault> {
        match self {
            DeviceTiming::Delay(delay) => delay.check(),
            DeviceTiming::Dram(dram) => dram.check(),
            DeviceTiming::Flash(flash) => flash.check(),
            DeviceTiming::Fpga(fpga) => fpga.check(),
            DeviceTiming::Cxl(cxl) => cxl.check(),
            DeviceTiming::Cached(cached) => cached.check(),
            DeviceTiming::Interleaved(interleaved) => interleaved.check(),
            DeviceTiming::Injected(injected) => injected.check(),
            DeviceTiming::Cdat(cdat) => cdat.check(),
            DeviceTiming::Curve(curve) => curve.check(),
            DeviceTiming::Xpoint(xpoint) => xpoint.check(),
        }
    }

    /// The devices that this one is made of.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut DeviceTiming> {
        let (first, second) = match self {
            DeviceTiming::Cxl(cxl) => (Some(&mut cxl.behind), None),
            DeviceTiming::Cached(cached) => (Some(&mut cached.near), Some(&mut cached.far)),
            DeviceTiming::Interleaved(interleaved) => (Some(&mut interleaved.each), None),
            DeviceTiming::Injected(injected) => (Some(&mut injected.behind), None),
            DeviceTiming::Delay(_)
            | DeviceTiming::Dram(_)
            | DeviceTiming::Flash(_)
            | DeviceTiming::Fpga(_)
            | DeviceTiming::Cdat(_)
            | DeviceTiming::Curve(_)
            | DeviceTiming::Xpoint(_) => (None, None),
        };
        first.into_iter().chain(second).map(Box::as_mut)
    }

    /// Whether it, or a part of it, has the unit and buffer of `[device]`; the others have their sizes in
    /// their own tables.
    pub fn has_units(&self) -> bool {
        match self {
            DeviceTiming::Xpoint(_) => true,
            _ => self.clone().parts_mut().any(|part| part.has_units()),
        }
    }

    /// As [`DeviceTiming::check`], for a device that another one has in its table `table`.
    pub(crate) fn check_within(&self, table: &str) -> Result<(), Fault> {
        self.check().map_err(|fault| Fault { key: format!("{table}.{}", fault.key), ..fault })
    }
}

/// The device that `device` describes and `timing`, its table `[device.timing]`, times. `seed` is of all that
/// the device decides by chance.
#[must_use]
pub fn build(device: &DeviceConfig, timing: &DeviceTiming, seed: u64) -> Box<dyn Device> {
    match timing {
        DeviceTiming::Delay(config) => Box::new(DelayDevice::new(config)),
        DeviceTiming::Dram(config) => Box::new(DramDevice::new(config)),
        DeviceTiming::Flash(config) => Box::new(FlashDevice::new(config)),
        DeviceTiming::Fpga(config) => Box::new(FpgaDevice::new(config)),
        DeviceTiming::Cxl(config) => Box::new(CxlDevice::new(device, config, seed)),
        DeviceTiming::Cached(config) => Box::new(CachedDevice::new(device, config, seed)),
        DeviceTiming::Interleaved(config) => Box::new(InterleavedDevice::new(device, config, seed)),
        DeviceTiming::Injected(config) => Box::new(InjectedDevice::new(device, config, seed)),
        DeviceTiming::Cdat(config) => Box::new(CdatDevice::new(config)),
        DeviceTiming::Curve(config) => Box::new(CurveDevice::new(config)),
        DeviceTiming::Xpoint(config) => Box::new(XpointDevice::new(device, config, seed)),
    }
}
