//! A region in a log: a number, and which words get which values.
//!
//! ```text
//! word 0     the region's number << 16 | words of the record
//! then runs  kind << 61 | words - 1 << 45 | offset / 8, and that many values
//! ```
//!
//! Records begin at a line and are padded with zeros to whole lines. Those of several lines are written past the cache: a line that was flushed long ago has to be
//! fetched before it can be stored to, and flushed again, and a record is read by recovery alone. A single line is soonest durable by a store and a flush.
//! Runs of a record that is longer than a log stand
//! [elsewhere](super::long); behind the others it says where.

use space::{LINE, Space};

use super::Logs;
use super::long::{self, Elsewhere};
use crate::log::{Content, Ring, Role, WORDS, read_line};
use crate::{Change, Write};

/// Words of a record, at most.
pub(super) const WORDS_MAX: u64 = (1 << 16) - 1;
/// Values of a run, at most.
const RUN_MAX: usize = 1 << 16;
/// Offsets are below this.
const OFFSETS: u64 = 1 << 48;

/// Records of so many lines are written past the cache.
const PAST_CACHE: u64 = 2;

/// The kind of what is not a run: these stand elsewhere.
const ELSEWHERE: u64 = 4;

/// Runs of one kind: what the header of a run says.
fn kind(change: Change) -> u64 {
    match change {
        Change::Set(_) => 1,
        Change::Take(_) => 2,
        Change::Give(_) => 3,
    }
}

fn value(change: Change) -> u64 {
    match change {
        Change::Set(value) | Change::Take(value) | Change::Give(value) => value,
    }
}

/// The writes of a region in runs: words that follow each other are set in one.
fn runs(writes: &[Write]) -> impl Iterator<Item = &[Write]> {
    writes
        .chunk_by(|a, b| {
            matches!((a.change, b.change), (Change::Set(_), Change::Set(_))) && a.offset + 8 == b.offset
        })
        .flat_map(|run| run.chunks(RUN_MAX))
}

/// Hands the words of these writes' runs on.
#[inline]
fn each_word(writes: &[Write], mut push: impl FnMut(u64)) {
    for run in runs(writes) {
        debug_assert!(run[0].offset < OFFSETS);
        push(kind(run[0].change) << 61 | (run.len() as u64 - 1) << 45 | run[0].offset >> 3);
        run.iter().for_each(|write| push(value(write.change)));
    }
}

/// The words of these writes' runs.
pub(super) fn words(writes: &[Write]) -> Vec<u64> {
    let mut words = Vec::with_capacity(length(writes) as usize);
    each_word(writes, |word| words.push(word));
    words
}

/// Words of the record of these writes.
#[inline]
pub(super) fn length(writes: &[Write]) -> u64 {
    1 + writes.len() as u64 + runs(writes).count() as u64
}

/// Lines of a record of so many words.
#[inline]
pub(super) fn lines(words: u64) -> u64 {
    words.div_ceil(WORDS as u64)
}

/// A record on its way into a log that has room for it.
struct Writer<'r, S> {
    space: &'r S,
    ring: &'r mut Ring,
    /// Its first line.
    from: u64,
    line: [u64; WORDS],
    filled: usize,
    role: Role,
    past_cache: bool,
    flushed: bool,
}

impl<'r, S: Space> Writer<'r, S> {
    /// A record of region `number` with so many words. It is not `flushed` by mistake.
    #[inline]
    fn new(space: &'r S, ring: &'r mut Ring, number: u64, words: u64, flushed: bool) -> Self {
        let (from, past_cache) = (ring.head(), flushed && lines(words) >= PAST_CACHE);
        let line = [number << 16 | words, 0, 0, 0, 0, 0, 0];
        Writer { space, ring, from, line, filled: 1, role: Role::First, past_cache, flushed }
    }

    #[inline]
    fn push(&mut self, word: u64) {
        if self.filled == WORDS {
            self.write_line();
        }
        self.line[self.filled] = word;
        self.filled += 1;
    }

    #[inline]
    fn write_line(&mut self) {
        let (space, line, role) = (self.space, &self.line, self.role);
        let done = if self.past_cache {
            self.ring.push_nt(space, line, role)
        } else {
            self.ring.push(space, line, role)
        };
        done.expect("the caller saw to it that there is room");
        (self.filled, self.role, self.line) = (0, Role::Later, [0; WORDS]);
    }

