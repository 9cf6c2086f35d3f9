//! Counts of what blocks did: the events that nobody made.
//!
//! What all executions of a plain shape have in common is counted once, at the end. Counted as they go by are accesses that
//! were left out, lengths that an execution states, and the instructions between a block and what follows it.

use event::{AccessKind, BlockAccess, BlockBatch, BlockShape, Counts, Event};

/// A plain shape.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// See [`BlockShape::after`].
    after: u32,
    /// If its access states its length: the bytes of all executions, and the instructions to add.
    bytes: u64,
    more: u64,
}

/// An access of a plain shape.
#[derive(Clone, Copy, Debug)]
struct Access {
    kind: AccessKind,
    len: u32,
    instructions: u32,
    /// Executions of its shape that left it out.
    skipped: u64,
}

/// Counts of blocks, and of events between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    shapes: Vec<Shape>,
    accesses: Vec<Access>,
    /// What is not in `shapes`.
    pub(crate) events: Counts,
    /// Instructions carried into runs, less those carried out of them, which the shapes count: modulo 2^64.
    carried: u64,
}

impl Tallies {
    /// Takes in a shape; with no accesses if it is not plain.
    pub(crate) fn learn(&mut self, accesses: &[BlockAccess], after: u32) {
        self.shapes.push(Shape { after, bytes: 0, more: 0 });
        self.accesses.extend(accesses.iter().map(|&BlockAccess { kind, len, instructions, .. }| Access {
            kind,
            len: len.unwrap_or(0),
            instructions,
            skipped: 0,
        }));
    }

    /// An execution of the shape with this number stated its length.
    pub(crate) fn add(&mut self, number: usize, len: u32, more: u32) {
        let shape = &mut self.shapes[number];
        shape.bytes += u64::from(len);
        shape.more += u64::from(more);
    }

    /// An execution left out the access at this index among all plain shapes'.
    #[inline(always)]
    pub(crate) fn skip(&mut self, at: u32) {
        self.accesses[at as usize].skipped += 1;
    }

    /// How many executions did so.
    pub(crate) fn skipped(&self, at: usize) -> u64 {
        self.accesses[at].skipped
    }

    /// Bytes that so many executions of an access touched: at this index, of the shape with this number.
    pub(crate) fn bytes(&self, number: usize, at: usize, times: u64) -> u64 {
        times * u64::from(self.accesses[at].len) + self.shapes[number].bytes
    }

    /// The events of a block that is not plain, without what was carried to it.
    pub(crate) fn expand(&mut self, shape: &BlockShape, block: &[u64]) -> Vec<Event> {
        let (mut events, mut carry) = (Vec::new(), 0);
        shape.accesses(block, &mut carry, |access, addr, len, instructions| {
            events.push(Event { op: access.op(addr, len), site: access.site, instructions });
        });
        events.iter().for_each(|event| self.events.add(event));
        self.events.instructions += u64::from(carry);
        events
    }

    /// Counts the instructions that are carried into the blocks of a batch, and not those that are carried out of them, to an
    /// event or to the next batch.
    pub(crate) fn carry(&mut self, batch: &BlockBatch<'_>) {
        self.carried = self.carried.wrapping_add(batch.carry.into()).wrapping_sub(batch.carry_after().into());
    }

    /// All counts, if shapes were executed so many times, each with its number of accesses.
    pub(crate) fn counts(&self, executions: impl Iterator<Item = (usize, u64)>) -> Counts {
        let mut counts = self.events;
        counts.instructions = counts.instructions.wrapping_add(self.carried);
        let mut accesses = &self.accesses[..];
        for (shape, (count, executions)) in self.shapes.iter().zip(executions) {
            let (own, rest) = accesses.split_at(count);
            accesses = rest;
            for access in own {
                let times = executions - access.skipped;
                let (of_kind, of_bytes) = match access.kind {
                    AccessKind::Load => (&mut counts.loads, &mut counts.load_bytes),
                    AccessKind::Store => (&mut counts.stores, &mut counts.store_bytes),
                    AccessKind::StoreNt => (&mut counts.nt_stores, &mut counts.nt_bytes),
                };
                *of_kind += times;
                *of_bytes += times * u64::from(access.len) + shape.bytes;
                counts.events += times;
                let instructions = times * u64::from(access.instructions) + shape.more;
                counts.instructions = counts.instructions.wrapping_add(instructions);
            }
            if let Some(last) = own.last() {
                let after = (executions - last.skipped) * u64::from(shape.after);
                counts.instructions = counts.instructions.wrapping_add(after);
            }
        }
        counts
    }
}
