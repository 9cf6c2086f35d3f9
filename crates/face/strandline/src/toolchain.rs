//! `strandline cc` and `strandline c++`: hand over to the compiler driver; and the assembler that the
//! compiler finds.

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};

use session::toolchain::{self, Language};

/// Compiles or links; the exit status is the compiler's.
pub fn compiler(language: Language, arguments: &[OsString]) -> ExitCode {
    match toolchain::compiler(language, arguments) {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("strandline {}: {error}", if language == Language::C { "cc" } else { "c++" });
            ExitCode::from(2)
        }
    }
}

/// Assembles what the compiler wrote, if this process was started to do so; the exit status is the
/// assembler's.
pub fn assembler() -> Option<ExitCode> {
    match toolchain::answer_as_assembler() {
        Ok(status) => status.map(exit_code),
        Err(error) => {
            eprintln!("strandline as: {error}");
            Some(ExitCode::from(2))
        }
    }
}

/// The compiler's exit status as ours; 1 if a signal ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}
