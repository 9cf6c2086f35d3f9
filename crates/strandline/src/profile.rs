//! `strandline profile`: a program, a trace or a built-in workload in, a report out.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use event::Tee;
use machine::Config;
use report::{CaptureStats, Exit, Report, Run, Skipped, Subject};
use workload::Workload;

use crate::analysis::Analysis;
use crate::checking::Beside;
use crate::cli::ProfileArgs;
use crate::sources::Sources;
use crate::{files, quiet_if_closed, record, samples, say};

/// Widest summary that is printed; wider lines are hard to read.
const WIDTH_MAX: usize = 100;
/// Seed of a built-in workload if none is given.
const SEED: u64 = 1;

/// Runs the verb.
pub fn run(args: &ProfileArgs) -> anyhow::Result<()> {
    if args.machine == "list" {
        return list_machines();
    }
    if args.workload.as_deref() == Some("list") {
        return list_workloads();
    }
    if args.program.is_empty() && (!args.observe.pmem.is_empty() || args.observe.sample.is_some()) {
        bail!("--pmem and --sample say how to observe a program; give one, as in `-- PROG ARGS`");
    }
    let mut config = Config::load(&args.machine)?;
    config.seed = args.seed.unwrap_or(config.seed);
    let analysis = Analysis::new(&config, args.check)?;
    let mut report = match (&args.trace, args.program.is_empty()) {
        (Some(trace), _) => of_trace(args, trace, analysis)?,
        (None, false) => of_program(args, analysis)?,
        (None, true) => of_workload(args, analysis)?,
    };
    if args.check && report.crash_lints.is_none() {
        let reason =
            "the program was not built with `strandline cc`, so its stores and flushes were not seen";
        report.run.skipped.push(Skipped { what: "--check".to_owned(), reason: reason.to_owned() });
    }
    publish(args, &report)?;
    // The process ends, and takes it along faster than it could be taken apart.
    std::mem::forget(report);
    Ok(())
}

/// Prints the presets.
pub fn list_machines() -> anyhow::Result<()> {
    list(Config::presets().map(|name| (name, Config::preset_summary(name).unwrap_or_default())))
}

/// Prints the built-in workloads.
pub fn list_workloads() -> anyhow::Result<()> {
    list(Workload::ALL.iter().map(|w| (w.name, w.summary)))
}

/// The built-in workload of that name.
pub fn workload(name: &str) -> anyhow::Result<&'static Workload> {
    let Some(workload) = Workload::find(name) else {
        let names: Vec<_> = Workload::ALL.iter().map(|w| w.name).collect();
        bail!("no built-in workload `{name}`; there are {}", names.join(", "));
    };
    Ok(workload)
}

fn list<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> anyhow::Result<()> {
    let text: String =
        rows.map(|(name, summary)| format!("{name:<16}{summary}").trim_end().to_owned() + "\n").collect();
    say(&text)
}

fn of_workload(args: &ProfileArgs, mut analysis: Analysis) -> anyhow::Result<Report> {
    let name = args.workload.as_deref().unwrap_or(Workload::ALL[0].name);
    let workload = workload(name)?;
    let mut params = workload.default_params();
    params.seed = args.seed.unwrap_or(SEED);
    params.operations = args.ops.unwrap_or(params.operations);
    let start = Instant::now();
    analysis.watch(|relay| {
        workload.record(&params, relay, pmem::Os::new)?;
        Ok(())
    })?;
    let mut run = header(args, Subject::Workload { name: name.to_owned() }, start.elapsed());
    run.seed = Some(params.seed);
    if args.ops.is_some() {
        run.reproduce.extend(["--ops".to_owned(), params.operations.to_string()]);
    }
    Ok(analysis.into_report(run, None))
}

fn of_trace(args: &ProfileArgs, trace: &Path, mut analysis: Analysis) -> anyhow::Result<Report> {
    let mut reader = event::trace::Reader::open(trace)?;
    let start = Instant::now();
    analysis.watch(|relay| Ok(reader.replay(relay)?))?;
    let command = analysis.command();
    let mut run =
        header(args, Subject::Trace { path: trace.display().to_string(), command }, start.elapsed());
    let info = reader.info();
    run.warnings.extend(cut_short(&info));
    let capture = CaptureStats { trace_bytes: Some(info.bytes), ..CaptureStats::default() };
    Ok(analysis.into_report(run, Some(capture)))
}

