//! Persistency hardware on transactions: what both studies of it measure.

pub(crate) mod strand;

use event::{Batch, Event, Sink, SinkError, Source, ThreadId};
use hardware::{Language, Mapped, Mapping, Named};
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
}

impl Case {
    /// Runs it on a design; `set` changes the machine.
    pub(crate) fn on(&self, lab: &Lab, design: &str, set: &[(&str, &str)]) -> Result<Ran, StudyError> {
        lab.transactions(format!("{self:?} {design} {set:?}"), || self.measure(lab, design, set))
    }

    fn measure(&self, lab: &Lab, design: &str, set: &[(&str, &str)]) -> Result<Ran, StudyError> {
        let named = Named::find(design)?;
        let config = named.on(&lab.config(self.machine, None)?)?.with_overrides(set)?;
        let mapping = if named.logs_in_software { Mapping::Log(self.language) } else { Mapping::Hardware };
        let name = format!("{:?} {:?} {} {}", self.kind, self.keys, self.threads, self.operations);
        let recording = lab.recording(name, || self.record())?;
        let mut mapped = Mapped::new(Simulation::new(&config)?, mapping);
        mapped.begin(&recording.source)?;
        for (thread, events) in &recording.batches {
            mapped.push(Batch { thread: *thread, time_ns: 0, events, values: &[] })?;
        }
        mapped.finish()?;
        let elapsed: Time = mapped.inner.figures().elapsed;
        mapped.inner.drain();
        let figures = mapped.inner.figures();
        let stalls = |thread: &machine::ThreadTiming| thread.stalls.total().ns() - thread.stalls.sync.ns();
        Ok(Ran {
            ns: elapsed.ns(),
            stalled: figures.threads.iter().map(stalls).sum(),
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
