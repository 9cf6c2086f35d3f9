//! Records of the journal: which lines of which pages are in spares from here on.
//!
//! ```text
//! word 0         the record's number << 18 | words of the record
//! then pairs     kind << 61 | slot << 45 | page, lines that are in the spare page    kinds 1: a region's, 2: brought home
//!           or   kind << 61 | offset / 8, value or bits                              kinds 3: set, 4: take, 5: give
//!           or   kind << 61 | first chunk, words, then kind << 61 | words of a chunk, check    kinds 6 and 7: words stand elsewhere
//! ```
//!
//! Records begin at a line of the log and are padded with zeros to whole lines.

use space::{LINE, Space};

use super::table::NUMBERS;
use crate::log::{Content, Ring, Role, WORDS, read_line};
use crate::{Change, Damage, Error, Write};

/// Bits of a record's length.
const LENGTH_BITS: u32 = 18;
/// Entries of a record, at most.
const ENTRIES_MAX: u64 = (1 << LENGTH_BITS) / 2 - 1;
/// What stands below a kind has so many bits.
const KIND: u32 = 61;
/// What stands below a slot has so many bits.
const SLOT: u32 = 45;

/// One thing that a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A slot has this page from here on, and these of its lines are in the spare page.
    Page { slot: u32, page: u64, lines: u64 },
    /// All lines of the slot's page are where they belong.
    Home { slot: u32, page: u64 },
    /// A word gets a value, where it belongs.
    Word(Write),
    /// Words get values, which stand in chunks of the heap: the first half of where.
    There([u64; 2]),
    /// The second half.
    ThereToo([u64; 2]),
}

impl Entry {
    fn encode(self) -> [u64; 2] {
        let page = |kind: u64, slot: u32, page: u64| kind << KIND | u64::from(slot) << SLOT | page;
        match self {
            Entry::Page { slot, page: number, lines } => [page(1, slot, number), lines],
            Entry::Home { slot, page: number } => [page(2, slot, number), 0],
            Entry::Word(write) => {
                let (kind, value) = match write.change() {
                    Change::Set(value) => (3, value),
                    Change::Take(mask) => (4, mask),
                    Change::Give(mask) => (5, mask),
                };
                [kind << KIND | write.offset() >> 3, value]
            }
            Entry::There([head, value]) => [6 << KIND | head, value],
            Entry::ThereToo([head, value]) => [7 << KIND | head, value],
        }
    }

    fn decode([head, value]: [u64; 2]) -> Option<Entry> {
        let below = |bits: u32| head & ((1 << bits) - 1);
        let (slot, page) = ((below(KIND) >> SLOT) as u32, below(SLOT));
        let word = |change| (slot == 0).then_some(Entry::Word(Write::new(page << 3, change)));
        match head >> KIND {
            1 => Some(Entry::Page { slot, page, lines: value }),
            2 if value == 0 => Some(Entry::Home { slot, page }),
            3 => word(Change::Set(value)),
            4 => word(Change::Take(value)),
            5 => word(Change::Give(value)),
            6 => Some(Entry::There([below(KIND), value])),
            7 => Some(Entry::ThereToo([below(KIND), value])),
            _ => None,
        }
    }
}

/// Lines of a record with so many entries.
#[inline]
pub(super) fn lines(entries: usize) -> u64 {
    (1 + 2 * entries as u64).div_ceil(WORDS as u64)
}

/// Entries of a record that fits into a journal of so many lines.
pub(super) fn holds(lines: u64) -> u64 {
    ((lines * WORDS as u64 - 1) / 2).min(ENTRIES_MAX)
}

/// Writes record `number` with so many entries to a journal that has room for it; neither flushes nor fences.
pub(super) fn write<S: Space>(
    space: &S,
    ring: &mut Ring,
    number: u64,
    entries: impl ExactSizeIterator<Item = Entry>,
) {
    let length = 1 + 2 * entries.len() as u64;
    let mut line = [0; WORDS];
    let mut filled = 0;
    let mut role = Role::First;
    let mut push = |word: u64| {
        line[filled] = word;
        filled += 1;
        if filled == WORDS {
            ring.push(space, &line, role).expect("the caller saw to it that there is room");
            (filled, role, line) = (0, Role::Later, [0; WORDS]);
        }
    };
    push(number << LENGTH_BITS | length);
    entries.flat_map(Entry::encode).for_each(&mut push);
    if filled > 0 {
        ring.push(space, &line, role).expect("the caller saw to it that there is room");
    }
}

/// A record that is wholly there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) entries: Vec<Entry>,
}

/// What stands in a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The records that count, in their order.
    pub(super) records: Vec<Record>,
    /// Lines that a crash left half written.
    pub(super) torn_lines: u64,
    /// Whether there is anything at all.
    pub(super) used: bool,
}

