//! Memory that does not survive: the words in it that hold an address in persistent memory, and flushes of
//! their lines.

use std::collections::HashMap;

use event::ThreadId;
use event::map::Map;

use super::lines::LINE;
use crate::Place;
use crate::history::Ranges;

/// What is known of memory that does not survive.
#[derive(Debug, Default)]
pub(super) struct Volatile {
    /// Aligned words that hold an address in persistent memory.
    pointers: Map<u64, u64>,
    /// What each thread flushed last of such memory, since its last fence.
    flushed: HashMap<ThreadId, Flushed>,
}

/// A flush of a line, or of several that lie one behind the other: what one call of a persist function
/// flushes.
#[derive(Debug)]
struct Flushed {
    line: u64,
    /// Where the pointers of its first line lead, as many lines further on.
    targets: Vec<Place>,
    /// Whether it was meant for what is there.
    meant: bool,
}

/// Where the flush of a line that holds a pointer should have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub place: Place,
    /// Whether that is certain: the flush names the pointer itself, not only its line.
    pub exact: bool,
    /// Whether a flush of the line before began the call.
    pub further: bool,
}

impl Volatile {
    /// A store to memory that does not survive.
    pub fn store(&mut self, thread: ThreadId, addr: u64, bytes: &[u8], ranges: &mut Ranges) {
        let mut word = addr & !7;
        let end = addr.saturating_add(bytes.len() as u64);
        while word < end {
            let at = word.checked_sub(addr).map(|at| at as usize);
            let value = at.and_then(|at| bytes.get(at..at + 8)).and_then(|bytes| bytes.try_into().ok());
            let value = u64::from_le_bytes(value.unwrap_or_default());
            if value != 0 && ranges.place(thread, value).is_some() {
                self.pointers.insert(word, value);
            } else if !self.pointers.is_empty() {
                self.pointers.remove(&word);
            }
            let Some(next) = word.checked_add(8) else { return };
            word = next;
        }
    }

    /// A flush of such memory: where it should have gone, if it was meant for what pointers in the line lead
    /// to.
    pub fn flush(&mut self, thread: ThreadId, addr: u64, ranges: &mut Ranges) -> Vec<Target> {
        let line = addr & !(LINE - 1);
        let mut found = Vec::new();
        let last = self.flushed.remove(&thread);
        // The call goes on behind the pointer, and was meant to go on behind what it leads to.
        let further = last.filter(|last| last.line.checked_add(LINE) == Some(line));
        for (last, &place) in
            further.iter().flat_map(|last| last.targets.iter().map(move |place| (last, place)))
        {
            found.push(Target { place: Place(place.line().0 + LINE), exact: last.meant, further: true });
        }
        for word in (line..=line | (LINE - 8)).step_by(8) {
            let value = self.pointers.get(&word).copied();
            let place = value.and_then(|value| ranges.place(thread, value));
            // A persist function begins at the line's first word, whichever was meant.
            let exact = word == addr && addr != line;
            found.extend(place.map(|(place, _)| Target { place, exact, further: false }));
        }
        if found.iter().any(|target| target.exact) {
            found.retain(|target| target.exact);
        }
        let targets = found.iter().map(|target| target.place).collect();
        self.flushed.insert(thread, Flushed { line, targets, meant: false });
        found
    }

    /// The thread's last flush was meant for what pointers lead to.
    pub fn means(&mut self, thread: ThreadId) {
        if let Some(last) = self.flushed.get_mut(&thread) {
            last.meant = true;
        }
    }

    /// The thread fenced: the call that flushed is over.
    pub fn fence(&mut self, thread: ThreadId) {
        self.flushed.remove(&thread);
    }
}
