//! One core with its private caches.
//!
//! The L2 holds every line of the L1 (when a line leaves the L2 it leaves the L1 too), so whoever looks for a
//! core's copy looks into its L2 only. The two copies of a line know each other's slots. Dirty data moves down
//! one level at a time: before a line leaves the core, the L1's changes go to the L2.

use device::{EMPTY, Rng};

use crate::cache::{Counts, DIRTY, EXCLUSIVE, Line, NO_LINK, Private, dirty_lines, private};
use crate::combining::Combining;
use crate::{Config, LINE_BYTES};

/// Entries of the table of way hints; covers four times the lines of a 32 KiB L1, which makes wrong hints rare.
const HINTS: usize = 2048;

/// Entries of [`Recent`].
const RECENT: usize = 64;
/// What is added to an entry's index for a line that may be stored to.
const STORED: usize = RECENT;

/// The lines that were used last in their sets of the L1, by the low bits of their numbers in the program. To use such
/// a line again changes nothing but, for a store, which site stored last, and that is kept here until somebody asks.
#[derive(Clone, Debug)]
struct Recent {
    /// Where the line is: the line's number, or [`EMPTY`]. The second half has lines that are dirty.
    lines: [u64; 2 * RECENT],
    /// In the second half: who stored last.
    sites: [u32; 2 * RECENT],
    /// Slot in the L1.
    slots: [u32; RECENT],
    /// Whether the L1 has enough sets: all lines of a set have one entry.
    usable: bool,
}

/// How an access finds the L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It is done.
    Hit,
    /// The line is there, but a store needs other cores' consent.
    Shared,
    /// The line is not there.
    Absent,
}

/// A core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    l1: Private,
    recent: Box<Recent>,
    /// By the low bits of a line's number: the way of the L1 where it was last.
    hints: Box<[u8; HINTS]>,
    pub(crate) l2: Private,
    pub(crate) combining: Combining,
    /// Thread that ran here last.
    pub(crate) thread: u32,
    pub(crate) l1_counts: Counts,
    pub(crate) l2_counts: Counts,
}

