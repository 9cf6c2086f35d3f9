//! Exact counts: every line that the modelled hierarchy writes to memory.

use event::{Batch, BlockBatch, Capabilities, Definition, Event, RunSink, Sink, SinkError, Source};
use machine::{Config, ConfigError, LINE_BYTES, Machine, PERSISTENT};

use super::Tally;
use super::allocations::Allocations;

/// What watches a machine's writes, whoever runs the machine.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    tally: Tally,
    allocations: Allocations,
}

impl Watch {
    /// Makes `machine` keep the log that this reads.
    pub fn begin(&mut self, machine: &mut Machine) {
        machine.watch_writes();
    }

    /// Learns allocations from the events of a batch, before the machine runs it.
    pub fn note(&mut self, events: &[Event]) {
        self.allocations.note(events);
    }

    /// Takes what the machine wrote since the last call.
    pub fn collect(&mut self, machine: &mut Machine, time_ns: u64) {
        let Watch { tally, allocations } = self;
        if let Some(log) = machine.writes() {
            tally.take(log, time_ns, |line, _| allocations.written(line * LINE_BYTES));
        }
    }

    /// The counts.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Allocation sites by the lines written to what they allocated.
    #[must_use]
    pub fn allocation_sites(&self) -> Vec<(u32, u64)> {
        self.allocations.sites()
    }
}

/// A machine with its writes counted. At the end of the stream what its caches still hold is written, too.
#[derive(Clone, Debug)]
pub struct Exact {
    machine: Machine,
    watch: Watch,
    time_ns: u64,
}

impl Exact {
    /// On the machine that `config` describes.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let (mut machine, mut watch) = (Machine::new(config)?, Watch::default());
        watch.begin(&mut machine);
        Ok(Exact { machine, watch, time_ns: 0 })
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// As [`Sink::push`]; the lines that the machine wrote, with their sites, go to `into` as well, in order.
    ///
    /// # Errors
    /// If the machine can't go on.
    pub fn push_logged(&mut self, batch: Batch<'_>, into: &mut Vec<(u64, u32)>) -> Result<(), SinkError> {
        self.machine.push(batch)?;
        self.log_to(into);
        Ok(())
    }

    /// As [`Sink::finish`], with the lines that the caches still held.
    ///
    /// # Errors
    /// If the machine's books do not balance.
    pub fn finish_logged(&mut self, into: &mut Vec<(u64, u32)>) -> Result<(), SinkError> {
        self.machine.drain();
        self.log_to(into);
        self.machine.finish()
    }

    fn log_to(&mut self, into: &mut Vec<(u64, u32)>) {
        if let Some(log) = self.machine.writes() {
            into.extend(log.lines.iter().map(|&(line, site)| (line & !PERSISTENT, site)));
        }
        self.watch.collect(&mut self.machine, self.time_ns);
    }

    /// What it wrote.
    #[must_use]
    pub fn watch(&self) -> &Watch {
        &self.watch
    }
}

impl Sink for Exact {
    fn name(&self) -> &'static str {
        "wear"
    }

    fn needs(&self) -> Capabilities {
        self.machine.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.machine.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.machine.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.watch.note(batch.events);
        self.time_ns = self.time_ns.max(batch.time_ns);
        self.machine.push(batch)?;
        self.watch.collect(&mut self.machine, self.time_ns);
        Ok(())
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.machine.drain();
        self.watch.collect(&mut self.machine, self.time_ns);
        self.machine.finish()
    }
}

impl RunSink for Exact {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        self.watch.note(batch.events);
        self.time_ns = self.time_ns.max(batch.time_ns);
        self.machine.push_blocks(batch)?;
        self.watch.collect(&mut self.machine, self.time_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::BASE_PAGE;
    use super::*;
    use event::{Event, Op, SiteId, ThreadId};

    fn run(ops: impl IntoIterator<Item = (Op, u32)>) -> Exact {
        let mut exact = Exact::new(&Config::preset("xpoint").expect("a preset")).expect("a machine");
        exact.begin(&Source::synthetic("test")).expect("a source that has all");
        let events: Vec<Event> =
            ops.into_iter().map(|(op, site)| Event { op, site: SiteId(site), instructions: 1 }).collect();
        for events in events.chunks(100) {
            let batch = Batch { thread: ThreadId(0), time_ns: 5, events, values: &[] };
            exact.push(batch).expect("a batch");
        }
        exact.finish().expect("the end");
        exact
    }

    #[test]
    fn a_flushed_hot_line_is_written_each_time() {
        let flush = |addr| Op::Flush { addr, kind: event::FlushKind::Clwb };
        let hot = (0..1000).flat_map(|_| [(Op::Store { addr: 0x5000, len: 8 }, 7), (flush(0x5000), 8)]);
        let cold = (0..10).map(|page| (Op::Store { addr: 0x10_0000 + page * BASE_PAGE, len: 8 }, 9));
        let exact = run(hot.chain(cold));
        let pages = exact.watch().tally().pages(BASE_PAGE, false);
        assert_eq!(pages.len(), 11);
        assert_eq!((pages[0].address, pages[0].writes), (0x5000, 1000));
        assert_eq!(pages[0].sites, [(7, 1000)], "the store wears, the flush does not");
        assert!(pages[1..].iter().all(|page| page.writes == 1 && page.sites == [(9, 1)]));
    }

    #[test]
    fn a_line_that_stays_in_the_cache_is_written_once() {
        let exact = run((0..1000).map(|_| (Op::Store { addr: 0x5000, len: 8 }, 7)));
        assert_eq!(exact.watch().tally().total(), 1);
    }

    #[test]
    fn units_wear_by_what_the_media_writes() {
        let lines =
            |count: u64, step: u64| (0..count).map(move |at| (Op::StoreNt { addr: at * step, len: 64 }, 1));
        let whole = run(lines(4096, 64));
        let scattered = run(lines(4096, 4096));
        let units = |exact: &Exact| {
            exact.watch().tally().pages(BASE_PAGE, false).iter().map(|page| page.units).sum::<u64>()
        };
        assert_eq!((units(&whole), units(&scattered)), (1024, 4096), "four lines a unit, or one");
        let media = |exact: &Exact| exact.machine().figures().volatile.total.media_write_bytes / 256;
        assert_eq!((units(&whole), units(&scattered)), (media(&whole), media(&scattered)));
    }
}
