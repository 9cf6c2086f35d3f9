//! The run that is checked: recorded now, or before.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use crash::files::{FilesRecorder, Tree};
use crash::lint::Lints;
use crash::{Contents, History, Platform, Recorder};
use event::trace::{Compression, Reader};
use event::{Capabilities, Discard, Sink, Tee};

use super::args::CheckArgs;
use super::folders::{self, Files};
use super::lints::Noted;
use super::{pools, warnings};
use crate::output::Output;
use crate::progress::Progress;
use crate::{files, profile, record, samples};

/// A run's history, and what its files held before.
pub struct Run {
    pub history: History,
    pub contents: Contents,
    /// If the run is checked for ordinary files: these.
    pub files: Option<Files>,
    /// What else is to be known of it.
    pub warnings: Vec<String>,
    /// What the events alone say, by the rules of ADR.
    pub lints: Option<Noted>,
}

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
            let warnings = observe(args, &roots, None, &mut Discard)?;
            return Run::of_files(platform, &mut recorded(args)?, roots, tree, warnings);
        }
        let contents = before(args)?;
        let mapped = mapped_folder(args)?;
        let keep = Some(mapped.path());
        let started = SystemTime::now();
        let warnings = observe(args, &names(&contents), keep, &mut Discard)?;
        Run::of(args, contents, mapped.path(), started, warnings)
    }

    /// A run of persistent memory that has just ended: its trace is complete, and it left in `mapped` what files held that only it knew.
    /// Tells its warnings, and keeps for a replay what all files held before.
    ///
    /// Its history is that of the trace, as it is when a token is repeated later: of threads that did not wait for each other, a trace has
    /// another order than the one in which the collector came by their events.
    pub fn of(
        args: &CheckArgs,
        mut contents: Contents,
        mapped: &Path,
        started: SystemTime,
        mut warnings: Vec<String>,
    ) -> anyhow::Result<Run> {
        let (history, lints) = heed(args, &mut recorded(args)?, platform(args, false)?)?;
        history.settle(&mut contents);
        pools::mapped(mapped, &history, &mut contents)?;
        self::keep(args, history.files(), &contents)?;
        warnings.extend(warnings::of_run(&history, &contents, started));
        warnings.iter().for_each(|warning| crate::warn(warning));
        Ok(Run { history, contents, files: None, warnings, lints })
    }

    fn of_files(
        platform: Platform,
        trace: &mut Reader<std::fs::File>,
        roots: Vec<String>,
        tree: Tree,
        warnings: Vec<String>,
    ) -> anyhow::Result<Run> {
        let mut recorder = FilesRecorder::new(platform, tree)?;
        trace.replay(&mut Progress::new("reading", &mut recorder))?;
        warnings.iter().for_each(|warning| crate::warn(warning));
        let run = recorder.into_run();
        let files = Some(Files { roots, disk: run.disk });
        Ok(Run { history: run.history, contents: run.contents, files, warnings, lints: None })
    }

    fn read(args: &CheckArgs, trace: &Path, before: &Path) -> anyhow::Result<Run> {
        let mut reader = Reader::open(trace)?;
        if !reader.header().source.capabilities.contains(Capabilities::VALUES) {
            bail!("{} has no stored bytes; record it again with --values", trace.display());
        }
        let kept_tree = folders::kept(before).with_context(|| before.display().to_string())?;
        let platform = platform(args, kept_tree.is_some() || !args.files.is_empty())?;
        let mut warnings = warnings::kept(trace);
        warnings.extend(profile::cut_short(&reader.info()));
        if platform.is_files() {
            let (roots, tree) = match kept_tree {
                Some(kept) => kept,
                None => (files::absolute(&args.files)?, Tree::new()),
            };
            return Run::of_files(platform, &mut reader, roots, tree, warnings);
        }
        let (history, lints) = heed(args, &mut reader, platform)?;
        let mut contents = kept(before).with_context(|| before.display().to_string())?;
        history.settle(&mut contents);
        warnings.iter().for_each(|warning| crate::warn(warning));
        Ok(Run { history, contents, files: None, warnings, lints })
    }
}

/// The trace of the run that has just ended.
fn recorded(args: &CheckArgs) -> anyhow::Result<Reader<std::fs::File>> {
    Ok(Reader::open(args.out.join(TRACE))?)
}

/// The history of a run of persistent memory, and what its events alone say, which a token does not ask for.
fn heed(
    args: &CheckArgs,
    trace: &mut Reader<std::fs::File>,
    platform: Platform,
) -> anyhow::Result<(History, Option<Noted>)> {
    let mut recorder = Recorder::new(platform);
    let mut lints = lints_for(platform).filter(|_| args.replay.is_none());
    match &mut lints {
        Some(lints) => trace.replay(&mut Progress::new("reading", Tee(&mut recorder, lints)))?,
        None => trace.replay(&mut Progress::new("reading", &mut recorder))?,
    }
    Ok((recorder.into_history(), lints.map(Noted::from)))
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

/// Runs the program; its events go to a watcher and into the folder's trace, and what its persistent files held when it mapped them into
/// the folder `keep`. What is to be known of the recording.
pub fn observe(
    args: &CheckArgs,
    roots: &[String],
    keep: Option<&Path>,
    watcher: &mut dyn Sink,
) -> anyhow::Result<Vec<String>> {
    let mut options = record::options(&args.program, &args.observe, args.json);
    options.values = true;
    options.files = roots.to_vec();
    options.keep = keep.map(Path::canonicalize).transpose()?;
    let mut trace = trace_of(args)?;
    let mut both = Tee(watcher, &mut trace);
    let mut sink = Progress::new("recording", &mut both);
    let outcome = capture::record(&options, &mut sink)?;
    drop(sink);
    if !outcome.attached {
        trace.abandon();
        bail!("{}", record::not_observed(&outcome));
    }
    trace.complete()?;
    Ok(record::warnings(&outcome))
}

/// Where the run leaves what files held that it maps and nobody named.
pub fn mapped_folder(args: &CheckArgs) -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("mapped-").tempdir_in(&args.out)
}

/// Where the run goes.
pub fn trace_of(args: &CheckArgs) -> anyhow::Result<Output> {
    Output::open(&args.out.join(TRACE), Compression::Light)
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
    if args.trace.is_none() && args.replay.is_none() {
        let command = Reader::open(&trace)?.header().source.command.clone();
        crate::warn(&format!(
            "no program was given: this is about the run of before, {}, of `{}`",
            trace.display(),
            report::human::plain(&report::human::shell(&command))
        ));
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
        pools::write(&folder.join(number.to_string()), bytes)?;
    }
    Ok(())
}

fn kept(folder: &Path) -> anyhow::Result<Contents> {
    let mut contents = Contents::default();
    let names = folder.join(NAMES);
    if names.exists() {
        let names: Vec<String> = serde_json::from_slice(&fs::read(names)?)?;
        for (number, name) in names.into_iter().enumerate() {
            contents.insert(name, pools::read(&folder.join(number.to_string()))?);
        }
    }
    Ok(contents)
}
