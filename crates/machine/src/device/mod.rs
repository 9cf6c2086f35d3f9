//! What hangs on a memory channel: a request goes in, the time of its completion comes out.
//!
//! A [`Device`] is a piece of hardware with its own sense of time. The controller hands it one line of 64 B at a time and
//! is told at once when the answer will be there; the device has by then reserved what it needs (a bank, a slot
//! in a buffer, the media) for as long as it needs it. What it does later on its own, such as writing out what it
//! buffered, it catches up with at the beginning of the next call, up to that call's time ([`Device::settle`]). So nothing
//! ticks, and an idle device costs nothing.
//!
//! ARCHITECTURE.md, "Adding a device", says step by step how to write another. `tests/devices.rs` holds every device to the
//! contract below.
//!
//! # Contract
//!
//! - Calls come in about the order of time; a call with an earlier `at` than the one before is answered as if it came as
//!   early as the device can still manage, never with an error.
//! - The answer is not before `at`, and the same for the same calls and seed.
//! - A line that was taken for writing is in the device's books (`controller_write_bytes`) at once, and at the
//!   media (`media_write_bytes`) at the latest after [`Device::drain`].

mod cached;
mod credits;
pub mod curve;
mod cxl;
mod delay;
mod dram;
mod flash;
mod fpga;
mod injected;
mod interleaved;
pub(crate) mod timetable;
pub mod xpoint;

pub use cached::{Cached, Tags};
pub use curve::{Curve, Curves};
pub use cxl::Cxl;
pub use delay::Delay;
pub use dram::Dram;
pub use flash::Flash;
pub use fpga::Fpga;
pub use injected::Injected;
pub use interleaved::Interleaved;
pub use xpoint::Xpoint;

use serde::{Deserialize, Serialize};

use crate::{Stall, Time, Traffic, config};

/// A device on a memory channel; lines are numbered within it, from 0.
/// It can go to another thread, so that machines run side by side.
pub trait Device: std::fmt::Debug + Send {
    /// The controller wants a line. Returns when its data are on the channel's pins.
    fn read(&mut self, at: Time, line: u64) -> Time;

    /// The controller offers a line, new in all of its bytes or (`whole` is false) in a part. Returns when the device has
    /// taken it, so that the controller's queue entry is free. It is durable from then on if the device is.
    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time;

    /// A core is about to write to a line that is not its own alone. Returns when the directory has given it leave, if the
    /// directory is on the device.
    fn own(&mut self, _at: Time, _line: u64) -> Option<Time> {
        None
    }

    /// Does what is due by `at` without anybody asking.
    fn settle(&mut self, at: Time);

    /// Writes everything that it buffers to the media, as at a power failure or shutdown. Returns when that is done.
    fn drain(&mut self, at: Time) -> Time;

    /// Bytes moved so far.
    fn traffic(&self) -> Traffic;

    /// Bytes taken for writing that the media does not have yet.
    fn held_bytes(&self) -> u64;

    /// Of these, what reaches the media even if power fails.
    fn durable_bytes(&self) -> u64 {
        self.held_bytes()
    }

    /// How long it would take to write [`Device::durable_bytes`] to the media.
    fn drain_time(&self) -> Time {
        Time::ZERO
    }

    /// What happened inside, as far as this kind of device has it.
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

/// What happens inside devices and is not in [`Traffic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// Units that had to make room before the rest of what was new in them came.
    pub dirty_evictions: u64,
    /// Accesses that had to fetch an entry of the indirection table.
    pub translation_misses: u64,
    /// Bytes that wear levelling moved; they are in the media's bytes, too.
    pub moved_bytes: u64,
    /// Accesses that waited for a block that wear levelling moved.
    pub wear: Stall,
    /// Accesses that waited because of heat.
    pub heat: Stall,
}

impl DeviceCounters {
    /// Adds another's.
    pub(crate) fn add(&mut self, other: &DeviceCounters) {
        self.dirty_evictions += other.dirty_evictions;
        self.translation_misses += other.translation_misses;
        self.moved_bytes += other.moved_bytes;
        self.wear.add(&other.wear);
        self.heat.add(&other.heat);
    }
}

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
    /// Measured curves.
    Curve(Curve),
    /// 3D XPoint.
    Xpoint(Box<Xpoint>),
}

/// What is wrong with a device's numbers.
pub(crate) struct Fault {
    /// The key, below the device's table.
    pub(crate) key: String,
    pub(crate) value: String,
    /// What to write instead.
    pub(crate) remedy: String,
}

