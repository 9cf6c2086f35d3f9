//! The command line: `strandline VERB`. Exit status 0: done; 1: done, and something was found or missed; 2: misuse or failure, told on
//! standard error.
#![forbid(unsafe_code)]

mod advise;
mod analysis;
mod build;
mod checking;
mod cli;
mod events_json;
mod events_text;
mod files;
mod measure;
mod output;
mod pools;
mod profile;
mod progress;
mod record;
mod reproduce;
mod samples;
mod simulate;
mod sources;
mod trace;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command};

fn main() -> ExitCode {
    // The compiler driver installs this binary under the name `as` where the compiler looks for its assembler.
    let mut arguments = std::env::args_os();
    let called_as = arguments.next().map(std::path::PathBuf::from);
    if called_as.as_deref().and_then(std::path::Path::file_name) == Some("as".as_ref()) {
        return build::assembler(arguments.collect());
    }
    let result = match Cli::parse().command {
        Command::Profile(args) => profile::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Check(args) => match checking::run(&args) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Simulate(args) => simulate::run(&args),
        Command::Reproduce(args) => match reproduce::run(&args) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Trace(command) => trace::run(command),
        Command::Pool(command) => match pools::run(&command) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Measure(args) => measure::run(&args),
        Command::Advise(command) => advise::run(&command),
        Command::Cc(args) => return build::compiler(capture::cc::Language::C, &args.args),
        Command::Cxx(args) => return build::compiler(capture::cc::Language::Cxx, &args.args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&told(&error));
            ExitCode::from(2)
        }
    }
}

/// The error with its causes, without those that the words before already give.
fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Tells something on standard error.
fn warn(text: &str) {
    // Not `eprintln!`, which panics when nobody reads standard error.
    writeln!(std::io::stderr(), "strandline: {text}").ok();
}

/// Prints on standard output.
fn say(text: &str) -> anyhow::Result<()> {
    quiet_if_closed(std::io::stdout().write_all(text.as_bytes()))
}

/// Standard output was closed by its reader, as `head` does: nothing to complain about.
fn quiet_if_closed(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| anyhow::anyhow!("standard output: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("disk full").context("can't write t.slt: disk full").context("recording");
        assert_eq!(told(&error), "recording: can't write t.slt: disk full");
    }
}
