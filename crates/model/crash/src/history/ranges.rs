//! Which addresses are which places.

use std::collections::HashMap;

use event::{Op, RangeValue, ThreadId};

use crate::Place;

/// Mapped ranges of persistent files, by process.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    first: Space,
    /// Of the other processes.
    others: HashMap<u32, Space>,
    /// The processes of their threads.
    processes: HashMap<ThreadId, u32>,
    /// What was mapped when a thread was made: if it turns out to be a process, that is what it begins with.
    made: HashMap<ThreadId, Space>,
}

impl Ranges {
    fn of(&mut self, thread: ThreadId) -> &mut Space {
        if self.processes.is_empty() {
            return &mut self.first;
        }
        match self.processes.get(&thread) {
            Some(process) => self.others.entry(*process).or_default(),
            None => &mut self.first,
        }
    }

    /// The thread makes another.
    pub fn spawn(&mut self, thread: ThreadId, child: ThreadId) {
        let space = self.of(thread).clone();
        self.made.insert(child, space);
    }

    /// The thread is one of this process.
    pub fn enter(&mut self, thread: ThreadId, process: u32) {
        let made = self.made.remove(&thread);
        if process == 0 {
            return;
        }
        self.processes.insert(thread, process);
        self.others.entry(process).or_insert_with(|| made.unwrap_or_else(|| self.first.clone()));
    }

    /// Maps `len` bytes from `addr` on to a file's bytes from `place` on.
    pub fn map(&mut self, thread: ThreadId, addr: u64, len: u64, place: Place) {
        self.of(thread).map(addr, len, place);
    }

    /// Takes away what is mapped there; what sticks out on either side stays.
    pub fn unmap(&mut self, thread: ThreadId, addr: u64, len: u64) {
        self.of(thread).unmap(addr, len);
    }

    /// The range that begins at `addr` begins at this place.
    pub fn relocate(&mut self, thread: ThreadId, addr: u64, offset: u64) -> Option<(Place, u64)> {
        self.of(thread).change(addr, |place| Place::new(place.file(), offset))
    }

    /// The place of `addr`, and how many bytes from there on are mapped in one piece.
    pub fn place(&mut self, thread: ThreadId, addr: u64) -> Option<(Place, u64)> {
        self.of(thread).get(addr)
    }

    /// The places of `len` bytes from `addr` on, which may span several mappings that lie one behind the other.
    pub fn places(&mut self, thread: ThreadId, addr: u64, len: u64) -> Vec<(Place, u64)> {
        let end = addr.saturating_add(len);
        let (mut addr, mut places) = (addr, Vec::new());
        while addr < end
            && let Some((place, mapped)) = self.place(thread, addr)
        {
            places.push((place, mapped.min(end - addr)));
            addr = addr.saturating_add(mapped);
        }
        places
    }

    /// A synchronisation with its variable's place, if that is in a file: processes may have mapped it at several addresses.
    pub fn placed(&mut self, thread: ThreadId, mut op: Op) -> Op {
        if let Op::Acquire { var, .. }
        | Op::Release { var, .. }
        | Op::Lock { lock: var, .. }
        | Op::Unlock { lock: var, .. } = &mut op
            && let Some((place, _)) = self.place(thread, *var)
        {
            // No address of a program looks like this.
            *var = !place.0;
        }
        op
    }
}

/// Mapped ranges of one process.
type Space = event::Ranges<Place>;

impl RangeValue for Place {
    fn after(self, bytes: u64) -> Self {
        Place(self.0 + bytes)
    }

    /// A mapping keeps its bounds: it is named by its first address.
    fn joins(self, _bytes: u64, _next: Self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_memories_of_their_own() {
        let [parent, child, friend] = [0, 1, 2].map(ThreadId);
        let mut ranges = Ranges::default();
        ranges.map(parent, 0x1000, 0x1000, Place::new(1, 0));
        ranges.spawn(parent, child);
        ranges.map(parent, 0x2000, 0x1000, Place::new(2, 0));
        ranges.enter(child, 1);
        assert_eq!(ranges.place(child, 0x1008), Some((Place::new(1, 8), 0xFF8)));
        assert_eq!(ranges.place(child, 0x2000), None);
        ranges.unmap(child, 0x1000, 0x1000);
        ranges.map(child, 0x2000, 0x1000, Place::new(3, 0));
        ranges.spawn(child, friend);
        ranges.enter(friend, 1);
        ranges.map(friend, 0x1000, 0x1000, Place::new(4, 0));
        for (thread, files) in [(parent, [1, 2]), (child, [4, 3]), (friend, [4, 3])] {
            for (addr, file) in [0x1000, 0x2000].into_iter().zip(files) {
                assert_eq!(ranges.place(thread, addr), Some((Place::new(file, 0), 0x1000)));
            }
        }
    }
}
