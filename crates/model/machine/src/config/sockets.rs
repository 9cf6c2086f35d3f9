//! Sockets: which cores are near the memory, and what lies between it and the others.

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use crate::LinkTiming;

/// The table `[sockets]`; without it, all cores are near all memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sockets {
    /// How many, 1 to 8; they share the cores evenly, the first cores on socket 0.
    pub count: u32,
    /// The socket whose controllers have the memory.
    pub home: u32,
    /// From each other socket to that one.
    pub link: LinkTiming,
}

impl Config {
    pub(super) fn validate_sockets(&self) -> Result<(), ConfigError> {
        let Some(sockets) = &self.sockets else { return Ok(()) };
        self.range("sockets.count", sockets.count, 1, 8)?;
        if !self.cores.count.is_multiple_of(sockets.count) {
            let remedy = format!("the {} cores of cores.count can't be shared evenly", self.cores.count);
            return Err(self.wrong("sockets.count", sockets.count, &remedy));
        }
        self.range("sockets.home", sockets.home, 0, sockets.count - 1)?;
        self.times("sockets.link", &sockets.link.times())
    }
}