    /// The last line.
    #[inline]
    fn finish(mut self) {
        self.write_line();
        if self.flushed && !self.past_cache {
            self.ring.flush(self.space, self.from);
        }
    }
}

/// Writes the record of region `number`, of so many words, to a log that has room for it, so that the next fence makes it durable. It is not `flushed`
/// by mistake.
#[inline]
pub(super) fn write<S: Space>(
    space: &S,
    ring: &mut Ring,
    number: u64,
    words: u64,
    writes: &[Write],
    flushed: bool,
) {
    let mut writer = Writer::new(space, ring, number, words, flushed);
    each_word(writes, |word| writer.push(word));
    writer.finish();
}

/// Words of the record of these writes and others that stand elsewhere.
pub(super) fn length_long(writes: &[Write]) -> u64 {
    length(writes) + long::WORDS
}

/// The same as `write` of a record of these writes and others that stand elsewhere.
pub(super) fn write_long<S: Space>(
    space: &S,
    ring: &mut Ring,
    number: u64,
    writes: &[Write],
    there: &Elsewhere,
    flushed: bool,
) {
    let mut writer = Writer::new(space, ring, number, length_long(writes), flushed);
    each_word(writes, |word| writer.push(word));
    writer.push(ELSEWHERE << 61);
    there.encode().into_iter().for_each(|word| writer.push(word));
    writer.finish();
}

/// A record that is wholly there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) number: u64,
    /// What stands in the log, and where the rest is.
    pub(super) here: Vec<Write>,
    pub(super) there: Option<Elsewhere>,
    /// Lines that it takes.
    pub(super) lines: u64,
}

impl Record {
    /// What the region wrote; `None` if it stands elsewhere and is damaged there. Only of a record that is not given up: others' chunks serve for something
    /// else.
    pub(super) fn writes<S: Space>(mut self, space: &S, logs: &Logs) -> Option<Vec<Write>> {
        if let Some(there) = self.there {
            self.here.extend(writes_there(space, logs, there)?);
        }
        Some(self.here)
    }
}

/// The writes that stand elsewhere; `None` if they are damaged.
pub(super) fn writes_there<S: Space>(space: &S, logs: &Logs, there: Elsewhere) -> Option<Vec<Write>> {
    let (writes, more) = decode(&there.read(space, logs)?)?;
    more.is_none().then_some(writes)
}

/// What stands at a line of a log of `count` lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Record(Record),
    /// Nothing that begins a record, or one that was not written to its end.
    Nothing,
    /// The line was half written.
    Torn,
    /// The line at this offset is damaged.
    Damaged(u64),
}

/// Reads what stands at line `at` of the log at `base` with `count` lines.
pub(super) fn read<S: Space>(space: &S, base: u64, count: u64, at: u64) -> Found {
    let place = base + at % count * LINE;
    let (payload, parity) = match read_line(space, place) {
        Content::Whole { payload, role: Role::First, parity } => (payload, parity),
        Content::Whole { .. } | Content::Empty => return Found::Nothing,
        Content::Torn => return Found::Torn,
        Content::Damaged => return Found::Damaged(place),
    };
    let Some(mut reader) = Reader::new(base, count, at, payload, parity) else {
        return Found::Damaged(place);
    };
    let (number, lines) = (reader.number, reader.lines());
    let mut words = Vec::with_capacity(reader.left as usize);
    while reader.left > 0 {
        match reader.next(space) {
            Some(word) => words.push(word),
            // Damage is told when that line's turn comes.
            None => return Found::Nothing,
        }
    }
    match decode(&words) {
        Some((here, there)) => Found::Record(Record { number, here, there, lines }),
        None => Found::Damaged(place),
    }
}

/// The words of a record that is read from a log, one after the other.
struct Reader {
    base: u64,
    count: u64,
    /// The record's first line, and the one that is read.
    at: u64,
    line: u64,
    number: u64,
    /// Words of the record, and how many are left.
    words: u64,
    left: u64,
    payload: [u64; WORDS],
    /// Words of `payload` that were read.
    used: usize,
    /// Of the first line.
    parity: bool,
}

