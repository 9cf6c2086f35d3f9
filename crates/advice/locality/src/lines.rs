//! The table of lines: what was stored and not read, what of a line was used, who had it last.

use crate::sites::Sites;

const SIZE: usize = 1 << 16;
pub(crate) const NOBODY: u16 = u16::MAX;

/// One line while it is in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) tag: u64,
    /// Bytes stored by `owner` and not read since.
    pub(crate) unread: u64,
    /// Bytes touched since it came.
    pub(crate) touched: u64,
    /// What the owner did: bytes read and written, accesses, first and last moment of its clock.
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) count: u32,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Who stored last with a small store, and who with one of 32 B or more, and the bytes that are of the latter.
    pub(crate) store_site: u32,
    pub(crate) large_site: u32,
    pub(crate) large: u64,
    /// Bytes that were stored over unread and wait for somebody to read the line, so that it is known that readers are
    /// seen; by whom they were stored, and how many in all.
    pub(crate) doomed: u64,
    pub(crate) doomed_site: u32,
    pub(crate) doomed_bytes: u32,
    pub(crate) doomed_large: bool,
    /// How often that happened.
    pub(crate) deaths: u8,
    /// Who brought it.
    pub(crate) fetch_site: u32,
    /// Bytes used since it came to a first-level cache last, and whose cache and code that was.
    pub(crate) visit: u64,
    pub(crate) visitor: u32,
    pub(crate) owner: u16,
    /// Where the owner stored to it last or, if it only reads, began to.
    pub(crate) owner_site: u32,
    /// Whether threads want it at the same time.
    pub(crate) contested: bool,
    /// Bytes of variables that synchronise.
    pub(crate) sync: u64,
}

impl Line {
    /// A store to bytes of it. What it overwrites unread is *doomed*: dead if somebody reads what came instead.
    /// Of a large one it is enough that somebody reads the page: who zeroes a buffer that is then filled, and of which little is
    /// looked at, zeroes all of it.
    pub(crate) fn store(
        &mut self,
        sites: &mut Sites,
        (site, mask): (u32, u64),
        (large, repeated, page_read): (bool, bool, bool),
    ) {
        // A lock's value is read by who waits for it, if anyone does.
        let dead = self.unread & mask & !self.sync;
        let dead_large = dead & self.large != 0;
        let by = if dead_large { self.large_site } else { self.store_site };
        if dead != 0 && (repeated || by != site) {
            if self.deaths > 0 && dead_large && page_read {
                let state = sites.get(by);
                state.dead_large += u64::from(dead.count_ones());
                state.over = site;
            } else if self.deaths > 0 {
                if self.doomed_site != by {
                    (self.doomed, self.doomed_bytes) = (0, 0);
                }
                self.doomed |= dead;
                self.doomed_bytes = self.doomed_bytes.saturating_add(dead.count_ones());
                (self.doomed_site, self.doomed_large) = (by, dead_large);
                sites.get(by).over = site;
            }
            self.deaths = self.deaths.saturating_add(1);
        }
        self.unread |= mask;
        self.written |= mask;
        if large {
            self.large |= mask;
            self.large_site = site;
        } else {
            self.large &= !mask;
            self.store_site = site;
        }
    }

    /// A load from bytes of it.
    pub(crate) fn load(&mut self, sites: &mut Sites, mask: u64) {
        let known = self.doomed & mask;
        if known != 0 {
            // Who zeroes or copies a line is judged by a reader of any part of it.
            let part = if self.doomed_large { self.doomed } else { known };
            let dead = u64::from(self.doomed_bytes) * u64::from(part.count_ones())
                / u64::from(self.doomed.count_ones());
            let site = sites.get(self.doomed_site);
            *(if self.doomed_large { &mut site.dead_large } else { &mut site.dead }) += dead;
            self.doomed &= !part;
            self.doomed_bytes -= dead as u32;
        }
        self.unread &= !mask;
        self.read |= mask;
    }
}

const EMPTY: Line = Line {
    tag: u64::MAX,
    unread: 0,
    touched: 0,
    read: 0,
    written: 0,
    count: 0,
    first: 0,
    last: 0,
    store_site: 0,
    large_site: 0,
    large: 0,
    doomed: 0,
    doomed_site: 0,
    doomed_bytes: 0,
    doomed_large: false,
    deaths: 0,
    fetch_site: 0,
    visit: 0,
    visitor: 0,
    owner: NOBODY,
    owner_site: 0,
    contested: false,
    sync: 0,
};

/// Lines by number, directly mapped.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Vec<Line>, Vec<u64>);

/// Pages of which it is known that they are read.
const PAGES: usize = 4096;

impl Default for Lines {
    fn default() -> Self {
        Lines(vec![EMPTY; SIZE], vec![u64::MAX; PAGES])
    }
}

impl Lines {
    fn place(line: u64) -> usize {
        // Pages of one column must not meet in one place, or strides would look like capacity.
        ((line ^ line >> 16 ^ (line >> 22).wrapping_mul(0x9e37)) as usize) & (SIZE - 1)
    }

    /// Somebody reads a page.
    #[inline]
    pub(crate) fn read(&mut self, line: u64) {
        self.1[(line >> 6) as usize % PAGES] = line >> 6;
    }

    /// Whether somebody does.
    #[inline]
    pub(crate) fn is_read(&self, line: u64) -> bool {
        self.1[(line >> 6) as usize % PAGES] == line >> 6
    }

    /// The line, and what it drove out if it came now.
    #[inline]
    pub(crate) fn get(&mut self, line: u64, site: u32) -> (&mut Line, bool, Option<Line>) {
        let entry = &mut self.0[Self::place(line)];
        if entry.tag == line {
            return (entry, false, None);
        }
        let out = (entry.tag != u64::MAX).then_some(*entry);
        *entry = Line { tag: line, fetch_site: site, ..EMPTY };
        (entry, true, out)
    }

    /// A line that is there.
    pub(crate) fn peek(&mut self, line: u64) -> Option<&mut Line> {
        let entry = &mut self.0[Self::place(line)];
        (entry.tag == line).then_some(entry)
    }

    /// A block was freed: what nobody read of it, nobody stores over.
    pub(crate) fn freed(&mut self, start: u64, len: u64) {
        let lines = (start >> 6)..=((start + len.max(1) - 1) >> 6);
        for line in lines.take(1024) {
            if let Some(entry) = self.peek(line) {
                (entry.unread, entry.doomed, entry.doomed_bytes) = (0, 0, 0);
            }
        }
    }

    /// Forgets all: events were passed over.
    pub(crate) fn forget(&mut self) {
        self.0.fill(EMPTY);
    }
}
