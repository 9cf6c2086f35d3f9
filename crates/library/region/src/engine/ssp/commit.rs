//! How lines get from one page to the other: commits, pages brought home, the journal begun anew. All of it
//! is done by the one thread that has the engine's lock.

use std::marker::PhantomData;

use space::{LINE, Space};

use super::active::Active;
use super::home::copy_home;
use super::journal::{self, Entry};
use super::parts::{Parts, SLOTS_MAX, SLOTS_PER_LINE};
use super::table::{self, Mark, NUMBERS, Slot};
use crate::engine::flaw::Flaw;
use crate::engine::long::OverflowRecord;
use crate::engine::place::{apply, flush};
use crate::engine::record;
use crate::engine::{Extent, Logs};
use crate::log::Ring;
use crate::{Change, Error, Write};

/// What many threads look at.
pub(super) struct Shared {
    pub(super) logs: Logs,
    pub(super) parts: Parts,
    pub(super) active: Active,
}

impl Shared {
    /// Whether [`Journal::commit`] takes these writes: there are slots for their pages, or room for them in
    /// the journal.
    pub(super) fn takes(&self, writes: &[Write]) -> bool {
        let slots = self.parts.slots as usize;
        if writes.len() <= slots || writes.len() as u64 <= journal::holds(self.parts.journal_bytes / LINE) {
            return true;
        }
        let mut pages: Vec<u64> = writes.iter().map(|write| self.parts.page(write.offset()).0).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.len() <= slots
    }
}

/// What one thread at a time changes.
pub(super) struct Journal<F: Flaw> {
    flaw: PhantomData<F>,
    ring: Ring,
    /// The next record's number.
    next: u64,
    /// The table that counts.
    table: usize,
    /// By table and line: whether it says something else than there is.
    stale: [Vec<bool>; 2],
    /// Slots without a page.
    free: Vec<u32>,
    /// How each slot is used.
    uses: Vec<Use>,
    /// The next slot to be looked at for a page that can go home.
    hand: u32,
    /// How many commits there were, and times that pages were brought home ahead of one.
    commits: u64,
    /// What the commit that is under way writes, by place, and the pages of it: memory that is used again.
    writes: Vec<Write>,
    pages: Vec<Touched>,
}

/// How a slot is used.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Whether a page has it.
    taken: bool,
    /// Whether a commit wrote to its page since the hand came by.
    recently: bool,
    /// The commit that needs it, or has chosen it for another page, last.
    commit: u64,
}

/// A page that a commit writes to.
#[derive(Clone, Copy, Debug)]
struct Touched {
    page: u64,
    /// The lines that it writes: the *updated* bits.
    updated: u64,
    slot: u32,
    /// Lines that are in the spare page so far.
    lines: u64,
    /// Whether the page has no slot so far.
    is_new: bool,
}

impl<F: Flaw> Journal<F> {
    pub(super) fn new(shared: &Shared, next: u64) -> Self {
        let Parts { journal, journal_bytes, slots, .. } = shared.parts;
        let lines = shared.parts.table_lines() as usize;
        Journal {
            flaw: PhantomData,
            ring: Ring::new(journal, journal_bytes),
            next,
            table: 0,
            stale: [vec![false; lines], vec![false; lines]],
            free: (0..slots).rev().collect(),
            uses: vec![Use::default(); slots as usize],
            hand: 0,
            commits: 0,
            writes: Vec::new(),
            pages: Vec::new(),
        }
    }

    /// Commits what a region wrote.
    pub(super) fn commit<S: Space>(
        &mut self,
        shared: &Shared,
        space: &S,
        writes: &[Write],
    ) -> Result<(), Error> {
        if self.next >= NUMBERS - SLOTS_MAX {
            return Err(Error::Exhausted);
        }
        self.commits += 1;
        let mut sorted = std::mem::take(&mut self.writes);
        sorted.clear();
        sorted.extend_from_slice(writes);
        // Changes of one word keep their order.
        sorted.sort_by_key(|write| write.offset());
        let mut pages = std::mem::take(&mut self.pages);
        pages.clear();
        for write in &sorted {
            let (page, line) = shared.parts.page(write.offset());
            match pages.last_mut() {
                Some(last) if last.page == page => last.updated |= 1 << line,
                _ => pages.push(Touched { page, updated: 1 << line, slot: 0, lines: 0, is_new: true }),
            }
        }
        if pages.len() > shared.parts.slots as usize {
            let words = sorted.iter().map(|&write| Entry::Word(write));
            self.all_home(shared, space);
            self.by_words(shared, space, &sorted, words);
        } else {
            self.by_lines(shared, space, &sorted, &mut pages);
        }
        (self.writes, self.pages) = (sorted, pages);
        Ok(())
    }

