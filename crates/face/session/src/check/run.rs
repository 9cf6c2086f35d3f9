//! The run that is checked: recorded now, or before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use capture::Warning;
use crash::files::{Entry, FilesRecorder, Tree};
use crash::lint::Lints;
use crash::{Change, Contents, History, Platform, Recorder, Token};
use event::{Capabilities, Tee};
use report::human;
use trace::{Compression, Reader};

use super::doubt::Doubt;
use super::folders::{self, Files, Places};
use super::limit::{Limit, Until};
use super::noted::Noted;
use super::whole::{self, Compared};
use super::{Check, CheckError, cover, in_folder, pools, warnings};
use crate::ending;
use crate::error::Error;
use crate::files;
use crate::input::Input;
use crate::observer::{Observer, Watched};
use crate::play::{Played, cut_short};
use crate::temporary::Temporary;
use crate::trace_file::TraceFile;

/// A run's history, and what its files held before.
#[derive(Debug)]
pub struct Run {
    /// Stores, flushes and fences, or writes and syncs.
    pub history: History,
    /// What the files held before.
    pub contents: Contents,
    /// If the run is checked for ordinary files: these.
    pub(super) files: Option<Files>,
    /// What a reader has to know before trusting a result.
    pub warnings: Vec<String>,
    /// What the events alone say, by the rules of ADR.
    pub lints: Option<Noted>,
    /// Why it was not seen whole; then nothing can be said of it.
    pub doubts: Vec<Doubt>,
    /// Words that unordered stores left in another order than the recorded one.
    pub(super) raced: Vec<Change>,
    /// If its trace lacks its end: what is known of that. Findings are findings, but what came behind is not
    /// known.
    pub(super) cut_short: Option<String>,
    /// When the search is to end, if that was set when the program ended.
    pub(super) limit: Option<Limit>,
}

/// What is known of a recording besides its events.
#[derive(Debug)]
pub struct Observed {
    /// What a reader has to know.
    pub warnings: Vec<String>,
    /// Why it was not seen whole.
    pub doubts: Vec<Doubt>,
    /// Why the last store or call of a process may be carried out and not recorded, if so.
    cut_off: Option<String>,
    began: SystemTime,
    ended: SystemTime,
}

impl Observed {
    /// Of a program that ran from `began` until now.
    pub fn new(began: SystemTime, played: &Played) -> Self {
        let mut observed = Observed {
            warnings: played.unmatched.clone(),
            doubts: Vec::new(),
            cut_off: None,
            began,
            ended: SystemTime::now(),
        };
        if let Some(outcome) = &played.recording {
            observed.doubts = outcome.warnings.iter().filter_map(Doubt::of_warning).collect();
            // Several calls may be of one line.
            observed.doubts.dedup();
            let warnings = outcome.warnings.iter().filter(|warning| Doubt::of_warning(warning).is_none());
            let warnings: Vec<String> = warnings.map(ToString::to_string).chain(observed.warnings).collect();
            observed.warnings = ending::warnings(outcome, &warnings);
            let running =
                outcome.warnings.iter().any(|warning| matches!(warning, Warning::StillRunning { .. }));
            observed.cut_off = match ending::signal(outcome.status) {
                Some((_, name)) => Some(format!("the program was killed by {name}")),
                None if outcome.killed > 0 => Some("a process of the program was killed".to_owned()),
                None if running => Some("processes of the program still ran".to_owned()),
                None => None,
            };
        }
        observed
    }
}

const TRACE: &str = "check.slt";
const BEFORE: &str = "before";
const NAMES: &str = "names.json";

impl Run {
    /// Records the program, or reads the trace or the run that is in the folder. `token` is the one to
    /// repeat.
    pub(super) fn get(check: &Check, token: Option<&Token>, observer: &dyn Observer) -> Result<Run, Error> {
        let replay = Replay { check, token, observer };
        match &check.input {
            Some(Input::Program(_)) => replay.record(),
            Some(Input::Trace(trace)) => replay.read(trace, &trace.with_file_name(BEFORE)),
            Some(Input::BuiltIn(_)) => Err(CheckError::BuiltIn.into()),
            None => replay.read(&trace(check, token, observer)?, &in_folder(check, BEFORE)),
        }
    }

    /// Records a run of persistent memory.
    pub(super) fn record(check: &Check, observer: &dyn Observer) -> Result<Run, Error> {
        ready(check)?;
        let contents = before(check)?;
        let mapped = mapped_folder(check)?;
        let observed = observe(check, &names(&contents), Some(mapped.path()), observer)?;
        Run::of(check, contents, mapped.path(), observed, observer)
    }

