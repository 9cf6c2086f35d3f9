//! `Schedule`: how a run chooses its next thread, as a value and as a token to paste.
//!
//! A token is one word of letters, digits, `-`, `.` and `_`:
//!
//! ```text
//! sim1-walk-s2a-a16-c133.a1bf03….1b2c3d4e
//!  │    │    │   │   └ seen: 133 decisions, their digest at 1, 2, 4, … and at the end (`seen.rs`)
//!  │    │    │   └ accesses: one in 16 is a decision; a1: each, a0: none
//!  │    │    └ seed, hexadecimal
//!  │    └ strategy: walk, pct3x1000 (depth, decisions), turns, stay
//!  └ version of all that the choices depend on
//! ```
//!
//! Optional fields are `m100000` (the run ends after so many events) and `o12.1_3.0`, exceptions from the
//! strategy: at decision 12 thread 1, and 3 decisions later thread 0.

use std::fmt;
use std::str::FromStr;

use super::seen::Seen;

/// What decides which of the threads that can go on does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Any of them, with equal chance.
    Walk,
    /// Probabilistic concurrency testing (Burckhardt and others, ASPLOS 2010): the one with the highest of
    /// random priorities, which drop at `depth - 1` random places among the first `decisions`. Finds a bug
    /// that needs `depth` steps in an order with a chance of at least 1 in threads × decisions^(depth - 1).
    Pct {
        /// Steps that a bug needs in a certain order, from 1.
        depth: u32,
        /// About how many decisions a run makes.
        decisions: u64,
    },
    /// Each in turn, by number.
    Turns,
    /// The one that runs, as long as it can; then the next by number.
    Stay,
}

/// At which accesses of the space it is decided anew who goes on. At locks, threads and the clock it always
/// is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accesses {
    /// At none.
    Never,
    /// At each.
    Every,
    /// At one in so many, at random; 0 and 1 mean each.
    OneIn(u32),
}

/// A decision that is not the strategy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Number of the decision, from 0.
    pub decision: u64,
    /// The thread that goes on.
    pub thread: u32,
}

/// How a [`super::Sim`] chooses. Printed it is a token, and `token.parse()` gives it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(super) strategy: Strategy,
    pub(super) seed: u64,
    pub(super) accesses: Accesses,
    pub(super) events_max: Option<u64>,
    pub(super) exceptions: Vec<Exception>,
    pub(super) seen: Option<Seen>,
}

impl Schedule {
    /// A schedule of that strategy. The seed decides all that is left to chance, what [`crate::Env::random`]
    /// gives included. One in 16 accesses is a decision, until [`Schedule::at_accesses`] says otherwise.
    #[must_use]
    pub fn new(strategy: Strategy, seed: u64) -> Self {
        Schedule {
            strategy,
            seed,
            accesses: Accesses::OneIn(16),
            events_max: None,
            exceptions: Vec::new(),
            seen: None,
        }
    }

    /// A random walk.
    #[must_use]
    pub fn walk(seed: u64) -> Self {
        Schedule::new(Strategy::Walk, seed)
    }

    /// The same with decisions at those accesses.
    #[must_use]
    pub fn at_accesses(mut self, accesses: Accesses) -> Self {
        self.accesses = match accesses {
            Accesses::OneIn(0 | 1) => Accesses::Every,
            other => other,
        };
        self
    }

    /// The same, but the run fails ([`super::Failure::Endless`]) after so many events: accesses and
    /// everything else at which threads can change.
    #[must_use]
    pub fn at_most(mut self, events: u64) -> Self {
        self.events_max = Some(events);
        self
    }

    /// The same with exceptions in place of those that it had, and held to nothing that was seen with those.
    ///
    /// # Panics
    /// If they are not in the order of their decisions.
    #[must_use]
    pub fn with_exceptions(mut self, exceptions: Vec<Exception>) -> Self {
        let ordered = exceptions.windows(2).all(|pair| pair[0].decision < pair[1].decision);
        assert!(ordered, "exceptions are in the order of their decisions");
        self.exceptions = exceptions;
        self.seen = None;
        self
    }

    /// The same, held to nothing that an earlier run has seen: for a program that was changed on purpose.
    #[must_use]
    pub fn unchecked(mut self) -> Self {
        self.seen = None;
        self
    }

    /// What decides where there is no exception.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The start of all chance.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The decisions that are not the strategy's.
    #[must_use]
    pub fn exceptions(&self) -> &[Exception] {
        &self.exceptions
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy {
            Strategy::Walk => f.write_str("sim1-walk")?,
            Strategy::Pct { depth, decisions } => write!(f, "sim1-pct{depth}x{decisions}")?,
            Strategy::Turns => f.write_str("sim1-turns")?,
            Strategy::Stay => f.write_str("sim1-stay")?,
        }
        let accesses = match self.accesses {
            Accesses::Never => 0,
            Accesses::Every => 1,
            Accesses::OneIn(n) => n,
        };
        write!(f, "-s{:x}-a{accesses}", self.seed)?;
        if let Some(events) = self.events_max {
            write!(f, "-m{events}")?;
        }
        let mut before = 0;
        for (number, exception) in self.exceptions.iter().enumerate() {
            let start = if number == 0 { "-o" } else { "_" };
            write!(f, "{start}{}.{}", exception.decision - before, exception.thread)?;
            before = exception.decision;
        }
        if let Some(seen) = &self.seen {
            write!(f, "-c{seen}")?;
        }
        Ok(())
    }
}

