//! The verbs of Strandline as a library: an input, the sinks it is played into, plain results.
//!
//! An [`Input`] is a program, a trace file or a built-in workload. [`Input::play`] is the one place that
//! opens it, checks what it can see, broadcasts its events to sinks, and reports progress. Each verb is a
//! struct of options with a method `run` ([`Simulate`], [`Record`]) that plays an input and returns plain
//! data. A verb prints nothing, never ends the process and touches no terminal: progress and warnings go to
//! an [`Observer`], results have methods that render them as text, as a page and as JSON.
//!
//! ```no_run
//! use session::{BuiltIn, Input, Silent, Simulate};
//!
//! let input = Input::BuiltIn(BuiltIn { operations: Some(1000), ..BuiltIn::default() });
//! let comparison = Simulate::new(input).machine("dram").machine("xpoint").run(&Silent)?;
//! println!("{}", comparison.headline());
//! # Ok::<(), session::Error>(())
//! ```
//!
//! # Recording without the command line
//!
//! A program is observed if it was built with the compiler driver. `strandline cc` is one front of it;
//! [`toolchain`] is the same for a Rust program that links this crate. The compiler starts the running
//! executable again, under the name `as`, in place of the assembler. The executable therefore calls
//! [`toolchain::answer_as_assembler`] first in its `main`.
#![forbid(unsafe_code)]

mod advise;
mod bench;
mod check;
mod doctor;
pub mod dump;
mod ending;
mod error;
mod faults;
mod files;
// The runtime decides with the same file what the user named.
pub mod calibrate;
#[path = "../../../observe/capture-runtime/src/base/glob.rs"]
mod glob;
mod hint;
pub mod host;
mod input;
mod machines;
mod measure;
mod observer;
mod plan;
mod play;
mod profile;
mod record;
mod reproduce;
mod samples;
mod scan;
mod simulate;
mod sources;
mod temporary;
pub mod toolchain;
mod trace_file;
mod traced;
mod unified;
mod wear;

pub use self::bench::{Bench, BenchSfr, BenchVnvm};
pub use self::unified::{BenchUnified, DeviceLitmus, LitmusOnDevice, MeasureDevice, MeasuredDevice};
pub use advise::{Advised, Prestores};
pub use capture::Reports;
pub use check::{
    Check, CheckError, Checked, Code, CommandFault, Doubt, DoubtKind, Judge, Laid, LaidOut, Linted, Noted,
    Rebooted, Replayed, Run,
};
pub use doctor::{Doctor, Fact, Limit, State};
pub use ending::{ending, exit, signal};
pub use error::Error;
pub use faults::{FaultSite, FaultTrial, Faults, FaultsFound, Sweeps, SweptFaults};
pub use files::{absolute, make_folder, write};
pub use input::{BuiltIn, Input, Program};
pub use machines::Chosen;
pub use measure::{Measure, MeasureFault, Measurements, Memory, derive_curve};
pub use observer::{Observer, Progress, Silent, Watched};
pub use plan::{
    Fleet, Fleets, Looked, Placement, PlanFault, PlanGroup, PlanSource, Planned, Planning, Survey, Surveyed,
    Verified,
};
pub use play::{Played, cut_short};
pub use profile::{Profile, ProfileFiles, ProfiledFiles, host};
pub use reboot::{answer as answer_as_reboot, answered_by as reboot_answered_by};
pub use record::{Record, Recorded};
pub use reproduce::Reproduce;
pub use scan::{Line, Scan};
pub use simulate::{Comparison, Measured, Notes, Simulate};
pub use sources::Sources;
pub use temporary::abandon;
pub use trace_file::TraceFile;
pub use wear::{AccuracyAt, Levelling, Wear, WearFault, WearLevel, WearRan, WearRun, Worn};
