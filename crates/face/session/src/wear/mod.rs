//! `wear`: when a memory wears out under an input, what wears it, and what levelling would give.

mod accuracy;
pub(crate) mod fault;
mod level;
mod output;
mod page;
mod ran;
mod run;
mod sampled;

use std::time::Duration;

use ::wear::estimate::{Algorithm, Exact, Swap};
use ::wear::{Assessment, CopyCost, Endurance, Question, assess};
use event::{Event, Op, SiteId};
use machine::{Config, LINE_BYTES};

pub use accuracy::AccuracyAt;
pub use fault::WearFault;
pub use level::{Levelling, WearLevel};
pub use ran::WearRan;
pub use run::WearRun;

use crate::ending;
use crate::error::Error;
use crate::input::Input;
use crate::machines::Chosen;
use crate::observer::Observer;
use crate::simulate::Notes;
use accuracy::{Samplers, compare};

/// Writes that a cell survives if neither the user nor the machine's description says: the source's number.
const ENDURANCE: f64 = 1e7;
/// Sampling intervals at which estimates are compared with exact counts.
const INTERVALS: [u32; 10] = [1, 2, 3, 5, 7, 11, 13, 17, 31, 101];

/// An estimate to be made.
#[derive(Clone, Debug)]
pub struct Wear {
    /// Where events come from.
    pub input: Input,
    /// The modelled machine.
    pub machine: Chosen,
    /// Seed of the machine's random choices; its file's if not given.
    pub seed: Option<u64>,
    /// Writes that a cell survives; the device's, or 10^7, if not given.
    pub endurance: Option<f64>,
    /// Seconds that the memory is to last.
    pub goal: f64,
    /// Bytes of a page.
    pub page: u64,
    /// Bytes of memory over which levelling can spread writes; what was written to if not given.
    pub capacity: Option<u64>,
    /// How long the run takes when nobody observes it; the recorded time if not given.
    pub duration: Option<Duration>,
    /// What copying a page counts as.
    pub copies: CopyCost,
    /// Compare estimates from samples with exact counts.
    pub accuracy: bool,
    /// When the filters of these estimates change roles.
    pub swap: Swap,
    /// Estimate from the processor's own samples of every so many-th store, a prime, of a program as it is.
    pub sampled: Option<u32>,
}

/// The estimate.
#[derive(Debug)]
pub struct Worn {
    /// What the events are of.
    pub subject: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// The machine's name.
    pub machine: String,
    /// Whether the run's length was given, recorded, or is unknown.
    pub clock: &'static str,
    /// Bytes that the media of each of the memory's DIMMs wrote.
    pub devices: Vec<u64>,
    /// The answer.
    pub assessment: Assessment,
    /// Lines written over the run.
    pub timeline: Vec<::wear::estimate::Slice>,
    /// Estimates from samples, beside exact counts.
    pub accuracy: Vec<AccuracyAt>,
    /// Source, names, counts and warnings.
    pub notes: Notes,
}

