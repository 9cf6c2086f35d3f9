//! `strandline cc` and `strandline c++`: hand over to the compiler driver, with the runtime that this binary carries.

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};

use capture::cc::Language;

/// The library that observed programs load; see the crate's build script.
const RUNTIME: &[u8] = include_bytes!(env!("STRANDLINE_RUNTIME"));

/// Compiles or links; the exit status is the compiler's.
pub fn compiler(language: Language, arguments: &[OsString]) -> ExitCode {
    match capture::cc::run(language, arguments, RUNTIME) {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("strandline {}: {error}", if language == Language::C { "cc" } else { "c++" });
            ExitCode::from(2)
        }
    }
}

/// Assembles what the compiler wrote; the exit status is the assembler's.
pub fn assembler(arguments: Vec<OsString>) -> ExitCode {
    match capture::assembler::run(&arguments, RUNTIME) {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("strandline as: {error}");
            ExitCode::from(2)
        }
    }
}

/// The compiler's exit status as ours; 1 if a signal ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}
