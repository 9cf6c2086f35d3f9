//! What recovery does with undo logs: takes back, in each, the region that had not ended, and empties them.

use space::{LINE, Space};

use std::collections::BTreeSet;

use super::line::{Found, Line, Piece, Says, read};
use crate::engine::place::{fits, take_back};
use crate::engine::state::{State, empty_logs};
use crate::engine::{Logs, Recovered};
use crate::{Damage, Error, Write};

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    /// By region that had not ended: what takes it back, in the order in which it was written.
    under_way: Vec<Vec<Write>>,
    torn_lines: u64,
    /// The next region's number.
    next: u64,
    /// Whether there is anything in the logs.
    used: bool,
}

impl Plan {
    /// Reads the logs.
    pub(super) fn read<S: Space>(space: &S, logs: &Logs) -> Result<Plan, Error> {
        let state = State::read(space, logs.state)?;
        let mut plan = Plan { under_way: Vec::new(), torn_lines: 0, next: state.below, used: state.void };
        if state.void {
            return Ok(plan);
        }
        for base in logs.starts() {
            plan.read_log(space, logs, base, state.below)?;
        }
        Ok(plan)
    }

    /// Reads the log at `base`, in which there are no regions with numbers lower than `below`.
    fn read_log<S: Space>(&mut self, space: &S, logs: &Logs, base: u64, below: u64) -> Result<(), Error> {
        let line_at = |at: u64| Error::from(damaged(space, base + at * LINE));
        let count = logs.bytes / LINE;
        let mut lines: Vec<(u64, Line)> = Vec::new();
        let mut torn = None;
        for at in 0..count {
            match read(space, base + at * LINE) {
                Found::Nothing => {}
                // A line is durable before the next one is begun, so a crash tears one.
                Found::Torn if torn.is_none() => torn = Some(at),
                Found::Line(line) if line.number >= below => lines.push((at, line)),
                Found::Torn | Found::Line(_) | Found::Damaged => return Err(line_at(at)),
            }
        }
        self.torn_lines += u64::from(torn.is_some());
        self.used |= torn.is_some() || !lines.is_empty();
        // Older regions have ended: the log was not given to the next one before.
        let last = lines.iter().map(|(_, line)| line.number).max();
        lines.retain(|(_, line)| Some(line.number) == last);
        let end = lines.iter().find(|(_, line)| line.says == Says::End).map(|(at, _)| *at);
        let behind = match (last, end) {
            (None, _) => 0,
            (Some(_), Some(end)) => end + 1,
            (Some(_), None) => {
                // Its lines stand behind each other, and if one of them is missing, it was there.
                let first =
                    lines.iter().position(|(_, line)| line.first).ok_or_else(|| line_at(lines[0].0))?;
                lines.rotate_left(first);
                let from = lines[0].0;
                let misplaced = (0..)
                    .zip(&lines)
                    .find(|(step, (at, line))| (from + step) % count != *at || line.first != (*step == 0));
                if let Some((_, (at, _))) = misplaced {
                    return Err(line_at(*at));
                }
                let (mut inverses, mut more) = (Vec::new(), None);
                for (at, line) in &lines {
                    match line.says {
                        Says::Inverse(write) if more.is_none() => inverses.push(write),
                        Says::GoesOn(piece) if more.is_none() => more = Some((base + at * LINE, piece)),
                        _ => return Err(line_at(*at)),
                    }
                }
                let mut seen = BTreeSet::new();
                while let Some((offset, piece)) = more {
                    if !seen.insert(piece.at) || !lies_in_heap(&piece, logs) {
                        return Err(Damage::Overflow { offset, found: piece.at }.into());
                    }
                    more = self.read_piece(space, lines[0].1.number, piece, &mut inverses)?;
                }
                if let Some(write) = inverses.iter().find(|write| !fits(write, logs)) {
                    return Err(Damage::LogAddress { offset: base, found: write.offset() }.into());
                }
                self.under_way.push(inverses);
                from + lines.len() as u64
            }
        };
        if let Some(at) = torn.filter(|&at| at != behind % count) {
            return Err(line_at(at));
        }
        self.next = self.next.max(last.map_or(0, |number| number + 1));
        Ok(())
    }

