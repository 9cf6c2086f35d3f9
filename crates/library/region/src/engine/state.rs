//! The word that an engine keeps beside its logs.

use space::Space;

use super::Logs;
use crate::guarded;
use crate::log::clear;
use crate::{Damage, Error};

/// Numbers of regions are below this.
pub(crate) const NUMBERS: u64 = 1 << 47;

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
        let found = space.load_u64(at);
        State::of(at, found).ok_or(Damage::EngineState { offset: at, found }.into())
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

/// Empties the logs, once the words that they name are durable; `below` is the next region's number. After a
/// crash within it they are empty or void: half of a log says something else than all of it.
pub(super) fn empty_logs<S: Space>(space: &S, logs: &Logs, below: u64) {
    State { below, void: true }.write(space, logs.state);
    logs.starts().for_each(|base| clear(space, base, logs.bytes));
    space.fence();
    State { below, void: false }.write(space, logs.state);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::STATE;
    use crate::{Atomicity, MicroBuffer, Options, Pool, Redo, Shadow, Untyped};
    use space::sim::{self, Schedule};
    use space::{Env, Image, Sim};

    type Numbered<'e, A> = Pool<&'e Sim<Image>, Untyped, A>;

    fn set<A: Atomicity>(pool: &Numbered<'_, A>, value: u64) -> Result<(), Error> {
        let mut tx = pool.begin()?;
        tx.store_bytes(pool.root_reference().0, &value.to_le_bytes())?;
        tx.commit()
    }

    fn last_numbers<A: Atomicity>() {
        let run = sim::run(Image::new(1 << 17), &Schedule::walk(1), |env| {
            drop(Numbered::<A>::create_named(env, &Options::default(), "numbers", 8).expect("it fits"));
            // As if there had been so many regions.
            drop(Numbered::<A>::open_named(env, "numbers").expect("it is whole"));
            State { below: NUMBERS - 2, void: false }.write(env.space(), STATE);
            let (pool, _) = Numbered::<A>::open_named(env, "numbers").expect("it is whole");
            assert_eq!([1, 2, 3].map(|value| set(&pool, value)), [Ok(()), Ok(()), Err(Error::Exhausted)]);
            drop(pool);
            let (pool, _) = Numbered::<A>::open_named(env, "numbers").expect("it is whole");
            let mut found = [0; 8];
            pool.load_bytes(pool.root_reference().0, &mut found).expect("it is there");
            assert_eq!(u64::from_le_bytes(found), 2, "{}", A::NAME);
        });
        run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
    }

    #[test]
    fn regions_have_numbers_up_to_the_last_one() {
        last_numbers::<Redo>();
        last_numbers::<MicroBuffer>();
        last_numbers::<Shadow>();
    }
}