impl Fault {
    pub(crate) fn new(key: &str, value: impl ToString, remedy: &str) -> Self {
        Fault { key: key.to_owned(), value: value.to_string(), remedy: remedy.to_owned() }
    }
}

/// Refuses a time that is too long: enough of them would not fit a [`Time`].
pub(crate) fn check_times(times: &[(&str, Time)]) -> Result<(), Fault> {
    let most = Time::from_ns(10_000_000);
    match times.iter().find(|(_, time)| *time > most) {
        Some((key, time)) => Err(Fault::new(key, time, &format!("use at most {most}"))),
        None => Ok(()),
    }
}

impl DeviceTiming {
    /// The first number that no device can have.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match self {
            DeviceTiming::Delay(delay) => delay.check(),
            DeviceTiming::Dram(dram) => dram.check(),
            DeviceTiming::Flash(flash) => flash.check(),
            DeviceTiming::Fpga(fpga) => fpga.check(),
            DeviceTiming::Cxl(cxl) => cxl.check(),
            DeviceTiming::Cached(cached) => cached.check(),
            DeviceTiming::Interleaved(interleaved) => interleaved.check(),
            DeviceTiming::Injected(injected) => injected.check(),
            DeviceTiming::Curve(curve) => curve.check(),
            DeviceTiming::Xpoint(xpoint) => xpoint.check(),
        }
    }

    /// The devices that this one is made of.
    pub(crate) fn parts_mut(&mut self) -> impl Iterator<Item = &mut DeviceTiming> {
        let (first, second) = match self {
            DeviceTiming::Cxl(cxl) => (Some(&mut cxl.behind), None),
            DeviceTiming::Cached(cached) => (Some(&mut cached.near), Some(&mut cached.far)),
            DeviceTiming::Interleaved(interleaved) => (Some(&mut interleaved.each), None),
            DeviceTiming::Injected(injected) => (Some(&mut injected.behind), None),
            DeviceTiming::Delay(_)
            | DeviceTiming::Dram(_)
            | DeviceTiming::Flash(_)
            | DeviceTiming::Fpga(_)
            | DeviceTiming::Curve(_)
            | DeviceTiming::Xpoint(_) => (None, None),
        };
        first.into_iter().chain(second).map(Box::as_mut)
    }

    /// Whether it, or a part of it, has the unit and buffer of `[device]`; the others have their sizes in their own tables.
    pub(crate) fn has_units(&self) -> bool {
        match self {
            DeviceTiming::Xpoint(_) => true,
            _ => self.clone().parts_mut().any(|part| part.has_units()),
        }
    }

    /// As [`DeviceTiming::check`], for a device that another one has in its table `table`.
    fn check_within(&self, table: &str) -> Result<(), Fault> {
        self.check().map_err(|fault| Fault { key: format!("{table}.{}", fault.key), ..fault })
    }
}

/// What `[device]` says of a device without a buffer.
#[cfg(test)]
fn plain() -> config::Device {
    config::Device { unit: crate::Size(64), buffer: None, timing: None }
}

/// The device that `device` describes and `timing`, its table `[device.timing]`, times. `seed` is of all that the device
/// decides by chance.
#[must_use]
pub fn build(device: &config::Device, timing: &DeviceTiming, seed: u64) -> Box<dyn Device> {
    match timing {
        DeviceTiming::Delay(config) => Box::new(delay::DelayDevice::new(config)),
        DeviceTiming::Dram(config) => Box::new(dram::DramDevice::new(config)),
        DeviceTiming::Flash(config) => Box::new(flash::FlashDevice::new(config)),
        DeviceTiming::Fpga(config) => Box::new(fpga::FpgaDevice::new(config)),
        DeviceTiming::Cxl(config) => Box::new(cxl::CxlDevice::new(device, config, seed)),
        DeviceTiming::Cached(config) => Box::new(cached::CachedDevice::new(device, config, seed)),
        DeviceTiming::Interleaved(config) => {
            Box::new(interleaved::InterleavedDevice::new(device, config, seed))
        }
        DeviceTiming::Injected(config) => Box::new(injected::InjectedDevice::new(device, config, seed)),
        DeviceTiming::Curve(config) => Box::new(curve::CurveDevice::new(config)),
        DeviceTiming::Xpoint(config) => Box::new(xpoint::XpointDevice::new(device, config, seed)),
    }
}
