//! What recovery does with such logs: finds the whole records, carries those out of which it is not known
//! that they have ended, and empties the logs.
//!
//! What has ended is known from marks, and from a torn line behind the last record of a log: somebody had
//! begun to write the next one. Such records are left alone as long as none with a lower number is carried
//! out, which could be on the same words. A crash would not need that, as carrying out once more what has
//! ended changes nothing; but if the torn line was a record that is damaged, what it wrote stays.

use space::{LINE, Space};

use super::Shape;
use crate::engine::long::OverflowRecord;
use crate::engine::place::{apply, fits, flush};
use crate::engine::record::{self, Found, Record};
use crate::engine::state::{State, empty_logs};
use crate::engine::{Logs, Recovered};
use crate::{Change, Damage, Error, Write};

/// What is to be done.
#[derive(Debug, Default)]
pub struct Plan {
    /// By region that may not have ended, in the order of their numbers: what it wants.
    regions: Vec<(u64, Vec<Write>)>,
    /// Regions with lower numbers have ended.
    mark: u64,
    torn_lines: u64,
    /// Whether there is anything in the logs.
    used: bool,
}

/// A record, and the log that it was found in.
struct InLog {
    base: u64,
    /// Its first line in the log, and how many there are.
    at: u64,
    lines: u64,
    number: u64,
    writes: Vec<Write>,
    /// Where more stand.
    there: Option<OverflowRecord>,
    /// Whether the next record of its log was begun.
    followed: bool,
}

impl Plan {
    /// Reads the logs. `meaning` says what the writes in a record of the log at an offset stand for, but for
    /// those elsewhere, which are what they are.
    pub fn read<S: Space>(
        space: &S,
        logs: &Logs,
        shape: Shape,
        meaning: impl Fn(u64, Vec<Write>) -> Result<Vec<Write>, Error>,
    ) -> Result<Plan, Error> {
        let state = State::read(space, logs.state)?;
        let mut plan = Plan { mark: state.below, used: state.void, ..Plan::default() };
        if state.void {
            return Ok(plan);
        }
        let mut found = Vec::new();
        for base in logs.starts() {
            plan.read_log(space, logs, base, shape.lines, &mut found)?;
        }
        found.retain(|record| record.number >= plan.mark);
        found.sort_by_key(|record| record.number);
        check_logs(logs, shape.lines, &found)?;
        let ended = found.iter().take_while(|record| record.followed).count();
        if let Some(last) = found.drain(..ended).next_back() {
            plan.mark = last.number + 1;
        }
        for InLog { base, at, number, writes, there, .. } in found {
            let mut writes = meaning(base, writes)?;
            if let Some(there) = there {
                let more = record::writes_there(space, logs, there);
                let damaged = Damage::Overflow { offset: base + at * LINE, found: there.first() };
                writes.extend(more.ok_or(damaged)?);
            }
            if let Some(write) = writes.iter().find(|write| !fits(write, logs)) {
                return Err(Damage::LogAddress { offset: base + at * LINE, found: write.offset() }.into());
            }
            if plan.regions.last().is_some_and(|(last, _)| *last == number) {
                return Err(Damage::RecordTwice { offset: base, number }.into());
            }
            plan.regions.push((number, writes));
        }
        // Of each log a crash can hide the record that was being written. Whatever else is missing was there,
        // and is damaged so that it looks torn.
        let (expected, found) = (plan.next() - plan.mark, plan.regions.len() as u64);
        if expected - found >= u64::from(logs.count) {
            return Err(Damage::MissingRecords { offset: logs.base, expected, found }.into());
        }
        Ok(plan)
    }

