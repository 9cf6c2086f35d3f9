//! Which machine judges a run for which the user named none: events wait until it is known whether the program maps persistent
//! memory, for a while.

use std::sync::Arc;

use event::{Batch, BlockBatch, BlockShape, Event, Op, RunSink, Sink, SinkError, ThreadId};
use machine::Machine;

/// Events that wait at most.
const EVENTS_MAX: usize = 1 << 20;

/// Events of one batch.
enum Held {
    Blocks { thread: ThreadId, time_ns: u64, words: Vec<u64>, events: Vec<Event>, count: usize, carry: u32 },
    Plain { thread: ThreadId, time_ns: u64, events: Vec<Event>, values: Vec<u8> },
}

/// The other machine, and what waits.
pub(super) struct Waiting {
    /// For a program that maps no persistent memory.
    pub(super) ordinary: Machine,
    shapes: Vec<Arc<BlockShape>>,
    held: Vec<Held>,
    events: usize,
    mapped: bool,
}

impl Waiting {
    pub(super) fn new(ordinary: Machine) -> Self {
        Waiting { ordinary, shapes: Vec::new(), held: Vec::new(), events: 0, mapped: false }
    }

    /// Keeps a batch; whether it is decided now.
    pub(super) fn blocks(&mut self, batch: BlockBatch<'_>) -> bool {
        if batch.shapes.len() > self.shapes.len() {
            self.shapes = batch.shapes.to_vec();
        }
        let BlockBatch { thread, time_ns, words, events, count, carry, .. } = batch;
        let (words, own) = (words.to_vec(), events.to_vec());
        self.held.push(Held::Blocks { thread, time_ns, words, events: own, count, carry });
        self.decided(events, count)
    }

    /// Keeps a batch; whether it is decided now.
    pub(super) fn plain(&mut self, batch: Batch<'_>) -> bool {
        let Batch { thread, time_ns, events, values } = batch;
        self.held.push(Held::Plain { thread, time_ns, events: events.to_vec(), values: values.to_vec() });
        self.decided(events, events.len())
    }

    fn decided(&mut self, events: &[Event], count: usize) -> bool {
        self.mapped |= maps(events);
        self.events += count;
        self.mapped || self.events > EVENTS_MAX
    }

    /// Puts the machine that judges in the place of the one for persistent memory, and gives it what waited; whether it is
    /// still that one.
    pub(super) fn release(self, machine: &mut Machine) -> Result<bool, SinkError> {
        if !self.mapped {
            *machine = self.ordinary;
        }
        for held in &self.held {
            match held {
                Held::Blocks { thread, time_ns, words, events, count, carry } => {
                    machine.push_blocks(BlockBatch {
                        thread: *thread,
                        time_ns: *time_ns,
                        shapes: &self.shapes,
                        words,
                        events,
                        count: *count,
                        carry: *carry,
                    })?
                }
                Held::Plain { thread, time_ns, events, values } => {
                    machine.push(Batch { thread: *thread, time_ns: *time_ns, events, values })?;
                }
            }
        }
        Ok(self.mapped)
    }
}

/// Whether one of the events maps persistent memory.
pub(super) fn maps(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event.op, Op::Map { .. }))
}
