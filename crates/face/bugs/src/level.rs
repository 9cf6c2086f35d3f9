//! A level of Level hashing: buckets whose tokens say which slots are in use. A key has two buckets; if both
//! are full, an entry moves to its other one.
//!
//! Tokens and slots of a bucket lie on different lines. A move is written down first, in one word, so that
//! recovery finishes it.

use space::{Env, LINE, Space};

use super::arena::{Arena, ROOT};
use super::map::{self, Delete, Insert, Operations, Update};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    TokenFirst,
    UpdateLoses,
    MoveTwice,
}

const OPERATIONS: Operations = &[
    (Insert, 1),
    (Insert, 2),
    (Insert, 3),
    (Update, 2),
    (Insert, 4),
    (Insert, 5),
    (Delete, 1),
    (Insert, 6),
    (Insert, 7),
    (Insert, 8),
    (Update, 6),
    (Insert, 9),
    (Insert, 10),
];

const BUCKETS: u64 = 4;
const SLOTS: u64 = 4;
/// The entry that moves: where from and, in the upper half, where to; 0 when none does.
const MOVING: u64 = ROOT;
const FIRST: u64 = ROOT + LINE;
/// A bucket: a line with the tokens, a line with keys and values.
const BUCKET: u64 = 2 * LINE;

fn bucket(key: u64, hash: u64) -> u64 {
    FIRST + map::mix(key + 400 * hash) % BUCKETS * BUCKET
}

fn slot_at(bucket: u64, slot: u64) -> u64 {
    bucket + LINE + 16 * slot
}

/// A bucket's slot of a key.
fn find<S: Space>(arena: &Arena<'_, S>, key: u64) -> Result<Option<(u64, u64)>, String> {
    for hash in 0..2 {
        let bucket = bucket(key, hash);
        let tokens = arena.get(bucket)?;
        for slot in 0..SLOTS {
            if tokens >> slot & 1 == 1 && arena.get(slot_at(bucket, slot))? == key {
                return Ok(Some((bucket, slot)));
            }
        }
    }
    Ok(None)
}

fn free_slot<S: Space>(arena: &Arena<'_, S>, bucket: u64) -> Result<Option<u64>, String> {
    let slot = u64::from(arena.get(bucket)?.trailing_ones());
    Ok((slot < SLOTS).then_some(slot))
}

impl Variant {
    /// Writes an entry into a free slot, and turns the tokens from `without` to that and its own.
    fn write<S: Space>(
        self,
        arena: &Arena<'_, S>,
        (bucket, slot): (u64, u64),
        (key, value): (u64, u64),
        without: u64,
    ) -> Result<(), String> {
        let before = arena.get(bucket)?;
        let tokens = without | 1 << slot;
        let at = slot_at(bucket, slot);
        if self == Variant::TokenFirst {
            arena.space.store_u64(at, key);
            arena.space.store_u64(at + 8, value);
            arena.space.store_u64(bucket, tokens);
            arena.space.flush(at, 16);
            arena.space.persist(bucket, 8);
            return Ok(());
        }
        arena.put(at, key);
        arena.put(at + 8, value);
        arena.space.fence();
        if self == Variant::UpdateLoses && before != without {
            arena.set(bucket, without);
        }
        arena.set(bucket, tokens);
        Ok(())
    }

    fn insert<S: Space>(self, arena: &Arena<'_, S>, key: u64, value: u64) -> Result<(), String> {
        for hash in 0..2 {
            let bucket = bucket(key, hash);
            if let Some(slot) = free_slot(arena, bucket)? {
                return self.write(arena, (bucket, slot), (key, value), arena.get(bucket)?);
            }
        }
        for hash in 0..2 {
            let bucket = bucket(key, hash);
            if let Some(slot) = self.make_room(arena, bucket)? {
                return self.write(arena, (bucket, slot), (key, value), arena.get(bucket)?);
            }
        }
        Err(format!("no room for key {key}"))
    }

    /// Moves some entry of a bucket to its other bucket.
    fn make_room<S: Space>(self, arena: &Arena<'_, S>, from: u64) -> Result<Option<u64>, String> {
        for slot in 0..SLOTS {
            let entry = (arena.get(slot_at(from, slot))?, arena.get(slot_at(from, slot) + 8)?);
            for hash in 0..2 {
                let to = bucket(entry.0, hash);
                let Some(free) = free_slot(arena, to)?.filter(|_| to != from) else { continue };
                arena.put(slot_at(to, free), entry.0);
                arena.put(slot_at(to, free) + 8, entry.1);
                arena.space.fence();
                if self != Variant::MoveTwice {
                    arena.set(MOVING, (from + slot) | (to + free) << 32);
                }
                arena.set(to, arena.get(to)? | 1 << free);
                arena.set(from, arena.get(from)? & !(1 << slot));
                if self != Variant::MoveTwice {
                    arena.set(MOVING, 0);
                }
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    fn update<S: Space>(self, arena: &Arena<'_, S>, key: u64, value: u64) -> Result<(), String> {
        let (bucket, old) = find(arena, key)?.ok_or("an update without a key")?;
        match free_slot(arena, bucket)? {
            Some(slot) => {
                let without = arena.get(bucket)? & !(1 << old);
                self.write(arena, (bucket, slot), (key, value), without)?;
            }
            None => arena.set(slot_at(bucket, old) + 8, value),
        }
        Ok(())
    }
}

/// Finishes a move: the entry is in its new place and no longer in its old one.
fn finish_move<S: Space>(arena: &Arena<'_, S>) -> Result<(), String> {
    let moving = arena.get(MOVING)?;
    if moving != 0 {
        let (from, to) = (moving & 0xffff_ffff, moving >> 32);
        arena.set(to & !63, arena.get(to & !63)? | 1 << (to & 63));
        arena.set(from & !63, arena.get(from & !63)? & !(1 << (from & 63)));
        arena.set(MOVING, 0);
    }
    Ok(())
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), LINE + BUCKETS * BUCKET);
        arena.ready();
        map::each(OPERATIONS, |number, kind, key, value| {
            arena.region(number, || match kind {
                Insert => self.insert(&arena, key, value),
                Update => self.update(&arena, key, value),
                Delete => {
                    let (bucket, slot) = find(&arena, key)?.ok_or("a deletion without a key")?;
                    arena.set(bucket, arena.get(bucket)? & !(1 << slot));
                    Ok(())
                }
            })
        })
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        finish_move(arena)?;
        for bucket in (0..BUCKETS).map(|number| FIRST + number * BUCKET) {
            let tokens = arena.get(bucket)?;
            for slot in (0..SLOTS).filter(|slot| tokens >> slot & 1 == 1) {
                let key = arena.get(slot_at(bucket, slot))?;
                map::is_known(OPERATIONS, key)?;
                if find(arena, key)? != Some((bucket, slot)) {
                    return Err(format!("key {key} is there twice"));
                }
            }
        }
        map::check_all(OPERATIONS, done, |key| match find(arena, key)? {
            None => Ok(0),
            Some((bucket, slot)) => match arena.get(slot_at(bucket, slot) + 8)? {
                0 => Err(format!("key {key} has no value")),
                value => Ok(value),
            },
        })
    }
}
