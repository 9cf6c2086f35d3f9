//! The numbers of a 3D XPoint DIMM: `[device.timing]` with `kind = "xpoint"`.

use serde::{Deserialize, Serialize};

use super::super::{Fault, check_times};
use crate::{LINE_BYTES, Replacement, Size, Time};

/// Twice this can be drawn from.
const INTERVAL_MAX: u32 = u32::MAX / 2;

/// A 3D XPoint DIMM. Its unit and the size of its buffer are in `[device]` and `[device.buffer]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xpoint {
    /// 64 B over the channel (DDR-T), reads and writes alike.
    pub line_transfer: Time,
    /// From a request on the channel to data of the buffer on the channel, without the transfer: handshake
    /// and controller.
    pub controller: Time,
    /// Which unit of the buffer makes room.
    pub buffer_replacement: Replacement,
    /// The queue in which written lines wait for the rest of their unit.
    pub combining: Combining,
    /// The address indirection table.
    pub translation: Translation,
    /// The media.
    pub media: Media,
    /// What power allows; absent: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Wear levelling; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear: Option<Wear>,
    /// Pauses because of heat; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thermal: Option<Thermal>,
}

/// The combining queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combining {
    /// Lines of 64 B that it holds, 1 to 1024.
    pub lines: u32,
    /// A unit leaves the queue so long after its first line came, whether it is whole or not.
    pub age: Time,
    /// Which unit leaves a full queue.
    pub replacement: Replacement,
}

/// The address indirection table: where on the media a unit is. The table is in the media; a part is in DRAM
/// on the DIMM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Translation {
    /// Every access to the media begins with a look into that DRAM.
    pub lookup: Time,
    /// If the entry is not there, it is fetched from the media first.
    pub miss: Time,
    /// Bytes of media that one entry covers; a power of two.
    pub entry: Size,
    /// Bytes of media that the entries in DRAM cover; a power of two times `entry`.
    pub buffer: Size,
}

/// The media.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Media {
    /// Parts that read and write independently, 1 to 256; consecutive units are in different ones.
    pub partitions: u32,
    /// Until the cells of a unit have been read. The partition is busy for so long.
    pub read: Time,
    /// Until the cells of a unit have been written. The partition is busy for so long.
    pub write: Time,
    /// A unit on the way between media and controller; one at a time, reads and writes alike.
    pub transfer: Time,
    /// Writes that are under way at the same time, 1 to 256.
    pub write_queue: u32,
}

/// The power budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Average power that the DIMM may take, W.
    pub average: f64,
    /// What it takes when it does nothing, W.
    pub idle: f64,
    /// Energy to read a unit, nJ.
    pub read: f64,
    /// Energy to write a unit, nJ, the read of its old contents included.
    pub write: f64,
    /// Unused power may be saved up for so long.
    pub window: Time,
}

/// Wear levelling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wear {
    /// After so many units written, one more is moved elsewhere (start-gap).
    pub gap_interval: u32,
    /// Bytes that are moved together when they are hot; a power of two.
    pub block: Size,
    /// A block is hot when so many bytes have arrived for it within an epoch.
    pub hot: Size,
    /// A block's count begins anew after this time.
    pub epoch: Time,
    /// Nothing can be read from or written to a block while it is moved.
    pub stall: Time,
}

/// Pauses because of heat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thermal {
    /// Units written between two pauses, as a mean; 1 to 2147483647.
    pub interval: u32,
    /// How long the DIMM pauses.
    pub stall: Time,
}

impl Xpoint {
    /// The first number that no device can have.
    pub(in super::super) fn check(&self) -> Result<(), Fault> {
        self.check_times()?;
        let counts = [
            ("combining.lines", self.combining.lines, 1024),
            ("media.partitions", self.media.partitions, 256),
            ("media.write_queue", self.media.write_queue, 256),
        ];
        for (key, value, most) in counts {
            if !(1..=most).contains(&value) {
                return Err(Fault::new(key, value, &format!("use 1 to {most}")));
            }
        }
        for (key, value) in [
            ("buffer_replacement", self.buffer_replacement),
            ("combining.replacement", self.combining.replacement),
        ] {
            let name = match value {
                Replacement::TreePlru => "\"tree-plru\"",
                Replacement::QueueAware => "\"queue-aware\"",
                _ => continue,
            };
            let remedy = "not every unit can leave at any time; use \"lru\", \"not-recent\" or \"random\"";
            return Err(Fault::new(key, name, remedy));
        }
        let Translation { entry, buffer, .. } = self.translation;
        if !entry.0.is_power_of_two() || entry.0 < LINE_BYTES {
            return Err(Fault::new("translation.entry", entry, "use a power of two from 64B"));
        }
        if !buffer.0.is_power_of_two() || buffer < entry || buffer.0 > 1 << 32 {
            return Err(Fault::new(
                "translation.buffer",
                buffer,
                "use a power of two from one entry to 4GiB",
            ));
        }
        if let Some(power) = &self.power {
            power.check()?;
        }
        self.wear.as_ref().map_or(Ok(()), Wear::check)?;
        match &self.thermal {
            Some(Thermal { interval, .. }) if !(1..=INTERVAL_MAX).contains(interval) => {
                let remedy = format!("use 1 to {INTERVAL_MAX}, or leave the table out");
                Err(Fault::new("thermal.interval", interval, &remedy))
            }
            _ => Ok(()),
        }
    }

    fn check_times(&self) -> Result<(), Fault> {
        check_times(&[
            ("line_transfer", self.line_transfer),
            ("controller", self.controller),
            ("combining.age", self.combining.age),
            ("translation.lookup", self.translation.lookup),
            ("translation.miss", self.translation.miss),
            ("media.read", self.media.read),
            ("media.write", self.media.write),
            ("media.transfer", self.media.transfer),
            ("power.window", self.power.as_ref().map_or(Time::ZERO, |power| power.window)),
            ("wear.stall", self.wear.as_ref().map_or(Time::ZERO, |wear| wear.stall)),
            ("thermal.stall", self.thermal.as_ref().map_or(Time::ZERO, |thermal| thermal.stall)),
        ])
    }
}

impl Power {
    fn check(&self) -> Result<(), Fault> {
        let sound = |value: f64| value.is_finite() && (0.0..1e6).contains(&value);
        for (key, value) in
            [("power.idle", self.idle), ("power.read", self.read), ("power.write", self.write)]
        {
            if !sound(value) {
                return Err(Fault::new(key, value, "use a number from 0 to less than 1e6"));
            }
        }
        if !sound(self.average) || self.average - self.idle < 1e-3 {
            let remedy = "use more watts than power.idle by at least 0.001, and less than 1e6";
            return Err(Fault::new("power.average", self.average, remedy));
        }
        Ok(())
    }
}

impl Wear {
    fn check(&self) -> Result<(), Fault> {
        if self.gap_interval == 0 {
            return Err(Fault::new("wear.gap_interval", 0, "use at least 1, or leave the table out"));
        }
        if !self.block.0.is_power_of_two() || self.block.0 < 4096 {
            return Err(Fault::new("wear.block", self.block, "use a power of two from 4KiB"));
        }
        if self.hot.0 < LINE_BYTES || self.epoch == Time::ZERO {
            return Err(Fault::new("wear.hot", self.hot, "use at least 64B, and an epoch that takes time"));
        }
        Ok(())
    }
}