    /// Reads the overflow extent of region `number`; where it goes on, and which line has that.
    fn read_piece<S: Space>(
        &mut self,
        space: &S,
        number: u64,
        Piece { at, lines }: Piece,
        inverses: &mut Vec<Write>,
    ) -> Result<Option<(u64, Piece)>, Error> {
        let (mut over, mut more) = (false, None);
        for place in (at..at + lines * LINE).step_by(LINE as usize) {
            match read(space, place) {
                Found::Line(Line { number: of, first: false, says: Says::Inverse(write) })
                    if of == number && !over =>
                {
                    inverses.push(write);
                }
                Found::Line(Line { number: of, first: false, says: Says::GoesOn(piece) })
                    if of == number && !over =>
                {
                    (over, more) = (true, Some((place, piece)));
                }
                Found::Torn if !over => {
                    over = true;
                    self.torn_lines += 1;
                }
                // It was emptied before it was used.
                Found::Nothing => over = true,
                _ => return Err(damaged(space, place).into()),
            }
        }
        Ok(more)
    }

    /// What recovery found and does.
    pub(super) fn recovered(&self) -> Recovered {
        Recovered {
            undone: self.under_way.len() as u64,
            torn_lines: self.torn_lines,
            next: self.next,
            ..Recovered::default()
        }
    }

    /// Does it. A crash at any moment leaves a pool of which a new plan can be made: what is in the logs
    /// counts until all of it is taken back, and nothing of it from then on.
    pub(super) fn carry_out<S: Space>(&self, space: &S, logs: &Logs) {
        if !self.used {
            return;
        }
        // Regions of two logs have no word in common but such of which they change different bits.
        self.under_way.iter().for_each(|inverses| take_back(space, inverses));
        space.fence();
        empty_logs(space, logs, self.next);
    }
}

/// The line at `offset` is damaged.
fn damaged<S: Space>(space: &S, offset: u64) -> Damage {
    Damage::LogLine { offset, found: space.load_u64(offset) }
}

/// Whether an overflow extent is where one can be.
fn lies_in_heap(&Piece { at, lines }: &Piece, logs: &Logs) -> bool {
    let heap = logs.base + u64::from(logs.count) * logs.bytes;
    let end = lines.checked_mul(LINE).and_then(|bytes| at.checked_add(bytes));
    at >= heap && at.is_multiple_of(LINE) && end.is_some_and(|end| end <= logs.end)
}

#[cfg(test)]
mod tests {
    use super::super::line;
    use super::*;
    use crate::log::{Ring, Role};
    use space::Image;

    const LOGS: Logs = Logs { base: 128, count: 2, bytes: 4 * LINE, state: 64, end: 2048 };
    /// Words of the pool.
    const PLACE: u64 = 1024;

    fn set(word: u64, value: u64) -> Write {
        Write::set(PLACE + 8 * word, value)
    }

    /// Writes lines of region `number`.
    fn region(space: &Image, ring: &mut Ring, number: u64, inverses: &[Write], ended: bool) {
        for (at, &write) in inverses.iter().enumerate() {
            let role = if at == 0 { Role::First } else { Role::Later };
            ring.push(space, &line::inverse(number, write), role).expect("it fits");
        }
        if ended {
            ring.push(space, &line::end(number), Role::End).expect("it fits");
            ring.release(ring.head());
        }
    }

    /// A first log in which a region has ended and another one, round the end of the ring, has not.
    fn under_way() -> Image {
        let space = Image::new(2048);
        State { below: 0, void: false }.write(&space, LOGS.state);
        let mut ring = Ring::new(LOGS.base, LOGS.bytes);
        region(&space, &mut ring, 3, &[set(0, 1)], true);
        region(&space, &mut ring, 5, &[set(1, 11), set(2, 12), set(1, 99)], false);
        space
    }

    fn recover(space: &Image) -> Result<Recovered, Error> {
        let plan = Plan::read(space, &LOGS)?;
        plan.carry_out(space, &LOGS);
        Ok(plan.recovered())
    }

    #[test]
    fn what_had_not_ended_is_taken_back_from_its_end() {
        let space = under_way();
        let found = Recovered { undone: 1, next: 6, ..Recovered::default() };
        assert_eq!(recover(&space), Ok(found));
        assert_eq!([0, 1, 2].map(|word| space.load_u64(PLACE + 8 * word)), [0, 11, 12]);
        assert_eq!(recover(&space), Ok(Recovered { next: 6, ..Recovered::default() }), "the logs are empty");
    }

    #[test]
    fn a_missing_line_is_damage() {
        // Lines 2, 3 and 0 are the region's; without the last one it had only begun.
        for (line, expected) in [(2, false), (3, false), (0, true)] {
            let space = under_way();
            (0..8).for_each(|word| space.store_u64(LOGS.base + line * LINE + 8 * word, 0));
            assert_eq!(recover(&space).is_ok(), expected, "line {line}");
        }
    }

