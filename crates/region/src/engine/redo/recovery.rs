//! What recovery does with the logs: finds the whole records, does them again in order, and empties the logs.

use space::{LINE, Space};

use super::{Logs, Recovered};
use crate::engine::place::{apply, fits, flush};
use crate::engine::record::{Found, read};
use crate::engine::state::{State, empty_logs};
use crate::{Error, Write};

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
                    Found::Damaged(offset) => return Err(Error::Damaged { what: "a line of a log", offset }),
                    Found::Record(record) => {
                        plan.used = true;
                        if record.number >= state.below {
                            let damaged = |what, offset| Error::Damaged { what, offset };
                            let number = record.number;
                            spans.push((number, at, (at + record.lines) % count));
                            let writes = record.writes(space, logs).ok_or_else(|| {
                                damaged("what the line of a log leads to, which", base + at * LINE)
                            })?;
                            if let Some(write) = writes.iter().find(|write| !fits(write, logs)) {
                                return Err(damaged("a place that a log names", write.offset));
                            }
                            plan.regions.push((number, writes));
                        }
                    }
                }
            }
            // Each is durable before the next one in its log is begun, so none is missing between two.
            spans.sort_unstable();
            if let Some(pair) = spans.windows(2).find(|pair| pair[0].2 != pair[1].1) {
                return Err(Error::Damaged {
                    what: "a record of a finished region",
                    offset: base + pair[0].2 * LINE,
                });
            }
        }
        plan.used |= plan.torn_lines > 0;
        plan.regions.sort_by_key(|(number, _)| *number);
        if let Some(pair) = plan.regions.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let offset = pair[0].1.first().map_or(logs.base, |write| write.offset);
            return Err(Error::Damaged { what: "what two records of one number name, the first", offset });
        }
        plan.check_gaps(logs)?;
        Ok(plan)
    }

    /// A crash can hide at most one record of each log, the one that was being written; and if it has the highest number of all, its absence leaves no
    /// gap. Whatever else is missing was there, and is damaged so that it looks torn.
    fn check_gaps(&self, logs: &Logs) -> Result<(), Error> {
        let expected = self.told().next - self.state.below;
        let missing = expected - self.regions.len() as u64;
        if missing >= u64::from(logs.count) {
            return Err(Error::Damaged {
                what: "a record of a finished region, in the logs from here on,",
                offset: logs.base,
            });
        }
        Ok(())
    }

    /// What is told of it.
    pub(super) fn told(&self) -> Recovered {
        let next = self.regions.last().map_or(self.state.below, |(number, _)| number + 1);
        Recovered {
            replayed: self.regions.len() as u64,
            torn_lines: self.torn_lines,
            next,
            ..Recovered::default()
        }
    }

    /// Does it. A crash at any moment leaves a pool of which a new plan can be made: what is in the logs counts until all of it is in
    /// its place, and nothing of it from then on.
    pub(super) fn carry_out<S: Space>(&self, space: &S, logs: &Logs) {
        if !self.used {
            return;
        }
        for write in self.regions.iter().flat_map(|(_, writes)| writes) {
            apply(space, write);
            flush(space, write);
        }
        space.fence();
        empty_logs(space, logs, self.told().next);
    }
}
