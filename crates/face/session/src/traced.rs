//! Programs that were not built with `strandline cc`, whose files are followed by their system calls.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use capture::{Outcome, ThreadOutcome};
use event::Sink;

use crate::error::Error;
use crate::input::Program;
use crate::samples;

/// Bytes of a script in which programs are looked for.
const SCRIPT: u64 = 64 << 10;

/// Whether a program is followed by its system calls: it is to be followed for files only, and neither it nor
/// a program that its command line or script names was built with `strandline cc`.
pub fn applies(program: &Program) -> bool {
    let files = !program.files.is_empty() || (program.values && !program.also_files.is_empty());
    let memory = program.keep.is_some() || !program.pmem.is_empty();
    files && !memory && !program.command.iter().any(names_observed)
}

fn names_observed(word: &OsString) -> bool {
    let whole = Path::new(word);
    if let Some(path) = samples::find(whole).filter(|path| path.is_file()) {
        return observed(&path) || script(&path).split(separates).any(is_observed);
    }
    word.to_string_lossy().split(separates).any(is_observed)
}

fn separates(letter: char) -> bool {
    letter.is_whitespace() || ";&|()<>\"'`=".contains(letter)
}

fn is_observed(word: &str) -> bool {
    word.contains('/') && observed(&PathBuf::from(word))
}

fn observed(path: &Path) -> bool {
    path.is_file() && capture::instrumented(path).unwrap_or(false)
}

/// The text of a script; nothing of a program.
fn script(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SCRIPT).read_to_end(&mut bytes));
    match read {
        Ok(_) if !bytes.starts_with(b"\x7fELF") => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    }
}

/// Runs the program under the tracer.
pub fn record(program: &Program, sink: &mut dyn Sink) -> Result<Outcome, Error> {
    let options = program.options()?;
    let began = Instant::now();
    let traced = tracer::Options {
        command: options.command,
        files: options.files,
        stdout_to_stderr: options.stdout_to_stderr,
    };
    let outcome = tracer::record(&traced, sink)?;
    let thread = |&(thread, pid): &(event::ThreadId, u32)| ThreadOutcome { thread, pid, events: 0 };
    let mut processes: Vec<u32> = outcome.threads.iter().map(|thread| thread.1).collect();
    processes.sort_unstable();
    processes.dedup();
    Ok(Outcome {
        status: outcome.status,
        interrupted: None,
        attached: true,
        events: outcome.events,
        counted: None,
        threads: outcome.threads.iter().map(thread).collect(),
        processes,
        killed: outcome.killed,
        elapsed: began.elapsed(),
        warnings: Vec::new(),
    })
}
