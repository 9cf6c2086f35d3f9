//! `[memory]`: the controller, how it spreads addresses, and its queues.

use persistency::Domain;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use crate::{DeviceConfig, DeviceTiming, LINE_BYTES, Size, Time};

/// The memory controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// DIMMs of each memory (persistent and other), 1 to 64.
    pub dimms: u32,
    /// Consecutive bytes on one DIMM before the next one's turn; a power of two.
    pub interleave: Size,
    /// Where a store has to arrive to survive a power failure: `"adr"` (the write queue, the default) or `"eadr"` (the caches, so
    /// that nothing need be flushed).
    #[serde(default)]
    pub persistence: Domain,
    /// Queues and the way to them; absent if only traffic is of interest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<ControllerTiming>,
}

/// Queues of the memory controller and the way between caches and channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerTiming {
    /// Reads that wait for one DIMM's answer at the same time, 1 to 2048. An entry is taken until the data are there.
    pub read_queue: u32,
    /// Of the reads that found the read queue full, the oldest so many (1 to 1024) ask for each entry that becomes free, and
    /// chance decides. Default 1: in the order of arrival.
    #[serde(default = "one")]
    pub read_crowd: u32,
    /// Lines that wait for one DIMM to take them, 1 to 2048.
    pub write_queue: u32,
    /// Bytes that one thread may have in one DIMM's write queue, a multiple of 64 B. Its next line waits in front of the
    /// controller, and all of its later lines behind that one, whichever DIMM they are for. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_write_credit: Option<Size>,
    /// From a miss in the last-level cache to the channel.
    pub read_request: Time,
    /// From data on the channel to the last-level cache.
    pub read_return: Time,
    /// From the caches (or a core's combining buffer) to the write queue and its acknowledgement back.
    pub write_accept: Time,
}

fn one() -> u32 {
    1
}

/// A memory for all that is not persistent: DRAM beside the persistent DIMMs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherMemory {
    /// Its controller.
    pub controller: Controller,
    /// One of its DIMMs.
    pub device: DeviceConfig,
}

impl Config {
    pub(super) fn validate_memory(
        &self,
        table: &str,
        controller: &Controller,
        device_table: &str,
        device: &DeviceConfig,
    ) -> Result<(), ConfigError> {
        self.range(&format!("{table}.dimms"), controller.dimms, 1, 64)?;
        if !matches!(controller.persistence, Domain::Adr | Domain::Eadr) {
            let key = format!("{table}.persistence");
            return Err(self.wrong(&key, controller.persistence, "use adr or eadr"));
        }
        let (unit, interleave) = (device.unit, controller.interleave);
        if !unit.0.is_power_of_two() || !(LINE_BYTES..=4096).contains(&unit.0) {
            let key = format!("{device_table}.unit");
            return Err(self.wrong(&key, unit, "use a power of two from 64B to 4KiB"));
        }
        if !interleave.0.is_power_of_two() || interleave < unit {
            let remedy = format!("use a power of two not below {device_table}.unit");
            return Err(self.wrong(&format!("{table}.interleave"), interleave, &remedy));
        }
        if let Some(buffer) = &device.buffer {
            self.range(&format!("{device_table}.buffer.lines"), buffer.lines, 1, 4096)?;
            let key = format!("{device_table}.buffer.replacement");
            self.validate_replacement(&key, buffer.replacement, buffer.lines)?;
        }
        if let Err(fault) = device.timing.as_ref().map_or(Ok(()), DeviceTiming::check) {
            let key = format!("{device_table}.timing.{}", fault.key);
            return Err(self.wrong(&key, fault.value, &fault.remedy));
        }
        controller.timing.as_ref().map_or(Ok(()), |timing| self.validate_queues(table, timing))
    }

    fn validate_queues(&self, table: &str, timing: &ControllerTiming) -> Result<(), ConfigError> {
        self.range(&format!("{table}.timing.read_queue"), timing.read_queue, 1, 2048)?;
        self.range(&format!("{table}.timing.read_crowd"), timing.read_crowd, 1, 1024)?;
        self.range(&format!("{table}.timing.write_queue"), timing.write_queue, 1, 2048)?;
        let ways = [
            ("read_request", timing.read_request),
            ("read_return", timing.read_return),
            ("write_accept", timing.write_accept),
        ];
        self.times(&format!("{table}.timing"), &ways)?;
        match timing.thread_write_credit {
            Some(credit) if credit.0 == 0 || !credit.0.is_multiple_of(LINE_BYTES) => Err(self.wrong(
                &format!("{table}.timing.thread_write_credit"),
                credit,
                "use a multiple of 64B, or leave the key out for no limit",
            )),
            _ => Ok(()),
        }
    }

    /// Queues of a memory and its device's timing, which a machine with time must have.
    pub(crate) fn side_timing(
        &self,
        persistent: bool,
    ) -> Result<(&ControllerTiming, &DeviceTiming), ConfigError> {
        let (controller, device) = self.side(persistent);
        let other = self.other_memory.is_some() && !persistent;
        let (queues, timing) = if other {
            ("other_memory.controller.timing", "other_memory.device.timing")
        } else {
            ("memory.timing", "device.timing")
        };
        let remedy = "this machine counts bytes only; a timed run needs this table, as in the preset xpoint";
        let queues = controller.timing.as_ref().ok_or_else(|| self.wrong(queues, "absent", remedy))?;
        let timing = device.timing.as_ref().ok_or_else(|| self.wrong(timing, "absent", remedy))?;
        Ok((queues, timing))
    }
}