    /// A run of persistent memory that has just ended: its trace is complete, and it left in `mapped` what
    /// files held that only it knew. Reports its warnings, and keeps for a replay what all files held before.
    ///
    /// Its history is that of the trace, as it is when a token is repeated later. A trace may have the events
    /// of threads that did not synchronise in another order than the collector received them.
    pub(super) fn of(
        check: &Check,
        mut contents: Contents,
        mapped: &Path,
        observed: Observed,
        observer: &dyn Observer,
    ) -> Result<Run, Error> {
        let replay = Replay { check, token: None, observer };
        let (history, lints) = replay.history(&mut recorded(check)?, platform(check, None, false)?)?;
        history.truncate(&mut contents);
        pools::mapped(mapped, &history, &mut contents)?;
        self::keep(check, history.files(), &contents)?;
        let compared = whole::of_memory(&history, &contents, observed.began, observed.ended);
        let mut run = Run::seen(history, contents, observed.warnings);
        run.lints = lints;
        run.doubts = observed.doubts;
        if check.recover.is_some() {
            run.warnings.extend(warnings::of_run(&run.history, &run.contents, observed.began));
        }
        run.takes(compared, observed.cut_off.as_deref());
        run.warnings.iter().for_each(|warning| observer.warn(warning));
        Ok(run)
    }
}

impl Run {
    /// One that was seen whole, as far as is known.
    fn seen(history: History, contents: Contents, warnings: Vec<String>) -> Run {
        Run {
            history,
            contents,
            files: None,
            warnings,
            lints: None,
            doubts: Vec::new(),
            raced: Vec::new(),
            cut_short: None,
            limit: None,
        }
    }

    /// Ordinary files that were there before the run, with their lengths.
    pub(super) fn lengths_before(&self) -> Vec<(String, u64)> {
        let nodes = self.files.iter().flat_map(|files| files.before.iter());
        nodes.map(|(path, len)| (path.clone(), *len)).collect()
    }

    /// Takes over what the comparison of its files says. If a process was cut off, its last store or call
    /// may have been carried out and not recorded: then a difference is a warning.
    fn takes(&mut self, compared: Compared, cut_off: Option<&str>) {
        self.warnings.extend(compared.warnings);
        self.raced = compared.raced;
        match cut_off {
            None => self.doubts.extend(compared.doubts),
            Some(why) => self.warnings.extend(compared.doubts.iter().map(|doubt| {
                format!("{}; {why}, so its last store or call may not be recorded", doubt.text)
            })),
        }
    }

    /// What the run left, from which nothing is missing, relative to what its files held when it began.
    pub(super) fn left(&self) -> Vec<Change> {
        let mut changes = self.history.left(&self.contents).changes();
        changes.extend(&self.raced);
        changes
    }
}

/// A trace that becomes a run.
#[derive(Clone, Copy)]
struct Replay<'c> {
    check: &'c Check,
    token: Option<&'c Token>,
    observer: &'c dyn Observer,
}

