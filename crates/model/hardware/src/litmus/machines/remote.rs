//! One-sided writes into another machine's persistent memory.
//!
//! A connection is a queue in the order of posting: the sender's NIC, the wire, the receiver's NIC. A write completes for the sender when the
//! receiver's NIC has it, which says nothing of memory; so `wait` waits only for reads and flushes. The receiver's NIC places writes in their order:
//! with data direct I/O into its cache, from where they go to memory when they are evicted, else into memory. A read passes no write before
//! it, so its completion says that these are placed. A flush completes when they are durable.

use super::{Instruction, Lines, Machine, Values, Version};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Posted {
    Write(usize, Version),
    Read,
    Flush,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Remote {
    /// `visible` numbers what was posted; `memory` is what survives.
    lines: Lines,
    /// What the receiver's cache has.
    cached: Vec<Version>,
    /// Per thread, its connection; `None` once broken.
    connections: Vec<Option<Vec<Posted>>>,
    /// Locations that a connection has written.
    written: Vec<Vec<usize>>,
    ddio: bool,
}

impl Remote {
    pub(super) fn new(locations: usize, threads: usize, ddio: bool) -> Self {
        Remote {
            lines: Lines::new(locations),
            cached: vec![Version::default(); locations],
            connections: vec![Some(Vec::new()); threads],
            written: vec![Vec::new(); threads],
            ddio,
        }
    }
}

impl Machine for Remote {
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        let connection = &mut after.connections[thread];
        match instruction {
            Instruction::Write(at, value) => {
                if let Some(queue) = connection {
                    queue.push(Posted::Write(at, after.lines.store(at, value)));
                    after.written[thread].push(at);
                }
            }
            Instruction::Read => connection.iter_mut().for_each(|queue| queue.push(Posted::Read)),
            Instruction::Flush => connection.iter_mut().for_each(|queue| queue.push(Posted::Flush)),
            Instruction::Wait => {
                let waits = connection.iter().flatten().any(|posted| !matches!(posted, Posted::Write(..)));
                return (!waits).then_some(after);
            }
            Instruction::Break => *connection = None,
            Instruction::Ack(at, value) => {
                let version = after.lines.store(at, value);
                after.lines.persist(at, version);
            }
            _ => {}
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for (thread, queue) in self.connections.iter().enumerate() {
            // Nothing passes a write, but writes pass reads and flushes.
            let queue = queue.as_deref().unwrap_or_default();
            let first = queue.iter().position(|posted| matches!(posted, Posted::Write(..)));
            let reached = first.map_or(queue.len(), |first| first + 1);
            for (place, &posted) in queue[..reached].iter().enumerate() {
                all.push(self.carried_out(thread, place, posted));
            }
        }
        for at in (0..self.cached.len()).filter(|&at| self.cached[at].number > self.lines.memory[at].number) {
            let mut after = self.clone();
            after.lines.persist(at, self.cached[at]);
            all.push(after);
        }
        all
    }

    fn recovered(&self) -> Values {
        self.lines.values()
    }
}

impl Remote {
    /// The receiver's NIC carries out what stands at a place of a connection's queue.
    fn carried_out(&self, thread: usize, place: usize, posted: Posted) -> Self {
        let mut after = self.clone();
        if let Some(queue) = &mut after.connections[thread] {
            queue.remove(place);
        }
        match posted {
            Posted::Write(at, version) if self.ddio => {
                if version.number > after.cached[at].number {
                    after.cached[at] = version;
                }
            }
            Posted::Write(at, version) => after.lines.persist(at, version),
            Posted::Read => {}
            Posted::Flush => {
                for at in self.written[thread].clone() {
                    let cached = after.cached[at];
                    after.lines.persist(at, cached);
                }
            }
        }
        after
    }
}
