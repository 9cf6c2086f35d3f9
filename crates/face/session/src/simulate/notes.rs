//! What a comparison keeps of the events besides the machines.

use event::{Batch, Counts, Definition, Event, Op, Sink, SinkError, SiteTable, Source};

/// The source's header, its names, and how many events there were.
#[derive(Debug, Default)]
pub struct Notes {
    /// The header.
    pub source: Option<Source>,
    /// Code sites.
    pub sites: SiteTable,
    /// Events by kind.
    pub counts: Counts,
    /// Whether the program mapped persistent memory.
    pub mapped_persistent: bool,
    /// What a reader has to know before believing the figures: a trace that was cut short, what a recording
    /// lost.
    pub warnings: Vec<String>,
}

impl Notes {
    /// Which memory figures are about, if it is not what the program mapped as persistent.
    #[must_use]
    pub fn scope(&self) -> Option<&'static str> {
        (!self.mapped_persistent && self.counts.events > 0).then_some(
            "The program mapped no persistent memory: all of its memory is in a machine's `other_memory`, or, where there is none, \
             as if it were on the machine's device.",
        )
    }

    /// A sentence if only a part of the events was kept.
    #[must_use]
    pub fn sampling(&self) -> Option<String> {
        self.source.as_ref()?.sampling.map(report::of_sampling)
    }
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
        let maps = |event: &Event| matches!(event.op, Op::Map { len, .. } if len > 0);
        self.mapped_persistent = self.mapped_persistent || batch.events.iter().any(maps);
        self.counts.push(batch)
    }
}
