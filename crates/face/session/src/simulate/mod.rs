//! `simulate`: the same events on one or several machines with time, side by side.

mod compare;
mod notes;
mod output;
mod persists;

use event::Sink;
use hardware::{Language, Mapped, Mapping, Named};
use machine::Simulation;
use report::human;

pub use compare::{Comparison, Measured};
pub use notes::Notes;

use crate::ending;
use crate::error::Error;
use crate::input::Input;
use crate::machines::Chosen;
use crate::observer::Observer;
use compare::Contender;

/// A simulation to be run.
#[derive(Clone, Debug)]
pub struct Simulate {
    /// Where events come from.
    pub input: Input,
    /// The machines to compare.
    pub machines: Vec<Chosen>,
    /// Persistency designs by name: each machine is tried with each. The machines' own if none is named.
    pub persistency: Vec<String>,
    /// How regions become logs for designs that need one. Without it, transactions of built-in workloads are mapped as such,
    /// and other inputs stay as they are.
    pub language: Option<Language>,
    /// Seed of the machines' random choices; their files' if not given.
    pub seed: Option<u64>,
}

/// Lines whose way to memory is shown, behind those of the beginning.
const PERSISTS: usize = 96;
const PERSISTS_SKIPPED: u64 = 2000;

impl Simulate {
    /// A simulation without machines.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Simulate { input, machines: Vec::new(), persistency: Vec::new(), language: None, seed: None }
    }

    /// Adds a machine: a preset's name, or the path of a TOML file.
    #[must_use]
    pub fn machine(mut self, name: &str) -> Self {
        self.machines.push(Chosen::new(name));
        self
    }

    /// Plays the input into all machines.
    ///
    /// # Errors
    /// If a machine's description is wrong or the input can't be played.
    pub fn run(&self, observer: &dyn Observer) -> Result<Comparison, Error> {
        let mut contenders = Vec::new();
        for chosen in &self.machines {
            let config = chosen.config(self.seed)?;
            if self.persistency.is_empty() {
                let simulation = Mapped::new(Simulation::new(&config)?, Mapping::AsRecorded);
                contenders.push(Contender { label: chosen.label(), simulation, config });
                continue;
            }
            for name in &self.persistency {
                let design = Named::find(name)?;
                let config = design.on(&config)?;
                let mut simulation = Simulation::new(&config)?;
                simulation.keep_persists(PERSISTS_SKIPPED, PERSISTS);
                let label = if self.machines.len() == 1 {
                    (*name).clone()
                } else {
                    format!("{}, {name}", chosen.label())
                };
                let simulation = Mapped::new(simulation, self.mapping(design));
                contenders.push(Contender { label, simulation, config });
            }
        }
        if let Input::Program(program) = &self.input {
            program.refuse_unobservable()?;
        }
        let mut notes = Notes::default();
        let mut sinks: Vec<&mut (dyn Sink + Send)> =
            contenders.iter_mut().map(|one| &mut one.simulation as &mut (dyn Sink + Send)).collect();
        let played = self.input.play("simulating", observer, &mut notes, &mut sinks)?;
        if let Some(outcome) = &played.recording {
            ending::warnings(outcome, &played.warnings).iter().for_each(|warning| observer.warn(warning));
        }
        notes.warnings = notes.sampling().into_iter().chain(played.warnings.iter().cloned()).collect();
        let (subject, source) = self.subject()?;
        Ok(Comparison::new(subject, self.command(source), contenders, notes))
    }

    /// What is made of the input's regions for a design.
    fn mapping(&self, design: &Named) -> Mapping {
        let transactions = match &self.input {
            Input::BuiltIn(built_in) => {
                built_in.find().is_ok_and(|(workload, _)| workload.transactions().is_some())
            }
            Input::Program(_) | Input::Trace(_) => false,
        };
        match self.language.or(transactions.then_some(Language::Transactions)) {
            Some(language) if design.logs_in_software => Mapping::Log(language),
            Some(_) => Mapping::Hardware,
            None => Mapping::AsRecorded,
        }
    }

    /// What the events are of, and the arguments that make them again.
    fn subject(&self) -> Result<(String, Vec<String>), Error> {
        Ok(match &self.input {
            Input::Trace(path) => {
                let path = path.display().to_string();
                (path.clone(), vec!["--trace".to_owned(), path])
            }
            Input::Program(program) => {
                let words = program.words();
                let mut source = program.observe_arguments();
                source.push("--".to_owned());
                source.extend(words.clone());
                (human::shell(&words), source)
            }
            Input::BuiltIn(built_in) => {
                let (_, params) = built_in.find()?;
                let (operations, threads) = (params.operations.to_string(), params.threads.to_string());
                let words = ["--workload", &built_in.name, "--ops", &operations, "--threads", &threads];
                let operations = human::grouped(params.operations);
                let subject = format!("{}, {operations} operations, seed {}", built_in.name, params.seed);
                (subject, words.map(str::to_owned).into())
            }
        })
    }

    /// The command that compares again.
    fn command(&self, source: Vec<String>) -> Vec<String> {
        let mut command: Vec<String> = ["strandline", "simulate"].map(str::to_owned).into();
        command.extend(self.machines.iter().flat_map(Chosen::arguments));
        for name in &self.persistency {
            command.extend(["--persistency".to_owned(), name.clone()]);
        }
        if let Some(language) = self.language {
            command.extend(["--map-regions".to_owned(), language.name().to_owned()]);
        }
        if let Some(seed) = self.seed {
            command.extend(["--seed".to_owned(), seed.to_string()]);
        }
        command.extend(source);
        command
    }
}
