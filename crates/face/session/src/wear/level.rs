//! `wear level`: levelling policies on the writes of an input, or under an attack.

use ::wear::estimate::Exact;
use ::wear::level::{Attack, Levelled, Policy, Settings, Temporary, Writes};
use event::{Batch, Capabilities, Sink, SinkError};
use machine::Config;
use report::human;
use serde_json::json;

use super::{WearFault, source, stored, subject};
use crate::error::Error;
use crate::input::Input;
use crate::machines::Chosen;
use crate::observer::Observer;

/// Name and version of the document's layout.
const SCHEMA: &str = "strandline-wear-level-1";
/// Writes that are kept of an input.
const WRITES_MAX: usize = 64 << 20;
/// The least memory that is levelled, so that a trace of one line has somewhere to go.
const PAGES_MIN: u64 = 256;
const PAGE: u64 = 4096;

/// What levels what.
#[derive(Clone, Debug)]
pub struct WearLevel {
    /// Where writes come from, unless there is an attack.
    pub input: Input,
    /// The machine whose write-backs they are.
    pub machine: Chosen,
    /// Every store is a write of the memory, as if each were flushed.
    pub stores: bool,
    /// An attack instead of an input.
    pub attack: Option<Attack>,
    /// The policies' names; all if there are none.
    pub policies: Vec<String>,
    /// Bytes of the units that wear.
    pub unit: u64,
    /// Bytes of a page.
    pub page: u64,
    /// Bytes of the memory; what the input writes to, rounded up, if not given.
    pub capacity: Option<u64>,
    /// Writes to simulate; the input's come again and again.
    pub writes: u64,
    /// Writes that a unit survives in the simulation; none dies if not given.
    pub endurance: Option<u32>,
    /// Writes per page between two shuffles.
    pub shuffle_every: Option<u64>,
    /// Writes per move of Start-Gap and Security Refresh.
    pub interval: Option<u32>,
    /// Where contents wait while pages are exchanged.
    pub temporary: Temporary,
    /// Of random choices.
    pub seed: u64,
}

/// What the policies made of the writes.
#[derive(Debug)]
pub struct Levelling {
    /// What was written.
    pub subject: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// The settings of all policies.
    pub settings: Settings,
    /// Writes of the input.
    pub trace_writes: u64,
    /// By policy.
    pub results: Vec<(Policy, Levelled)>,
}

impl WearLevel {
    /// All policies on the write-backs of the machine `xpoint`.
    #[must_use]
    pub fn new(input: Input) -> Self {
        WearLevel {
            input,
            machine: Chosen::new("xpoint"),
            stores: false,
            attack: None,
            policies: Vec::new(),
            unit: 64,
            page: PAGE,
            capacity: None,
            writes: 50_000_000,
            endurance: None,
            shuffle_every: None,
            interval: None,
            temporary: Temporary::Spare,
            seed: 1,
        }
    }

    /// Runs every policy on the same writes.
    ///
    /// # Errors
    /// If a policy or a size makes no sense, or the input can't be played.
    pub fn run(&self, observer: &dyn Observer) -> Result<Levelling, Error> {
        let policies = self.chosen().map_err(WearFault::from)?;
        let (trace, bytes) = match self.attack {
            Some(_) => (Vec::new(), self.capacity.unwrap_or(PAGES_MIN * PAGE)),
            None => self.trace(observer)?,
        };
        let settings = self.settings(bytes)?;
        policies[0].build(&settings).map_err(WearFault::from)?;
        let results = policies.into_iter().map(|policy| {
            let mut writes = match self.attack {
                Some(attack) => Writes::attack(attack, settings.units, self.seed),
                None => Writes::of(&trace),
            };
            (policy, policy.run(&settings, &mut writes, self.writes))
        });
        Ok(Levelling {
            subject: match self.attack {
                Some(attack) => format!("attack: {}", words(attack)),
                None => subject(&self.input)?,
            },
            command: self.command(),
            settings,
            trace_writes: trace.len() as u64,
            results: results.collect(),
        })
    }

    fn chosen(&self) -> Result<Vec<Policy>, ::wear::level::PolicyError> {
        if self.policies.is_empty() {
            return Ok(Policy::ALL.to_vec());
        }
        self.policies.iter().map(|name| Policy::find(name)).collect()
    }

    fn settings(&self, bytes: u64) -> Result<Settings, WearFault> {
        let units = bytes.div_ceil(self.unit.max(1)).max(1);
        if units > 1 << 31 {
            return Err(WearFault::TooLarge { bytes, unit: self.unit });
        }
        let mut settings = Settings::new(units.next_power_of_two(), self.page / self.unit.max(1));
        settings.endurance = self.endurance.unwrap_or(u32::MAX);
        settings.shuffle_every = self.shuffle_every.unwrap_or(settings.shuffle_every);
        settings.interval = self.interval.unwrap_or(settings.interval).max(1);
        (settings.temporary, settings.seed) = (self.temporary, self.seed);
        Ok(settings)
    }