/// A text that is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{token}` is no schedule: {problem}")]
pub struct TokenError {
    /// The text.
    pub token: String,
    /// What is wrong with it.
    pub problem: String,
}

impl FromStr for Schedule {
    type Err = TokenError;

    fn from_str(token: &str) -> Result<Self, TokenError> {
        parse(token).map_err(|problem| TokenError { token: token.to_owned(), problem })
    }
}

fn parse(token: &str) -> Result<Schedule, String> {
    let mut fields = token.trim().split('-');
    let version = fields.next().unwrap_or_default();
    if version != "sim1" {
        return Err(format!("it begins with `{version}` where a token of this version has `sim1`"));
    }
    let strategy = strategy(fields.next().ok_or("the strategy is missing")?)?;
    let seed = fields.next().and_then(|field| field.strip_prefix('s')).ok_or("the seed is missing")?;
    let seed = u64::from_str_radix(seed, 16).map_err(|_| format!("`{seed}` is no seed"))?;
    let accesses =
        fields.next().and_then(|field| field.strip_prefix('a')).ok_or("the accesses are missing")?;
    let accesses = match number(accesses)? {
        0 => Accesses::Never,
        n => Accesses::OneIn(n),
    };
    let mut schedule = Schedule::new(strategy, seed).at_accesses(accesses);
    for field in fields {
        if let Some(events) = field.strip_prefix('m') {
            schedule.events_max = Some(number(events)?);
        } else if let Some(list) = field.strip_prefix('o') {
            schedule.exceptions = exceptions(list)?;
        } else if let Some(seen) = field.strip_prefix('c') {
            schedule.seen = Some(seen.parse()?);
        } else {
            return Err(format!("`{field}` is no field of a token"));
        }
    }
    Ok(schedule)
}

fn strategy(field: &str) -> Result<Strategy, String> {
    match field {
        "walk" => return Ok(Strategy::Walk),
        "turns" => return Ok(Strategy::Turns),
        "stay" => return Ok(Strategy::Stay),
        _ => {}
    }
    let pct = field.strip_prefix("pct").and_then(|rest| rest.split_once('x'));
    let (depth, decisions) = pct.ok_or_else(|| format!("`{field}` is no strategy"))?;
    Ok(Strategy::Pct { depth: number(depth)?, decisions: number(decisions)? })
}

fn exceptions(list: &str) -> Result<Vec<Exception>, String> {
    let mut exceptions: Vec<Exception> = Vec::new();
    for item in list.split('_') {
        let (gap, thread) = item.split_once('.').ok_or_else(|| format!("`{item}` is no exception"))?;
        let (gap, thread) = (number::<u64>(gap)?, number(thread)?);
        let before = exceptions.last().map(|exception| exception.decision);
        let decision = before.unwrap_or(0).checked_add(gap).filter(|&decision| Some(decision) != before);
        let decision = decision.ok_or_else(|| format!("`{item}` is not behind the exception before it"))?;
        exceptions.push(Exception { decision, thread });
    }
    Ok(exceptions)
}

pub(super) fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is no number, or too large a one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let pct = Strategy::Pct { depth: 3, decisions: 1000 };
        let exceptions = vec![
            Exception { decision: 0, thread: 2 },
            Exception { decision: 12, thread: 1 },
            Exception { decision: 15, thread: 0 },
        ];
        for (schedule, token) in [
            (Schedule::walk(0x2a), "sim1-walk-s2a-a16"),
            (
                Schedule::new(pct, u64::MAX).at_accesses(Accesses::Every),
                "sim1-pct3x1000-sffffffffffffffff-a1",
            ),
            (
                Schedule::new(Strategy::Turns, 0).at_accesses(Accesses::Never).at_most(9),
                "sim1-turns-s0-a0-m9",
            ),
            (Schedule::new(Strategy::Stay, 1).with_exceptions(exceptions), "sim1-stay-s1-a16-o0.2_12.1_3.0"),
        ] {
            assert_eq!(schedule.to_string(), token);
            assert_eq!(token.parse(), Ok(schedule));
        }
    }

    #[test]
    fn what_is_no_token_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "begins with ``"),
            ("sim2-walk-s1-a1", "begins with `sim2`"),
            ("sim1", "strategy is missing"),
            ("sim1-run-s1-a1", "`run` is no strategy"),
            ("sim1-pct3-s1-a1", "`pct3` is no strategy"),
            ("sim1-pctx1-s1-a1", "`` is no number"),
            ("sim1-walk-a1", "seed is missing"),
            ("sim1-walk-sxy-a1", "`xy` is no seed"),
            ("sim1-walk-s1", "accesses are missing"),
            ("sim1-walk-s1-a-1", "`` is no number"),
            ("sim1-walk-s1-a1-z", "`z` is no field"),
            ("sim1-walk-s1-a1-o5", "`5` is no exception"),
            ("sim1-walk-s1-a1-o5.1_0.2", "not behind"),
            ("sim1-walk-s1-a1-o18446744073709551615.1_1.2", "not behind"),
            ("sim1-walk-s1-a1-c3", "`3`"),
        ] {
            let error = text.parse::<Schedule>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
