//! What the memory side measured.

use serde::{Deserialize, Serialize};

use super::Histogram;
use crate::{DeviceCounters, Stall, Time, Traffic};

/// One memory with time: its controller and DIMMs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryTiming {
    /// All DIMMs together.
    pub total: Traffic,
    /// Each DIMM.
    pub per_dimm: Vec<Traffic>,
    /// Read queues, all DIMMs together.
    pub read_queue: Occupancy,
    /// Write queues, all DIMMs together.
    pub write_queue: Occupancy,
    /// Reads that found their read queue full.
    pub read_queue_full: Stall,
    /// Writes that found their write queue full.
    pub write_queue_full: Stall,
    /// Writes whose thread had all of its credit in their write queue.
    pub credit_used_up: Stall,
    /// Writes that waited behind an earlier one of their thread, which waited for something of the above.
    pub behind_own: Stall,
    /// Reads that found all of their line in the write queue.
    pub forwarded_reads: u64,
    /// Reads whose line the device is still to be asked for.
    #[serde(default)]
    pub waiting_reads: u64,
    /// Reads, from the miss in the last-level cache until the line is there.
    pub read_latency: Histogram,
    /// Writes, from the caches or combining buffers until the write queue has accepted them.
    pub write_latency: Histogram,
    /// What happened inside the devices, all together.
    pub device: DeviceCounters,
    /// What would have to be done if power failed now.
    pub adr: AdrEstimate,
}

/// How full queues were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Entries that were taken, as a mean over time.
    pub mean: f64,
    /// Entries that were taken in one queue, at most.
    pub max: u32,
}

/// The energy question of a power failure: how much is on the way to the media, and how long it takes to get there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdrEstimate {
    /// Bytes in write queues.
    pub queued_bytes: u64,
    /// Bytes in the DIMMs' buffers that the media does not have and would be given; a cache that forgets does not count.
    pub buffered_bytes: u64,
    /// Until the fullest DIMM has written what is in its buffers; zero for devices that do not say.
    pub time: Time,
}