    /// Collects the records of the log at `base` and the highest mark in them.
    fn read_log<S: Space>(
        &mut self,
        space: &S,
        logs: &Logs,
        base: u64,
        lines: u64,
        found: &mut Vec<InLog>,
    ) -> Result<(), Error> {
        let (first, mut torn) = (found.len(), Vec::new());
        for at in 0..lines {
            match record::read(space, base, lines, at) {
                Found::Nothing => self.used |= space.load_u64(base + at * LINE) != 0,
                Found::Torn => {
                    self.used = true;
                    self.torn_lines += 1;
                    if !has_one_byte(space, base + at * LINE) {
                        torn.push(at);
                    }
                }
                Found::Damaged(offset) => {
                    return Err(Damage::LogLine { offset, found: space.load_u64(offset) }.into());
                }
                Found::Record(Record { number, here: mut writes, there, lines }) => {
                    let mark = mark(&writes, logs.state);
                    let offset = base + at * LINE;
                    let damaged = Damage::LowWaterMark { offset, found: space.load_u64(offset) };
                    self.mark = self.mark.max(mark.ok_or(damaged)?);
                    self.used = true;
                    writes.remove(0);
                    found.push(InLog { base, at, lines, number, writes, there, followed: false });
                }
            }
        }
        let found = &mut found[first..];
        let last = found.iter().max_by_key(|record| record.number);
        let behind = last.map(|last| (last.at + last.lines) % lines);
        let followed = behind.is_some_and(|behind| torn.contains(&behind));
        found.iter_mut().for_each(|record| record.followed = followed);
        Ok(())
    }

    /// The next region's number.
    fn next(&self) -> u64 {
        self.regions.last().map_or(self.mark, |(number, _)| number + 1)
    }

    /// What recovery found and does.
    pub fn recovered(&self) -> Recovered {
        Recovered {
            replayed: self.regions.len() as u64,
            torn_lines: self.torn_lines,
            next: self.next(),
            ..Recovered::default()
        }
    }

    /// Does it. A crash at any moment leaves a pool of which a new plan can be made.
    pub fn carry_out<S: Space>(&self, space: &S, logs: &Logs) {
        if !self.used {
            return;
        }
        for write in self.regions.iter().flat_map(|(_, writes)| writes) {
            apply(space, write);
            flush(space, write);
        }
        space.fence();
        empty_logs(space, logs, self.next());
    }
}

/// Whether all but a byte of a line is zero: so little is not known from a damaged line that was never
/// written to.
fn has_one_byte<S: Space>(space: &S, place: u64) -> bool {
    let mut bytes = [0; LINE as usize];
    space.load(place, &mut bytes);
    bytes.iter().filter(|byte| **byte != 0).count() == 1
}

/// Whether no record is missing between two of one log, in the order of their numbers. Each is durable before
/// the next one of its log is begun, and only those below the mark are written over.
fn check_logs(logs: &Logs, lines: u64, found: &[InLog]) -> Result<(), Error> {
    for base in logs.starts() {
        let mut behind = None;
        for record in found.iter().filter(|record| record.base == base) {
            if let Some(at) = behind.filter(|at| *at != record.at) {
                return Err(Damage::MissingRecord { offset: base + at * LINE }.into());
            }
            behind = Some((record.at + record.lines) % lines);
        }
    }
    Ok(())
}

