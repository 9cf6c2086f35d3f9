//! What `strandline profile` does with events: the modelled machine, the advisor and the counts, in one sink.

use crate::aside::Aside;
use advise::guidelines::Linter;
use event::{Batch, Capabilities, Counts, Definition, Sink, SinkError, SiteTable, Source};
use machine::{Config, ConfigError, Machine};
use report::{CaptureStats, Report, Run, Withheld, WriteSizes};

/// Everything that looks at the events of a profile.
pub struct Analysis {
    source: Option<Source>,
    sites: SiteTable,
    counts: Counts,
    machine: Aside<Machine>,
    linter: Linter,
}

impl Analysis {
    /// On the given machine.
    ///
    /// # Errors
    /// When its description is no machine.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        Ok(Analysis {
            source: None,
            sites: SiteTable::default(),
            counts: Counts::default(),
            machine: Aside::new(Machine::new(config)?),
            linter: Linter::default(),
        })
    }

    /// The observed program, if the source says.
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Puts the results together.
    pub fn into_report(self, run: Run, capture: Option<CaptureStats>) -> Report {
        let figures = self.machine.into_inner().into_figures();
        let findings = self.linter.findings(&figures, &self.sites);
        let withheld = self.linter.withheld();
        let sizes = self.linter.write_sizes();
        let sizes = if figures.mapped_persistent { sizes.persistent } else { sizes.all };
        Report {
            run,
            source: self.source.unwrap_or_else(|| Source::synthetic("nothing")),
            counts: self.counts,
            figures,
            sites: self.sites,
            findings,
            withheld: withheld
                .into_iter()
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

impl Sink for Analysis {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn needs(&self) -> Capabilities {
        self.machine.needs() | self.linter.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = Some(source.clone());
        self.machine.begin(source)?;
        self.linter.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.sites.define_site(id, site.clone()),
            Definition::Name(id, name) => self.sites.define_name(id, name.to_owned()),
        }
        self.machine.define(definition)?;
        self.linter.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.counts.push(batch)?;
        self.linter.push(batch)?;
        self.machine.push(batch)
    }

    fn pause(&mut self) -> Result<(), SinkError> {
        self.machine.pause()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.linter.finish()?;
        self.machine.finish()
    }
}
