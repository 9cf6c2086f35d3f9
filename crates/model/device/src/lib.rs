//! Memories of a modelled machine: a request goes in, the time of its completion comes out.
//!
//! A [`Device`] is hardware on a memory channel with its own sense of time. The controller asks for one line
//! of 64 B at a time, and the device answers at once with the time at which the line will be there. By then
//! it has reserved what the request needs (a bank, a buffer slot, the media) for as long as it needs it. What
//! the device does later on its own, such as writing out what it buffered, it does at the beginning of the
//! next call, up to that call's time ([`Device::advance_to`]). So nothing ticks, and an idle device costs
//! nothing.
//!
//! [`build`] makes the device that a description names ([`DeviceTiming`]). [`Dimm`] is a device without time,
//! for a machine that counts bytes. The rest are parts: [`Timetable`], [`Link`], [`Credits`], [`Cache`],
//! [`Rng`].
//!
//! `docs/new-device.md` says step by step how to add a device. `tests/suite/contract.rs` holds every device
//! to the contract.
//!
//! # Contract
//!
//! - Calls come in about the order of time. A call with an earlier `at` than the one before is answered as
//!   early as the device still can, never with an error.
//! - The answer is not before `at`. The same calls and seed give the same answers.
//! - A line that was taken for writing is counted in `controller_write_bytes` at once, and in
//!   `media_write_bytes` at the latest after [`Device::drain`].
#![forbid(unsafe_code)]

mod cache;
mod cached;
mod cdat;
mod config;
mod counters;
mod credits;
pub mod curve;
mod cxl;
mod delay;
mod device;
mod dimm;
mod divisor;
mod dram;
mod fault;
mod flash;
mod fpga;
mod injected;
mod interleaved;
mod link;
mod order;
mod replacement;
mod rng;
mod size;
mod time;
mod timetable;
mod timing;
mod traffic;
mod unified;
pub mod xpoint;

pub use cache::{Cache, EMPTY, Modulo, Slot, Spread};
pub use cached::{Cached, Tags};
pub use cdat::{Cdat, CdatError};
pub use config::{Buffer, DeviceConfig, WriteOut};
pub use counters::{DeviceCounters, Stall};
pub use credits::Credits;
pub use curve::{Curve, Curves};
pub use cxl::Cxl;
pub use delay::Delay;
pub use device::{Device, LINE_BYTES};
pub use dimm::{Dimm, Shares};
pub use divisor::Divisor;
pub use dram::Dram;
pub use fault::{Fault, check_times};
pub use flash::Flash;
pub use fpga::Fpga;
pub use injected::Injected;
pub use interleaved::Interleaved;
pub use link::{Link, LinkTiming};
pub use replacement::Replacement;
pub use rng::Rng;
pub use size::{Size, SizeError};
pub use time::{Time, TimeError};
pub use timetable::{Direction, Timetable, Turnaround};
pub use timing::{DeviceTiming, build};
pub use traffic::Traffic;
pub use unified::{Agent, UnifiedMemory, UnifiedTiming};
pub use xpoint::Xpoint;