/// The mark that a record begins with.
fn mark(writes: &[Write], state: u64) -> Option<u64> {
    let mark = writes.first().filter(|write| write.offset() == state)?;
    match mark.change() {
        Change::Set(word) => State::of(state, word).map(|state| state.below),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Log;
    use super::*;
    use space::Image;

    const SHAPE: Shape = Shape { lines: 8, copies: 0 };
    const LOGS: Logs = Logs { base: 128, count: 2, bytes: 8 * LINE, state: 64, end: 2048 };
    /// A word of the pool, and another one.
    const PLACE: u64 = 1536;
    const OTHER: u64 = 1600;

    /// Region 2 is under way in the second log, while regions 3 to 5 end in the first one: two set a word,
    /// the last one another.
    fn under_way() -> Image {
        let space = Image::new(2048);
        State { below: 0, void: false }.write(&space, LOGS.state);
        let mark = State { below: 2, void: false }.word(LOGS.state);
        let mut logs: Vec<Log> = LOGS.starts().map(|base| Log::new(base, SHAPE)).collect();
        let regions = [(1, 2, OTHER + 8, 2), (0, 3, PLACE, 1), (0, 4, PLACE, 2), (0, 5, OTHER, 5)];
        for (log, number, offset, value) in regions {
            let set = |offset, value| Write::set(offset, value);
            let writes = [set(LOGS.state, mark), set(offset, value)];
            logs[log].write(&space, number, &writes, None, true);
        }
        space
    }

    fn recover(space: &Image) -> Result<Recovered, Error> {
        let plan = Plan::read(space, &LOGS, SHAPE, |_, writes| Ok(writes))?;
        plan.carry_out(space, &LOGS);
        Ok(plan.recovered())
    }

    #[test]
    fn regions_above_the_mark_are_carried_out_in_their_order() {
        let space = under_way();
        assert_eq!(recover(&space).map(|found| (found.replayed, found.next)), Ok((4, 6)));
        assert_eq!([PLACE, OTHER, OTHER + 8].map(|at| space.load_u64(at)), [2, 5, 2]);
    }

    /// Without the second one, the word would get its first value back.
    #[test]
    fn a_record_that_looks_torn_between_two_is_missed() {
        for (line, expected) in [(0, true), (1, false), (2, true)] {
            let space = under_way();
            let word = LOGS.base + line * LINE;
            space.store_u64(word, space.load_u64(word) ^ 0x101);
            let found = recover(&space);
            assert_eq!(found.is_ok(), expected, "line {line}: {found:?}");
        }
    }

    /// Each log may hide one, and not one of them two.
    #[test]
    fn more_records_that_look_torn_than_a_crash_hides_are_missed() {
        let space = under_way();
        for log in LOGS.starts() {
            space.store_u64(log, space.load_u64(log) ^ 0x101);
        }
        let found = recover(&space);
        assert!(matches!(found, Err(Error::Damaged(Damage::MissingRecords { .. }))), "{found:?}");
    }

    /// Somebody had begun to write it, so the one before it had ended: what that one wrote is not written
    /// again, where the damaged one wrote behind it.
    #[test]
    fn what_a_region_wrote_whose_record_looks_torn_stays() {
        let space = Image::new(2048);
        State { below: 0, void: false }.write(&space, LOGS.state);
        let mut log = Log::new(LOGS.base, SHAPE);
        for number in [2, 3] {
            let mark = State { below: number, void: false }.word(LOGS.state);
            let writes = [Write::set(LOGS.state, mark), Write::set(PLACE, number)];
            log.write(&space, number, &writes, None, true);
            space.store_u64(PLACE, number);
        }
        let last = LOGS.base + LINE;
        space.store_u64(last, space.load_u64(last) ^ 0x101);
        let found = recover(&space);
        assert_eq!(found.map(|found| (found.replayed, found.torn_lines)), Ok((0, 1)));
        assert_eq!(space.load_u64(PLACE), 3);
    }

    /// What a crash left must not stand beside what the next process writes: together they could be a line,
    /// or a record.
    #[test]
    fn whatever_stands_in_a_log_is_emptied() {
        let bytes = SHAPE.lines * LINE;
        for (what, number, lost) in
            [("an old record", 1, 0..0), ("half of a line", 2, 24..bytes), ("a later line alone", 2, 0..LINE)]
        {
            let space = Image::new(2048);
            State { below: 2, void: false }.write(&space, LOGS.state);
            let mark = State { below: 1, void: false }.word(LOGS.state);
            let set = |offset, value| Write::set(offset, value);
            let words = (0..4).map(|at| set(PLACE + 24 * at, !0));
            let writes: Vec<Write> = std::iter::once(set(LOGS.state, mark)).chain(words).collect();
            Log::new(LOGS.base, SHAPE).write(&space, number, &writes, None, true);
            lost.step_by(8).for_each(|at| space.store_u64(LOGS.base + at, 0));
            recover(&space).unwrap_or_else(|error| panic!("{what}: {error}"));
            let logs = (LOGS.base..LOGS.base + 2 * LOGS.bytes).step_by(8);
            assert!(logs.map(|at| space.load_u64(at)).all(|word| word == 0), "{what}");
            assert!((0..12).all(|word| space.load_u64(PLACE + 8 * word) == 0), "{what}");
        }
    }
}