    #[test]
    fn only_the_line_behind_the_last_one_can_be_torn() {
        for (log, line, expected) in [(0, 1, true), (0, 2, false), (0, 3, false), (1, 0, true), (1, 1, false)]
        {
            let space = under_way();
            let word = LOGS.base + log * LOGS.bytes + line * LINE;
            // Some word of another pass, whether there was a line or not.
            space.store_u64(word, space.load_u64(word) ^ 1);
            space.store_u64(word + 8, space.load_u64(word + 8) | 2);
            let found = Plan::read(&space, &LOGS).map(|plan| plan.torn_lines);
            assert_eq!(found.ok(), expected.then_some(1), "log {log}, line {line}");
        }
    }

    #[test]
    fn void_logs_do_not_count() {
        let space = under_way();
        State { below: 6, void: true }.write(&space, LOGS.state);
        assert_eq!(recover(&space), Ok(Recovered { next: 6, ..Recovered::default() }));
        assert_eq!(space.load_u64(PLACE + 8), 0);
        assert_eq!(Plan::read(&space, &LOGS).map(|plan| plan.used), Ok(false));
    }

    /// A piece of the heap, and one behind it.
    const PIECE: Piece = Piece { at: 1536, lines: 4 };
    const NEXT: Piece = Piece { at: 1792, lines: 4 };

    /// A region that goes on in two pieces.
    fn gone_on() -> Image {
        let space = Image::new(2048);
        State { below: 0, void: false }.write(&space, LOGS.state);
        let mut ring = Ring::new(LOGS.base, LOGS.bytes);
        region(&space, &mut ring, 3, &[set(1, 11), set(2, 12)], false);
        let mut rings = [ring, Ring::new(PIECE.at, 4 * LINE), Ring::new(NEXT.at, 4 * LINE)];
        for (ring, (piece, words)) in
            rings.iter_mut().zip([(Some(PIECE), 3..3), (Some(NEXT), 3..6), (None, 6..8)])
        {
            for word in words {
                ring.push(&space, &line::inverse(3, set(word, 10 + word)), Role::Later).expect("it fits");
            }
            if let Some(piece) = piece {
                ring.push(&space, &line::goes_on(3, piece), Role::Later).expect("it fits");
            }
        }
        space
    }

    #[test]
    fn a_region_that_goes_on_is_taken_back_from_all_pieces() {
        let space = gone_on();
        assert_eq!(recover(&space).map(|found| (found.undone, found.torn_lines, found.next)), Ok((1, 0, 4)));
        let words: Vec<u64> = (1..8).map(|word| space.load_u64(PLACE + 8 * word)).collect();
        assert_eq!(words, [11, 12, 13, 14, 15, 16, 17]);
    }

    #[test]
    fn what_is_missing_in_a_piece_is_damage() {
        // A line that was not durable was the last one.
        for (piece, line, expected) in [
            (PIECE, 0, false),
            (PIECE, 2, false),
            (PIECE, 3, true),
            (NEXT, 0, false),
            (NEXT, 1, true),
            (NEXT, 2, true),
        ] {
            let space = gone_on();
            let place = piece.at + line * LINE;
            (0..8).for_each(|word| space.store_u64(place + 8 * word, 0));
            assert_eq!(recover(&space).is_ok(), expected, "line {line} at {:#x} is gone", piece.at);
            let space = gone_on();
            space.store_u64(place, space.load_u64(place) ^ 1);
            space.store_u64(place + 8, space.load_u64(place + 8) | 2);
            let torn = recover(&space).map(|found| found.torn_lines).ok();
            assert_eq!(torn, expected.then_some(1), "line {line} at {:#x} is torn", piece.at);
            let space = gone_on();
            space.store_u64(place + 16, space.load_u64(place + 16) ^ 6);
            assert!(recover(&space).is_err(), "line {line} at {:#x} is damaged", piece.at);
        }
    }

    #[test]
    fn a_log_that_goes_round_is_damage() {
        let space = gone_on();
        let mut ring = Ring::new(NEXT.at, 4 * LINE);
        ring.push(&space, &line::goes_on(3, PIECE), Role::Later).expect("it fits");
        (1..4).for_each(|line| (0..8).for_each(|word| space.store_u64(NEXT.at + line * LINE + 8 * word, 0)));
        assert!(recover(&space).is_err());
        let outside = [(64, 4), (1537, 4), (1920, 4), (1536, u64::MAX), (u64::MAX - 63, 1)];
        for (at, lines) in outside {
            let space = gone_on();
            let mut ring = Ring::new(PIECE.at, 4 * LINE);
            ring.push(&space, &line::goes_on(3, Piece { at, lines }), Role::Later).expect("it fits");
            assert!(recover(&space).is_err(), "{at:#x}");
        }
    }
}
