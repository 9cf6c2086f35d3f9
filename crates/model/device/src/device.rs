//! The trait that every memory implements.

use crate::{DeviceCounters, Time, Traffic};

/// Bytes of a line. Everything between caches and devices moves in these.
pub const LINE_BYTES: u64 = 64;

/// A device on a memory channel; lines are numbered within it, from 0.
/// It can go to another thread, so that machines run side by side.
pub trait Device: std::fmt::Debug + Send {
    /// The controller reads `line` at `at`. Returns when its data are on the channel's pins.
    fn read(&mut self, at: Time, line: u64) -> Time;

    /// The controller offers a line at `at`, new in all of its bytes or (`whole` is false) in a part. Returns
    /// when the device has *taken* the line, which frees the controller's queue entry; the line is durable
    /// from then on if the device is. The controller offers the next line at that time, so writes overlap
    /// only if this is earlier than the time at which the media has the line. [`Credits`](crate::Credits)
    /// bounds how many are under way.
    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time;

    /// A core asks to own `line`, because it is about to write to it. Returns when the directory has granted
    /// that, or `None` if the directory is not on the device.
    fn own(&mut self, _at: Time, _line: u64) -> Option<Time> {
        None
    }

    /// Does what the device does on its own and what is due by `at`. [`Device::read`], [`Device::write`] and
    /// [`Device::drain`] begin with it if it does anything: between two requests nobody else calls it.
    fn advance_to(&mut self, at: Time);

    /// Writes everything that it buffers to the media, as at a power failure or shutdown. Returns when that
    /// is done.
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
