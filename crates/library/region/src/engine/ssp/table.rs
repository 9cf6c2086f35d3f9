//! What is known of the slots without the journal: a table of them, and the mark that says which table and
//! from which record on the journal counts.
//!
//! A line of a table is a line of a log ([`crate::log`]), so damage is found. Its words are, for each of
//! three slots, the page's number plus 1 and the lines that are in the spare page; for a slot without such
//! lines, zeros. There are two tables. One counts, and the other is written; then the mark changes, a single
//! word, and it is the other way round.

use space::Space;

use super::parts::{Parts, SLOTS_PER_LINE};
use crate::guarded;
use crate::log::{Content, Role, WORDS, read_line, write_line};
use crate::{Damage, Error};

/// Numbers of records are below this.
pub(super) const NUMBERS: u64 = 1 << 46;

/// The word that an engine keeps beside its logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Records from this number on count.
    pub(super) below: u64,
    /// The table that counts, 0 or 1.
    pub(super) table: usize,
    /// Whether journal and tables are being emptied: nothing in them counts.
    pub(super) void: bool,
}

impl Mark {
    pub(super) fn read<S: Space>(space: &S, at: u64) -> Result<Mark, Error> {
        let found = space.load_u64(at);
        let word = guarded::open(at, found).ok_or(Damage::EngineState { offset: at, found })?;
        Ok(Mark { below: word >> 2, table: (word >> 1 & 1) as usize, void: word & 1 == 1 })
    }

    /// Makes this the mark, durably.
    pub(super) fn write<S: Space>(self, space: &S, at: u64) {
        let Mark { below, table, void } = self;
        space.store_u64(at, guarded::seal(at, below << 2 | (table as u64) << 1 | u64::from(void)));
        space.persist(at, 8);
    }
}

/// A slot's page, and those of its lines that are in the spare page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// The page's number; of no meaning if there are no lines.
    pub(super) page: u64,
    /// A bit for each line.
    pub(super) lines: u64,
}

/// Writes the line of a table that begins with `slot`. Flushes, does not fence.
pub(super) fn write<S: Space>(space: &S, place: u64, slots: &[Slot]) {
    let mut payload = [0; WORDS];
    for (pair, slot) in
        payload.as_chunks_mut::<2>().0.iter_mut().zip(slots).filter(|(_, slot)| slot.lines != 0)
    {
        *pair = [slot.page + 1, slot.lines];
    }
    // It does not count before all of it is durable, so nothing has to tell an old word from a new one.
    write_line(space, place, &payload, Role::First, true);
    space.flush(place, space::LINE);
}

/// Reads a table; and whether anything was ever written to it.
pub(super) fn read<S: Space>(space: &S, parts: &Parts, table: usize) -> Result<(Vec<Slot>, bool), Error> {
    let mut slots = Vec::with_capacity(parts.slots as usize);
    let mut used = false;
    for line in 0..parts.table_lines() {
        let place = parts.table(table, line);
        let payload = match read_line(space, place) {
            Content::Empty => [0; WORDS],
            Content::Whole { payload, role: Role::First, .. } => {
                used = true;
                payload
            }
            _ => return Err(Damage::PageTable { offset: place, found: space.load_u64(place) }.into()),
        };
        let pairs = payload.as_chunks::<2>().0.iter().take(SLOTS_PER_LINE as usize);
        slots.extend(pairs.map(|&[page, lines]| Slot { page: page.saturating_sub(1), lines }));
    }
    slots.truncate(parts.slots as usize);
    Ok((slots, used))
}

/// Whether anything stands in a table that does not count.
pub(super) fn is_used<S: Space>(space: &S, parts: &Parts, table: usize) -> bool {
    (0..parts.table_lines()).any(|line| read_line(space, parts.table(table, line)) != Content::Empty)
}