/// The warning that a trace lacks its end, if it does.
pub fn cut_short(trace: &event::trace::Info) -> Option<String> {
    let cut = trace.truncated?;
    Some(format!(
        "the trace was cut short at offset {}: its writer was killed or its disk was full; {} after it were lost",
        cut.offset,
        report::human::bytes(cut.lost_bytes)
    ))
}

fn of_program(args: &ProfileArgs, mut analysis: Analysis) -> anyhow::Result<Report> {
    let mut options = record::options(&args.program, &args.observe, args.json);
    if samples::only(&args.program)? {
        return samples::report(args, analysis);
    }
    let mut beside = args.recover.as_deref().map(|command| Beside::new(args, command)).transpose()?;
    let outcome = match &mut beside {
        None => analysis.watch(|relay| Ok(capture::record(&options, relay)?))?,
        Some(beside) => {
            beside.ask(&mut options)?;
            analysis.watch(|relay| Ok(capture::record(&options, &mut Tee(beside.sink(), relay))?))?
        }
    };
    if !outcome.attached {
        bail!("{}", record::not_observed(&outcome));
    }
    let crashes = beside.map(|beside| beside.findings(&outcome)).transpose()?;
    let mut run = header(args, subject(args), outcome.elapsed);
    run.exit = exit(outcome.status);
    run.warnings = outcome.warnings.iter().map(ToString::to_string).collect();
    let processes = u32::try_from(outcome.processes.len()).unwrap_or(u32::MAX);
    let capture = CaptureStats { processes, ..CaptureStats::default() };
    Ok(Report { crash_findings: crashes, ..analysis.into_report(run, Some(capture)) })
}

/// The program of the command line.
pub fn subject(args: &ProfileArgs) -> Subject {
    Subject::Program {
        command: args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    }
}

/// How a program ended.
pub fn exit(status: ExitStatus) -> Exit {
    match record::signal(status) {
        Some((number, name)) => Exit::Signal { number, name },
        None => Exit::Status { code: status.code().unwrap_or(0) },
    }
}

/// The report's header, with the command that repeats the run.
pub fn header(args: &ProfileArgs, subject: Subject, duration: Duration) -> Run {
    let mut reproduce: Vec<String> =
        ["strandline", "profile", "--machine", &args.machine].map(str::to_owned).into();
    reproduce.extend(record::arguments(&args.observe));
    if args.check {
        reproduce.push("--check".to_owned());
    }
    if let Some(command) = &args.recover {
        reproduce.extend(["--recover".to_owned(), command.clone()]);
    }
    if let Some(seed) = args.seed {
        reproduce.extend(["--seed".to_owned(), seed.to_string()]);
    }
    match &subject {
        Subject::Workload { name } => reproduce.extend(["--workload".to_owned(), name.clone()]),
        Subject::Trace { path, .. } => reproduce.extend(["--trace".to_owned(), path.clone()]),
        Subject::Program { command } => {
            reproduce.push("--".to_owned());
            reproduce.extend(command.iter().cloned());
        }
    }
    Run {
        subject,
        reproduce,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: None,
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        host: host(),
        exit: Exit::None,
        duration,
        warnings: Vec::new(),
        skipped: Vec::new(),
    }
}

/// The computer, in a few words.
pub fn host() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (architecture, release) = (std::env::consts::ARCH, release.trim());
    format!("{architecture}, {}, Linux {release}", report::human::plural(cores, "core"))
}

/// Columns for a summary on standard output.
pub fn width() -> usize {
    console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns)).min(WIDTH_MAX)
}

/// Writes the page and the numbers, and prints the summary.
fn publish(args: &ProfileArgs, report: &Report) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out).with_context(|| format!("can't make {}", args.out.display()))?;
    let (page, numbers) = (args.out.join("report.html"), args.out.join("report.json"));
    let json = std::thread::scope(|scope| {
        let drawn = scope.spawn(|| {
            let sources = Sources::default();
            files::write(&page, &report::html(report, &|file| sources.text(file)))
        });
        let json = report::json(report);
        let written = files::write(&numbers, &json);
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
