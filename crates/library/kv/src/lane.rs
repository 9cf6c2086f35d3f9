//! Lanes: where threads write records, each in one of its own as far as there are enough.

use std::collections::HashMap;

use region::Ticket;

/// What a thread that writes records has at hand.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The log that is appended to.
    pub(crate) log: Option<Open>,
    /// Where batches are made durable before they are made.
    pub(crate) journal: Option<Open>,
    /// Free slots, by their size.
    pub(crate) slots: HashMap<u64, Vec<u64>>,
    /// What was written and is to be durable when somebody waits for it: begin and end.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// Logs that are full, and get their ends written down when everything in them is durable.
    pub(crate) full: Vec<(u32, Ticket)>,
    /// Where records are put together.
    pub(crate) buffer: Vec<u8>,
}

/// A log that is appended to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) chunk: u32,
    pub(crate) generation: u64,
    /// Where the next record goes.
    pub(crate) at: u64,
    pub(crate) end: u64,
    /// What is known to be durable, as the chunk's head says.
    pub(crate) marked: u64,
    /// How far the log was when a ticket was taken, and that ticket: it is marked when that is due.
    pub(crate) next_mark: Option<(u64, Ticket)>,
}

impl Lane {
    /// Has the bytes written back when somebody waits.
    pub(crate) fn note(&mut self, offset: u64, len: u64) {
        match self.ranges.last_mut() {
            Some((_, end)) if *end == offset => *end = offset + len,
            _ => self.ranges.push((offset, offset + len)),
        }
    }
}
