//! `profile`: what an input does to memory, as a report.

mod analysis;
mod chosen;
mod ordinary;
mod types;

use std::path::PathBuf;
use std::time::SystemTime;

use event::Tee;
use report::{CaptureStats, Exit, Report, Run, Skipped, Subject};

use crate::check::{Beside, Check};
use crate::ending;
use crate::error::Error;
use crate::input::{Input, Program};
use crate::observer::Observer;
use crate::play::Played;
use crate::samples;
use analysis::Analysis;
pub use ordinary::{ProfileFiles, ProfiledFiles};

/// The machine for programs with persistent memory.
const PERSISTENT: &str = "xpoint";
/// What to know of a program that mapped it late.
const LATE: &str = "the program mapped persistent memory only after a million events, when it had been judged on `host`: \
                    use --machine xpoint";

/// A profile to be made.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Where events come from. A program that was not built with the compiler driver is sampled.
    pub input: Input,
    /// The modelled machine: `host`, a preset's name, or the path of a TOML file. If none is given, programs and traces
    /// that map persistent memory (or name it, or are checked) and built-in workloads go to `xpoint`, all others to `host`.
    pub machine: Option<String>,
    /// Seed of the machine's random choices; its file's if not given.
    pub seed: Option<u64>,
    /// Look at the order of stores to persistent memory, flushes and fences, too.
    pub check: bool,
    /// The command that recovers an image, as [`Check::recover`]; the run is then checked as well. For
    /// programs.
    pub recover: Option<String>,
    /// The folder of that check.
    pub out: PathBuf,
}

