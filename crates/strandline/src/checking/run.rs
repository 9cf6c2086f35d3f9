//! The run that is checked: recorded now, or before.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use crash::files::{FilesRecorder, Tree};
use crash::lint::Lints;
use crash::{Contents, History, Platform, Recorder};
use event::trace::Reader;
use event::{Capabilities, Sink, Tee};
use report::human::plural;

use super::args::CheckArgs;
use super::folders::{self, Files};
use super::lints::Noted;
use super::pools;
use crate::output::Output;
use crate::progress::Progress;
use crate::{files, record, samples};

/// A run's history, and what its files held before.
pub struct Run {
    pub history: History,
    pub contents: Contents,
    /// If the run is checked for ordinary files: these.
    pub files: Option<Files>,
    /// Files that were there before the run, whose contents nobody kept.
    pub unknown: Vec<String>,
    /// What the events alone say, by the rules of ADR.
    pub lints: Option<Noted>,
}

/// Files up to this size are compared with what the run's stores should have left in them.
const UNSEEN_MAX: u64 = 1 << 30;

const TRACE: &str = "check.slt";
const BEFORE: &str = "before";
const NAMES: &str = "names.json";

impl Run {
    /// Records the program of the command line, or reads the trace that it names.
    pub fn get(args: &CheckArgs) -> anyhow::Result<Run> {
        match (&args.trace, args.program.is_empty()) {
            (Some(trace), _) => Run::read(args, trace, &trace.with_file_name(BEFORE)),
            (None, false) => Run::record(args),
            (None, true) => {
                let trace = trace(args)?;
                Run::read(args, &trace, &args.out.join(BEFORE))
            }
        }
    }

    fn record(args: &CheckArgs) -> anyhow::Result<Run> {
        ready(args)?;
        let platform = platform(args, !args.files.is_empty())?;
        if platform.is_files() {
            let roots = files::absolute(&args.files)?;
            let tree = folders::before(&roots)?;
            folders::keep(&args.out.join(BEFORE), &roots, &tree)?;
            let mut recorder = FilesRecorder::new(platform, tree)?;
            observe(args, &roots, &mut recorder)?;
            return Ok(Run::of_files(recorder, roots));
        }
        let mut contents = before(args)?;
        let started = std::time::SystemTime::now();
        let (mut recorder, mut lints) = (Recorder::new(platform), lints_for(platform));
        match &mut lints {
            Some(lints) => observe(args, &names(&contents), &mut Tee(&mut recorder, lints))?,
            None => observe(args, &names(&contents), &mut recorder)?,
        }
        let history = recorder.into_history();
        history.settle(&mut contents);
        keep(args, history.files(), &contents)?;
        let unknown =
            history.files().iter().filter(|name| contents.file(name).is_none() && is_older(name, started));
        let unknown = unknown.cloned().collect();
        tell_unseen(&history, &contents);
        Ok(Run { history, contents, files: None, unknown, lints: lints.map(Noted::from) })
    }

    fn of_files(recorder: FilesRecorder, roots: Vec<String>) -> Run {
        let run = recorder.into_run();
        let files = Some(Files { roots, disk: run.disk });
        Run { history: run.history, contents: run.contents, files, unknown: Vec::new(), lints: None }
    }

    fn read(args: &CheckArgs, trace: &Path, before: &Path) -> anyhow::Result<Run> {
        let mut reader = Reader::open(trace)?;
        if !reader.header().source.capabilities.contains(Capabilities::VALUES) {
            bail!("{} has no stored bytes; record it again with --values", trace.display());
        }
        let kept_tree = folders::kept(before).with_context(|| before.display().to_string())?;
        let platform = platform(args, kept_tree.is_some() || !args.files.is_empty())?;
        if platform.is_files() {
            let (roots, tree) = match kept_tree {
                Some(kept) => kept,
                None => (files::absolute(&args.files)?, Tree::new()),
            };
            let mut recorder = FilesRecorder::new(platform, tree)?;
            reader.replay(&mut Progress::new("reading", &mut recorder))?;
            return Ok(Run::of_files(recorder, roots));
        }
        let mut recorder = Recorder::new(platform);
        let mut lints = lints_for(platform).filter(|_| args.replay.is_none());
        match &mut lints {
            Some(lints) => reader.replay(&mut Progress::new("reading", Tee(&mut recorder, lints)))?,
            None => reader.replay(&mut Progress::new("reading", &mut recorder))?,
        }
        let mut contents = kept(before).with_context(|| before.display().to_string())?;
        let history = recorder.into_history();
        history.settle(&mut contents);
        Ok(Run { history, contents, files: None, unknown: Vec::new(), lints: lints.map(Noted::from) })
    }
}

/// The lints' rules are those of ADR.
fn lints_for(platform: Platform) -> Option<Lints> {
    (platform == Platform::Adr).then(Lints::new)
}

/// The platform that was asked for, by name, by the token that is to be repeated, or by what is checked.
fn platform(args: &CheckArgs, of_files: bool) -> anyhow::Result<Platform> {
    let of_token = args.replay.as_ref().map(crash::Token::platform);
    let platform =
        args.platform.or(of_token).unwrap_or(if of_files { Platform::Ext4 } else { Platform::Adr });
    match (platform.is_files(), of_files) {
        (true, false) => bail!("platform {platform} is one of ordinary files; say which with --files PATH"),
        (false, true) => bail!("platform {platform} is one of memory; with --files there are ext4 and posix"),
        _ => Ok(platform),
    }
}

