//! What recovery does with the logs: finds the whole records, does them again in order, and empties the logs.

use space::{LINE, Space};

use super::{Logs, Recovered};
use crate::engine::place::{apply, fits, flush};
use crate::engine::record::{Found, read};
use crate::engine::state::{State, empty_logs};
use crate::{Damage, Error, Write};

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    state: State,
    /// What is done again: numbers of regions, in their order, and what they wrote.
    regions: Vec<(u64, Vec<Write>)>,
    torn_lines: u64,
    /// Whether there is anything in the logs.
    used: bool,
}

impl Plan {
    /// Reads the logs.
    pub(super) fn read<S: Space>(space: &S, logs: &Logs) -> Result<Plan, Error> {
        let state = State::read(space, logs.state)?;
        let mut plan = Plan { state, regions: Vec::new(), torn_lines: 0, used: state.void };
        if state.void {
            return Ok(plan);
        }
        let count = logs.bytes / LINE;
        for base in logs.starts() {
            // Records that count: number, first line, and the line behind.
            let mut spans = Vec::new();
            for at in 0..count {
                match read(space, base, count, at) {
                    Found::Nothing => plan.used |= space.load_u64(base + at * LINE) != 0,
                    Found::Torn => plan.torn_lines += 1,
                    Found::Damaged(offset) => {
                        return Err(Damage::LogLine { offset, found: space.load_u64(offset) }.into());
                    }
                    Found::Record(record) => {
                        plan.used = true;
                        if record.number >= state.below {
                            let (number, offset) = (record.number, base + at * LINE);
                            spans.push((number, at, (at + record.lines) % count));
                            let found = record.there.map_or(offset, |there| there.first());
                            let writes =
                                record.writes(space, logs).ok_or(Damage::Overflow { offset, found })?;
                            if let Some(write) = writes.iter().find(|write| !fits(write, logs)) {
                                return Err(Damage::LogAddress { offset, found: write.offset() }.into());
                            }
                            plan.regions.push((number, writes));
                        }
                    }
                }
            }
            // Each is durable before the next one in its log is begun, so none is missing between two.
            spans.sort_unstable();
            if let Some(pair) = spans.windows(2).find(|pair| pair[0].2 != pair[1].1) {
                return Err(Damage::MissingRecord { offset: base + pair[0].2 * LINE }.into());
            }
        }
        plan.used |= plan.torn_lines > 0;
        plan.regions.sort_by_key(|(number, _)| *number);
        if let Some(pair) = plan.regions.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Damage::RecordTwice { offset: logs.base, number: pair[0].0 }.into());
        }
        plan.check_gaps(logs)?;
        Ok(plan)
    }

    /// A crash can hide at most one record of each log, the one that was being written; and if it has the
    /// highest number of all, its absence leaves no gap. Whatever else is missing was there, and is damaged
    /// so that it looks torn.
    fn check_gaps(&self, logs: &Logs) -> Result<(), Error> {
        let (expected, found) = (self.recovered().next - self.state.below, self.regions.len() as u64);
        if expected - found >= u64::from(logs.count) {
            return Err(Damage::MissingRecords { offset: logs.base, expected, found }.into());
        }
        Ok(())
    }

    /// What recovery found and does.
    pub(super) fn recovered(&self) -> Recovered {
        let next = self.regions.last().map_or(self.state.below, |(number, _)| number + 1);
        Recovered {
            replayed: self.regions.len() as u64,
            torn_lines: self.torn_lines,
            next,
            ..Recovered::default()
        }
    }

    /// Does it. A crash at any moment leaves a pool of which a new plan can be made: what is in the logs
    /// counts until all of it is in its place, and nothing of it from then on.
    pub(super) fn carry_out<S: Space>(&self, space: &S, logs: &Logs) {
        if !self.used {
            return;
        }
        for write in self.regions.iter().flat_map(|(_, writes)| writes) {
            apply(space, write);
            flush(space, write);
        }
        space.fence();
        empty_logs(space, logs, self.recovered().next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::record::{Draft, Drafted, Entry};
    use crate::log::Ring;
    use space::Image;

    const LOGS: Logs = Logs { base: 128, count: 2, bytes: 8 * LINE, state: 64, end: 2048 };
    /// A word of the pool.
    const PLACE: u64 = 1536;

    /// Regions that set a word: in which log, their number, which word.
    fn written(regions: &[(usize, u64, u64)]) -> Image {
        let space = Image::new(4096);
        State { below: 2, void: false }.write(&space, LOGS.state);
        let mut rings: Vec<Ring> = LOGS.starts().map(|base| Ring::new(base, LOGS.bytes)).collect();
        for &(log, number, offset) in regions {
            let here = &[Write::set(offset, number)];
            let (mut draft, entry) = (Draft::default(), Drafted { here, there: None });
            entry.prepare(&mut draft);
            entry.write(&mut draft, &space, &mut rings[log], number, true);
        }
        space
    }

    /// What recovery replays, and the next number.
    fn plan(regions: &[(usize, u64, u64)]) -> Result<(u64, u64), Error> {
        let plan = Plan::read(&written(regions), &LOGS)?;
        Ok((plan.recovered().replayed, plan.recovered().next))
    }

    #[test]
    fn a_crash_hides_as_many_records_as_there_are_logs_and_no_more() {
        assert_eq!(plan(&[]), Ok((0, 2)));
        assert_eq!(plan(&[(0, 2, PLACE), (1, 3, PLACE), (0, 4, PLACE)]), Ok((3, 5)));
        // The one that is not there is under way in the other log, and so is the next one in this.
        assert_eq!(plan(&[(0, 3, PLACE)]), Ok((1, 4)));
        let missed = |expected, found| {
            Err(Error::Damaged(Damage::MissingRecords { offset: LOGS.base, expected, found }))
        };
        assert_eq!(
            plan(&[(0, 4, PLACE)]),
            missed(3, 1),
            "two are missing, and the log of one of them is known"
        );
        assert_eq!(plan(&[(0, 2, PLACE), (1, 5, PLACE)]), missed(4, 2));
        assert_eq!(plan(&[(0, 1, PLACE), (1, 2, PLACE)]), Ok((1, 3)), "the first one does not count");
    }

    #[test]
    fn two_records_of_a_number_are_damage() {
        let twice = Damage::RecordTwice { offset: LOGS.base, number: 2 };
        assert_eq!(plan(&[(0, 2, PLACE), (1, 2, PLACE + 8)]), Err(twice.into()));
    }

    #[test]
    fn no_record_writes_where_no_region_does() {
        let past = LOGS.base + 2 * LOGS.bytes;
        for (offset, expected) in [
            (LOGS.state - 8, false),
            (LOGS.state, false),
            (LOGS.state + 8, true),
            (LOGS.base - 8, true),
            (LOGS.base, false),
            (past - 8, false),
            (past, true),
            (LOGS.end - 8, true),
            (LOGS.end, false),
        ] {
            let refused = Damage::LogAddress { offset: LOGS.base, found: offset };
            let expected = if expected { Ok((1, 3)) } else { Err(refused.into()) };
            assert_eq!(plan(&[(0, 2, offset)]), expected, "{offset}");
        }
    }

    /// What a crash left must not stand beside what the next process writes: together they could be a line,
    /// or a record.
    #[test]
    fn whatever_stands_in_a_log_is_emptied() {
        for (what, number, lost) in [
            ("an old record", 1, 0..0),
            ("half of a line", 2, 24..LOGS.bytes),
            ("a later line alone", 2, 0..LINE),
        ] {
            let space = Image::new(4096);
            State { below: 2, void: false }.write(&space, LOGS.state);
            let here: Vec<Write> = (0..5).map(|at| Write::set(PLACE + 24 * at, !0)).collect();
            let (mut draft, entry) = (Draft::default(), Drafted { here: &here, there: None });
            let mut ring = Ring::new(LOGS.base, LOGS.bytes);
            assert_eq!(entry.prepare(&mut draft), 2);
            entry.write(&mut draft, &space, &mut ring, number, true);
            lost.step_by(8).for_each(|at| space.store_u64(LOGS.base + at, 0));
            let plan = Plan::read(&space, &LOGS).unwrap_or_else(|error| panic!("{what}: {error}"));
            plan.carry_out(&space, &LOGS);
            let logs = (LOGS.base..LOGS.base + 2 * LOGS.bytes).step_by(8);
            assert!(logs.map(|at| space.load_u64(at)).all(|word| word == 0), "{what}");
            assert!((0..12).all(|word| space.load_u64(PLACE + 8 * word) == 0), "{what}");
        }
    }
}
