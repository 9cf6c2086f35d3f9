//! Lines that go from thread to thread.

use std::collections::HashMap;

const LINES_MAX: usize = 4096;
const PARTIES_MAX: usize = 8;

/// What one thread did to a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Party {
    pub(crate) thread: u32,
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) site: u32,
    pub(crate) accesses: u64,
}

/// One line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contest {
    pub(crate) parties: Vec<Party>,
    pub(crate) accesses: u64,
    pub(crate) moves: u32,
    /// Of these, those where bytes of the one before were touched.
    pub(crate) true_moves: u32,
    /// Whether a variable on it synchronises.
    pub(crate) sync: bool,
    /// Allocation site and offset of the line in its block.
    pub(crate) block: Option<(u32, u64)>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contests(pub(crate) HashMap<u64, Contest>);

impl Contests {
    pub(crate) fn get(&mut self, line: u64) -> Option<&mut Contest> {
        if self.0.len() >= LINES_MAX && !self.0.contains_key(&line) {
            return None;
        }
        Some(self.0.entry(line).or_default())
    }
}

impl Contest {
    /// An access by a thread.
    pub(crate) fn access(&mut self, thread: u32, store: bool, mask: u64, site: u32) {
        self.accesses += 1;
        let at = self.parties.iter().position(|party| party.thread == thread);
        let party = match at {
            Some(at) => &mut self.parties[at],
            None if self.parties.len() < PARTIES_MAX => {
                self.parties.push(Party { thread, read: 0, written: 0, site, accesses: 0 });
                let last = self.parties.len() - 1;
                &mut self.parties[last]
            }
            None => return,
        };
        party.accesses += 1;
        if store {
            party.written |= mask;
            party.site = site;
        } else {
            party.read |= mask;
        }
    }
}
