//! What `strandline profile` does with events: the modelled machine on one thread, everything else on another.

use ::advise::guidelines::Linter;
use capture::{Relay, broadcast};
use event::{Batch, Capabilities, Counts, Definition, Sink, SinkError, SiteTable, Source};
use machine::{Config, ConfigError, Machine};
use report::{CaptureStats, Report, Run, Withheld, WriteSizes};

use crate::progress::Progress;

/// Everything that looks at the events of a profile.
pub struct Analysis {
    machine: Machine,
    notes: Notes,
}

/// What is kept besides the machine.
#[derive(Default)]
struct Notes {
    source: Option<Source>,
    sites: SiteTable,
    counts: Counts,
    linter: Linter,
}

impl Analysis {
    /// On the given machine.
    ///
    /// # Errors
    /// When its description is no machine.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        Ok(Analysis { machine: Machine::new(config)?, notes: Notes::default() })
    }

    /// Looks at the events that `produce` makes.
    ///
    /// # Errors
    /// What stopped the analysis, or what `produce` returns.
    pub fn watch<T>(&mut self, produce: impl FnOnce(&mut Relay) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut notes = Progress::new("profiling", &mut self.notes);
        broadcast(&mut [&mut self.machine, &mut notes], produce)
    }

    /// The observed program's command line, if the source says.
    pub fn command(&self) -> Vec<String> {
        self.notes.source.as_ref().map(|source| source.command.clone()).unwrap_or_default()
    }

    /// Puts the results together.
    pub fn into_report(self, run: Run, capture: Option<CaptureStats>) -> Report {
        let Notes { source, sites, counts, linter } = self.notes;
        let figures = self.machine.into_figures();
        let findings = linter.findings(&figures, &sites);
        let sizes = linter.write_sizes();
        let sizes = if figures.mapped_persistent { sizes.persistent } else { sizes.all };
        let withheld = linter.withheld().into_iter();
        Report {
            run,
            source: source.unwrap_or_else(|| Source::synthetic("nothing")),
            counts,
            figures,
            sites,
            findings,
            withheld: withheld
                .map(|(rule, reason)| Withheld { rule: rule.name().to_owned(), reason })
                .collect(),
            write_sizes: Some(WriteSizes {
                temporal: sizes.temporal.writes.to_vec(),
                nt: sizes.non_temporal.writes.to_vec(),
            }),
            capture,
            samples: None,
        }
    }
}

impl Sink for Notes {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn needs(&self) -> Capabilities {
        self.linter.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = Some(source.clone());
        self.linter.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.sites.define_site(id, site.clone()),
            Definition::Name(id, name) => self.sites.define_name(id, name.to_owned()),
        }
        self.linter.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.counts.push(batch)?;
        self.linter.push(batch)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.linter.finish()
    }
}
