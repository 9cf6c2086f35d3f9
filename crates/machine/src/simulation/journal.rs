//! What one access asks of memory, written down in order to be timed.

use crate::hierarchy::Backend;
use crate::memory::Write;

/// The requests of the access that is being carried out, and how many there were in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    /// Whether the access reads a line. Never more than one: an access is to one line.
    pub(crate) reads: bool,
    /// Lines that leave the caches or the combining buffers because of it, in this order.
    pub(crate) writes: Vec<Write>,
    /// Lines read, from the beginning.
    pub(crate) total_reads: u64,
    /// Lines written, from the beginning.
    pub(crate) total_writes: u64,
}

impl Backend for Journal {
    fn read(&mut self, _line: u64, _site: u32) {
        debug_assert!(!self.reads, "the access before was timed");
        self.reads = true;
        self.total_reads += 1;
    }

    fn write(&mut self, write: Write) {
        self.writes.push(write);
        self.total_writes += 1;
    }
}