    /// Commits what a region wrote that `commit` does not take, with chunks for its words.
    pub(super) fn commit_long<S: Space>(
        &mut self,
        shared: &Shared,
        space: &S,
        writes: &[Write],
        extent: &Extent,
    ) -> Result<(), Error> {
        if self.next >= NUMBERS - SLOTS_MAX {
            return Err(Error::Exhausted);
        }
        self.all_home(shared, space);
        let there = OverflowRecord::write(space, extent, &record::words(writes));
        if !F::EXTENT_NOT_FENCED {
            // The record may survive before anybody waits for it.
            space.fence();
        }
        let [first, words, chunk, check] = there.encode();
        let entries = [Entry::There([first, words]), Entry::ThereToo([chunk, check])];
        self.by_words(shared, space, writes, entries.into_iter());
        Ok(())
    }

    /// Commits a region that has a slot for each page.
    fn by_lines<S: Space>(&mut self, shared: &Shared, space: &S, writes: &[Write], pages: &mut [Touched]) {
        self.assign(shared, space, pages);
        self.make_room(shared, space, pages.len());
        if F::NOTED_EARLY {
            self.record(space, entries(pages));
        }
        let mut page = 0;
        for line in writes.chunk_by(|a, b| a.offset() / LINE == b.offset() / LINE) {
            let (number, bit) = shared.parts.page(line[0].offset());
            while pages[page].page != number {
                page += 1;
            }
            let home = line[0].offset() & !(LINE - 1);
            let spare = shared.parts.spare(pages[page].slot) + home - shared.parts.home(number);
            let (from, to) = if pages[page].lines >> bit & 1 == 0 { (home, spare) } else { (spare, home) };
            space.store(to, &changed(space, from, line));
            if !F::PLACES_NOT_FLUSHED {
                space.flush(to, LINE);
            }
        }
        space.fence();
        if !F::NOTED_EARLY {
            self.record(space, entries(pages));
        }
        for &Touched { page, updated, slot, lines, is_new } in pages.iter() {
            self.stale(slot);
            let lines = lines ^ updated;
            match is_new {
                true => shared.active.link(slot, Slot { page, lines }),
                false => shared.active.set_lines(slot, lines),
            }
        }
    }

    /// Finds a slot for each page.
    fn assign<S: Space>(&mut self, shared: &Shared, space: &S, pages: &mut [Touched]) {
        let mut missing = 0;
        for touched in pages.iter_mut() {
            match shared.active.find(touched.page) {
                Some(slot) => {
                    (touched.slot, touched.is_new) = (slot, false);
                    touched.lines = shared.active.slot(slot).lines;
                    self.use_now(slot);
                }
                None => missing += 1,
            }
        }
        if self.free.len() < missing {
            let wanted = (missing - self.free.len()).max(self.uses.len() / 8);
            let victims = self.least_used(wanted);
            self.bring_home(shared, space, &victims);
        }
        for touched in pages.iter_mut().filter(|touched| touched.is_new) {
            touched.slot = self.free.pop().expect("a commit has no more pages than there are slots");
            self.use_now(touched.slot);
        }
    }

    /// The commit that is under way needs this slot.
    fn use_now(&mut self, slot: u32) {
        self.uses[slot as usize] = Use { taken: true, recently: true, commit: self.commits };
    }

    /// Up to so many slots whose pages were not used for long, and none of this commit: the hand goes round,
    /// and passes by once what was used since it came last.
    fn least_used(&mut self, wanted: usize) -> Vec<u32> {
        let mut found = Vec::with_capacity(wanted);
        for _ in 0..2 * self.uses.len() {
            if found.len() == wanted {
                break;
            }
            let slot = self.hand;
            self.hand = (slot + 1) % self.uses.len() as u32;
            let one = &mut self.uses[slot as usize];
            if one.taken && one.commit != self.commits && !std::mem::take(&mut one.recently) {
                one.commit = self.commits;
                found.push(slot);
            }
        }
        found
    }

    /// Brings all lines of these slots' pages home, durably, and frees the slots.
    pub(super) fn bring_home<S: Space>(&mut self, shared: &Shared, space: &S, slots: &[u32]) {
        let moved: Vec<u32> =
            slots.iter().copied().filter(|&slot| shared.active.slot(slot).lines != 0).collect();
        if !moved.is_empty() {
            for &slot in &moved {
                copy_home(space, &shared.parts, slot, shared.active.slot(slot), !F::HOME_NOT_FLUSHED);
            }
            space.fence();
            // Before a spare page is written to again, what was in it must not be looked for there.
            if !F::REUSED_EARLY {
                self.make_room(shared, space, moved.len());
                let home = |&slot: &u32| Entry::Home { slot, page: shared.active.slot(slot).page };
                self.record(space, moved.iter().map(home));
            }
            moved.iter().for_each(|&slot| self.stale(slot));
        }
        shared.active.unlink(slots);
        slots.iter().for_each(|&slot| self.uses[slot as usize].taken = false);
        self.free.extend_from_slice(slots);
    }

