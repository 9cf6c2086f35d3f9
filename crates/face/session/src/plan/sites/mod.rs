//! `plan` for a program as it is: use of its memory by allocation site, seen by a library that it preloads.

pub(crate) mod damon;
mod feed;
mod group;
mod kinds;
mod left;
pub(crate) mod nodes;
mod output;
mod run;
mod skipped;

use std::path::{Path, PathBuf};

use ::plan::prices::Prices;
use ::plan::sites::{Seen, SitePlan, plan};
use ::plan::tiers::{Tier, measure, with_two_memories};

pub use left::Placement;
pub(crate) use left::allocators;
pub use run::Looked;
pub(crate) use run::TIER_RUNTIME;

use super::PlanFault;
use crate::error::Error;
use crate::input::Program;
use crate::machines::Chosen;
use crate::observer::Observer;
use crate::samples;

/// Where a profile comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// Events if the program was built with `strandline cc`, else referenced bits.
    Auto,
    /// Events.
    Events,
    /// The kernel's referenced bits of pages.
    Referenced,
    /// These, and stores, by write protection.
    Written,
    /// Pages without access rights, whose first use is a signal.
    Protect,
    /// Loads that missed all caches, by the processor's samples.
    Sampled,
    /// Regions of the kernel's monitor, where nobody else uses it.
    Damon,
    /// Sizes of allocations and the process's counters only.
    Counters,
}

/// What counts as one structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanGroup {
    /// All that a call stack (of events: a line) allocates.
    #[default]
    Stack,
    /// All of a C++ type; what has none that can be known stays by call stack.
    Type,
    /// All to which the program gave a tag by `sl_tag`; the rest stays by call stack.
    Tag,
}

impl PlanGroup {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PlanGroup::Stack => "stack",
            PlanGroup::Type => "type",
            PlanGroup::Tag => "tag",
        }
    }
}

impl PlanSource {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PlanSource::Auto => "auto",
            PlanSource::Events => "events",
            PlanSource::Referenced => "referenced",
            PlanSource::Written => "written",
            PlanSource::Protect => "protect",
            PlanSource::Sampled => "sampled",
            PlanSource::Damon => "damon",
            PlanSource::Counters => "counters",
        }
    }

    /// Whether a program is to be run without events.
    ///
    /// # Errors
    /// If its file can't be read.
    pub fn without_events(self, program: &Program) -> Result<bool, Error> {
        Ok(match self {
            PlanSource::Auto => samples::only(&program.command)?,
            PlanSource::Events => false,
            _ => true,
        })
    }
}

/// A program whose use of memory is to be seen, and a plan made of it.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The program.
    pub program: Program,
    /// How.
    pub source: PlanSource,
    /// What counts as one structure.
    pub group: PlanGroup,
    /// The machine whose memory is the slow tier and whose `other_memory`, or else the preset `dram`'s, is the fast one.
    pub tiers: Chosen,
    /// A file of prices; made-up ones if not given.
    pub prices: Option<PathBuf>,
    /// The working set that is rented, in bytes.
    pub footprint: Option<u64>,
    /// Carry a file of kinds out.
    pub kinds: Option<PathBuf>,
    /// Run the program again with the plan carried out.
    pub apply: bool,
    /// Shortest time between two looks, in seconds.
    pub interval: f64,
    /// Allocations of so many bytes and more are all noted.
    pub from: u64,
}

/// A plan from use of pages.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// The program with its arguments.
    pub subject: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// The machine's name.
    pub machine: String,
    /// The tiers.
    pub tiers: [Tier; 2],
    /// Prices.
    pub prices: Prices,
    /// Whether they are made up.
    pub made_up: bool,
    /// What was seen.
    pub looked: Looked,
    /// The plan.
    pub plan: SitePlan,
    /// The run with the plan carried out, or why there is none; nothing if it was not asked for.
    pub applied: Option<Result<Looked, String>>,
    /// What a reader has to know.
    pub warnings: Vec<String>,
}

