//! `plan`: which tiers, how much of each and how much cache an input needs, from three simulated runs and a profile.

mod fault;
mod fleet;
mod output;
mod page;
pub(crate) mod sites;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ::plan::answer::{Plan, answer};
use ::plan::choose::candidate_ways;
use ::plan::placed::{Placed, Where};
use ::plan::prices::Prices;
use ::plan::profile::Profiler;
use ::plan::tiers::{Tier, measure, with_two_memories, with_ways};
use ::plan::{Model, Namer, Reference};
use capture::symbols::Types;
use event::Sink;
use machine::Config;

pub use fault::PlanFault;
pub use fleet::{Fleet, Fleets};
pub use sites::{Looked, Placement, PlanGroup, PlanSource, Survey, Surveyed};
pub(crate) use sites::{TIER_RUNTIME, allocators};
pub use verify::Verified;

use crate::ending;
use crate::error::Error;
use crate::input::{Input, Program};
use crate::machines::Chosen;
use crate::observer::Observer;
use crate::record::Record;
use crate::simulate::Notes;
use crate::temporary::Temporary;

/// A plan to be made.
#[derive(Clone, Debug)]
pub struct Planning {
    /// Where events come from.
    pub input: Input,
    /// Machines whose memory is a slow tier, each. The first has the caches; its `other_memory`, or else the preset `dram`'s, is
    /// the fast tier.
    pub tiers: Vec<Chosen>,
    /// A file of prices; made-up ones if not given.
    pub prices: Option<PathBuf>,
    /// What costs may differ by, as a share, for the provider to choose.
    pub tolerance: f64,
    /// The working set that is rented, in bytes, of a program that was observed on a smaller input.
    pub footprint: Option<u64>,
    /// Configurations that are simulated in full.
    pub verify: usize,
    /// What counts as one structure.
    pub group: PlanGroup,
    /// Seed of the machine's random choices; its file's if not given.
    pub seed: Option<u64>,
}

/// A plan that was made.
#[derive(Debug)]
pub struct Planned {
    /// What the events are of.
    pub subject: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// The machine's name.
    pub machine: String,
    /// Prices.
    pub prices: Prices,
    /// Whether they are made up.
    pub made_up: bool,
    /// What costs may differ by.
    pub tolerance: f64,
    /// What counts as one structure.
    pub group: PlanGroup,
    /// The model.
    pub model: Model,
    /// The plan.
    pub plan: Plan,
    /// Configurations that were simulated in full.
    pub verified: Vec<Verified>,
    /// Names, counts, warnings.
    pub notes: Notes,
}

impl Planning {
    /// On the machine `cxl-asic`, with made-up prices, the source's tolerance of 2.5 %.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Planning {
            input,
            tiers: vec![Chosen::new("cxl-asic")],
            prices: None,
            tolerance: 0.025,
            footprint: None,
            verify: 0,
            group: PlanGroup::Stack,
            seed: None,
        }
    }

    /// Profiles the input, simulates the reference runs, predicts and chooses.
    ///
    /// # Errors
    /// If an option makes no sense, a file can't be used, or the input can't be played.
    pub fn run(&self, observer: &dyn Observer) -> Result<Planned, Error> {
        self.check()?;
        let prices = read_prices(self.prices.as_deref())?;
        let configs = self.configs()?;
        let tiers = tiers(&configs)?;
        if let Input::Program(program) = &self.input {
            program.refuse_unobservable()?;
        }
        // A program runs once; what comes after looks at its trace.
        let (recording, mut warnings) = match &self.input {
            Input::Program(program) if self.verify > 0 => {
                let (folder, warnings) = record(program, observer)?;
                (Some(folder), warnings)
            }
            _ => (None, Vec::new()),
        };
        let input = match &recording {
            Some(folder) => Input::Trace(trace_in(folder)),
            None => self.input.clone(),
        };
        let mut notes = Notes::default();
        let namer = (self.group == PlanGroup::Type).then_some(type_name as Namer);
        let model = profiled(&input, &configs, tiers, namer, observer, &mut notes, &mut warnings)?;
        let plan = answer(&model, &prices, self.tolerance, self.footprint);
        let verified = verify::verify(&input, &configs, &model, &plan, self.verify, namer, observer)?;
        notes.warnings = notes.sampling().into_iter().chain(warnings).chain(plan.cautions.clone()).collect();
        let mut planned = Planned {
            subject: crate::wear::subject(&self.input)?,
            command: self.command(),
            machine: self.tiers.iter().map(Chosen::label).collect::<Vec<_>>().join(" + "),
            made_up: self.prices.is_none(),
            tolerance: self.tolerance,
            prices,
            model,
            plan,
            group: self.group,
            verified,
            notes,
        };
        let phases = planned.phases();
        planned.notes.warnings.extend(phases);
        Ok(planned)
    }

    fn check(&self) -> Result<(), PlanFault> {
        if !(0.0..=10.0).contains(&self.tolerance) {
            let remedy = "0 to 10, a share: 0.025 is 2.5 %";
            return Err(PlanFault::Number { what: "a tolerance", value: self.tolerance, remedy });
        }
        if self.group == PlanGroup::Tag {
            return Err(PlanFault::System(
                "events have no tags: --group tag is for programs as they are, as with --source referenced"
                    .to_owned(),
            ));
        }
        if self.footprint == Some(0) {
            let remedy = "at least 1B, or leave it out";
            return Err(PlanFault::Number { what: "a footprint", value: 0.0, remedy });
        }
        Ok(())
    }

    /// The machines with two memories each; caches and fast memory are those of the first.
    fn configs(&self) -> Result<Vec<Config>, Error> {
        let mut configs: Vec<Config> = Vec::new();
        for chosen in &self.tiers {
            let own = chosen.config(self.seed)?;
            let config = match configs.first() {
                None => with_two_memories(&own)?,
                Some(first) => {
                    let mut config = first.clone();
                    (config.name, config.memory, config.device) = (own.name, own.memory, own.device);
                    config
                }
            };
            configs.push(config);
        }
        Ok(configs)
    }

    fn command(&self) -> Vec<String> {
        let mut words: Vec<String> = ["strandline", "plan"].map(str::to_owned).into();
        for chosen in &self.tiers {
            words.extend(["--tiers".to_owned(), chosen.machine.clone()]);
        }
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        option("--prices", self.prices.as_ref().map(|path| path.display().to_string()));
        option("--tolerance", (self.tolerance != 0.025).then(|| self.tolerance.to_string()));
        option("--footprint", self.footprint.map(|bytes| device::Size(bytes).to_string()));
        option("--verify", (self.verify > 0).then(|| self.verify.to_string()));
        option("--group", (self.group != PlanGroup::Stack).then(|| self.group.name().to_owned()));
        option("--seed", self.seed.map(|seed| seed.to_string()));
        words.extend(crate::wear::source(&self.input));
        words
    }
}