impl Profile {
    /// A profile on the machine that suits the input.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Profile {
            input,
            machine: None,
            seed: None,
            check: false,
            recover: None,
            out: "strandline-report".into(),
        }
    }

    /// Plays the input into the modelled machine and the advisors.
    ///
    /// # Errors
    /// If there is no such machine, the input can't be played, or the check fails.
    pub fn run(&self, observer: &dyn Observer) -> Result<Report, Error> {
        let mut config = crate::host::load(self.machine.as_deref().unwrap_or(PERSISTENT))?;
        config.seed = self.seed.unwrap_or(config.seed);
        let ordinary = self.undecided().then(crate::host::host).transpose()?;
        let analysis = Analysis::new(&config, ordinary, self.check)?;
        match &self.input {
            Input::Program(program) if samples::only(&program.command)? => {
                self.sampled(program, analysis, observer)
            }
            Input::Program(program) if self.recover.is_some() => self.checked(program, analysis, observer),
            input => {
                let mut analysis = analysis;
                let (near, mut far) = analysis.sinks();
                let input = with_calls(input);
                let played = input.play("profiling", observer, near, &mut far)?;
                played.unmatched.iter().for_each(|warning| observer.warn(warning));
                Ok(self.report(&played, analysis))
            }
        }
    }

    /// Whether the input has to show which machine suits it.
    fn undecided(&self) -> bool {
        let named = match &self.input {
            Input::Program(program) => !program.pmem.is_empty(),
            Input::Trace(_) => false,
            Input::BuiltIn(_) => true,
        };
        self.machine.is_none() && !named && !self.check && self.recover.is_none()
    }

    /// The report on an input that was played.
    fn report(&self, played: &Played, mut analysis: Analysis) -> Report {
        let mut run = self.header(self.input.subject(analysis.command()), analysis.machine());
        run.duration = played.elapsed;
        run.warnings.clone_from(&played.warnings);
        if analysis.late() {
            run.warnings.push(LATE.to_owned());
        }
        let mut capture = None;
        if let Input::BuiltIn(built_in) = &self.input {
            run.seed = built_in.find().ok().map(|(_, params)| params.seed);
            let operations = built_in.operations.map(|operations| operations.to_string());
            run.reproduce.extend(operations.into_iter().flat_map(|number| ["--ops".to_owned(), number]));
        }
        if let Some(trace) = &played.trace {
            capture = Some(CaptureStats { trace_bytes: Some(trace.bytes), ..CaptureStats::default() });
        }
        if let Some(outcome) = &played.recording {
            analysis.name_data(outcome);
            run.exit = ending::exit(outcome.status);
            let processes = u32::try_from(outcome.processes.len()).unwrap_or(u32::MAX);
            capture = Some(CaptureStats { processes, ..CaptureStats::default() });
        }
        analysis.into_report(run, capture)
    }

    /// A profile whose run is checked as well.
    fn checked(
        &self,
        program: &Program,
        mut analysis: Analysis,
        observer: &dyn Observer,
    ) -> Result<Report, Error> {
        let check = Check { recover: self.recover.clone(), ..Check::new(self.input.clone(), &self.out) };
        let mut beside = Beside::new(check)?;
        let input = Input::Program(beside.recording(program)?);
        let (near, mut far) = analysis.sinks();
        let mut near = Tee(beside.sink(), near);
        let played = input.play("profiling", observer, &mut near, &mut far)?;
        played.unmatched.iter().for_each(|warning| observer.warn(warning));
        let crash_findings = Some(beside.findings(&played, observer)?);
        Ok(Report { crash_findings, ..self.report(&played, analysis) })
    }

    /// What sampling says of a program whose memory can't be seen.
    fn sampled(
        &self,
        program: &Program,
        analysis: Analysis,
        observer: &dyn Observer,
    ) -> Result<Report, Error> {
        observer.warn(&format!(
            "{} was not built with strandline cc; sampling its functions instead.\n\
             To see its memory: CC=\"strandline cc\" make; to see its files, as it is: --files PATH",
            program.name()
        ));
        let profile = capture::sample(&program.command, None, program.stdout_to_stderr)?;
        let mut run = self.header(self.input.subject(Vec::new()), analysis.machine());
        run.duration = profile.elapsed;
        if let Some(status) = profile.status {
            run.exit = ending::exit(status);
        }
        if profile.lost > 0 {
            run.warnings.push(format!("the kernel lost {} samples", profile.lost));
        }
        let skip = |what: &str, reason: &str| Skipped { what: what.to_owned(), reason: reason.to_owned() };
        run.skipped.push(skip("memory events", "the program was not built with strandline cc"));
        if self.check {
            let reason =
                "the program was not built with `strandline cc`, so its stores and flushes were not seen";
            run.skipped.push(skip("--check", reason));
        }
        let report = analysis.into_report(run, None);
        Ok(Report { samples: Some(samples::of(profile)), crash_lints: None, wear: None, ..report })
    }

    /// The report's header, with the command that repeats the run.
    fn header(&self, subject: Subject, machine: &str) -> Run {
        Run {
            reproduce: self.command(&subject, self.machine.as_deref().unwrap_or(machine)),
            subject,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: None,
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            host: self::host(),
            exit: Exit::None,
            duration: std::time::Duration::ZERO,
            warnings: Vec::new(),
            skipped: Vec::new(),
        }
    }

    fn command(&self, subject: &Subject, machine: &str) -> Vec<String> {
        let mut words: Vec<String> =
            ["strandline", "profile", "--machine", machine].map(str::to_owned).into();
        if let Input::Program(program) = &self.input {
            words.extend(program.observe_arguments());
        }
        if self.check {
            words.push("--check".to_owned());
        }
        if let Some(command) = &self.recover {
            words.extend(["--recover".to_owned(), command.clone()]);
        }
        let seed = match &self.input {
            Input::BuiltIn(built_in) => built_in.seed.or(self.seed),
            _ => self.seed,
        };
        if let Some(seed) = seed {
            words.extend(["--seed".to_owned(), seed.to_string()]);
        }
        match subject {
            Subject::Workload { name } => words.extend(["--workload".to_owned(), name.clone()]),
            Subject::Trace { path, .. } => words.extend(["--trace".to_owned(), path.clone()]),
            Subject::Program { command } => {
                words.push("--".to_owned());
                words.extend(command.iter().cloned());
            }
        }
        words
    }
}

/// A program records who calls whom.
fn with_calls(input: &Input) -> Input {
    match input {
        Input::Program(program) => Input::Program(Program { calls: true, ..program.clone() }),
        other => other.clone(),
    }
}

/// The computer, in a few words.
#[must_use]
pub fn host() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (architecture, release) = (std::env::consts::ARCH, release.trim());
    format!("{architecture}, {}, Linux {release}", report::human::plural(cores, "core"))
}
