//! The table `[device]` of a description.

use serde::{Deserialize, Serialize};

use crate::{DeviceTiming, Replacement, Size};

/// One DIMM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Bytes that the media reads or writes at once; a power of two from 64 B to 4 KiB.
    pub unit: Size,
    /// The device's own write-combining buffer; absent on a device that writes each line as it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Buffer>,
    /// Writes that a cell survives; absent if that is not known. Only wear estimates ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance: Option<u64>,
    /// Which device it is and how long it takes; absent if only traffic is of interest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<DeviceTiming>,
}

/// A device's write-combining buffer (the XPBuffer of 3D XPoint).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Units that it holds, 1 to 4096; reads and writes compete for them.
    pub lines: u32,
    /// Which unit of a full buffer makes room.
    pub replacement: Replacement,
    /// When a unit is written to the media.
    pub write_out: WriteOut,
}

/// When a buffered unit is written to the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteOut {
    /// As soon as all of it is new, or when it has to make room; it stays readable in the buffer.
    OnCompletion,
    /// Only when it has to make room.
    OnEviction,
}

#[cfg(test)]
impl DeviceConfig {
    /// A device without a buffer, of lines.
    pub(crate) fn plain() -> Self {
        DeviceConfig { unit: Size(64), buffer: None, endurance: None, timing: None }
    }
}
