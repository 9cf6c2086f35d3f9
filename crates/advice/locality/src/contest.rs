//! Lines that threads want at the same time.
//!
//! How often a line moved in a recording says little: on few cores, or under observation, threads run one after another.
//! So each thread has a clock of its own that counts its accesses and starts at its creator's, and a line keeps who used it
//! when. Where two threads used a line in the same span of these clocks, it would have moved.

use std::collections::HashMap;

const LINES_MAX: usize = 4096;
const PARTIES_MAX: usize = 8;
const SPANS: usize = 32;

/// What one thread did to a line.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    pub(crate) thread: u32,
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) site: u32,
    pub(crate) accesses: u64,
    /// Accesses by word of 4 bytes.
    pub(crate) words: [u32; 16],
    last: u64,
    /// The critical section that was counted last.
    section: u64,
    /// Visits and, of these, stores by span of time. One critical section is one visit.
    visits: [u32; SPANS],
    stores: [u32; SPANS],
}

/// One line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contest {
    pub(crate) parties: Vec<Party>,
    pub(crate) accesses: u64,
    /// Bytes of variables on it that synchronise.
    pub(crate) sync: u64,
    /// Allocation site, where the line begins in its block, and the block's bytes.
    pub(crate) block: Option<(u32, i64, u64)>,
    shift: u32,
}

/// One visit, or several of them over a span of a thread's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) thread: u32,
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) site: u32,
    pub(crate) count: u32,
    /// First and last moment.
    pub(crate) span: (u64, u64),
    /// Number of the critical section, 0 if none.
    pub(crate) section: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contests(pub(crate) HashMap<u64, Contest>);

impl Contests {
    pub(crate) fn open(&mut self, line: u64) -> Option<&mut Contest> {
        if self.0.len() >= LINES_MAX && !self.0.contains_key(&line) {
            // Lines that were handed over once make room.
            self.0.retain(|_, contest| contest.moves() > 4);
            if self.0.len() >= LINES_MAX {
                return None;
            }
        }
        Some(self.0.entry(line).or_default())
    }
}

impl Contest {
    /// Whether a thread other than this one was here at or after a moment.
    pub(crate) fn wanted_since(&self, thread: u32, since: u64) -> bool {
        self.parties.iter().any(|party| party.thread != thread && party.last >= since)
    }

    /// Counts a visit.
    pub(crate) fn visit(&mut self, visit: Visit) {
        self.accesses += u64::from(visit.count);
        while visit.span.1 >> self.shift >= SPANS as u64 {
            self.coarser();
        }
        let at = match self.parties.iter().position(|party| party.thread == visit.thread) {
            Some(at) => at,
            None if self.parties.len() < PARTIES_MAX => {
                self.parties.push(Party::new(visit.thread, visit.site));
                self.parties.len() - 1
            }
            None => return,
        };
        let party = &mut self.parties[at];
        party.accesses += u64::from(visit.count);
        party.last = party.last.max(visit.span.1);
        if visit.written != 0 {
            party.site = visit.site;
        }
        party.read |= visit.read;
        party.written |= visit.written;
        let touched = visit.read | visit.written;
        for (word, count) in party.words.iter_mut().enumerate() {
            if touched >> (word * 4) & 0xf != 0 {
                *count = count.saturating_add(visit.count);
            }
        }
        let again = visit.section != 0 && visit.section == party.section;
        party.section = visit.section;
        let (from, to) = ((visit.span.0 >> self.shift) as usize, (visit.span.1 >> self.shift) as usize);
        let each = (visit.count / (to - from + 1) as u32).max(1);
        for span in from..=to {
            if !again {
                party.visits[span] = party.visits[span].saturating_add(each);
            }
            if visit.written != 0 && (!again || party.stores[span] == 0) {
                party.stores[span] = party.stores[span].saturating_add(each);
            }
        }
    }

    fn coarser(&mut self) {
        self.shift += 1;
        for party in &mut self.parties {
            for counts in [&mut party.visits, &mut party.stores] {
                let mut half = [0u32; SPANS];
                for (at, count) in counts.iter().enumerate() {
                    half[at / 2] = half[at / 2].saturating_add(*count);
                }
                *counts = half;
            }
        }
    }

    /// How often the line would move if threads ran side by side, at most twice per visit of all but the busiest.
    pub(crate) fn moves(&self) -> u64 {
        let mut moves = 0;
        for span in 0..SPANS {
            let all: u64 = self.parties.iter().map(|party| u64::from(party.visits[span])).sum();
            let most = self.parties.iter().map(|party| u64::from(party.visits[span])).max().unwrap_or(0);
            let stores: u64 = self.parties.iter().map(|party| u64::from(party.stores[span])).sum();
            let others = self.parties.iter().filter(|party| party.visits[span] > 0).count().saturating_sub(1);
            moves += (2 * (all - most)).min(2 * stores * others as u64);
        }
        moves
    }

    /// Bytes that one thread writes and another one touches. Who prepares the data for others, or looks at it
    /// in the end, shares nothing: such a thread has few of the accesses.
    pub(crate) fn shared(&self) -> u64 {
        let mut shared = 0;
        let counts = |party: &Party| party.accesses * 256 >= self.accesses;
        for (at, one) in self.parties.iter().enumerate().filter(|of| counts(of.1)) {
            for (other_at, other) in self.parties.iter().enumerate() {
                if at != other_at && counts(other) {
                    shared |= one.written & (other.written | other.read);
                }
            }
        }
        shared
    }

    /// Part of the accesses that go to words with any of these bytes, in all and outside.
    pub(crate) fn at(&self, bytes: u64) -> (u64, u64) {
        let (mut inside, mut outside) = (0, 0);
        for party in &self.parties {
            for (word, &count) in party.words.iter().enumerate() {
                let of = if bytes >> (word * 4) & 0xf != 0 { &mut inside } else { &mut outside };
                *of += u64::from(count);
            }
        }
        (inside, outside)
    }
}

impl Party {
    fn new(thread: u32, site: u32) -> Self {
        Party {
            thread,
            read: 0,
            written: 0,
            site,
            accesses: 0,
            words: [0; 16],
            last: 0,
            section: 0,
            visits: [0; SPANS],
            stores: [0; SPANS],
        }
    }
}
