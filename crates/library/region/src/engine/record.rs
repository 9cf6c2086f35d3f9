//! A region in a log: a number, and which words get which values.
//!
//! ```text
//! word 0     the region's number << 16 | words of the record
//! then runs  kind << 61 | words - 1 << 45 | offset / 8, and that many values,
//! or pairs   kind << 61 | offset / 8 << 30 | offset / 8, and two values
//! ```
//!
//! Records begin at a line and are padded with zeros to whole lines. Records of several lines use
//! non-temporal stores: a line that was flushed long ago has to be fetched before it can be stored to, and
//! flushed again, and a record is read by recovery alone. A single line is soonest durable by a store and a
//! flush, but where the space says otherwise ([`Space::nt_is_sooner`]). Runs of a record that is longer than
//! a log stand [elsewhere](super::long); behind the others it says where.

use space::{LINE, Space};

use super::Logs;
use super::long::{self, OverflowRecord};
use crate::log::{Content, Ring, Role, WORDS, read_line};
use crate::{Change, Write};

/// Words of a record, at most.
pub(super) const WORDS_MAX: u64 = (1 << 16) - 1;
/// Values of a run, at most.
const BLOCK_MAX: usize = 1 << 16;
/// Offsets are below this.
const OFFSETS: u64 = 1 << 48;

/// Offsets of pairs are below this.
const OFFSETS_PAIRED: u64 = 1 << 33;

/// Records of so many lines use non-temporal stores, on any processor.
const PAST_CACHE: u64 = 2;

/// The kind of what is not a run: these stand elsewhere.
const ELSEWHERE: u64 = 4;
/// Two words that are set.
const PAIR: u64 = 5;

/// Words that a draft may have room for and still be kept.
const KEPT: usize = 1 << 16;

/// What stands before the values of a run of one kind of change.
#[inline(always)]
fn header(first: &Write, count: usize) -> u64 {
    (first.kind() + 1) << 61 | (count as u64 - 1) << 45 | first.offset() >> 3
}

/// Whether `next` is set in the same run.
#[inline(always)]
fn follows(write: &Write, next: &Write) -> bool {
    write.is_set() && next.is_set() && write.offset() + 8 == next.offset()
}

/// Whether two writes are a pair, before another one: both set a word, and neither begins or ends a run.
#[inline(always)]
fn is_pair(first: &Write, next: &Write, then: Option<&Write>) -> bool {
    let both_set = (first.place() | next.place()) & !(OFFSETS_PAIRED - 8) == 0;
    both_set && !follows(first, next) && then.is_none_or(|then| next.offset() + 8 != then.place())
}

/// What takes the words of runs.
trait Take {
    fn take<const N: usize>(&mut self, words: [u64; N]);
}

/// Counts them.
impl Take for u64 {
    #[inline(always)]
    fn take<const N: usize>(&mut self, _: [u64; N]) {
        *self += N as u64;
    }
}

impl Take for Vec<u64> {
    #[inline(always)]
    fn take<const N: usize>(&mut self, words: [u64; N]) {
        self.extend(words);
    }
}

/// A place with room for them.
impl Take for &mut [u64] {
    #[inline(always)]
    fn take<const N: usize>(&mut self, words: [u64; N]) {
        if let Some((now, later)) = std::mem::take(self).split_first_chunk_mut() {
            (*now, *self) = (words, later);
        }
    }
}

/// Hands the words of these writes' runs on.
#[inline]
fn each_word(writes: &[Write], to: &mut impl Take) {
    let mut rest = writes;
    while let [first, behind @ ..] = rest {
        debug_assert!(first.offset() < OFFSETS);
        if let [next, then @ ..] = behind
            && is_pair(first, next, then.first())
        {
            to.take([PAIR << 61 | first.offset() << 27 | next.offset() >> 3, first.value(), next.value()]);
            rest = then;
            continue;
        }
        let following = rest.iter().zip(behind).take(BLOCK_MAX - 1);
        let run = following.take_while(|(write, next)| follows(write, next)).count();
        let (run, then) = rest.split_at(run + 1);
        to.take([header(first, run.len())]);
        run.iter().for_each(|write| to.take([write.value()]));
        rest = then;
    }
}

/// The words of these writes' runs.
pub(super) fn words(writes: &[Write]) -> Vec<u64> {
    let mut words = Vec::with_capacity(2 * writes.len());
    each_word(writes, &mut words);
    words
}

/// Words of the record of these writes.
pub(super) fn length(writes: &[Write]) -> u64 {
    let mut words = 1;
    each_word(writes, &mut words);
    words
}

/// Words of the record of so many writes, at most.
#[inline]
pub(super) fn length_max(writes: usize) -> u64 {
    1 + 2 * writes as u64
}

/// Words of the record of these writes and others that stand elsewhere.
pub(super) fn length_long(writes: &[Write]) -> u64 {
    length(writes) + long::WORDS
}

