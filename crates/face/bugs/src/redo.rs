//! Transfers between accounts with a redo log: what is to be stored is written down, a mark says that it
//! counts, and then it is stored. Recovery does that again.

use space::{Env, LINE, Space};

use super::arena::{Arena, ROOT};
use super::undo::{ACCOUNTS, TRANSFERS, account, check_accounts, open_accounts};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    MarkEarly,
    ClearedEarly,
}

/// Entries that count, behind the accounts.
const MARK: u64 = ROOT + ACCOUNTS * LINE;
/// An entry is an offset and a word.
const FIRST: u64 = MARK + LINE;

impl Variant {
    fn commit<S: Space>(self, arena: &Arena<'_, S>, stores: &[(u64, u64)]) -> Result<(), String> {
        for (index, &(offset, word)) in (0..).zip(stores) {
            arena.put(FIRST + 16 * index, offset);
            arena.put(FIRST + 16 * index + 8, word);
        }
        if self != Variant::MarkEarly {
            arena.space.fence();
        }
        arena.set(MARK, stores.len() as u64);
        self.apply(arena)
    }

    fn apply<S: Space>(self, arena: &Arena<'_, S>) -> Result<(), String> {
        let entries = arena.get(MARK)?;
        if entries == 0 {
            return Ok(());
        }
        for index in 0..entries {
            let (offset, word) = (arena.get(FIRST + 16 * index)?, arena.get(FIRST + 16 * index + 8)?);
            arena.get(offset)?; // It leads somewhere.
            arena.put(offset, word);
        }
        if self != Variant::ClearedEarly {
            arena.space.fence();
        }
        arena.set(MARK, 0);
        Ok(())
    }
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), (ACCOUNTS + 2) * LINE);
        open_accounts(&arena);
        arena.ready();
        (1..).zip(TRANSFERS).try_for_each(|(number, &(from, to, amount))| {
            arena.region(number, || {
                let (a, b) = (arena.get(account(from))?, arena.get(account(to))?);
                self.commit(&arena, &[(account(from), a - amount), (account(to), b + amount)])
            })
        })
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        self.apply(arena)?;
        check_accounts(arena, done)
    }
}