impl Replay<'_> {
    fn record(self) -> Result<Run, Error> {
        let Replay { check, observer, .. } = self;
        let platform = platform(check, self.token, !check.files.is_empty())?;
        if platform.is_files() {
            ready(check)?;
            let roots = files::absolute(&check.files)?;
            let tree = folders::before(&roots)?;
            let before = in_folder(check, BEFORE);
            folders::keep(&before, &roots, &tree).map_err(Error::file("write", &before))?;
            let observed = observe(check, &roots, None, observer)?;
            let limit = Limit::from_now(check.time);
            let mut run = self.of_files(platform, &mut recorded(check)?, (roots, tree), limit)?;
            run.warnings = observed.warnings;
            run.doubts.splice(0..0, observed.doubts);
            if let Some(files) = &run.files {
                let compared = whole::of_files(&run.history, &run.contents, files, observed.ended, limit);
                run.takes(compared, observed.cut_off.as_deref());
            }
            run.warnings.iter().for_each(|warning| observer.warn(warning));
            return Ok(run);
        }
        Run::record(check, observer)
    }

    fn read(self, trace: &Path, before: &Path) -> Result<Run, Error> {
        let Replay { check, observer, .. } = self;
        let mut reader = Reader::open(trace)?;
        if !reader.header().source.capabilities.contains(Capabilities::VALUES) {
            return Err(CheckError::NoValues { trace: trace.to_owned() }.into());
        }
        let kept_tree = folders::kept(before).map_err(CheckError::keep(before))?;
        let platform = platform(check, self.token, kept_tree.is_some() || !check.files.is_empty())?;
        let (mut warnings, doubts) = warnings::kept(trace);
        let cut_short = cut_short(&reader.info());
        warnings.extend(cut_short.clone().filter(|cut| !warnings.contains(cut)));
        warnings.iter().for_each(|warning| observer.warn(warning));
        if platform.is_files() {
            let (roots, tree) = match kept_tree {
                Some(kept) => kept,
                None => (files::absolute(&check.files)?, Tree::new()),
            };
            let limit = Limit::from_now(check.time);
            let run = self.of_files(platform, &mut reader, (roots, tree), limit)?;
            let doubts = doubts.into_iter().chain(run.doubts.iter().cloned()).collect();
            return Ok(Run { warnings, doubts, cut_short, ..run });
        }
        let (history, lints) = self.history(&mut reader, platform)?;
        let mut contents = kept(before).map_err(CheckError::keep(before))?;
        history.truncate(&mut contents);
        Ok(Run { lints, doubts, cut_short, ..Run::seen(history, contents, warnings) })
    }

    fn of_files(
        self,
        platform: Platform,
        trace: &mut Reader<fs::File>,
        (roots, tree): (Vec<String>, Tree),
        limit: Limit,
    ) -> Result<Run, Error> {
        let len = |(path, entry): (&String, &Entry)| match entry {
            Entry::File(bytes) => Some((path.clone(), bytes.len() as u64)),
            _ => None,
        };
        let before: Vec<(String, u64)> = tree.iter().filter_map(len).collect();
        let mut recorder = FilesRecorder::new(platform, tree)?;
        let reading = Watched::new("reading", self.observer, &mut recorder);
        match trace.replay(&mut Until::new(limit, reading)) {
            Err(_) if limit.is_over() => {}
            read => read?,
        }
        let run = if limit.is_over() { None } else { recorder.into_run_while(&|| !limit.is_over()) };
        let Some(run) = run else {
            let late = cover::too_late(self.check.time.unwrap_or_default());
            return Ok(Run {
                doubts: vec![late],
                ..Run::seen(History::default(), Contents::default(), Vec::new())
            });
        };
        let at_end: u64 = (0..run.history.files().len()).map(|file| run.history.file_len(file)).sum();
        let bytes = before.iter().map(|(_, len)| len).sum::<u64>().max(at_end);
        let places = Places::new(self.check.scratch.clone(), self.check.parallel(), bytes);
        let files = Some(Files { roots, disk: run.disk, before, places });
        Ok(Run { files, limit: Some(limit), ..Run::seen(run.history, run.contents, Vec::new()) })
    }

    /// The history of a run of persistent memory, and its lints, which a token does not ask for.
    fn history(
        self,
        trace: &mut Reader<fs::File>,
        platform: Platform,
    ) -> Result<(History, Option<Noted>), Error> {
        let mut recorder = Recorder::new(platform);
        let mut lints = lints_for(platform).filter(|_| self.token.is_none());
        match &mut lints {
            Some(lints) => {
                trace.replay(&mut Watched::new("reading", self.observer, Tee(&mut recorder, lints)))?;
            }
            None => trace.replay(&mut Watched::new("reading", self.observer, &mut recorder))?,
        }
        Ok((recorder.into_history(), lints.map(Noted::from)))
    }
}

/// Where the trace of the run that has just ended is.
pub fn recorded_in(check: &Check) -> PathBuf {
    in_folder(check, TRACE)
}

/// The trace of the run that has just ended.
fn recorded(check: &Check) -> Result<Reader<fs::File>, Error> {
    Ok(Reader::open(in_folder(check, TRACE))?)
}

/// The lints' rules are those of ADR.
fn lints_for(platform: Platform) -> Option<Lints> {
    (platform == Platform::ADR).then(Lints::new)
}

/// The platform: the one that the check names, the token's, or the usual one of what is checked.
fn platform(check: &Check, token: Option<&Token>, of_files: bool) -> Result<Platform, CheckError> {
    let usual = if of_files { Platform::EXT4 } else { Platform::ADR };
    let named = check.platform.or(token.map(Token::platform)).unwrap_or(usual);
    let platform = check.sector.map_or(named, |sector| named.with_sector(sector));
    match (platform.is_files(), of_files) {
        (true, false) => Err(CheckError::OfFiles(platform)),
        (false, true) => Err(CheckError::OfMemory(platform)),
        _ => Ok(platform),
    }
}

