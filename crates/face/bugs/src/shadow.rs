//! A page that is never changed in place: an operation writes a changed copy, and then one word leads to
//! that.
//!
//! The word also has the page's generation. A bug keeps both in words of their own.

use space::{Env, LINE, Space};

use super::arena::{Arena, ROOT};
use super::map::{self, Delete, Insert, Operations, Update};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    MetaEarly,
    InPlace,
}

const OPERATIONS: Operations = &[
    (Insert, 1),
    (Insert, 2),
    (Update, 1),
    (Insert, 3),
    (Delete, 2),
    (Insert, 4),
    (Update, 3),
    (Insert, 5),
    (Insert, 6),
    (Delete, 1),
];

const KEYS: u64 = 6;
/// The page that counts and, in the upper half, its generation.
const META: u64 = ROOT;
/// The generation, where the bug keeps it.
const GENERATION: u64 = ROOT + LINE;
/// Two pages that take turns: a generation, and on a second line a value per key.
const PAGE: u64 = 2 * LINE;

fn page(generation: u64) -> u64 {
    ROOT + 2 * LINE + generation % 2 * PAGE
}

impl Variant {
    /// The page that counts, and its generation.
    fn current<S: Space>(self, arena: &Arena<'_, S>) -> Result<(u64, u64), String> {
        let meta = arena.get(META)?;
        let generation = if self == Variant::InPlace { arena.get(GENERATION)? } else { meta >> 32 };
        Ok((meta & 0xffff_ffff, generation))
    }

    fn change<S: Space>(self, arena: &Arena<'_, S>, key: u64, value: u64) -> Result<(), String> {
        let (old, generation) = self.current(arena)?;
        let generation = generation + 1;
        let new = page(generation);
        arena.put(new, generation);
        for other in 0..KEYS {
            let kept = if old == 0 { 0 } else { arena.get(old + LINE + 8 * other)? };
            arena.space.store_u64(new + LINE + 8 * other, if other + 1 == key { value } else { kept });
        }
        arena.space.flush(new + LINE, LINE);
        if self != Variant::MetaEarly {
            arena.space.fence();
        }
        if self == Variant::InPlace {
            arena.set(META, new);
            arena.set(GENERATION, generation);
        } else {
            arena.set(META, new | generation << 32);
        }
        Ok(())
    }
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), 2 * LINE + 2 * PAGE);
        arena.ready();
        map::each(OPERATIONS, |number, kind, key, value| {
            arena.region(number, || self.change(&arena, key, if kind == Delete { 0 } else { value }))
        })
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        let (page, generation) = self.current(arena)?;
        if page != 0 && arena.get(page)? != generation {
            return Err(format!("generation {generation} leads to a page of another"));
        }
        map::check_all(OPERATIONS, done, |key| {
            if page == 0 { Ok(0) } else { arena.get(page + LINE + 8 * (key - 1)) }
        })
    }
}
