//! The bytes that a device moved.

use serde::{Deserialize, Serialize};

/// Bytes over one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes the controller read from the device.
    pub controller_read_bytes: u64,
    /// Bytes the controller wrote to the device.
    pub controller_write_bytes: u64,
    /// Bytes the device read from its media.
    pub media_read_bytes: u64,
    /// Bytes the device wrote to its media.
    pub media_write_bytes: u64,
    /// Units that had to be read before they could be written whole.
    pub read_modify_writes: u64,
    /// Requests that the device's buffer answered or absorbed.
    pub buffer_hits: u64,
}

impl Traffic {
    /// Effective write ratio: bytes written by the controller over bytes written to media.
    /// `None` before the first media write.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn ewr(&self) -> Option<f64> {
        (self.media_write_bytes > 0)
            .then(|| self.controller_write_bytes as f64 / self.media_write_bytes as f64)
    }

    /// Adds another's traffic to this.
    pub fn add(&mut self, other: &Traffic) {
        *self = self.combine(other, u64::wrapping_add);
    }

    /// What came on top of `before`, an earlier state of the same counters.
    #[must_use]
    pub fn since(&self, before: &Traffic) -> Traffic {
        self.combine(before, u64::wrapping_sub)
    }

    fn combine(&self, other: &Traffic, with: fn(u64, u64) -> u64) -> Traffic {
        Traffic {
            controller_read_bytes: with(self.controller_read_bytes, other.controller_read_bytes),
            controller_write_bytes: with(self.controller_write_bytes, other.controller_write_bytes),
            media_read_bytes: with(self.media_read_bytes, other.media_read_bytes),
            media_write_bytes: with(self.media_write_bytes, other.media_write_bytes),
            read_modify_writes: with(self.read_modify_writes, other.read_modify_writes),
            buffer_hits: with(self.buffer_hits, other.buffer_hits),
        }
    }
}