    /// The input's writes as units, with the pages that it touches put side by side, and the memory's bytes.
    fn trace(&self, observer: &dyn Observer) -> Result<(Vec<u32>, u64), Error> {
        let config = self.machine.config(None)?;
        if let Input::Program(program) = &self.input {
            program.refuse_unobservable()?;
        }
        let mut lines = Lines::new(&config, self.stores)?;
        self.input.play("levelling", observer, &mut event::Discard, &mut [&mut lines])?;
        let lines = lines.written;
        if lines.is_empty() {
            return Err(WearFault::NoWrites { input: subject(&self.input)? }.into());
        }
        let per_page = (self.page / 64).max(1);
        let mut pages: Vec<u64> = lines.iter().map(|line| line / per_page).collect();
        pages.sort_unstable();
        pages.dedup();
        let bytes = (pages.len() as u64 * self.page).max(PAGES_MIN * PAGE).max(2 * self.page);
        let bytes = self.capacity.unwrap_or(0).max(bytes);
        let unit = |line: u64| {
            let page = pages.binary_search(&(line / per_page)).unwrap_or(0) as u64;
            ((page * self.page + line % per_page * 64) / self.unit.max(1)) as u32
        };
        self.settings(bytes)?;
        Ok((lines.into_iter().map(unit).collect(), bytes))
    }

    fn command(&self) -> Vec<String> {
        let mut words: Vec<String> = ["strandline", "wear", "level"].map(str::to_owned).into();
        words.extend(self.policies.iter().flat_map(|name| ["--policy".to_owned(), name.clone()]));
        words.extend(["--writes".to_owned(), self.writes.to_string()]);
        match self.attack {
            Some(attack) => words.extend(["--attack".to_owned(), self::words(attack)]),
            None => {
                words.extend(self.machine.arguments());
                words.extend(self.stores.then(|| "--stores".to_owned()));
                words.extend(source(&self.input));
            }
        }
        words
    }
}

fn words(attack: Attack) -> String {
    match attack {
        Attack::Hammer => "hammer",
        Attack::Birthday => "birthday",
        Attack::Uniform => "uniform",
        Attack::Sequential => "sequential",
    }
    .to_owned()
}

/// The lines that an input writes, in order.
struct Lines {
    exact: Option<Box<Exact>>,
    last: Vec<(u64, u32)>,
    written: Vec<u64>,
}

impl Lines {
    fn new(config: &Config, stores: bool) -> Result<Self, Error> {
        let exact = if stores { None } else { Some(Box::new(Exact::new(config)?)) };
        Ok(Lines { exact, last: Vec::new(), written: Vec::new() })
    }
}

impl Sink for Lines {
    fn name(&self) -> &'static str {
        "wear levelling"
    }

    fn needs(&self) -> Capabilities {
        self.exact.as_ref().map_or(Capabilities::STORES, |exact| exact.needs())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let Lines { exact, last, written } = self;
        if let Some(exact) = exact {
            exact.push_logged(batch, last)?;
            written.extend(last.drain(..).map(|(line, _)| line));
        } else {
            for (addr, len, _) in batch.events.iter().filter_map(stored) {
                written.extend(addr / 64..=addr.saturating_add(u64::from(len).max(1) - 1) / 64);
            }
        }
        if written.len() > WRITES_MAX {
            return Err(SinkError::Other(format!(
                "the input writes more than {WRITES_MAX} lines; record a part of it, as with --sample 1/10"
            )));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let Lines { exact, last, written } = self;
        if let Some(exact) = exact {
            exact.finish_logged(last)?;
            written.extend(last.drain(..).map(|(line, _)| line));
        }
        Ok(())
    }
}

impl Levelling {
    /// The results for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {} units, {} of writes in the input\n{:<18}{:>10}{:>12}{:>15}{:>16}{:>12}{:>12}\n",
            human::plain(&self.subject),
            human::grouped(self.settings.units),
            human::grouped(self.trace_writes),
            "policy",
            "lifetime",
            "first unit",
            "amplification",
            "added ns/write",
            "died",
            "tables"
        );
        for (policy, levelled) in &self.results {
            text.push_str(&format!(
                "{:<18}{:>10}{:>12}{:>15.3}{:>16.1}{:>12}{:>12}\n",
                policy.name(),
                human::percent(levelled.lifetime),
                human::percent(levelled.first),
                levelled.amplification,
                levelled.added_ns,
                if levelled.died { human::count(levelled.writes) } else { "no".to_owned() },
                human::bytes(levelled.cost.table_bytes),
            ));
        }
        text.push_str(
            "Until 1 % of the units, or the first one, is dead; 100 %: as if all units wore alike.\n",
        );
        text
    }

    /// All numbers.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        let policies = self.results.iter().map(|(policy, levelled)| {
            let mut value = serde_json::to_value(levelled)?;
            value["policy"] = json!(policy.name());
            Ok(value)
        });
        let policies = policies.collect::<Result<Vec<_>, Error>>()?;
        let answer = json!({
            "schema": SCHEMA,
            "subject": self.subject,
            "command": self.command,
            "settings": self.settings,
            "trace_writes": self.trace_writes,
            "policies": policies,
        });
        Ok(format!("{answer:#}\n"))
    }
}
