//! What a device says of itself: latency and bandwidth of each direction, from its CDAT through the operating system.
//!
//! Linux shows them per node as `access0/initiators/{read,write}_{latency,bandwidth}` (under `/sys/devices/system/node/nodeN`, the
//! whole way from the nearest processor) and per region as `access0/{read,write}_{latency,bandwidth}` (under
//! `/sys/bus/cxl/devices/regionN`), in ns and MB/s. Both directions are independent, as on a link; a direction's transfers
//! follow each other, latencies overlap. A device that says nothing has 0, which is refused.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::{Device, Fault, LINE_BYTES, Time, Traffic, check_times};

/// Folders in which a node or region may have the figures.
const FOLDERS: [&str; 4] = ["", "initiators", "access0/initiators", "access0"];
/// The figures' files, in the order of [`Cdat::figures_mut`].
const FILES: [&str; 4] = ["read_latency", "write_latency", "read_bandwidth", "write_bandwidth"];

/// The figures of a device: all four, or the folder that has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cdat {
    /// A node's or region's folder, or the folder of the figures itself; absent if the figures are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// From request to data, ns, above 0. Of a node it has the processor's part within it: set
    /// `memory.timing.read_request` and `read_return` to 0 then.
    #[serde(default)]
    pub read_latency: u64,
    /// From offer to acceptance, ns, above 0.
    #[serde(default)]
    pub write_latency: u64,
    /// MB/s (10^6 bytes), above 0.
    #[serde(default)]
    pub read_bandwidth: u64,
    /// MB/s, above 0.
    #[serde(default)]
    pub write_bandwidth: u64,
}

/// A folder without figures.
#[derive(Debug, thiserror::Error)]
pub enum CdatError {
    /// No folder of those that may have them does.
    #[error(
        "{folder} has no read_latency, neither itself nor in access0/initiators: the firmware reports nothing"
    )]
    Absent {
        /// Which.
        folder: String,
    },
    /// A file that can't be read.
    #[error("{file}: {source}")]
    Read {
        /// Which.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A file that is no number.
    #[error("{file}: `{text}` is no whole number")]
    Number {
        /// Which.
        file: String,
        /// What it is.
        text: String,
    },
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct CdatDevice {
    latency: [Time; 2],
    line: [Time; 2],
    free: [Time; 2],
    traffic: Traffic,
}

impl Cdat {
    /// Reads the figures of [`Cdat::folder`], if there is one; a relative folder starts at `base`.
    ///
    /// # Errors
    /// If the folder has none.
    pub fn read(&mut self, base: &Path) -> Result<(), CdatError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let folder = base.join(folder);
        let found = FOLDERS.iter().map(|sub| folder.join(sub)).find(|at| at.join(FILES[0]).is_file());
        let found = found.ok_or_else(|| CdatError::Absent { folder: folder.display().to_string() })?;
        for (figure, name) in self.figures_mut().into_iter().zip(FILES) {
            let path = found.join(name);
            let file = path.display().to_string();
            let text =
                fs::read_to_string(&path).map_err(|source| CdatError::Read { file: file.clone(), source })?;
            let text = text.trim();
            *figure = text.parse().map_err(|_| CdatError::Number { file, text: text.to_owned() })?;
        }
        Ok(())
    }

    fn figures_mut(&mut self) -> [&mut u64; 4] {
        [&mut self.read_latency, &mut self.write_latency, &mut self.read_bandwidth, &mut self.write_bandwidth]
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        for (figure, name) in self.clone().figures_mut().into_iter().zip(FILES) {
            if *figure == 0 {
                return Err(Fault::new(name, *figure, "use a number above 0, or a folder that has it"));
            }
        }
        let [read, write] = self.latencies();
        check_times(&[("read_latency", read), ("write_latency", write)])
    }

    fn latencies(&self) -> [Time; 2] {
        // Beyond the longest time that a description may have, which `check` refuses.
        let time = |ns: u64| Time(ns.saturating_mul(1000));
        [time(self.read_latency), time(self.write_latency)]
    }
}

impl CdatDevice {
    pub(crate) fn new(config: &Cdat) -> Self {
        // 64 B at 1 MB/s are 64 us.
        let line = |bandwidth: u64| Time(LINE_BYTES * 1_000_000 / bandwidth.max(1));
        CdatDevice {
            latency: config.latencies(),
            line: [line(config.read_bandwidth), line(config.write_bandwidth)],
            free: [Time::ZERO; 2],
            traffic: Traffic::default(),
        }
    }

    /// Direction 0 reads, direction 1 writes. A lone line takes no longer than the latency, which has its transfer within it.
    fn transfer(&mut self, at: Time, direction: usize) -> Time {
        let begins = self.free[direction].max(at);
        self.free[direction] = begins + self.line[direction];
        begins + self.latency[direction].max(self.line[direction])
    }
}

impl Device for CdatDevice {
    fn read(&mut self, at: Time, _line: u64) -> Time {
        self.traffic.controller_read_bytes += LINE_BYTES;
        self.traffic.media_read_bytes += LINE_BYTES;
        self.transfer(at, 0)
    }

    fn write(&mut self, at: Time, _line: u64, _whole: bool) -> Time {
        self.traffic.controller_write_bytes += LINE_BYTES;
        self.traffic.media_write_bytes += LINE_BYTES;
        // The queue hands over the next line when the lane is free; nobody waits for a write's way.
        let begins = self.free[1].max(at);
        self.transfer(at, 1);
        begins
    }

    fn advance_to(&mut self, _at: Time) {}

    fn drain(&mut self, at: Time) -> Time {
        at.max(self.free[1])
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn held_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Cdat {
        Cdat {
            folder: None,
            read_latency: 250,
            write_latency: 200,
            read_bandwidth: 32_000,
            write_bandwidth: 16_000,
        }
    }

    #[test]
    fn each_direction_has_its_own_latency_and_bandwidth() {
        let mut device = CdatDevice::new(&figures());
        assert_eq!(device.read(Time::ZERO, 0), Time::from_ns(250));
        assert_eq!(device.read(Time::ZERO, 1), Time::from_ns(252));
        assert_eq!(device.write(Time::ZERO, 2, true), Time::ZERO);
        assert_eq!(device.write(Time::ZERO, 3, true), Time::from_ns(4));
    }

    #[test]
    fn figures_come_from_the_folder_of_a_node() {
        let node = std::env::temp_dir().join(format!("cdat-{}", std::process::id()));
        let folder = node.join("access0/initiators");
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in FILES.iter().zip(["250\n", "200\n", "32000\n", "16000\n"]) {
            fs::write(folder.join(name), text).unwrap();
        }
        let mut read = Cdat { folder: Some(node.clone()), ..Cdat::default() };
        let wanted = Cdat { folder: Some(node.clone()), ..figures() };
        read.read(Path::new("")).unwrap();
        assert_eq!(read, wanted);
        assert!(read.check().is_ok());
        fs::write(folder.join("write_latency"), "fast\n").unwrap();
        assert!(matches!(read.read(Path::new("")), Err(CdatError::Number { .. })));
        fs::remove_dir_all(&node).unwrap();
        assert!(matches!(read.read(Path::new("")), Err(CdatError::Absent { .. })));
        assert_eq!(Cdat::default().check().unwrap_err().key, "read_latency");
    }
}
