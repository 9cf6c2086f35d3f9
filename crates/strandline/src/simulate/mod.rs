//! `strandline simulate`: the same events on one or several machines with time, side by side.

mod compare;
mod machines;
mod notes;
mod output;

use std::path::Path;

use anyhow::{Context, bail};
use capture::{Relay, broadcast};
use event::Sink;
use machine::Simulation;
use workload::Workload;

pub use machines::Machines;

use crate::cli::SimulateArgs;
use crate::progress::Progress;
use crate::{files, profile, record, samples, say};
use compare::{Comparison, Contender};
use notes::Notes;

/// Seed of a built-in workload if none is given.
const SEED: u64 = 1;

/// Runs the verb.
pub fn run(args: &SimulateArgs) -> anyhow::Result<()> {
    if args.machines.chosen.iter().any(|chosen| chosen.machine == "list") {
        return profile::list_machines();
    }
    if args.workload.as_deref() == Some("list") {
        return profile::list_workloads();
    }
    if args.program.is_empty() && (!args.observe.pmem.is_empty() || args.observe.sample.is_some()) {
        bail!("--pmem and --sample say how to observe a program; give one, as in `-- PROG ARGS`");
    }
    let mut contenders = Vec::new();
    for chosen in &args.machines.chosen {
        let config = chosen.config(args.seed)?;
        contenders.push(Contender { label: chosen.label(), simulation: Simulation::new(&config)?, config });
    }
    let mut notes = Notes::default();
    let (subject, source) = watch(args, &mut contenders, &mut notes)?;
    let mut command: Vec<String> = ["strandline", "simulate"].map(str::to_owned).into();
    command.extend(args.machines.arguments());
    if let Some(seed) = args.seed {
        command.extend(["--seed".to_owned(), seed.to_string()]);
    }
    command.extend(source);
    let comparison = Comparison::new(subject, command, contenders, notes);
    publish(args, &comparison)
}

/// Gives the events to all machines. Returns what the events are of, and the arguments that make them again.
fn watch(
    args: &SimulateArgs,
    contenders: &mut [Contender],
    notes: &mut Notes,
) -> anyhow::Result<(String, Vec<String>)> {
    let mut warnings = Vec::new();
    let mut progress = Progress::new("simulating", &mut *notes);
    let mut sinks: Vec<&mut (dyn Sink + Send)> = vec![&mut progress];
    sinks.extend(contenders.iter_mut().map(|contender| &mut contender.simulation as &mut (dyn Sink + Send)));
    let watched = broadcast(&mut sinks, |relay| match (&args.trace, args.program.is_empty()) {
        (Some(trace), _) => of_trace(trace, relay, &mut warnings),
        (None, false) => of_program(args, relay, &mut warnings),
        (None, true) => of_workload(args, relay),
    })?;
    drop(progress);
    notes.warnings = notes.sampling().into_iter().chain(warnings).collect();
    Ok(watched)
}

fn of_trace(
    trace: &Path,
    relay: &mut Relay,
    warnings: &mut Vec<String>,
) -> anyhow::Result<(String, Vec<String>)> {
    let mut reader = event::trace::Reader::open(trace)?;
    reader.replay(relay)?;
    warnings.extend(profile::cut_short(&reader.info()));
    let path = trace.display().to_string();
    Ok((path.clone(), vec!["--trace".to_owned(), path]))
}

fn of_program(
    args: &SimulateArgs,
    relay: &mut Relay,
    warnings: &mut Vec<String>,
) -> anyhow::Result<(String, Vec<String>)> {
    if samples::only(&args.program)? {
        bail!(
            "{} was not built with strandline cc, so its memory can't be seen",
            args.program[0].to_string_lossy()
        );
    }
    let outcome = capture::record(&record::options(&args.program, &args.observe, args.json), relay)?;
    if !outcome.attached {
        bail!("{}", record::not_observed(&outcome));
    }
    record::tell(&outcome);
    warnings.extend(outcome.warnings.iter().map(ToString::to_string));
    let words: Vec<String> = args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut source = record::arguments(&args.observe);
    source.push("--".to_owned());
    source.extend(words.clone());
    Ok((report::human::shell(&words), source))
}

fn of_workload(args: &SimulateArgs, relay: &mut Relay) -> anyhow::Result<(String, Vec<String>)> {
    let name = args.workload.as_deref().unwrap_or(Workload::ALL[0].name);
    let workload = profile::workload(name)?;
    let mut params = workload.default_params();
    params.seed = args.seed.unwrap_or(SEED);
    params.operations = args.ops.unwrap_or(params.operations);
    params.threads = args.threads;
    workload.record(&params, relay, pmem::Os::new)?;
    let words = [
        "--workload",
        name,
        "--ops",
        &params.operations.to_string(),
        "--threads",
        &params.threads.to_string(),
    ];
    let subject =
        format!("{name}, {} operations, seed {}", report::human::grouped(params.operations), params.seed);
    Ok((subject, words.map(str::to_owned).into()))
}

/// Writes the page and the numbers, and prints the comparison.
fn publish(args: &SimulateArgs, comparison: &Comparison) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out).with_context(|| format!("can't make {}", args.out.display()))?;
    let (page, numbers) = (args.out.join("simulate.html"), args.out.join("simulate.json"));
    let json = output::json(comparison)?;
    for (path, text) in [(&page, &output::page(comparison)), (&numbers, &json)] {
        files::write(path, text)?;
    }
    if args.json {
        return say(&json);
    }
    let text = output::text(comparison);
    say(&format!("{text}\nThe page: {}   the numbers: {}\n", page.display(), numbers.display()))
}
