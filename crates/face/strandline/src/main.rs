//! The command line: `strandline VERB`. Exit status 0: done; 1: done, and something was found or missed; 2: no
//! verdict, misuse or failure, reported on standard error.
#![forbid(unsafe_code)]

mod advise;
mod bench;
mod bench_msync;
mod bench_sfr;
mod bench_vnvm;
mod check_args;
mod check_verb;
mod cli;
mod doctor;
mod faults;
mod generated;
mod litmus;
mod machines;
mod measure;
mod measure_args;
mod migrate;
mod migrate_html;
mod plan;
mod plan_args;
mod pools;
mod pprof;
mod profile;
mod progress;
mod record;
mod reports;
mod reproduce;
mod scan;
mod serve;
mod simulate;
mod stacks;
mod sweep;
mod toolchain;
mod trace;
mod unified;
mod vnvm;
mod wear;
mod wear_args;

use std::io::Write;
use std::process::ExitCode;

use cli::{Cli, Command};

/// Runs the verb of this process's arguments; public for the Python package, whose module has the verbs, too.
pub fn main() -> ExitCode {
    // The compiler driver installs this binary under the name `as` where the compiler looks for its
    // assembler.
    if let Some(code) = toolchain::assembler() {
        return code;
    }
    // So does a check whose recoveries run as after a reboot.
    if let Some(code) = session::answer_as_reboot() {
        return code;
    }
    let cli = Cli::of_process();
    progress::show_lines(cli.progress);
    if !matches!(
        cli.command,
        Command::Cc(_) | Command::Cxx(_) | Command::Serve(_) | Command::Restore(_) | Command::Migrate(_)
    ) {
        progress::end_soon_after_signals(kept(&cli.command));
    }
    let result = match cli.command {
        Command::Profile(args) => profile::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Check(args) => match check_verb::run(&args) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Simulate(args) => simulate::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Litmus(args) => match litmus::both(&args) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Reproduce(args) => match reproduce::run(&args) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Wear(args) => wear::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Trace(command) => trace::run(command),
        Command::Pool(command) => match pools::run(&command) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Vnvm(command) => match vnvm::run(&command) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Unified(command) => return ended(unified::run(&command)),
        Command::Checkpoint(args) => migrate::checkpoint(&args),
        Command::Restore(args) => migrate::restore(&args).map(migrate::end),
        Command::Migrate(args) => migrate::migrate(&args).map(migrate::end),
        Command::Measure(args) => measure::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Bench(command) => bench::run(&command),
        Command::Scan(args) => match scan::run(&args) {
            Ok(false) => return ExitCode::from(1),
            other => other.map(drop),
        },
        Command::Diff(args) => reports::diff(&args),
        Command::Export(args) => reports::export(&args),
        Command::Advise(command) => advise::run(&command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Manual(args) => generated::manual(&args),
        Command::Completions(args) => generated::completions(&args),
        Command::Cc(args) => return toolchain::compiler(instrument::Language::C, &args.args),
        Command::Cxx(args) => return toolchain::compiler(instrument::Language::Cxx, &args.args),
    };
    ended(result.map(|()| true))
}

/// The exit status of a verb that says whether nothing was found.
fn ended(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            warn(&in_words(&error));
            ExitCode::from(2)
        }
    }
}

/// What there is of the work of an interrupted command.
fn kept(command: &Command) -> String {
    match command {
        Command::Record(args) => args.output.as_ref().map(|file| {
            format!("what was written until then can be read: strandline trace info {}", file.display())
        }),
        Command::Check(args) if !args.program.is_empty() => {
            Some(format!("there is no verdict; the run as far as it went is in {}", args.out.display()))
        }
        Command::Measure(args) => args.sweep.as_ref().map(|file| {
            format!("what was measured is in {}; the same command goes on from there", file.display())
        }),
        _ => None,
    }
    .unwrap_or_else(|| "nothing was kept".to_owned())
}

/// The error with its causes, without those that its message repeats.
fn in_words(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints a line on standard error.
fn warn(text: &str) {
    // Not `eprintln!`, which panics when nobody reads standard error.
    writeln!(std::io::stderr(), "strandline: {text}").ok();
}

/// The command line as it was given.
fn command_line() -> Vec<String> {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    ["strandline".to_owned()].into_iter().chain(arguments).collect()
}

/// Prints on standard output.
fn say(text: &str) -> anyhow::Result<()> {
    print(text).map_err(|error| anyhow::anyhow!("standard output: {error}"))
}

/// The same, with the system's error.
fn print(text: &str) -> std::io::Result<()> {
    unless_closed(std::io::stdout().write_all(text.as_bytes()))
}

/// The reader of standard output closed it, as `head` does, which is no error.
fn unless_closed(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The same for the command line's results.
fn quiet_if_closed(result: std::io::Result<()>) -> anyhow::Result<()> {
    unless_closed(result).map_err(|error| anyhow::anyhow!("standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_is_printed_once() {
        let error = anyhow!("disk full").context("can't write t.slt: disk full").context("recording");
        assert_eq!(in_words(&error), "recording: can't write t.slt: disk full");
    }
}