impl Reader {
    /// The record that begins at line `at` of the log at `base` with `count` lines, where this is.
    #[inline]
    fn new(base: u64, count: u64, at: u64, payload: [u64; WORDS], parity: bool) -> Option<Reader> {
        let (number, words) = (payload[0] >> 16, payload[0] & WORDS_MAX);
        let reader = Reader {
            base,
            count,
            at,
            line: at,
            number,
            words,
            left: words.wrapping_sub(1),
            payload,
            used: 1,
            parity,
        };
        (words > 0 && reader.lines() <= count).then_some(reader)
    }

    fn lines(&self) -> u64 {
        lines(self.words)
    }

    /// The next word; `None` if its line does not belong to the record, or there is none left.
    #[inline]
    fn next<S: Space>(&mut self, space: &S) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        if self.used == WORDS {
            self.line += 1;
            // The parity flips where the record goes round the end.
            let expected = self.parity ^ (self.line >= self.count && self.at < self.count);
            match read_line(space, self.base + self.line % self.count * LINE) {
                Content::Whole { payload, role: Role::Later, parity } if parity == expected => {
                    (self.payload, self.used) = (payload, 0);
                }
                _ => return None,
            }
        }
        self.used += 1;
        Some(self.payload[self.used - 1])
    }
}

/// How many values follow the header of a run, and the offset of the first.
#[inline]
fn run(header: u64) -> (usize, u64) {
    ((header >> 45 & 0xFFFF) as usize + 1, (header & ((1 << 45) - 1)) << 3)
}

/// The change of a run with that header, by a value; `None` if there is no such kind.
#[inline]
fn change(header: u64, value: u64) -> Option<Change> {
    match header >> 61 {
        1 => Some(Change::Set(value)),
        2 => Some(Change::Take(value)),
        3 => Some(Change::Give(value)),
        _ => None,
    }
}

/// The writes of runs, and where more stand.
fn decode(mut words: &[u64]) -> Option<(Vec<Write>, Option<Elsewhere>)> {
    let mut writes = Vec::with_capacity(words.len());
    while let Some((&header, rest)) = words.split_first() {
        if header >> 61 == ELSEWHERE {
            return Some((writes, Some(Elsewhere::decode(rest)?)));
        }
        let (count, offset) = run(header);
        let values = rest.get(..count)?;
        for (offset, &value) in (offset..).step_by(8).zip(values) {
            writes.push(Write { offset, change: change(header, value)? });
        }
        words = &rest[count..];
    }
    Some((writes, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use space::Image;

    use crate::engine::Lent;

    fn any_change() -> impl Strategy<Value = Change> {
        (0u8..6, any::<u64>()).prop_map(|(kind, value)| match kind {
            0 => Change::Take(value),
            1 => Change::Give(value),
            _ => Change::Set(value),
        })
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(
            regions in prop::collection::vec((prop::collection::vec((0u64..64, any_change()), 1..20), any::<bool>()), 1..12)
        ) {
            let space = Image::new(4096);
            let (base, count) = (LINE, 16);
            let mut ring = Ring::new(base, count * LINE);
            for (number, (region, is_long)) in (0u64..).zip(regions) {
                let here: Vec<Write> =
                    region.into_iter().map(|(word, change)| Write { offset: word * 8, change }).collect();
                let there = is_long.then(|| {
                    let lent = Lent { chunks: vec![2048], chunk_bytes: 1024 };
                    Elsewhere::write(&space, &lent, &words(&here))
                });
                let words = if is_long { length_long(&here) } else { length(&here) };
                ring.release(ring.head());
                let at = ring.head();
                match &there {
                    Some(there) => write_long(&space, &mut ring, number, &here, there, true),
                    None => write(&space, &mut ring, number, words, &here, true),
                }
                prop_assert_eq!(ring.head() - at, lines(words));
                let logs = Logs { base, count: 1, bytes: count * LINE, state: 0, end: 4096 };
                let all = if is_long { [here.clone(), here.clone()].concat() } else { here.clone() };
                let Found::Record(record) = read(&space, base, count, at % count) else {
                    return Err(TestCaseError::fail("no record"));
                };
                prop_assert_eq!(&record, &Record { number, here, there, lines: lines(words) });
                prop_assert_eq!(record.writes(&space, &logs), Some(all));
            }
        }
    }
}