/// Reads the journal of `count` lines at `base`, in which the records from number `below` on count.
///
/// A record is durable before the next one is begun, so a crash can hide the last one and no other. If
/// another is missing, it was there.
pub(super) fn read<S: Space>(space: &S, base: u64, count: u64, below: u64) -> Result<Found, Error> {
    let mut found = Found::default();
    for at in 0..count {
        match read_line(space, base + at * LINE) {
            Content::Empty => {}
            Content::Torn => found.torn_lines += 1,
            Content::Damaged => return Err(damaged(space, base + at * LINE)),
            Content::Whole { payload, role, parity } => {
                found.used = true;
                if role == Role::First
                    && let Some(record) = read_record(space, base, count, at, &payload, parity)?
                    && record.number >= below
                {
                    found.records.push(record);
                }
            }
        }
    }
    found.used |= found.torn_lines > 0;
    found.records.sort_by_key(|record| record.number);
    let mut numbers = (below..).zip(found.records.iter().map(|record| record.number));
    if let Some((expected, found)) = numbers.find(|(expected, found)| found != expected) {
        return Err(Damage::JournalRecord { offset: base, expected, found }.into());
    }
    Ok(found)
}

fn damaged<S: Space>(space: &S, offset: u64) -> Error {
    Damage::LogLine { offset, found: space.load_u64(offset) }.into()
}

/// The record that begins at line `at`, if it was written to its end.
fn read_record<S: Space>(
    space: &S,
    base: u64,
    count: u64,
    at: u64,
    first: &[u64; WORDS],
    parity: bool,
) -> Result<Option<Record>, Error> {
    let number = first[0] >> LENGTH_BITS;
    let length = first[0] & ((1 << LENGTH_BITS) - 1);
    let lines = length.div_ceil(WORDS as u64);
    if number >= NUMBERS || length.is_multiple_of(2) || lines > count {
        return Err(damaged(space, base + at * LINE));
    }
    let mut words = first.to_vec();
    for line in at + 1..at + lines {
        // The parity flips where the record goes round the end.
        let expected = parity ^ (line >= count);
        match read_line(space, base + line % count * LINE) {
            Content::Whole { payload, role: Role::Later, parity } if parity == expected => {
                words.extend(payload)
            }
            // Damage is reported when that line is read.
            _ => return Ok(None),
        }
    }
    let pairs = words[1..length as usize].as_chunks::<2>().0;
    let entries: Option<Vec<Entry>> = pairs.iter().map(|pair| Entry::decode(*pair)).collect();
    let entries = entries.ok_or_else(|| damaged(space, base + at * LINE))?;
    Ok(Some(Record { number, entries }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use space::Image;

    fn entry() -> impl Strategy<Value = Entry> {
        (0u8..7, 0u64..1 << 16, 0u64..1 << 44, any::<u64>()).prop_map(|(kind, slot, page, value)| {
            let slot = slot as u32;
            let word = |change| Entry::Word(Write::new(page * 8, change));
            match kind {
                0 => Entry::Page { slot, page, lines: value },
                1 => Entry::Home { slot, page },
                2 => word(Change::Set(value)),
                3 => word(Change::Take(value)),
                4 => Entry::There([page, value]),
                5 => Entry::ThereToo([page, value]),
                _ => word(Change::Give(value)),
            }
        })
    }

    const COUNT: u64 = 12;

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(
            records in prop::collection::vec(prop::collection::vec(entry(), 1..20), 1..12), first in 0u64..1 << 40
        ) {
            let space = Image::new(4096);
            let mut ring = Ring::new(LINE, COUNT * LINE);
            for (number, entries) in (first..).zip(records) {
                ring.release(ring.head());
                prop_assert!(entries.len() as u64 <= holds(COUNT));
                write(&space, &mut ring, number, entries.clone().into_iter());
                let found = read(&space, LINE, COUNT, number).expect("it is whole");
                prop_assert_eq!(found.records, vec![Record { number, entries }]);
            }
        }
    }

    /// Three records of two lines each.
    fn journal() -> Image {
        let space = Image::new(4096);
        let mut ring = Ring::new(LINE, COUNT * LINE);
        for number in 7..10 {
            let entries = (0..4).map(|slot| Entry::Page { slot, page: number, lines: 1 });
            write(&space, &mut ring, number, entries.collect::<Vec<_>>().into_iter());
        }
        space
    }

    #[test]
    fn only_the_last_record_can_be_missing() {
        for (line, expected) in [(0, None), (1, None), (2, None), (3, None), (4, Some(2)), (5, Some(2))] {
            let space = journal();
            let word = LINE + line * LINE;
            space.store_u64(word, space.load_u64(word) ^ 0x101);
            let found = read(&space, LINE, COUNT, 7);
            assert_eq!(found.as_ref().ok().map(|found| found.records.len()), expected, "line {line}");
            if let Ok(found) = found {
                assert_eq!(found.torn_lines, 1);
            }
        }
        let missing = |below| read(&journal(), LINE, COUNT, below).map(|found| found.records.len()).ok();
        assert_eq!([6, 7, 8, 9, 10].map(missing), [None, Some(3), Some(2), Some(1), Some(0)]);
    }
}
