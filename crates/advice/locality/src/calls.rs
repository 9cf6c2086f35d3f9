//! What was done by code and by who called it: a row for each pair.

use std::collections::HashMap;

const ROWS_MAX: usize = 1 << 16;
/// Pairs that a thread used last.
const RECENT: usize = 64;

/// What code did where it was called from one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// The code's site.
    pub site: u32,
    /// The site whose frames are the calls under way, the last one first; 0 if that is not known.
    pub context: u32,
    /// Loads, of the events that were looked at.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Misses of the first-level cache.
    pub misses: u64,
    /// Blocks that it allocated.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Blocks freed.
    pub freed: u64,
    /// Bytes live.
    pub live: u64,
    /// Bytes that were live at once, at most.
    pub peak: u64,
    /// Lines fetched from its blocks into a first-level cache.
    pub fetches: u64,
}

/// All rows; the first one is of what has no room.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Calls>,
    known: HashMap<(u32, u32), u32>,
}

impl Default for Table {
    fn default() -> Self {
        Table { rows: vec![Calls::default()], known: HashMap::new() }
    }
}

/// A thread's: where its functions were called, and rows that it used last.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    pub(crate) context: u32,
    rows: [(u32, u32, u32); RECENT],
}

impl Default for Recent {
    fn default() -> Self {
        Recent { context: 0, rows: [(u32::MAX, 0, 0); RECENT] }
    }
}

impl Table {
    /// The row of code where a thread is.
    #[inline]
    pub(crate) fn row(&mut self, recent: &mut Recent, site: u32) -> u32 {
        let context = recent.context;
        let last = &mut recent.rows[site as usize % RECENT];
        if (last.0, last.1) != (site, context) {
            *last = (site, context, self.find(site, context));
        }
        last.2
    }

    fn find(&mut self, site: u32, context: u32) -> u32 {
        let fresh = self.rows.len() as u32;
        if let Some(&known) = self.known.get(&(site, context)) {
            return known;
        }
        if self.rows.len() >= ROWS_MAX {
            return 0;
        }
        self.known.insert((site, context), fresh);
        self.rows.push(Calls { site, context, ..Calls::default() });
        fresh
    }

    pub(crate) fn at(&mut self, row: u32) -> &mut Calls {
        &mut self.rows[row as usize]
    }

    /// The rows of a site that something was counted in, the busiest first.
    pub(crate) fn of(&self, site: u32) -> Vec<&Calls> {
        let weight = |of: &Calls| (of.misses, of.loads + of.stores + of.blocks);
        let mut own: Vec<&Calls> =
            self.rows.iter().filter(|of| of.site == site && weight(of) != (0, 0)).collect();
        own.sort_by_key(|of| (std::cmp::Reverse(weight(of)), of.context));
        own
    }
}

impl Calls {
    pub(crate) fn allocated(&mut self, len: u64) {
        self.blocks += 1;
        self.bytes += len;
        self.live += len;
        self.peak = self.peak.max(self.live);
    }

    pub(crate) fn freed(&mut self, len: u64) {
        self.freed += 1;
        self.live = self.live.saturating_sub(len);
    }
}
