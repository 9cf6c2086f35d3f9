//! The program's run with the library.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ::plan::sites::Seen;

use super::PlanSource;
use super::damon::{self, Damon};
use super::feed::Feed;
use super::left::{Left, Placement};
use super::nodes;
use crate::ending::ending;
use crate::error::Error;
use crate::input::Program;
use crate::plan::PlanFault;
use crate::temporary::Temporary;

/// The library that the program loads; the crate's build script makes it.
pub(crate) const TIER_RUNTIME: &[u8] = include_bytes!(env!("STRANDLINE_TIER_RUNTIME"));
/// Name of the files that the library reads while the program runs.
const FEED: &str = "feed";
/// How often the monitor's regions are read.
const REGIONS: Duration = Duration::from_millis(250);
/// How often the process's counters are read from outside.
const OUTSIDE: Duration = Duration::from_millis(20);

/// What to run, and how to look at it.
pub(super) struct Look<'a> {
    pub(super) program: &'a Program,
    pub(super) source: PlanSource,
    /// Seconds between two looks, at least.
    pub(super) interval: f64,
    /// Allocations of so many bytes and more are all noted.
    pub(super) from: u64,
    pub(super) kinds: Option<&'a Path>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Looked {
    /// What was seen.
    pub seen: Seen,
    /// What was done for a file of kinds.
    pub placed: Vec<Placement>,
    /// How it ended.
    pub status: ExitStatus,
    /// Seconds from its start to its end.
    pub elapsed: f64,
    /// Processes that loaded the library; the one that took most processor time is shown.
    pub processes: usize,
    /// What a reader has to know of the run.
    pub warnings: Vec<String>,
}

/// A folder that is removed in the end.
pub(super) fn folder() -> Result<Temporary, Error> {
    let place = std::env::temp_dir();
    Temporary::new("strandline-plan-", &place).map_err(Error::file("create", &place))
}

/// Runs the program.
pub(super) fn look(survey: &Look<'_>) -> Result<Looked, Error> {
    survey.program.refuse_missing()?;
    let program = survey.program.name();
    let folder = folder()?;
    let library = folder.path().join("libstrandline_tier.so");
    fs::write(&library, TIER_RUNTIME).map_err(Error::file("write", &library))?;
    let Started { status, elapsed, peak, sampled, unseen } = start(survey, &library, folder.path())?;
    let mut left = Vec::new();
    for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with("results.");
        if ours && path.extension().is_none_or(|end| end != "new") {
            let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
            left.push(Left::read(&text, survey.from));
        }
    }
    // A shell that starts the program loads the library, too: whoever worked most is the program.
    left.sort_by(|one, two| two.seen.cpu.total_cmp(&one.seen.cpu));
    let processes = left.len();
    let Some(mut first) = left.into_iter().next() else {
        let peak = report::human::bytes(peak);
        return Err(PlanFault::NotLoaded { program, ending: ending(status), elapsed, peak }.into());
    };
    first.seen.unseen.extend(unseen);
    if let Some(sampled) = sampled {
        first.seen.samples = sampled.samples;
        first.seen.source = format!("sampled, {}", sampled.unit);
        first.seen.sites.iter_mut().for_each(|site| site.sampled.each = sampled.period as f64);
        first.seen.unseen.push(format!(
            "loads in the shadow of a sample: {} may skip a miss that follows a sampled one closely, so loops of misses count too low",
            sampled.unit
        ));
        first.seen.unseen.push("stores: only loads that missed are sampled".to_owned());
        if sampled.lost > 0 {
            first.seen.unseen.push(format!("{} samples that the kernel lost", sampled.lost));
        }
    }
    let mut warnings = Vec::new();
    if processes > 1 {
        warnings.push(format!(
            "{processes} processes ran; this is the one that took most processor time. Plan for another by running it alone"
        ));
    }
    if !first.ended {
        warnings.push(
            "the program ended without its exit handlers (killed, or by _exit): what was seen is from the last look that was written down"
                .to_owned(),
        );
    }
    if !status.success() {
        warnings.push(format!("the program ended with {}", ending(status)));
    }
    Ok(Looked { seen: first.seen, placed: first.placed, status, elapsed, processes, warnings })
}

/// What is known of a run from outside.
struct Started {
    status: ExitStatus,
    elapsed: f64,
    peak: u64,
    sampled: Option<capture::MissRun>,
    unseen: Vec<String>,
}

/// The command with the library, and its settings.
fn command(survey: &Look<'_>, library: &Path, folder: &Path) -> Result<Command, Error> {
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let name = survey.program.command.first().cloned().unwrap_or_default();
    let (fast, slow) = nodes::two().unwrap_or((0, 1));
    let mut settings = format!(
        "source={}\ninterval={}\nfrom={}\nnodes={fast},{slow}\nout={}\nfeed={}\n",
        survey.source.name(),
        survey.interval,
        survey.from,
        folder.join("results").display(),
        folder.join(FEED).display()
    );
    if let Some(path) = survey.kinds {
        let path = crate::absolute(&[path.display().to_string()])?.remove(0);
        settings.push_str(&format!("kinds={path}\n"));
    }
    let mut command = Command::new(&name);
    command.args(&survey.program.command[1..]).env("LD_PRELOAD", preload).env("STRANDLINE_TIER", settings);
    if survey.program.stdout_to_stderr {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    Ok(command)
}

fn start(survey: &Look<'_>, library: &Path, folder: &Path) -> Result<Started, Error> {
    let mut command = command(survey, library, folder)?;
    let mut feed = Feed::new(folder.join(FEED));
    if survey.source == PlanSource::Sampled {
        let run = capture::sample_misses(command, |process, address| feed.sample(process, address))
            .map_err(|error| PlanFault::System(error.to_string()))?;
        let status = run.status.unwrap_or_default();
        let elapsed = run.elapsed.as_secs_f64();
        return Ok(Started { status, elapsed, peak: 0, sampled: Some(run), unseen: Vec::new() });
    }
    let (admin, threads) = (Path::new(damon::ADMIN), Path::new(damon::THREADS));
    if survey.source == PlanSource::Damon {
        damon::free(admin, threads).map_err(|why| PlanFault::System(format!("DAMON: {why}")))?;
    }
    let failed = |error| {
        let name = survey.program.name();
        PlanFault::System(format!("can't run {name}: {error}"))
    };
    let began = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    // The counters of a process are gone with it.
    let mut peak = 0;
    let mut unseen = Vec::new();
    let mut monitor = (survey.source == PlanSource::Damon)
        .then(|| {
            Damon::begin(admin, threads, child.id()).map_err(|why| unseen.push(format!("DAMON: {why}"))).ok()
        })
        .flatten();
    let mut looked = Instant::now();
    let status = loop {
        if looked.elapsed() > REGIONS
            && let Some(damon) = &monitor
        {
            looked = Instant::now();
            match damon.regions() {
                Ok(regions) => feed.regions(child.id(), &regions),
                Err(why) => {
                    // It ends with the process that it looks at.
                    if matches!(child.try_wait(), Ok(None)) {
                        unseen.push(format!("DAMON, from {:.1} s on: {why}", began.elapsed().as_secs_f64()));
                    }
                    monitor = None;
                }
            }
        }
        peak = peak.max(most(child.id()));
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None => std::thread::sleep(OUTSIDE),
        }
    };
    drop(monitor);
    Ok(Started { status, elapsed: began.elapsed().as_secs_f64(), peak, sampled: None, unseen })
}

/// Most bytes that a process had in memory.
fn most(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}