/// Lines of a record of so many words.
#[inline]
pub(super) fn lines(words: u64) -> u64 {
    words.div_ceil(WORDS as u64)
}

/// A record that has no number yet.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// A place for the number, the runs, and zeros up to whole lines.
    padded: Vec<u64>,
    /// Words without the zeros.
    words: u64,
    /// Lines with them. Behind them stands what earlier records left.
    lines: u64,
}

impl Draft {
    /// The record of these writes, and perhaps others elsewhere.
    #[inline]
    pub(super) fn fill(&mut self, writes: &[Write], there: Option<&OverflowRecord>) {
        let long = if there.is_some() { long::WORDS } else { 0 };
        let most = (length_max(writes.len()) + long) as usize + WORDS;
        if self.padded.len() < most {
            self.padded.resize(most, 0);
        }
        let mut places = &mut self.padded[1..];
        each_word(writes, &mut places);
        if let Some(there) = there {
            places.take([ELSEWHERE << 61]);
            places.take(there.encode());
        }
        let free = places.len();
        self.words = (self.padded.len() - free) as u64;
        self.lines = lines(self.words);
        if let Some(rest) = self.padded[self.words as usize..].first_chunk_mut() {
            *rest = [0; WORDS];
        }
    }

    /// Lines that it takes.
    #[inline]
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Stores the record of region `number` in a log that has room for it, so that the next fence makes it
    /// durable. It is not `flushed` by mistake.
    pub(super) fn write<S: Space>(&mut self, space: &S, ring: &mut Ring, number: u64, flushed: bool) {
        debug_assert!(self.words <= WORDS_MAX);
        self.padded[0] = number << 16 | self.words;
        let from = ring.head();
        let past_cache = flushed && (self.lines() >= PAST_CACHE || space.nt_is_sooner());
        let lines = &self.padded.as_chunks().0[..self.lines as usize];
        ring.push_record(space, lines, past_cache).expect("the caller saw to it that there is room");
        if flushed && !past_cache {
            ring.flush(space, from);
        }
    }

    /// Gives up memory that few records need.
    pub(super) fn shrink(&mut self) {
        if self.padded.capacity() > KEPT {
            *self = Draft::default();
        }
    }
}

/// What becomes a record.
pub(super) trait Entry {
    /// Gets ready, in the log's draft if it needs that; the lines that it takes.
    fn prepare(&self, draft: &mut Draft) -> u64;

    /// Stores the record of region `number` in a log that has room for it, so that the next fence makes it
    /// durable. It is not `flushed` by mistake.
    fn write<S: Space>(&self, draft: &mut Draft, space: &S, ring: &mut Ring, number: u64, flushed: bool);
}

/// Writes, and perhaps others elsewhere.
#[derive(Debug)]
pub(super) struct Drafted<'w> {
    pub(super) here: &'w [Write],
    pub(super) there: Option<&'w OverflowRecord>,
}

impl Entry for Drafted<'_> {
    #[inline]
    fn prepare(&self, draft: &mut Draft) -> u64 {
        draft.fill(self.here, self.there);
        draft.lines()
    }

    #[inline]
    fn write<S: Space>(&self, draft: &mut Draft, space: &S, ring: &mut Ring, number: u64, flushed: bool) {
        draft.write(space, ring, number, flushed);
    }
}

/// The only write of a region: its record is a line that is made in registers. A core begins the next region
/// while it waits for a fence, as long as it has room for the stores of that region.
#[derive(Debug)]
pub(super) struct One<'w>(pub(super) &'w Write);

impl Entry for One<'_> {
    #[inline(always)]
    fn prepare(&self, _: &mut Draft) -> u64 {
        1
    }

    #[inline(always)]
    fn write<S: Space>(&self, _: &mut Draft, space: &S, ring: &mut Ring, number: u64, flushed: bool) {
        let One(write) = self;
        let line = [number << 16 | 3, header(write, 1), write.value(), 0, 0, 0, 0];
        ring.push_alone(space, &line, Role::First, flushed).expect("the caller saw to it that there is room");
    }
}

/// A record that is wholly there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) number: u64,
    /// What stands in the log, and where the rest is.
    pub(super) here: Vec<Write>,
    pub(super) there: Option<OverflowRecord>,
    /// Lines that it takes.
    pub(super) lines: u64,
}

impl Record {
    /// What the region wrote; `None` if it stands elsewhere and is damaged there. Only of a record that is
    /// not given up: others' chunks serve for something else.
    pub(super) fn writes<S: Space>(mut self, space: &S, logs: &Logs) -> Option<Vec<Write>> {
        if let Some(there) = self.there {
            self.here.extend(writes_there(space, logs, there)?);
        }
        Some(self.here)
    }
}

