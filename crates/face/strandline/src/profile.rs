//! `strandline profile`: a program, a trace or a built-in workload in, a report out.

use std::io::{IsTerminal, Write};

use anyhow::bail;
use machine::Config;
use report::Report;
use session::{Profile, ProfileFiles, Sources};
use workload::Workload;

use crate::cli::ProfileArgs;
use crate::progress::terminal;
use crate::{command_line, quiet_if_closed, say};

/// Widest summary that is printed; wider lines are hard to read.
const WIDTH_MAX: usize = 100;

/// Runs the verb.
pub fn run(args: &ProfileArgs) -> anyhow::Result<()> {
    if args.machine.as_deref() == Some("list") {
        return list_machines();
    }
    if args.input.lists_workloads() {
        return list_workloads();
    }
    if !args.files.is_empty() {
        return files(args);
    }
    calibrate_once(args);
    let profile = Profile {
        machine: args.machine.clone(),
        seed: args.seed,
        check: args.check,
        recover: args.recover.clone(),
        out: args.out.clone(),
        ..Profile::new(args.input.input(&args.observe, args.seed, 1, args.json)?)
    };
    let report = profile.run(terminal())?;
    publish(args, &report)?;
    if report.samples.is_some() {
        let program = args.input.program.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        bail!(
            "{program} was not built with strandline cc: the report has its functions by sampling, \
             and nothing of its memory"
        );
    }
    // The process ends, which frees it faster than its destructors do.
    std::mem::forget(report);
    Ok(())
}

/// The machine `host` is measured before it judges for the first time.
fn calibrate_once(args: &ProfileArgs) {
    let builtin = args.input.program.is_empty() && args.input.trace.is_none();
    let host = match args.machine.as_deref() {
        Some(name) => name == session::host::HOST,
        None => !builtin && !args.check,
    };
    if !host || args.no_calibrate || !session::calibrate::is_due() {
        return;
    }
    crate::warn(
        "measuring this machine once, some seconds, for the machine `host` (--no-calibrate leaves it out)",
    );
    match session::calibrate::calibrate() {
        Ok((file, _)) => crate::warn(&format!("kept in {}", file.display())),
        Err(why) => crate::warn(&why),
    }
}

/// Of what a program does to its files.
fn files(args: &ProfileArgs) -> anyhow::Result<()> {
    let mut program = args.observe.program(&args.input.program, args.json);
    program.files.clone_from(&args.files);
    let profiled = ProfileFiles { program }.run(terminal())?;
    session::make_folder(&args.out)?;
    let (page, numbers) = (args.out.join("report.html"), args.out.join("report.json"));
    session::write(&page, &profiled.html(command_line()))?;
    let json = format!("{:#}\n", profiled.json());
    session::write(&numbers, &json)?;
    if args.json {
        return say(&json);
    }
    say(&format!("{}\nThe page: {}   the numbers: {}\n", profiled.text(), page.display(), numbers.display()))
}

/// Prints the presets.
pub fn list_machines() -> anyhow::Result<()> {
    let own = (
        session::host::HOST,
        "This machine: caches and cores as the system states them, latencies as `measure --calibrate` kept them",
    );
    list(
        std::iter::once(own)
            .chain(Config::presets().map(|name| (name, Config::preset_summary(name).unwrap_or_default()))),
    )
}

/// Prints the built-in workloads.
pub fn list_workloads() -> anyhow::Result<()> {
    list(Workload::ALL.iter().map(|w| (w.name, w.summary)))
}

fn list<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> anyhow::Result<()> {
    let text: String =
        rows.map(|(name, summary)| format!("{name:<16}{summary}").trim_end().to_owned() + "\n").collect();
    say(&text)
}

/// Columns for a summary on standard output.
pub fn width() -> usize {
    console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns)).min(WIDTH_MAX)
}

/// Writes the page and the numbers, and prints the summary.
fn publish(args: &ProfileArgs, report: &Report) -> anyhow::Result<()> {
    session::make_folder(&args.out)?;
    let (page, numbers) = (args.out.join("report.html"), args.out.join("report.json"));
    let json = std::thread::scope(|scope| {
        let drawn = scope.spawn(|| {
            let sources = Sources::default();
            session::write(&page, &report::html(report, &|file| sources.text(file)))
        });
        let json = report::json(report);
        let written = session::write(&numbers, &json);
        drawn.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        written.map(|()| json)
    })?;
    if args.json {
        return say(&json);
    }
    let stdout = std::io::stdout();
    let width = width();
    let color = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut text = report::terminal(report, width, color);
    text.push_str(&format!("\nThe page: {}   the numbers: {}\n", page.display(), numbers.display()));
    quiet_if_closed(stdout.lock().write_all(text.as_bytes()))
}
