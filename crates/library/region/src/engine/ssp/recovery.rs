//! What recovery does with journal, tables and spare pages: brings all lines home, and empties journal and
//! tables.

use space::{LINE, Space};

use super::active::offsets;
use super::home::copy_home;
use super::journal::{self, Entry};
use super::parts::Parts;
use super::table::{self, Mark, Slot};
use crate::engine::long::OverflowRecord;
use crate::engine::place::{apply, fits, flush};
use crate::engine::record::writes_there;
use crate::engine::{Logs, Recovered};
use crate::log::clear;
use crate::{Damage, Error, Write};

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    parts: Parts,
    /// By slot: the lines that are to be brought home.
    slots: Vec<Slot>,
    /// The words of a region that went by words.
    words: Vec<Write>,
    recovered: Recovered,
    /// Whether there is anything in journal and tables.
    used: bool,
}

impl Plan {
    /// Reads journal and tables.
    pub(super) fn read<S: Space>(space: &S, logs: &Logs) -> Result<Plan, Error> {
        let parts = Parts::of(logs);
        let mark = Mark::read(space, logs.state)?;
        let recovered = Recovered { next: mark.below, ..Recovered::default() };
        let mut plan = Plan { parts, slots: Vec::new(), words: Vec::new(), recovered, used: mark.void };
        if mark.void {
            return Ok(plan);
        }
        let (slots, used) = table::read(space, &parts, mark.table)?;
        plan.slots = slots;
        let found = journal::read(space, parts.journal, parts.journal_bytes / LINE, mark.below)?;
        plan.used = used || found.used || mark.table != 0 || table::is_used(space, &parts, 1 - mark.table);
        plan.recovered.torn_lines = found.torn_lines;
        let alone = found.records.len() == 1;
        for record in found.records {
            plan.recovered.next = record.number + 1;
            let brought_home = record.entries.iter().all(|entry| matches!(entry, Entry::Home { .. }));
            plan.recovered.replayed += u64::from(!brought_home);
            let mut there: Option<[u64; 2]> = None;
            for entry in record.entries {
                match (entry, there.take()) {
                    (Entry::There(half), None) => there = Some(half),
                    (Entry::ThereToo([chunk, check]), Some([first, words])) => {
                        let writes = OverflowRecord::decode(&[first, words, chunk, check])
                            .and_then(|there| writes_there(space, logs, there))
                            .ok_or(Damage::Overflow { offset: parts.journal, found: first })?;
                        writes.into_iter().try_for_each(|write| plan.add(Entry::Word(write), alone, logs))?;
                    }
                    (entry, _) => plan.add(entry, alone, logs)?,
                }
            }
        }
        plan.check(logs)?;
        Ok(plan)
    }

    /// Adds what a record says, which is the only one if `alone`.
    fn add(&mut self, entry: Entry, alone: bool, logs: &Logs) -> Result<(), Error> {
        let journal = self.parts.journal;
        let mixed = Damage::JournalMixed { offset: journal };
        let (slot, now) = match entry {
            Entry::Page { slot, page, lines } => (slot, Slot { page, lines }),
            Entry::Home { slot, page } => (slot, Slot { page, lines: 0 }),
            Entry::There([first, _]) | Entry::ThereToo([first, _]) => {
                return Err(Damage::Overflow { offset: journal, found: first }.into());
            }
            Entry::Word(write) => {
                if !alone {
                    return Err(mixed.into());
                }
                if !fits(&write, logs) {
                    return Err(Damage::LogAddress { offset: journal, found: write.offset() }.into());
                }
                self.words.push(write);
                return Ok(());
            }
        };
        let (expected, found) = (self.slots.len() as u64, u64::from(slot));
        let outside = Damage::JournalSlot { offset: journal, expected, found };
        *self.slots.get_mut(slot as usize).ok_or(outside)? = now;
        Ok(())
    }

    /// Whether all lines are such as regions may write, and none is in two places.
    fn check(&mut self, logs: &Logs) -> Result<(), Error> {
        let active = || self.slots.iter().filter(|slot| slot.lines != 0);
        let fits = |offset: u64| {
            let word = |at: u64| Write::set(offset + at, 0);
            fits(&word(0), logs) && fits(&word(LINE - 8), logs)
        };
        for slot in active() {
            // A page's number may be anything here.
            let home = slot.page.checked_mul(self.parts.home(1)).unwrap_or(u64::MAX - LINE * 64);
            let has_all = slot.lines & !self.parts.lines() == 0;
            if !has_all || !offsets(slot.lines).all(|offset| fits(home.saturating_add(offset))) {
                return Err(Damage::JournalPage { offset: self.parts.journal, found: home }.into());
            }
        }
        let mut pages: Vec<u64> = active().map(|slot| slot.page).collect();
        pages.sort_unstable();
        if let Some(pair) = pages.windows(2).find(|pair| pair[0] == pair[1]) {
            let found = self.parts.home(pair[0]);
            return Err(Damage::PageTwice { offset: self.parts.journal, found }.into());
        }
        if !self.words.is_empty() && active().next().is_some() {
            return Err(Damage::JournalMixed { offset: self.parts.journal }.into());
        }
        self.recovered.moved_lines = active().map(|slot| u64::from(slot.lines.count_ones())).sum();
        Ok(())
    }

    /// What recovery found and does.
    pub(super) fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Does it. A crash at any moment leaves a pool of which a new plan can be made: spare pages are not
    /// touched, so they count until all lines are at home, and not from then on.
    pub(super) fn carry_out<S: Space>(&self, space: &S, logs: &Logs) {
        if !self.used {
            return;
        }
        for (slot, &lines) in (0u32..).zip(&self.slots) {
            copy_home(space, &self.parts, slot, lines, true);
        }
        for write in &self.words {
            apply(space, write);
            flush(space, write);
        }
        space.fence();
        let mark = Mark { below: self.recovered.next, table: 0, void: true };
        mark.write(space, logs.state);
        let end = self.parts.table(2, 0);
        clear(space, self.parts.journal, end - self.parts.journal);
        space.fence();
        Mark { void: false, ..mark }.write(space, logs.state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Ring;
    use space::Image;

    const LOGS: Logs = Logs { base: 128, count: 1, bytes: 32 * LINE, state: 64, end: 1 << 14 };

    /// What a crash left must not stand beside what the next process writes: together they could be a line,
    /// or a record.
    #[test]
    fn whatever_stands_in_a_journal_is_emptied() {
        let parts = Parts::of(&LOGS);
        for (what, number, lost) in [
            ("an old record", 1, 0..0),
            ("half of a line", 2, 24..parts.journal_bytes),
            ("a later line alone", 2, 0..LINE),
        ] {
            let space = Image::new(LOGS.end);
            Mark { below: 2, table: 0, void: false }.write(&space, LOGS.state);
            let mut ring = Ring::new(parts.journal, parts.journal_bytes);
            let word = |at: u64| Entry::Word(Write::set(8192 + 8 * at, !0));
            journal::write(&space, &mut ring, number, (0..4).map(word).collect::<Vec<_>>().into_iter());
            lost.step_by(8).for_each(|at| space.store_u64(parts.journal + at, 0));
            let plan = Plan::read(&space, &LOGS).unwrap_or_else(|error| panic!("{what}: {error}"));
            plan.carry_out(&space, &LOGS);
            let journal = (parts.journal..parts.journal + parts.journal_bytes).step_by(8);
            assert!(journal.map(|at| space.load_u64(at)).all(|word| word == 0), "{what}");
            assert!((0..4).all(|word| space.load_u64(8192 + 8 * word) == 0), "{what}");
        }
    }
}
