//! The command line's way into the module: the wheel's executable is a launcher that opens the module and calls this, so that
//! the models are in a wheel once. It runs without an interpreter.

use std::io::Write;
use std::panic::catch_unwind;
use std::process::ExitCode;

/// What a program ends with after a panic.
const PANICKED: i32 = 101;

/// Runs the verb of this process's arguments; gives the exit status.
// SAFETY: nothing else of this module or of a program that opens it has the name.
#[allow(unsafe_code, reason = "a launcher in C finds it by its name")]
#[unsafe(no_mangle)]
pub extern "C" fn strandline_main() -> i32 {
    let ended = catch_unwind(command::main);
    // A program whose `main` is Rust's does so in the end.
    std::io::stdout().flush().ok();
    ended.map_or(PANICKED, |code| {
        (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).map_or(PANICKED, i32::from)
    })
}