/// The writes that stand elsewhere; `None` if they are damaged.
pub(super) fn writes_there<S: Space>(space: &S, logs: &Logs, there: OverflowRecord) -> Option<Vec<Write>> {
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
            // Damage is reported when that line is read.
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
fn decode(mut words: &[u64]) -> Option<(Vec<Write>, Option<OverflowRecord>)> {
    let mut writes = Vec::with_capacity(words.len());
    while let Some((&header, rest)) = words.split_first() {
        if header >> 61 == ELSEWHERE {
            return Some((writes, Some(OverflowRecord::decode(rest)?)));
        }
        if header >> 61 == PAIR {
            let (values, rest) = rest.split_first_chunk::<2>()?;
            for (shift, &value) in [30, 0].into_iter().zip(values) {
                let offset = (header >> shift & ((1 << 30) - 1)) << 3;
                writes.push(Write::set(offset, value));
            }
            words = rest;
            continue;
        }
        let (count, offset) = run(header);
        let values = rest.get(..count)?;
        for (offset, &value) in (offset..).step_by(8).zip(values) {
            writes.push(Write::new(offset, change(header, value)?));
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

    use crate::engine::Extent;

    fn any_change() -> impl Strategy<Value = Change> {
        (0u8..6, any::<u64>()).prop_map(|(kind, value)| match kind {
            0 => Change::Take(value),
            1 => Change::Give(value),
            _ => Change::Set(value),
        })
    }

    /// Words near each other, and some that are too far away for a pair.
    fn any_word() -> impl Strategy<Value = u64> {
        prop_oneof![9 => 0u64..64, 1 => OFFSETS_PAIRED / 8 - 1..OFFSETS_PAIRED / 8 + 2, 1 => OFFSETS / 8 - 2..OFFSETS / 8]
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(
            regions in prop::collection::vec((prop::collection::vec((any_word(), any_change()), 1..20), any::<bool>()), 1..12)
        ) {
            let space = Image::new(4096);
            let (base, count) = (LINE, 16);
            let mut ring = Ring::new(base, count * LINE);
            for (number, (region, is_long)) in (0u64..).zip(regions) {
                let here: Vec<Write> =
                    region.into_iter().map(|(word, change)| Write::new(word * 8, change)).collect();
                let there = is_long.then(|| {
                    let extent = Extent { chunks: vec![2048], chunk_bytes: 1024 };
                    OverflowRecord::write(&space, &extent, &words(&here))
                });
                let words = if is_long { length_long(&here) } else { length(&here) };
                ring.release(ring.head());
                let at = ring.head();
                let mut draft = Draft::default();
                match &here[..] {
                    [write] if !is_long => One(write).write(&mut draft, &space, &mut ring, number, true),
                    here => {
                        let entry = Drafted { here, there: there.as_ref() };
                        entry.prepare(&mut draft);
                        entry.write(&mut draft, &space, &mut ring, number, true);
                    }
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

    #[test]
    fn more_words_than_a_run_has_are_two_runs() {
        let set = |at: u64| Write::set(8 * at, at);
        let writes: Vec<Write> = (0..BLOCK_MAX as u64 + 3).map(set).collect();
        let words = words(&writes);
        assert_eq!(words.len(), writes.len() + 2);
        assert_eq!(decode(&words), Some((writes, None)));
    }

    /// A record of two lines, the second of which is damaged, or is another one's.
    #[test]
    fn a_record_goes_on_with_later_lines_that_are_whole() {
        let written = || {
            let space = Image::new(4096);
            let here: Vec<Write> = (0..5).map(|at| Write::set(1024 + 24 * at, at)).collect();
            let (mut draft, entry) = (Draft::default(), Drafted { here: &here, there: None });
            assert_eq!(entry.prepare(&mut draft), 2);
            entry.write(&mut draft, &space, &mut Ring::new(LINE, 4 * LINE), 7, true);
            space
        };
        let later = 2 * LINE;
        let Content::Whole { payload, .. } = read_line(&written(), later) else { panic!("it is whole") };
        for (role, is_read) in [(Role::First, false), (Role::Later, true), (Role::End, false)] {
            let space = written();
            Ring::new(later, 3 * LINE).push(&space, &payload, role).expect("there is room");
            let found = read(&space, LINE, 4, 0);
            assert_eq!(matches!(found, Found::Record(_)), is_read, "{role:?}: {found:?}");
        }
        // No crash leaves such a line: its words are of one pass.
        for line in [LINE, later] {
            let space = written();
            space.store_u64(line + 16, space.load_u64(line + 16) ^ 0x40);
            assert_eq!(read(&space, LINE, 4, line / LINE - 1), Found::Damaged(line));
        }
    }

    #[test]
    fn a_record_without_words_is_damage() {
        let space = Image::new(4096);
        Ring::new(LINE, 4 * LINE)
            .push(&space, &[7 << 16, 0, 0, 0, 0, 0, 0], Role::First)
            .expect("there is room");
        assert_eq!(read(&space, LINE, 4, 0), Found::Damaged(LINE));
    }
}
