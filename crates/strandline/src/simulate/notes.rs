//! What a comparison keeps of the events besides the machines.

use event::{Batch, Counts, Definition, Sink, SinkError, SiteTable, Source};

/// The source's header, its names, and how many events there were.
#[derive(Default)]
pub struct Notes {
    /// The header.
    pub source: Option<Source>,
    /// Code sites.
    pub sites: SiteTable,
    /// Events by kind.
    pub counts: Counts,
    /// What a reader has to know before believing the figures: a trace that was cut short, what a recording lost.
    pub warnings: Vec<String>,
}

impl Sink for Notes {
    fn name(&self) -> &'static str {
        "simulate"
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = Some(source.clone());
        Ok(())
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.sites.define_site(id, site.clone()),
            Definition::Name(id, name) => self.sites.define_name(id, name.to_owned()),
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.counts.push(batch)
    }
}