impl Wear {
    /// On the machine `xpoint`, for four years, in pages of 4 KiB.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Wear {
            input,
            machine: Chosen::new("xpoint"),
            seed: None,
            endurance: None,
            goal: 4.0 * ::wear::YEAR,
            page: 4096,
            capacity: None,
            duration: None,
            copies: CopyCost::Lines,
            accuracy: false,
            swap: Swap::Misses,
            sampled: None,
        }
    }

    /// Plays the input into the modelled machine and counts what it writes.
    ///
    /// # Errors
    /// If an option makes no sense, there is no such machine, or the input can't be played.
    pub fn run(&self, observer: &dyn Observer) -> Result<Worn, Error> {
        let config = self.machine.config(self.seed)?;
        self.check()?;
        if let Some(period) = self.sampled {
            return self.of_samples(period, &config, observer);
        }
        if let Input::Program(program) = &self.input {
            program.refuse_unobservable()?;
        }
        let mut exact = Exact::new(&config)?;
        let mut samplers =
            Samplers::new(if self.accuracy { &INTERVALS } else { &[] }, self.algorithm(&config));
        let mut notes = Notes::default();
        let played = if self.accuracy {
            self.input.play("wear", observer, &mut notes, &mut [&mut exact, &mut samplers])?
        } else {
            self.input.play("wear", observer, &mut notes, &mut [&mut exact])?
        };
        if let Some(outcome) = &played.recording {
            ending::warnings(outcome, &played.warnings).iter().for_each(|warning| observer.warn(warning));
        }
        notes.warnings = notes.sampling().into_iter().chain(played.warnings.iter().cloned()).collect();
        let tally = exact.watch().tally();
        let (seconds, clock) = match (self.duration, tally.span_ns()) {
            (Some(given), _) => (Some(given.as_secs_f64()), "given"),
            (None, 0) => (None, "unknown"),
            (None, recorded) => (Some(recorded as f64 / 1e9), "recorded"),
        };
        if clock == "recorded" && matches!(self.input, Input::Program(_)) {
            notes.warnings.push(
                "observed runs are slower, so rates are too low and lifetimes too long; --duration says how \
                 long it really takes"
                    .to_owned(),
            );
        }
        let figures = exact.machine().figures();
        let question = self.question(&config, seconds);
        let persistent = tally.persistent();
        let memory = if persistent { &figures.persistent } else { &figures.volatile };
        Ok(Worn {
            subject: subject(&self.input)?,
            command: self.command(),
            machine: self.machine.label(),
            clock,
            devices: memory.per_dimm.iter().map(|dimm| dimm.media_write_bytes).collect(),
            assessment: assess(tally, exact.watch().allocation_sites(), question),
            timeline: tally.slices().to_vec(),
            accuracy: compare(tally, &samplers),
            notes,
        })
    }

    fn check(&self) -> Result<(), WearFault> {
        if !self.page.is_power_of_two() || !(4096..=1 << 30).contains(&self.page) {
            return Err(WearFault::Page(self.page));
        }
        let duration = self.duration.map(|duration| duration.as_secs_f64());
        let numbers =
            [("an endurance", self.endurance), ("a goal", Some(self.goal)), ("a duration", duration)];
        for (what, value) in numbers {
            if let Some(value) = value.filter(|value| !value.is_finite() || *value <= 0.0) {
                return Err(WearFault::NotPositive { what, value });
            }
        }
        Ok(())
    }

    fn question(&self, config: &Config, seconds: Option<f64>) -> Question {
        question(config, self.endurance, self.goal, self.page, seconds)
            .with(|asked| (asked.capacity, asked.copies) = (self.capacity, self.copies))
    }

    /// Filters as large as the machine's last cache.
    fn algorithm(&self, config: &Config) -> Algorithm {
        let blocks = config.llc.size.0 / LINE_BYTES;
        Algorithm { blocks, swap: self.swap, ..Algorithm::of_source() }
    }

    fn command(&self) -> Vec<String> {
        let mut words: Vec<String> = ["strandline", "wear"].map(str::to_owned).into();
        words.extend(self.machine.arguments());
        let mut option = |name: &str, value: Option<String>| option_of(&mut words, name, value);
        option("--seed", self.seed.map(|seed| seed.to_string()));
        option("--endurance", self.endurance.map(|endurance| endurance.to_string()));
        let default = Wear::new(self.input.clone());
        let goal = Duration::from_secs_f64(self.goal);
        option("--goal", (self.goal != default.goal).then(|| written(goal)));
        option("--page", (self.page != default.page).then(|| device::Size(self.page).to_string()));
        option("--capacity", self.capacity.map(|bytes| device::Size(bytes).to_string()));
        option("--duration", self.duration.map(written));
        if self.copies == CopyCost::Location {
            words.extend(["--copies", "location"].map(str::to_owned));
        }
        if self.swap == Swap::Insertions {
            words.extend(["--swap", "insertions"].map(str::to_owned));
        }
        option_of(&mut words, "--sampled", self.sampled.map(|period| period.to_string()));
        words.extend(self.accuracy.then(|| "--accuracy".to_owned()));
        words.extend(source(&self.input));
        words
    }
}

fn option_of(words: &mut Vec<String>, name: &str, value: Option<String>) {
    words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
}

/// A question about a device with the machine's numbers where there are none.
pub(crate) fn question(
    config: &Config,
    endurance: Option<f64>,
    goal: f64,
    page: u64,
    seconds: Option<f64>,
) -> Asked {
    let of_device = config.device.endurance.map(|writes| writes as f64);
    let writes = endurance.or(of_device).unwrap_or(ENDURANCE);
    Asked(Question {
        endurance: Endurance { page, ..Endurance::new(writes) },
        goal,
        capacity: None,
        seconds,
        unit: config.device.unit.0,
        copies: CopyCost::Lines,
    })
}

/// A question that may be changed before it is asked.
pub(crate) struct Asked(pub(crate) Question);

impl Asked {
    fn with(mut self, change: impl FnOnce(&mut Question)) -> Question {
        change(&mut self.0);
        self.0
    }
}

fn written(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

/// What the events are of.
pub(crate) fn subject(input: &Input) -> Result<String, Error> {
    Ok(match input {
        Input::Trace(path) => path.display().to_string(),
        Input::Program(program) => report::human::shell(&program.words()),
        Input::BuiltIn(built_in) => {
            let (_, params) = built_in.find()?;
            format!("{}, {} operations", built_in.name, report::human::grouped(params.operations))
        }
    })
}

/// The arguments that make the events again.
pub(crate) fn source(input: &Input) -> Vec<String> {
    match input {
        Input::Trace(path) => vec!["--trace".to_owned(), path.display().to_string()],
        Input::Program(program) => {
            let mut words = program.observe_arguments();
            words.push("--".to_owned());
            words.extend(program.words());
            words
        }
        Input::BuiltIn(built_in) => {
            let operations = built_in.operations.map(|operations| operations.to_string());
            let mut words = vec!["--workload".to_owned(), built_in.name.clone()];
            words.extend(operations.into_iter().flat_map(|number| ["--ops".to_owned(), number]));
            words
        }
    }
}

/// Whether an event stores, and where.
fn stored(event: &Event) -> Option<(u64, u32, SiteId)> {
    match event.op {
        Op::Store { addr, len } | Op::StoreNt { addr, len } => Some((addr, len, event.site)),
        _ => None,
    }
}