impl Core {
    pub(crate) fn new(config: &Config, number: u64) -> Self {
        let rng =
            |level: u64| Rng::new(config.seed ^ (number << 8 | level).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Core {
            l1: private(&config.l1, rng(1)),
            recent: Box::new(Recent::new(config.l1.sets())),
            hints: Box::new([0; HINTS]),
            l2: private(&config.l2, rng(2)),
            combining: Combining::new(config.cores.combining_buffers as usize),
            thread: 0,
            l1_counts: Counts::default(),
            l2_counts: Counts::default(),
        }
    }

    /// The access of almost every event: finds `line` in the L1, and for a store marks it. Changes nothing
    /// if that is not [`Lookup::Hit`]. Hits are not counted
    /// here: they are all accesses but those counted as misses.
    #[inline(always)]
    pub(crate) fn hit(&mut self, line: u64, store: bool, site: u32) -> Lookup {
        self.forget_recent(line);
        self.look(line, store, site).map_or_else(|lookup| lookup, |_| Lookup::Hit)
    }

    /// As [`Core::hit`]: the slot, or how it is not a hit. Nobody remembers the set's recent line.
    #[inline(always)]
    fn look(&mut self, line: u64, store: bool, site: u32) -> Result<usize, Lookup> {
        let (base, set) = self.l1.masked_set(line);
        let hint = &mut self.hints[line as usize % HINTS];
        let mut slot = base + usize::from(*hint);
        if self.l1.slots[slot].tag != line {
            let Some(found) = self.l1.find(line) else { return Err(Lookup::Absent) };
            *hint = (found - base) as u8;
            slot = found;
        }
        let item = &mut self.l1.slots[slot].item;
        if store {
            if !item.exclusive() {
                return Err(Lookup::Shared);
            }
            self.l1_counts.dirty_in += u64::from(!item.dirty());
            item.store(site);
        }
        self.l1.touch_way(set, slot - base, slot);
        Ok(slot)
    }

    /// As [`Core::hit`] for line `raw` of the program, which is `line` in the machine, so that
    /// [`Core::hit_again`] finds it from now on.
    #[inline]
    pub(crate) fn hit_first(&mut self, raw: u64, line: u64, store: bool, site: u32) -> Lookup {
        let entry = Recent::entry(line);
        // Without a branch, as nothing foretells it.
        let stored = self.recent.lines[entry + STORED] != EMPTY;
        let (slot, last) = (self.recent.slots[entry] as usize, self.recent.sites[entry + STORED]);
        let item = &mut self.l1.slots[slot].item;
        *item = item.stored_if(stored, last);
        let slot = match self.look(line, store, site) {
            Ok(slot) => slot,
            Err(lookup) => {
                self.recent.forget(entry);
                return lookup;
            }
        };
        // Address 0 stands for an access that was not executed.
        if self.recent.usable && raw != 0 {
            let item = self.l1.slots[slot].item;
            self.recent.remember(raw, slot, item.dirty().then(|| item.site()));
        } else {
            self.recent.forget(entry);
        }
        Lookup::Hit
    }

    /// Whether line `raw` of the program is the one that was used last in its set of the L1, and dirty if
    /// this is a store. Then the access is done.
    #[inline(always)]
    pub(crate) fn hit_again(&mut self, raw: u64, store: bool, site: u32) -> bool {
        let at = Recent::entry(raw) + if store { STORED } else { 0 };
        // For a load, this means nothing.
        let hit = self.recent.lines[at] == raw;
        if hit {
            self.recent.sites[at] = site;
        }
        hit
    }

    /// The L1's lines of the set of `line` are about to change, or to be looked at.
    #[inline(always)]
    fn forget_recent(&mut self, line: u64) {
        let entry = Recent::entry(line);
        if self.recent.lines[entry] != EMPTY {
            self.settle_recent(entry);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_recent(&mut self, entry: usize) {
        let Recent { lines, sites, slots, .. } = &mut *self.recent;
        if lines[entry + STORED] != EMPTY {
            self.l1.slots[slots[entry] as usize].item.store(sites[entry + STORED]);
        }
        self.recent.forget(entry);
    }

    /// Lines of the program are others in the machine than before.
    pub(crate) fn forget_all_recent(&mut self) {
        (0..RECENT).for_each(|entry| self.settle_recent(entry));
    }

    /// Whether `line` is where it was last in the L1. False does not say that it is not there.
    #[inline(always)]
    pub(crate) fn hints_at(&self, line: u64) -> bool {
        let (base, _) = self.l1.masked_set(line);
        self.l1.slots[base + usize::from(self.hints[line as usize % HINTS])].tag == line
    }

    /// Slot in the L2 of a line that the core holds, asking the L1 first.
    pub(crate) fn locate(&self, line: u64) -> Option<usize> {
        let (base, _) = self.l1.masked_set(line);
        let slot = base + usize::from(self.hints[line as usize % HINTS]);
        if self.l1.slots[slot].tag == line {
            return Some(self.l1.slots[slot].item.link as usize);
        }
        self.l2.find(line)
    }

    /// Whether this core alone may store to `line`, and whether it has.
    pub(crate) fn owns(&self, line: u64) -> (bool, bool) {
        let Some(slot) = self.locate(line) else { return (false, false) };
        let item = self.l2.slots[slot].item;
        let newer = self.l1.find(line).is_some_and(|slot| self.l1.slots[slot].item.dirty());
        (item.exclusive(), item.dirty() || newer)
    }

    /// Puts a line that came from elsewhere into the L2. Returns its slot, and what had to leave the core for it.
    pub(crate) fn fill_l2(&mut self, line: u64, arrived: Line) -> (usize, Option<(u64, Line)>) {
        if arrived.dirty() {
            self.l2_counts.dirty_arrives(Line::default());
        }
        let (slot, evicted) = self.l2.insert(line, arrived.with_link(NO_LINK));
        let Some((tag, mut old)) = evicted else { return (slot, None) };
        self.l2_counts.evictions += 1;
        if old.link != NO_LINK {
            self.l1_counts.evictions += 1;
            self.leave_l1(&mut old);
        }
        self.l2_counts.dirty_out += u64::from(old.dirty());
        (slot, Some((tag, old)))
    }

    /// Copies a line from the L2's `below` into the L1.
    pub(crate) fn fill_l1(&mut self, line: u64, below: usize) {
        self.forget_recent(line);
        let flags = if self.l2.slots[below].item.exclusive() { EXCLUSIVE } else { 0 };
        let (slot, evicted) = self.l1.insert(line, Line::new(0, below as u32, flags));
        self.l2.slots[below].item.link = slot as u32;
        let (base, _) = self.l1.masked_set(line);
        self.hints[line as usize % HINTS] = (slot - base) as u8;
        if let Some((_, old)) = evicted {
            self.l1_counts.evictions += 1;
            let partner = &mut self.l2.slots[old.link as usize].item;
            partner.link = NO_LINK;
            hand_down(old, &mut self.l1_counts, partner, &mut self.l2_counts);
        }
    }

    /// Takes the L1's copy of the line away that has just left the L2 as `old`.
    fn leave_l1(&mut self, old: &mut Line) {
        self.forget_recent(self.l1.slots[old.link as usize].tag);
        let above = self.l1.remove(old.link as usize);
        hand_down(above, &mut self.l1_counts, old, &mut self.l2_counts);
        old.link = NO_LINK;
    }

    /// The L1's changes go to the L2's `slot`; both keep the line.
    fn settle(&mut self, slot: usize) {
        self.forget_recent(self.l2.slots[slot].tag);
        let below = &mut self.l2.slots[slot].item;
        if below.link != NO_LINK {
            let above = &mut self.l1.slots[below.link as usize].item;
            hand_down(*above, &mut self.l1_counts, below, &mut self.l2_counts);
            above.clear(DIRTY);
        }
    }

    /// The line in the L2's `slot` becomes clean. Returns the site of its changes, which the caller
    /// carries on, if there were any.
    pub(crate) fn clean(&mut self, slot: usize) -> Option<u32> {
        self.settle(slot);
        let line = &mut self.l2.slots[slot].item;
        if !line.dirty() {
            return None;
        }
        line.clear(DIRTY);
        self.l2_counts.dirty_out += 1;
        Some(line.site())
    }

    /// Another core will have a copy of the line in the L2's `slot`. Returns the site of its changes, if any.
    pub(crate) fn share(&mut self, slot: usize) -> Option<u32> {
        let changed = self.clean(slot);
        let line = &mut self.l2.slots[slot].item;
        line.clear(EXCLUSIVE);
        if line.link != NO_LINK {
            self.l1.slots[line.link as usize].item.clear(EXCLUSIVE);
        }
        changed
    }

    /// The line in the L2's `slot` is this core's alone from now on.
    pub(crate) fn own(&mut self, slot: usize) {
        let line = &mut self.l2.slots[slot].item;
        line.set(EXCLUSIVE);
        if line.link != NO_LINK {
            self.l1.slots[line.link as usize].item.set(EXCLUSIVE);
        }
    }

    /// The line in the L2's `slot`, which is clean, takes over changes that lay elsewhere.
    pub(crate) fn adopt(&mut self, slot: usize, site: u32) {
        let line = &mut self.l2.slots[slot].item;
        self.l2_counts.dirty_arrives(*line);
        line.store(site);
    }

    /// Takes the line in the L2's `slot` away from this core, changes and all.
    pub(crate) fn take(&mut self, slot: usize) -> Line {
        let mut line = self.l2.remove(slot);
        if line.link != NO_LINK {
            self.leave_l1(&mut line);
        }
        self.l2_counts.dirty_out += u64::from(line.dirty());
        line
    }

    /// As [`Core::take`], for another core that wants the line for itself.
    pub(crate) fn invalidate(&mut self, slot: usize) -> Line {
        self.l1_counts.invalidations += u64::from(self.l2.slots[slot].item.link != NO_LINK);
        self.l2_counts.invalidations += 1;
        self.take(slot)
    }

    /// Bytes in lines that are dirty in L1 and L2.
    pub(crate) fn held_dirty_lines(&self) -> (u64, u64) {
        (dirty_lines(&self.l1), dirty_lines(&self.l2))
    }

    /// Whether each line of the L1 is in the L2 and each knows where the other is.
    pub(crate) fn links_hold(&self) -> bool {
        let up = self.l1.held().all(|(slot, tag, line)| {
            let below = line.link as usize;
            self.l2.slots[below].tag == tag
                && self.l2.slots[below].item.link as usize == slot
                && self.l2.slots[below].item.exclusive() == line.exclusive()
        });
        let linked = self.l2.held().filter(|(_, _, line)| line.link != NO_LINK).count();
        up && linked == self.l1.held().count()
    }
}

impl Recent {
    fn new(sets: usize) -> Self {
        Recent {
            lines: [EMPTY; 2 * RECENT],
            sites: [0; 2 * RECENT],
            slots: [0; RECENT],
            usable: sets >= RECENT,
        }
    }

    #[inline(always)]
    fn entry(line: u64) -> usize {
        line as usize % RECENT
    }

    #[inline(always)]
    fn forget(&mut self, entry: usize) {
        (self.lines[entry], self.lines[entry + STORED]) = (EMPTY, EMPTY);
    }

    /// Line `raw`, in `slot` of the L1, is used; if it is dirty, `site` stored last.
    #[inline(always)]
    fn remember(&mut self, raw: u64, slot: usize, site: Option<u32>) {
        let entry = Recent::entry(raw);
        self.lines[entry] = raw;
        self.slots[entry] = slot as u32;
        self.lines[entry + STORED] = if site.is_some() { raw } else { EMPTY };
        self.sites[entry + STORED] = site.unwrap_or(0);
    }
}

/// Changes in `above` go to `below`.
fn hand_down(above: Line, above_counts: &mut Counts, below: &mut Line, below_counts: &mut Counts) {
    if above.dirty() {
        above_counts.dirty_out += 1;
        below_counts.dirty_arrives(*below);
        below.store(above.site());
    }
}

/// The lines that `len` bytes at `addr` touch, with the mask of the bytes touched in each.
pub(crate) fn lines(addr: u64, len: u32) -> impl Iterator<Item = (u64, u64)> {
    let last = addr.saturating_add(u64::from(len).saturating_sub(1));
    let end = if len == 0 { addr / LINE_BYTES } else { last / LINE_BYTES + 1 };
    (addr / LINE_BYTES..end).map(move |line| {
        let from = if line == addr / LINE_BYTES { addr % LINE_BYTES } else { 0 };
        let to = if line == last / LINE_BYTES { last % LINE_BYTES } else { LINE_BYTES - 1 };
        (line, u64::MAX << from & u64::MAX >> (LINE_BYTES - 1 - to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_split_into_lines_with_their_bytes() {
        let split = |addr, len| lines(addr, len).collect::<Vec<_>>();
        assert_eq!(split(64, 0), []);
        assert_eq!(split(64, 64), [(1, u64::MAX)]);
        assert_eq!(split(70, 4), [(1, 0b1111 << 6)]);
        assert_eq!(split(126, 4), [(1, 0b11 << 62), (2, 0b11)]);
        assert_eq!(split(1, 190).iter().map(|(_, bytes)| bytes.count_ones()).sum::<u32>(), 190);
        assert_eq!(split(u64::MAX, 8), [(u64::MAX / 64, 1 << 63)]);
    }
}
