//! What one access asks of memory, written down in order to be timed.

use crate::Time;
use crate::below::{Backend, Write};
use crate::memory_side::MemorySide;

/// The requests of the access that is being carried out, and how many there were in all.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Where they are going to go, with queues that may be full already.
    pub(crate) memory: MemorySide,
    /// When the lines that the access evicts leave the LLC.
    pub(crate) now: Time,
    /// Whether the access reads a line. Never more than one: an access is to one line.
    pub(crate) reads: bool,
    /// Lines that leave the caches or the combining buffers because of it, in this order.
    pub(crate) writes: Vec<Write>,
    /// Lines that left a core's caches, with the core's thread and whether they were dirty, if somebody wants to know.
    pub(crate) left: Vec<(u64, u32, bool)>,
    wants_left: bool,
    /// Lines read, from the beginning.
    pub(crate) total_reads: u64,
    /// Lines written, from the beginning.
    pub(crate) total_writes: u64,
}

impl Journal {
    pub(crate) fn new(memory: MemorySide, wants_left: bool) -> Self {
        Journal {
            memory,
            now: Time::ZERO,
            reads: false,
            writes: Vec::new(),
            left: Vec::new(),
            wants_left,
            total_reads: 0,
            total_writes: 0,
        }
    }
}

impl Backend for Journal {
    const TIMED: bool = true;

    fn wait(&mut self, line: u64) -> Time {
        self.memory.wait(self.now, line)
    }

    fn read(&mut self, _line: u64, _site: u32) {
        debug_assert!(!self.reads, "the access before was timed");
        self.reads = true;
        self.total_reads += 1;
    }

    fn left_core(&mut self, line: u64, thread: u32, dirty: bool) {
        if self.wants_left {
            self.left.push((line, thread, dirty));
        }
    }

    fn write(&mut self, write: Write) {
        self.writes.push(write);
        self.total_writes += 1;
    }
}
