//! What happens inside a device, as counts.

use serde::{Deserialize, Serialize};

use crate::Time;

/// What happens inside devices and is not in [`Traffic`](crate::Traffic).
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
    pub fn add(&mut self, other: &DeviceCounters) {
        self.dirty_evictions += other.dirty_evictions;
        self.translation_misses += other.translation_misses;
        self.moved_bytes += other.moved_bytes;
        self.wear.add(&other.wear);
        self.heat.add(&other.heat);
    }
}

/// Requests that had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// How many.
    pub count: u64,
    /// How long, all of them together.
    pub time: Time,
}

impl Stall {
    /// Somebody who could have gone on at `from` did so at `until`.
    pub fn waited(&mut self, from: Time, until: Time) {
        self.count += u64::from(until > from);
        self.time += until.since(from);
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Stall) {
        self.count += other.count;
        self.time += other.time;
    }
}
