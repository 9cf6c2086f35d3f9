//! Transfers between accounts with an undo log, in the manner of PMDK's transactions: a word's old value is
//! written down before it changes, and the end empties the log. Recovery puts the old values back.

use space::{Env, LINE, Space};

use super::arena::{Arena, ROOT};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    NotAdded,
    AddedAfter,
    EntryUnfenced,
    EmptiedEarly,
}

/// Accounts, each on a line of its own.
pub(super) const ACCOUNTS: u64 = 4;
/// What an account holds at first.
const OPENING: u64 = 100;
/// From, to, how much.
pub(super) const TRANSFERS: &[(u64, u64, u64)] =
    &[(0, 1, 10), (1, 2, 5), (3, 0, 20), (2, 3, 7), (1, 0, 1), (0, 3, 33), (2, 1, 4), (3, 1, 50)];

/// Entries that count, behind the accounts.
const ENTRIES: u64 = ROOT + ACCOUNTS * LINE;
/// An entry is a line with an offset and the old word.
const FIRST: u64 = ENTRIES + LINE;

pub(super) fn account(number: u64) -> u64 {
    ROOT + number * LINE
}

pub(super) fn open_accounts<S: Space>(arena: &Arena<'_, S>) {
    for number in 0..ACCOUNTS {
        arena.put(account(number), OPENING);
    }
    arena.space.fence();
}

/// The accounts are as after some number of transfers, at least those that had ended.
pub(super) fn check_accounts<S: Space>(arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
    let mut found = [0; ACCOUNTS as usize];
    for (number, place) in (0..).zip(&mut found) {
        *place = arena.get(account(number))?;
    }
    let mut accounts = [OPENING; ACCOUNTS as usize];
    for count in 0..=TRANSFERS.len() {
        if count as u64 >= done && accounts == found {
            return Ok(());
        }
        if let Some(&(from, to, amount)) = TRANSFERS.get(count) {
            accounts[from as usize] -= amount;
            accounts[to as usize] += amount;
        }
    }
    Err(format!("the accounts hold {found:?}, which they never did after {done} transfers"))
}

impl Variant {
    /// Keeps the old value of a word.
    fn add<S: Space>(self, arena: &Arena<'_, S>, offset: u64) -> Result<(), String> {
        let entries = arena.get(ENTRIES)?;
        let entry = FIRST + entries * LINE;
        arena.put(entry, offset);
        arena.put(entry + 8, arena.get(offset)?);
        if self != Variant::EntryUnfenced {
            arena.space.fence();
        }
        arena.set(ENTRIES, entries + 1);
        Ok(())
    }

    fn transfer<S: Space>(self, arena: &Arena<'_, S>, from: u64, to: u64, amount: u64) -> Result<(), String> {
        self.add(arena, from)?;
        arena.put(from, arena.get(from)? - amount);
        let rich = arena.get(to)? + amount;
        match self {
            Variant::NotAdded => arena.put(to, rich),
            Variant::AddedAfter => {
                arena.space.store_u64(to, rich);
                self.add(arena, to)?;
                arena.space.flush(to, 8);
            }
            _ => {
                self.add(arena, to)?;
                arena.put(to, rich);
            }
        }
        if self != Variant::EmptiedEarly {
            arena.space.fence();
        }
        arena.set(ENTRIES, 0);
        Ok(())
    }
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), (ACCOUNTS + 4) * LINE);
        open_accounts(&arena);
        arena.ready();
        (1..).zip(TRANSFERS).try_for_each(|(number, &(from, to, amount))| {
            arena.region(number, || self.transfer(&arena, account(from), account(to), amount))
        })
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        let entries = arena.get(ENTRIES)?;
        for index in (0..entries).rev() {
            let entry = FIRST + index * LINE;
            let (offset, word) = (arena.get(entry)?, arena.get(entry + 8)?);
            arena.get(offset)?; // It leads somewhere.
            arena.put(offset, word);
        }
        if entries > 0 {
            arena.space.fence();
            arena.set(ENTRIES, 0);
        }
        check_accounts(arena, done)
    }
}