impl Survey {
    /// Looks at a program, five times a second at most.
    #[must_use]
    pub fn new(program: Program, source: PlanSource) -> Self {
        Survey {
            program,
            source,
            group: PlanGroup::Stack,
            tiers: Chosen::new("cxl-asic"),
            prices: None,
            footprint: None,
            kinds: None,
            apply: false,
            interval: 0.2,
            from: 64 << 10,
        }
    }

    /// Runs the program and plans.
    ///
    /// # Errors
    /// If an option makes no sense, or the program can't be run or seen.
    pub fn run(&self, observer: &dyn Observer) -> Result<Surveyed, Error> {
        if !(0.001..=3600.0).contains(&self.interval) {
            let remedy = "0.001 to 3600 seconds";
            return Err(PlanFault::Number { what: "an interval", value: self.interval, remedy }.into());
        }
        if self.footprint == Some(0) {
            let remedy = "at least 1B, or leave it out";
            return Err(PlanFault::Number { what: "a footprint", value: 0.0, remedy }.into());
        }
        if let Some(path) = &self.kinds {
            kinds::check(path)?;
        }
        let prices = super::read_prices(self.prices.as_deref())?;
        let config = with_two_memories(&self.tiers.config(None)?)?;
        let tiers = measure(&config).map_err(PlanFault::Tiers)?;
        let mut looked = run::look(&self.look(self.kinds.as_deref()))?;
        looked.seen.unseen.extend(skipped::others(&self.program, self.source));
        looked.seen.sites = group::join(std::mem::take(&mut looked.seen.sites), self.group);
        looked.warnings.iter().for_each(|warning| observer.warn(warning));
        let plan = plan(&looked.seen, &tiers, &prices, self.footprint);
        let mut warnings = looked.warnings.clone();
        warnings.extend(plan.cautions.iter().cloned());
        let mut surveyed = Surveyed {
            subject: report::human::shell(&self.program.words()),
            command: self.command(),
            machine: self.tiers.label(),
            made_up: self.prices.is_none(),
            prices,
            tiers,
            looked,
            plan,
            applied: None,
            warnings,
        };
        if self.apply {
            surveyed.applied = Some(self.carried_out(&surveyed)?);
        }
        Ok(surveyed)
    }

    fn carried_out(&self, surveyed: &Surveyed) -> Result<Result<Looked, String>, Error> {
        if let Err(why) = nodes::two() {
            return Ok(Err(why));
        }
        if surveyed.kinds().lines().all(|line| line.starts_with('#')) {
            return Ok(Err("the plan puts no large allocation on slow memory".to_owned()));
        }
        let folder = run::folder()?;
        let path = folder.path().join("plan.kinds");
        crate::write(&path, &surveyed.kinds())?;
        Ok(Ok(run::look(&self.look(Some(&path)))?))
    }

    fn look<'a>(&'a self, kinds: Option<&'a Path>) -> run::Look<'a> {
        let source = match self.source {
            PlanSource::Auto | PlanSource::Events => PlanSource::Referenced,
            other => other,
        };
        run::Look { program: &self.program, source, interval: self.interval, from: self.from, kinds }
    }

    fn command(&self) -> Vec<String> {
        let mut words: Vec<String> =
            ["strandline", "plan", "--source", self.source.name()].map(str::to_owned).into();
        words.extend(["--tiers".to_owned(), self.tiers.machine.clone()]);
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        option("--group", (self.group != PlanGroup::Stack).then(|| self.group.name().to_owned()));
        option("--prices", self.prices.as_ref().map(|path| path.display().to_string()));
        option("--footprint", self.footprint.map(|bytes| device::Size(bytes).to_string()));
        option("--kinds", self.kinds.as_ref().map(|path| path.display().to_string()));
        words.extend(self.apply.then(|| "--apply".to_owned()));
        words.push("--".to_owned());
        words.extend(self.program.words());
        words
    }
}

impl Surveyed {
    /// What was seen.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.looked.seen
    }
}
