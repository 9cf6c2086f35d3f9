//! Persist queues and strand buffers (Gogte, thesis, section 5.3), with its open corners decided.
//!
//! - A flush carries its line's data from when it enters the persist queue. Taken from the cache when it leaves, it could carry a later store that
//!   must come behind a flush still waiting (`A=1; PB; B=1; PB; A=2`): [`Flaw::LateData`].
//! - A flush waits for earlier flushes of its line in all strand buffers, or a strand's barrier would not order behind what the line's
//!   earlier store was ordered behind: [`Flaw::NoSameLine`].
//! - Full buffers stall the queue, a full queue the core. A new strand moves on round-robin, onto a buffer that may hold older strands: barriers
//!   there order more than they must.
//! - Evictions and read-exclusive requests wait until the core's strand buffers are empty, which is as far as their recorded tails
//!   at the latest.

use super::{Flaw, Instruction, Lines, Machine, Values, Version};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Item {
    Flush(usize, Version),
    Barrier,
    New,
    Join,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Core {
    queue: Vec<Item>,
    buffers: Vec<Vec<Item>>,
    current: usize,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Strands {
    lines: Lines,
    /// Who stored to each location last.
    owners: Vec<usize>,
    cores: Vec<Core>,
    entries: usize,
    flaw: Flaw,
}

/// Entries of a persist queue [published].
const QUEUE: usize = 16;

impl Core {
    fn is_drained(&self) -> bool {
        self.buffers.iter().all(Vec::is_empty)
    }
}

impl Strands {
    pub(super) fn new(locations: usize, threads: usize, buffers: usize, entries: usize, flaw: Flaw) -> Self {
        let core = Core { queue: Vec::new(), buffers: vec![Vec::new(); buffers], current: 0 };
        Strands {
            lines: Lines::new(locations),
            owners: vec![usize::MAX; locations],
            cores: vec![core; threads],
            entries,
            flaw,
        }
    }

    /// Whether the core's stores wait: for a join to complete, or a barrier's flushes to be in the strand buffers.
    fn holds_stores(&self, thread: usize) -> bool {
        self.cores[thread].queue.iter().any(|item| matches!(item, Item::Join | Item::Barrier))
    }

    /// Whether an earlier version of the line is in a strand buffer.
    fn has_earlier(&self, at: usize, version: Version) -> bool {
        self.cores.iter().flat_map(|core| core.buffers.iter().flatten()).any(|item| {
            matches!(item, Item::Flush(other, earlier) if *other == at && earlier.number < version.number)
        })
    }
}

impl Machine for Strands {
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        let core = &mut after.cores[thread];
        if core.queue.len() >= QUEUE {
            return None;
        }
        match instruction {
            Instruction::Store(at, value) => {
                let owner = self.owners[at];
                let snoops = owner != usize::MAX && owner != thread && !self.cores[owner].is_drained();
                if self.holds_stores(thread) || snoops {
                    return None;
                }
                let version = after.lines.store(at, value);
                after.owners[at] = thread;
                after.cores[thread].queue.push(Item::Flush(at, version));
            }
            Instruction::Barrier => core.queue.push(Item::Barrier),
            Instruction::New => core.queue.push(Item::New),
            Instruction::Join => core.queue.push(Item::Join),
            Instruction::Lock(_) | Instruction::Unlock(_) if core.queue.contains(&Item::Join) => return None,
            _ => {}
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for at in self.lines.dirty() {
            let owner = self.owners[at];
            if self.cores[owner].is_drained() {
                let mut after = self.clone();
                after.lines.persist(at, self.lines.visible[at]);
                all.push(after);
            }
        }
        for (thread, core) in self.cores.iter().enumerate() {
            if let Some(&item) = core.queue.first() {
                let has_room = core.buffers[core.current].len() < self.entries;
                let goes = match item {
                    Item::Flush(..) | Item::Barrier => has_room,
                    Item::New => true,
                    Item::Join => core.is_drained(),
                };
                if goes {
                    let mut after = self.clone();
                    let core = &mut after.cores[thread];
                    core.queue.remove(0);
                    match item {
                        // A barrier with nothing before it holds up nothing.
                        Item::Barrier if core.buffers[core.current].is_empty() => {}
                        Item::Flush(..) | Item::Barrier => core.buffers[core.current].push(item),
                        Item::New => core.current = (core.current + 1) % core.buffers.len(),
                        Item::Join => {}
                    }
                    all.push(after);
                }
            }
            for (number, buffer) in core.buffers.iter().enumerate() {
                for place in 0..buffer.len() {
                    let Item::Flush(at, version) = buffer[place] else { break };
                    if self.flaw != Flaw::NoSameLine && self.has_earlier(at, version) {
                        continue;
                    }
                    let mut after = self.clone();
                    let data = if self.flaw == Flaw::LateData { self.lines.visible[at] } else { version };
                    after.lines.persist(at, data);
                    let buffer = &mut after.cores[thread].buffers[number];
                    buffer.remove(place);
                    while buffer.first() == Some(&Item::Barrier) {
                        buffer.remove(0);
                    }
                    all.push(after);
                }
            }
        }
        all
    }

    fn recovered(&self) -> Values {
        self.lines.values()
    }
}