/// What the files that the program may map hold now.
pub fn before(check: &Check) -> Result<Contents, CheckError> {
    pools::before(&candidates(check))
}

/// The files whose truncation or replacement by the program is recorded.
pub fn names(contents: &Contents) -> Vec<String> {
    let mut names: Vec<String> = contents.names().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// Checks that the program can be observed, and makes the folder.
pub fn ready(check: &Check) -> Result<(), Error> {
    if let Some(program) = check.program() {
        program.refuse_missing()?;
        if program.sampling.is_some() {
            return Err(CheckError::Sampled.into());
        }
    }
    files::make_folder(&check.out)
}

/// Runs the program; its events go into the folder's trace, and what its persistent files
/// held when it mapped them into the folder `keep`.
pub fn observe(
    check: &Check,
    roots: &[String],
    keep: Option<&Path>,
    observer: &dyn Observer,
) -> Result<Observed, Error> {
    let began = SystemTime::now();
    let mut program = check.program().cloned().unwrap_or_default();
    program.values = true;
    program.also_files = roots.to_vec();
    program.keep = keep.map(absolute_folder).transpose()?;
    let mut trace = trace_of(check)?;
    let played = Input::Program(program).play("recording", observer, &mut trace, &mut []);
    match played {
        Ok(played) => {
            let observed = Observed::new(began, &played);
            trace.complete()?;
            Ok(observed)
        }
        Err(Error::NotObserved { why }) => {
            trace.abandon();
            Err(Error::NotObserved { why })
        }
        Err(error) => Err(error),
    }
}

/// The folder's absolute path, without symbolic links.
pub fn absolute_folder(folder: &Path) -> Result<PathBuf, Error> {
    folder.canonicalize().map_err(Error::file("find", folder))
}

/// Where the run leaves what files held that it maps and nobody named.
pub fn mapped_folder(check: &Check) -> Result<Temporary, Error> {
    Temporary::new("mapped-", &check.out).map_err(Error::file("make a folder in", &check.out))
}

/// Where the run goes.
pub fn trace_of(check: &Check) -> Result<TraceFile, Error> {
    TraceFile::open(&in_folder(check, TRACE), Compression::Light)
}

/// The trace that the check names, or the one of the run that is in the folder.
pub fn trace(check: &Check, token: Option<&Token>, observer: &dyn Observer) -> Result<PathBuf, Error> {
    match &check.input {
        Some(Input::Trace(trace)) => return Ok(trace.clone()),
        Some(_) => return Err(CheckError::BuiltIn.into()),
        None => {}
    }
    let trace = in_folder(check, TRACE);
    if !trace.exists() {
        return Err(CheckError::NoInput { out: check.out.clone() }.into());
    }
    if token.is_none() {
        let command = Reader::open(&trace)?.header().source.command.clone();
        observer.warn(&format!(
            "no program was given: this is about the run of before, {}, of `{}`",
            trace.display(),
            human::plain(&human::shell(&command))
        ));
    }
    Ok(trace)
}

/// Files that the program may map, as far as its arguments and options name them.
fn candidates(check: &Check) -> Vec<PathBuf> {
    let Some(program) = check.program() else { return Vec::new() };
    let patterns = program.pmem.iter().filter(|pattern| !pattern.contains(['*', '?'])).map(PathBuf::from);
    let roots: Vec<PathBuf> = patterns
        .clone()
        .chain([PathBuf::from("/dev/shm")])
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let words = program.command.iter().skip(1).flat_map(|word| {
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

/// Keeps what the files of the run held before it, for a later replay.
pub fn keep(check: &Check, files: &[String], contents: &Contents) -> Result<(), Error> {
    let folder = in_folder(check, BEFORE);
    write_before(&folder, files, contents).map_err(Error::file("write", &folder))
}

fn write_before(folder: &Path, files: &[String], contents: &Contents) -> io::Result<()> {
    if folder.is_dir() {
        fs::remove_dir_all(folder)?;
    }
    let files: Vec<(&String, &[u8])> =
        files.iter().filter_map(|name| Some((name, contents.file(name)?))).collect();
    if files.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let names: Vec<&String> = files.iter().map(|(name, _)| *name).collect();
    fs::write(folder.join(NAMES), serde_json::to_vec_pretty(&names)?)?;
    for (number, (_, bytes)) in files.iter().enumerate() {
        pools::write(&folder.join(number.to_string()), bytes)?;
    }
    Ok(())
}

fn kept(folder: &Path) -> io::Result<Contents> {
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
