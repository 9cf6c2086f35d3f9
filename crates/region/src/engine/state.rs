//! The word that an engine keeps beside its logs.

use space::Space;

use super::Logs;
use crate::Error;
use crate::header::guarded;
use crate::log::clear;

/// Numbers of regions are below this.
pub(super) const NUMBERS: u64 = 1 << 47;

/// The state that an engine keeps beside its logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Regions with lower numbers need no log.
    pub(super) below: u64,
    /// Whether the logs are being emptied: nothing in them counts.
    pub(super) void: bool,
}

impl State {
    pub(super) fn read<S: Space>(space: &S, at: u64) -> Result<State, Error> {
        let damaged = Error::Damaged { what: "the mark up to which logs are applied", offset: at };
        State::of(at, space.load_u64(at)).ok_or(damaged)
    }

    /// The state in a word at `at`, if it is one.
    pub(super) fn of(at: u64, word: u64) -> Option<State> {
        let number = guarded::open(at, word)?;
        Some(State { below: number >> 1, void: number & 1 == 1 })
    }

    /// The word at `at` for it.
    pub(super) fn word(self, at: u64) -> u64 {
        guarded::seal(at, self.below.min(NUMBERS - 1) << 1 | u64::from(self.void))
    }

    /// Makes this the state, durably.
    pub(super) fn write<S: Space>(self, space: &S, at: u64) {
        space.store_u64(at, self.word(at));
        space.persist(at, 8);
    }
}

/// Empties the logs, once the words that they name are durable; `below` is the next region's number. After a crash within it they are
/// empty or void: half of a log says something else than all of it.
pub(super) fn empty_logs<S: Space>(space: &S, logs: &Logs, below: u64) {
    State { below, void: true }.write(space, logs.state);
    logs.starts().for_each(|base| clear(space, base, logs.bytes));
    space.fence();
    State { below, void: false }.write(space, logs.state);
}
