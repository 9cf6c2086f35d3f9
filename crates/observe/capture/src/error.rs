//! What can go wrong when a program is observed.

use std::io;
use std::path::PathBuf;

use event::SinkError;

/// Why a recording, counting or sampling run failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The shared memory could not be made.
    #[error("can't make the session file {}: {source}", .path.display())]
    Session {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The shared memory's file system is full.
    #[error("{} has no room for {bytes} bytes of buffers; free some, or make it larger (in a container: --shm-size)", .directory.display())]
    NoRoom {
        /// Where the session file was to be.
        directory: PathBuf,
        /// The least that is needed.
        bytes: u64,
    },
    /// Too many patterns.
    #[error("the {option} patterns take {bytes} bytes; 4096 is the most")]
    Patterns {
        /// The option that gave them.
        option: &'static str,
        /// Their length with a terminator each.
        bytes: usize,
    },
    /// No command was given.
    #[error("no program to run was given")]
    NoCommand,
    /// The program could not be started.
    #[error("can't run {program}: {source}")]
    Spawn {
        /// Its name as given.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// Waiting for the program failed.
    #[error("can't wait for {program}: {source}")]
    Wait {
        /// Its name as given.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program file could not be examined.
    #[error("can't read {}: {reason}", .path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The consumer of the events failed; the program was stopped.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The kernel does not let this user sample.
    #[error(
        "sampling is not permitted: kernel.perf_event_paranoid is {level}; \
         `sysctl kernel.perf_event_paranoid=2` (as root) allows it for one's own programs"
    )]
    NotPermitted {
        /// The setting's value, `unknown` if it can't be read.
        level: String,
    },
    /// The kernel can't sample at all.
    #[error("sampling is not available here (perf_event_open: {0})")]
    NoSampling(io::Error),
    /// No unit of the processor samples addresses.
    #[error(
        "no performance monitoring unit that knows addresses of accesses: /sys/bus/event_source/devices has neither \
         cpu/events/mem-loads and mem-stores (PEBS) nor ibs_op (IBS); virtual machines rarely pass one on"
    )]
    NoAddresses,
}