/// What the files that the program may map hold now.
pub fn before(args: &CheckArgs) -> anyhow::Result<Contents> {
    pools::before(&candidates(args))
}

/// The files of which the events are to tell when the program makes them anew.
pub fn names(contents: &Contents) -> Vec<String> {
    let mut names: Vec<String> = contents.names().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// Sees that the program can be observed, and makes the folder.
pub fn ready(args: &CheckArgs) -> anyhow::Result<()> {
    if let Some(name) = args.program.first().filter(|name| samples::find(Path::new(name)).is_none()) {
        bail!("can't run {}: no such program", name.to_string_lossy());
    }
    if args.observe.sample.is_some() {
        bail!("a check needs every store; leave --sample away");
    }
    fs::create_dir_all(&args.out).with_context(|| format!("can't make {}", args.out.display()))
}

/// Runs the program; its events go to the recorder and into the folder's trace.
pub fn observe(args: &CheckArgs, roots: &[String], recorder: &mut dyn Sink) -> anyhow::Result<()> {
    let mut options = record::options(&args.program, &args.observe, args.json);
    options.values = true;
    options.files = roots.to_vec();
    let mut trace = Output::open(&args.out.join(TRACE))?;
    let mut both = Tee(recorder, &mut trace);
    let mut sink = Progress::new("recording", &mut both);
    let outcome = capture::record(&options, &mut sink)?;
    drop(sink);
    if !outcome.attached {
        trace.abandon();
        bail!("{}", record::not_observed(&outcome));
    }
    trace.complete()?;
    record::tell(&outcome);
    Ok(())
}

/// The trace that the command line names, or the one of the run before.
pub fn trace(args: &CheckArgs) -> anyhow::Result<PathBuf> {
    let trace = args.trace.clone().unwrap_or_else(|| args.out.join(TRACE));
    if args.trace.is_none() && !trace.exists() {
        bail!(
            "what is to be checked? Give a program behind `--`, or a trace with --trace; {} has no run of before",
            args.out.display()
        );
    }
    Ok(trace)
}

/// Files that the program may map, as far as its arguments and the options name them.
fn candidates(args: &CheckArgs) -> Vec<PathBuf> {
    let patterns =
        args.observe.pmem.iter().filter(|pattern| !pattern.contains(['*', '?'])).map(PathBuf::from);
    let roots: Vec<PathBuf> = patterns
        .clone()
        .chain([PathBuf::from("/dev/shm")])
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let words = args.program.iter().skip(1).flat_map(|word| {
        let word = word.to_string_lossy().into_owned();
        let value = word.split_once('=').map(|(_, value)| value.to_owned());
        [Some(word), value].into_iter().flatten().collect::<Vec<_>>()
    });
    let below = |path: &PathBuf| {
        let full = path.canonicalize();
        full.is_ok_and(|full| {
            roots.iter().any(|root| full.starts_with(root) && full != Path::new("/dev/shm"))
        })
    };
    words.map(PathBuf::from).filter(below).chain(patterns).collect()
}

/// Warns of bytes in the files that no store of the run explains.
fn tell_unseen(history: &History, contents: &Contents) {
    for (number, name) in history.files().iter().enumerate() {
        let short = fs::metadata(name).is_ok_and(|about| about.len() <= UNSEEN_MAX);
        let Some(found) = short.then(|| fs::read(name).ok()).flatten() else { continue };
        if let Some((first, count)) = history.differences(contents, number, &found) {
            crate::warn(&format!(
                "{} of {name}, first at {first:#x}, are not what the stores that were seen make of it: something else wrote there (libc or \
                 the kernel, inline assembly, code built without strandline cc), or threads met without a synchronisation that is \
                 followed; do not trust findings there",
                plural(count as usize, "byte")
            ));
        }
    }
}

/// Whether the file was there before the run began.
fn is_older(name: &str, started: std::time::SystemTime) -> bool {
    fs::metadata(name).and_then(|about| about.created()).is_ok_and(|created| created < started)
}

/// Keeps what the files of the run held before it, for a later `--replay`.
pub fn keep(args: &CheckArgs, files: &[String], contents: &Contents) -> anyhow::Result<()> {
    let folder = args.out.join(BEFORE);
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    let files: Vec<(&String, &[u8])> =
        files.iter().filter_map(|name| Some((name, contents.file(name)?))).collect();
    if files.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(&folder)?;
    let names: Vec<&String> = files.iter().map(|(name, _)| *name).collect();
    fs::write(folder.join(NAMES), serde_json::to_vec_pretty(&names)?)?;
    for (number, (_, bytes)) in files.iter().enumerate() {
        fs::write(folder.join(number.to_string()), bytes)?;
    }
    Ok(())
}

fn kept(folder: &Path) -> anyhow::Result<Contents> {
    let mut contents = Contents::default();
    let names = folder.join(NAMES);
    if names.exists() {
        let names: Vec<String> = serde_json::from_slice(&fs::read(names)?)?;
        for (number, name) in names.into_iter().enumerate() {
            contents.insert(name, fs::read(folder.join(number.to_string()))?);
        }
    }
    Ok(contents)
}
