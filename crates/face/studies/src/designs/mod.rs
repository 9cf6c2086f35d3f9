//! Persistency hardware on transactions: what both studies of it measure.

pub(crate) mod strand;

use std::collections::BTreeSet;

use event::{
    Batch, Definition, Event, FenceKind, NameId, Op, Order, Sink, SinkError, SiteId, Source, ThreadId,
};
use hardware::{Language, Mapped, Mapping, Named, mapping};
use machine::{PersistencyFigures, Simulation, Time};
use workload::Params;
use workload::transactions::{Keys, Kind, Transactions, record};

use crate::{Lab, StudyError};

/// What a run of transactions came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    /// From the first operation to the end, in nanoseconds.
    pub(crate) ns: f64,
    /// In which cores stood still, for whatever but other threads, all cores together, in nanoseconds.
    pub(crate) stalled: f64,
    /// Bytes that memory was written, in all,
    pub(crate) written: u64,
    /// and what designs did by themselves.
    pub(crate) own: PersistencyFigures,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) machine: &'static str,
    pub(crate) kind: Kind,
    pub(crate) keys: Keys,
    pub(crate) threads: u32,
    pub(crate) operations: u64,
    pub(crate) language: Language,
    /// Whether all lines that are touched, and the logs, are in the last-level cache before time is taken.
    pub(crate) warm: bool,
}

impl Case {
    /// Runs it on a design; `set` changes the machine.
    pub(crate) fn on(&self, lab: &Lab, design: &str, set: &[(&str, &str)]) -> Result<Ran, StudyError> {
        lab.transactions(format!("{self:?} {design} {set:?}"), || self.measure(lab, design, set))
    }

    fn measure(&self, lab: &Lab, design: &str, set: &[(&str, &str)]) -> Result<Ran, StudyError> {
        let named = Named::find(design)?;
        let config = named.on(&lab.config(self.machine, None)?)?.with_overrides(set)?;
        let mapped_as = if named.logs_in_software { Mapping::Log(self.language) } else { Mapping::Hardware };
        let name = format!("{:?} {:?} {} {}", self.kind, self.keys, self.threads, self.operations);
        let recording = lab.recording(name, || self.record())?;
        let mut mapped = Mapped::new(Simulation::new(&config)?, mapped_as);
        mapped.begin(&recording.source)?;
        let push = |mapped: &mut Mapped<Simulation>, thread, events: &[Event]| {
            mapped.push(Batch { thread, time_ns: 0, events, values: &[] })
        };
        for (number, (thread, events)) in recording.batches.iter().enumerate() {
            push(&mut mapped, *thread, events)?;
            if number == 0 && self.warm {
                mapped.define(Definition::Name(MEASURED, "measured"))?;
                push(&mut mapped, ThreadId(0), &recording.warm_up(self.threads))?;
                for thread in 1..self.threads {
                    let op = Op::Acquire { var: START, order: Order::Acquire, seq: 0 };
                    push(&mut mapped, ThreadId(thread), &[plain(op)])?;
                }
            }
        }
        mapped.finish()?;
        let elapsed: Time = mapped.inner.figures().elapsed;
        mapped.inner.drain();
        let figures = mapped.inner.figures();
        // Of a run with a warm-up, what comes behind it.
        let measured = figures.phases.last().filter(|_| self.warm);
        let ns = measured.map_or(elapsed.ns(), |phase| elapsed.ns() - phase.begin.ns());
        let waited = |stalls: &machine::Stalls| stalls.total().ns() - stalls.sync.ns();
        let all = || figures.threads.iter().map(|thread| waited(&thread.stalls)).sum();
        Ok(Ran {
            ns,
            stalled: measured.map_or_else(all, |phase| waited(&phase.span.stalls)),
            written: figures.memories[1].total.controller_write_bytes,
            own: figures.persistency,
        })
    }
}

impl Case {
    fn record(&self) -> Result<Recording, StudyError> {
        let params = Params { operations: self.operations, threads: self.threads, seed: 1 };
        let transactions = Transactions { kind: self.kind, keys: self.keys };
        let empty = Recording { source: Source::synthetic("transactions"), batches: Vec::new() };
        Ok(record(transactions, "transactions", &params, empty)?.1)
    }
}

/// The phase that is measured, and the variable by which the other threads wait for it.
const MEASURED: NameId = NameId(1 << 20);
const START: u64 = 8;

fn plain(op: Op) -> Event {
    Event { op, site: SiteId(0), instructions: 1 }
}

impl Recording {
    /// Loads of each line that is touched and of the logs, then the mark.
    fn warm_up(&self, threads: u32) -> Vec<Event> {
        let touched = self.batches.iter().flat_map(|(_, events)| events).filter_map(|event| match event.op {
            Op::Load { addr, .. } | Op::Store { addr, .. } => Some(addr / machine::LINE_BYTES),
            _ => None,
        });
        let touched: BTreeSet<u64> = touched.collect();
        let lines = touched.into_iter().map(|line| line * machine::LINE_BYTES);
        let logs = (0..threads).flat_map(mapping::log_lines);
        let load = |addr| plain(Op::Load { addr, len: 8 });
        let end = [Op::Phase { name: MEASURED }, Op::Release { var: START, order: Order::Release, seq: 0 }];
        lines.chain(logs).map(load).chain([plain(Op::Fence(FenceKind::Full))]).chain(end.map(plain)).collect()
    }
}

/// The events of transactions.
pub(crate) struct Recording {
    source: Source,
    batches: Vec<(ThreadId, Box<[Event]>)>,
}

impl Sink for Recording {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = source.clone();
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.batches.push((batch.thread, batch.events.into()));
        Ok(())
    }
}

/// Their mean.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

pub(crate) fn least(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(crate) fn most(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Counts far below 2^52.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}
