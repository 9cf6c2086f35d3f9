//! What a check and the process that starts its recoveries say to each other: a line of JSON each.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use tracer::Reads;

use crate::process::Recipe;

/// The name under which an executable starts itself.
pub const NAME: &str = "strandline-reboot";

/// The first argument of the process that starts recoveries in the system as it finds it.
pub const STARTER: &str = "starter";

/// What the kernel says of this boot.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Whose processes recovery sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Its own alone.
    Own,
    /// Those of the whole system.
    Shared,
}

impl Processes {
    /// The first argument of the process that makes the system.
    pub fn role(self) -> &'static str {
        match self {
            Processes::Own => "own-processes",
            Processes::Shared => "shared-processes",
        }
    }
}

/// The first line: what the system is to be like.
#[derive(Debug, Serialize, Deserialize)]
pub struct Setup {
    pub recipe: Recipe,
    /// The folder of the image and of what belongs to it.
    pub folder: PathBuf,
    /// What the kernel is to call this boot; none if recoveries run in the system as it is.
    pub boot_id: Option<String>,
}

/// The answer to each line.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The system is there.
    Ready,
    /// There will be none.
    Refused(String),
    /// The recovery ended with this status, or was killed after its time; and what it read, if that is known.
    Ended(Option<i32>, Option<Reads>),
    /// The recovery can't be started or waited for.
    Failed { code: Option<i32>, why: String },
}

/// Sends a line.
pub fn send(line: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(message)?;
    text.push(b'\n');
    line.write_all(&text)
}

/// Receives a line; `None` if the other side has ended.
pub fn receive<M: DeserializeOwned>(line: &mut impl BufRead) -> io::Result<Option<M>> {
    let mut text = String::new();
    if line.read_line(&mut text)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&text)?))
}
