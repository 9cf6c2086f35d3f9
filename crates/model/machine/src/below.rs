//! What the caches hand down: reads of lines that no cache has, and lines that leave.

use crate::Time;

/// What takes the requests that the caches cannot answer: the memories themselves where only traffic counts, or a
/// list of what is to be timed.
pub(crate) trait Backend {
    /// Whether it knows how long lines wait, so that the LLC can go by that.
    const TIMED: bool = false;

    /// How long `line`, evicted now, would wait before it can leave.
    fn wait(&mut self, _line: u64) -> Time {
        Time::ZERO
    }

    /// `line` left the private caches of the core on which `thread` runs.
    fn left_core(&mut self, _line: u64, _thread: u32, _dirty: bool) {}

    /// `site` missed on `line`.
    fn read(&mut self, line: u64, site: u32);

    /// A line leaves the caches or the combining buffers.
    fn write(&mut self, write: Write);
}

/// Why a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A cache needed the room.
    Eviction,
    /// The program asked: a flush, or the end-of-run drain.
    Request,
    /// Non-temporal stores, to all of the line or less.
    NonTemporal {
        /// All of it.
        whole: bool,
    },
}

/// A line on its way to memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) line: u64,
    /// Who stored to it last.
    pub(crate) site: u32,
    /// The thread that did.
    pub(crate) thread: u32,
    pub(crate) cause: Cause,
}
