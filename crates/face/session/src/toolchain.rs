//! The compiler driver with the runtimes that this crate carries.
//!
//! A compiler that the driver starts calls the running executable again as its assembler. A program that uses
//! [`compiler`] begins its `main` with [`answer_as_assembler`].

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;

use instrument::Runtimes;

pub use instrument::{AssemblerError, CcError, Language};

/// The libraries that programs load; the crate's build script makes them.
const RUNTIMES: Runtimes = Runtimes {
    capture: include_bytes!(env!("STRANDLINE_RUNTIME")),
    persist: include_bytes!(env!("STRANDLINE_PERSIST_RUNTIME")),
};

/// Runs the compiler with its own arguments, as `strandline cc` and `strandline c++` do, and returns its exit
/// status.
///
/// # Errors
/// If the compiler can't be run, or its arguments ask for what can't be instrumented.
pub fn compiler(language: Language, arguments: &[OsString]) -> Result<ExitStatus, CcError> {
    instrument::compile(language, arguments, &RUNTIMES)
}

/// Assembles if this process was started as the assembler of [`compiler`], by the name `as`, and returns the
/// assembler's exit status, with which the process has to end; `None` in a process that was started by
/// another name.
///
/// # Errors
/// If the assembler can't be run.
pub fn answer_as_assembler() -> Result<Option<ExitStatus>, AssemblerError> {
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    if name.as_deref().map(Path::new).and_then(Path::file_name) != Some("as".as_ref()) {
        return Ok(None);
    }
    let arguments: Vec<OsString> = arguments.collect();
    instrument::assemble(&arguments, &RUNTIMES).map(Some)
}