/// A file's prices, or made-up ones.
fn read_prices(path: Option<&Path>) -> Result<Prices, Error> {
    let Some(path) = path else { return Ok(Prices::default()) };
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    Ok(Prices::parse(&text, &path.display().to_string()).map_err(PlanFault::Prices)?)
}

/// The type that a site allocates.
fn type_name(site: &event::Site) -> Option<String> {
    static TYPES: Mutex<Option<Types>> = Mutex::new(None);
    let mut types = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
    types.get_or_insert_default().of(&site.frames)
}

/// The fast tier, then each slow one.
fn tiers(configs: &[Config]) -> Result<Vec<Tier>, PlanFault> {
    let mut tiers = Vec::new();
    for config in configs {
        let [fast, slow] = measure(config)?;
        if tiers.is_empty() {
            tiers.push(fast);
        }
        tiers.push(slow);
    }
    Ok(tiers)
}

/// Plays the input once, into the profiler and the reference runs.
fn profiled(
    input: &Input,
    configs: &[Config],
    tiers: Vec<Tier>,
    namer: Option<Namer>,
    observer: &dyn Observer,
    notes: &mut Notes,
    warnings: &mut Vec<String>,
) -> Result<Model, Error> {
    let config = &configs[0];
    let ways = candidate_ways(config.llc.ways);
    let (fewest, most) = (ways[0], ways[ways.len() - 1]);
    let mut profiler = Profiler::new(config, &ways)?.joined_by(namer);
    let mut runs = vec![
        (fewest, 0, Placed::new(&with_ways(config, fewest), Where::Fast)?),
        (most, 0, Placed::new(&with_ways(config, most), Where::Fast)?),
    ];
    for (tier, config) in (1..).zip(configs) {
        runs.push((most, tier, Placed::new(&with_ways(config, most), Where::Slow)?));
    }
    let mut sinks: Vec<&mut (dyn Sink + Send)> = vec![&mut profiler];
    sinks.extend(runs.iter_mut().map(|(_, _, run)| run as &mut (dyn Sink + Send)));
    let played = input.play("planning", observer, notes, &mut sinks)?;
    if let Some(outcome) = &played.recording {
        ending::warnings(outcome, &played.warnings).iter().for_each(|warning| observer.warn(warning));
    }
    warnings.extend(played.warnings.iter().cloned());
    let references = runs.iter().map(|(ways, tier, run)| Reference::of(&run.figures(), *ways, *tier));
    Ok(Model::fit(profiler.profile(), tiers, references.collect()).map_err(PlanFault::Model)?)
}

/// Records a program in a folder that is removed in the end.
fn record(program: &Program, observer: &dyn Observer) -> Result<(Temporary, Vec<String>), Error> {
    let place = std::env::temp_dir();
    let folder = Temporary::new("strandline-plan-", &place).map_err(Error::file("create", &place))?;
    let recorded = Record::new(program.clone(), trace_in(&folder)).run(observer)?;
    Ok((folder, recorded.warnings))
}

fn trace_in(folder: &Temporary) -> PathBuf {
    Path::new(folder.path()).join("run.slt")
}