    /// Brings a few pages home that were not used for longest, if less than a quarter of the slots is free.
    /// Whether it still is less.
    pub(super) fn keep_free<S: Space>(&mut self, shared: &Shared, space: &S) -> bool {
        // No commit is under way, so what the last one used may go, too.
        self.commits += 1;
        let missing = (self.uses.len() / 4).saturating_sub(self.free.len());
        let victims = self.least_used(missing.min(super::AT_ONCE as usize));
        self.bring_home(shared, space, &victims);
        victims.len() < missing
    }

    /// The slots of `range` that have pages.
    pub(super) fn taken(&self, range: std::ops::Range<u32>) -> Vec<u32> {
        range.filter(|&slot| self.uses[slot as usize].taken).collect()
    }

    /// Brings all lines home. Nothing in the journal counts then.
    fn all_home<S: Space>(&mut self, shared: &Shared, space: &S) {
        let taken = self.taken(0..shared.parts.slots);
        self.bring_home(shared, space, &taken);
        self.begin_anew(shared, space);
    }

    /// Commits a region when all lines are at home: its words, which `entries` tell, are the only record that
    /// counts, and are then written where they belong.
    fn by_words<S: Space>(
        &mut self,
        shared: &Shared,
        space: &S,
        writes: &[Write],
        entries: impl ExactSizeIterator<Item = Entry>,
    ) {
        self.record(space, entries);
        for write in writes {
            apply(space, write);
            if !F::PLACES_NOT_FLUSHED {
                flush(space, write);
            }
        }
        space.fence();
        self.begin_anew(shared, space);
    }

    /// Writes a record, durably.
    fn record<S: Space>(&mut self, space: &S, entries: impl ExactSizeIterator<Item = Entry>) {
        let from = self.ring.head();
        journal::write(space, &mut self.ring, self.next, entries);
        self.next += 1;
        if !F::LOG_NOT_FLUSHED {
            self.ring.flush(space, from);
        }
        if !F::LOG_NOT_FENCED {
            space.fence();
        }
    }

    /// Sees to it that a record with so many entries fits into the journal.
    fn make_room<S: Space>(&mut self, shared: &Shared, space: &S, entries: usize) {
        if !self.ring.has_room(journal::lines(entries)) {
            self.begin_anew(shared, space);
        }
    }

    /// Lets a table say all that the journal says, so that nothing in the journal counts any more.
    pub(super) fn begin_anew<S: Space>(&mut self, shared: &Shared, space: &S) {
        let table = 1 - self.table;
        let stale = self.stale[table].iter_mut().map(std::mem::take);
        let mut any = false;
        for (line, _) in (0u32..).zip(stale).filter(|(_, stale)| *stale) {
            let first = line * SLOTS_PER_LINE;
            let slots = first..shared.parts.slots.min(first + SLOTS_PER_LINE);
            let slots: Vec<Slot> = slots.map(|slot| shared.active.slot(slot)).collect();
            table::write(space, shared.parts.table(table, line), &slots);
            any = true;
        }
        if any && !F::TABLE_NOT_FENCED {
            space.fence();
        }
        self.table = table;
        if !F::NOT_NOTED {
            Mark { below: self.next, table, void: false }.write(space, shared.logs.state);
        }
        self.ring.release(self.ring.head());
    }

    /// Neither table says what has become of a slot.
    fn stale(&mut self, slot: u32) {
        self.stale.iter_mut().for_each(|table| table[(slot / SLOTS_PER_LINE) as usize] = true);
    }
}

/// What a record says of pages.
fn entries(pages: &[Touched]) -> impl ExactSizeIterator<Item = Entry> {
    pages.iter().map(|&Touched { page, updated, slot, lines, .. }| Entry::Page {
        slot,
        page,
        lines: lines ^ updated,
    })
}

/// The line at `from` with these changes of its words.
fn changed<S: Space>(space: &S, from: u64, writes: &[Write]) -> [u8; LINE as usize] {
    let mut bytes = [0; LINE as usize];
    space.load(from, &mut bytes);
    let words = bytes.as_chunks_mut::<8>().0;
    let mut change = |at: usize, change: &dyn Fn(u64) -> u64| {
        words[at] = change(u64::from_le_bytes(words[at])).to_le_bytes();
    };
    for write in writes {
        let at = (write.offset() % LINE / 8) as usize;
        match write.change() {
            Change::Set(value) => change(at, &|_| value),
            Change::Take(mask) => {
                change(at, &|bits| bits | mask);
                change(at + 1, &|bits| bits & !mask);
            }
            Change::Give(mask) => {
                change(at, &|bits| bits & !mask);
                change(at + 1, &|bits| bits | mask);
            }
        }
    }
    bytes
}
