//! The leaves of a Masstree: a permutation, one word, says which slots are in use and in which order. A full
//! leaf is split.
//!
//! The new leaf is linked before the old one's permutation forgets what has moved; recovery forgets what is
//! in both.
//!
//! Not a use of `index`, on purpose: no map of the library orders a leaf by a permutation, so that the bugs
//! of one have no place there. As in `fair.rs`, the structure is as short as the bug allows, and nobody's to
//! use.

use space::{Env, LINE, Space};

use super::arena::{Arena, ROOT};
use super::map::{self, Delete, Insert, Operations, Update};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    CutFirst,
    NoFence,
}

const OPERATIONS: Operations = &[
    (Insert, 50),
    (Insert, 20),
    (Insert, 80),
    (Update, 20),
    (Insert, 10),
    (Insert, 40),
    (Delete, 50),
    (Insert, 30),
    (Insert, 90),
    (Insert, 35),
    (Update, 80),
    (Insert, 5),
    (Insert, 60),
];

const FIRST: u64 = ROOT;
/// Of a leaf. A permutation has the number of slots in use in its lowest four bits, then their numbers in the
/// order of keys.
const PERMUTATION: u64 = 0;
const LOW: u64 = LINE;
const NEXT: u64 = LINE + 8;
const SLOTS: u64 = 2 * LINE;
const FANOUT: u64 = 4;
const LEAF: u64 = SLOTS + 16 * FANOUT;

/// The slots of a leaf that are in use, in order, and how many.
fn slots<S: Space>(arena: &Arena<'_, S>, leaf: u64) -> Result<([u64; FANOUT as usize], usize), String> {
    let word = arena.get(leaf + PERMUTATION)?;
    let count = word & 15;
    if count > FANOUT {
        return Err(format!("a leaf has {count} of {FANOUT} slots in use"));
    }
    let mut found = [0; FANOUT as usize];
    for (index, slot) in (1..).zip(&mut found).take(count as usize) {
        *slot = word >> (4 * index) & 15;
        if *slot >= FANOUT {
            return Err(format!("a leaf has its key in slot {slot} of {FANOUT}"));
        }
    }
    Ok((found, count as usize))
}

fn permutation(slots: &[u64]) -> u64 {
    (1..).zip(slots).fold(slots.len() as u64, |word, (index, slot)| word | slot << (4 * index))
}

fn at(leaf: u64, slot: u64) -> u64 {
    leaf + SLOTS + 16 * slot
}

/// The leaf where a key belongs.
fn leaf_of<S: Space>(arena: &Arena<'_, S>, key: u64) -> Result<u64, String> {
    let mut leaf = arena.get(FIRST)?;
    loop {
        match arena.get(leaf + NEXT)? {
            next if next != 0 && arena.get(next + LOW)? <= key => leaf = next,
            _ => return Ok(leaf),
        }
    }
}

/// Where a key's value is.
fn find<S: Space>(arena: &Arena<'_, S>, key: u64) -> Result<Option<u64>, String> {
    let leaf = leaf_of(arena, key)?;
    let (slots, count) = slots(arena, leaf)?;
    for &slot in &slots[..count] {
        if arena.get(at(leaf, slot))? == key {
            return Ok(Some(at(leaf, slot) + 8));
        }
    }
    Ok(None)
}

impl Variant {
    fn insert<S: Space>(self, arena: &Arena<'_, S>, key: u64, value: u64) -> Result<(), String> {
        let mut leaf = leaf_of(arena, key)?;
        if slots(arena, leaf)?.1 as u64 == FANOUT {
            self.split(arena, leaf)?;
            leaf = leaf_of(arena, key)?;
        }
        let (slots, count) = slots(arena, leaf)?;
        let free = (0..FANOUT).find(|slot| !slots[..count].contains(slot)).ok_or("a split leaf is full")?;
        arena.put(at(leaf, free), key);
        arena.put(at(leaf, free) + 8, value);
        if self != Variant::NoFence {
            arena.space.fence();
        }
        let mut sorted = slots[..count].to_vec();
        let mut place = 0;
        while place < count && arena.get(at(leaf, slots[place]))? < key {
            place += 1;
        }
        sorted.insert(place, free);
        arena.set(leaf + PERMUTATION, permutation(&sorted));
        Ok(())
    }

    fn split<S: Space>(self, arena: &Arena<'_, S>, leaf: u64) -> Result<(), String> {
        let (slots, count) = slots(arena, leaf)?;
        let (kept, moved) = slots[..count].split_at(count / 2);
        let new = arena.allocate(LEAF)?;
        let low = arena.get(at(leaf, moved[0]))?;
        arena.put(new + PERMUTATION, permutation(&[0, 1][..moved.len()]));
        arena.put(new + LOW, low);
        arena.put(new + NEXT, arena.get(leaf + NEXT)?);
        for (index, &slot) in (0..).zip(moved) {
            arena.put(at(new, index), arena.get(at(leaf, slot))?);
            arena.put(at(new, index) + 8, arena.get(at(leaf, slot) + 8)?);
        }
        arena.space.fence();
        if self == Variant::CutFirst {
            arena.set(leaf + PERMUTATION, permutation(kept));
        }
        arena.set(leaf + NEXT, new);
        if self != Variant::CutFirst {
            arena.set(leaf + PERMUTATION, permutation(kept));
        }
        Ok(())
    }
}

/// Forgets what a split copied and did not cut off.
fn finish_splits<S: Space>(arena: &Arena<'_, S>) -> Result<(), String> {
    let mut leaf = arena.get(FIRST)?;
    loop {
        let next = arena.get(leaf + NEXT)?;
        if next == 0 {
            return Ok(());
        }
        let low = arena.get(next + LOW)?;
        let (slots, count) = slots(arena, leaf)?;
        let mut kept = 0;
        while kept < count && arena.get(at(leaf, slots[kept]))? < low {
            kept += 1;
        }
        if kept < count {
            arena.set(leaf + PERMUTATION, permutation(&slots[..kept]));
        }
        leaf = next;
    }
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), 8);
        arena.set(FIRST, arena.allocate(LEAF)?);
        arena.ready();
        map::each(OPERATIONS, |number, kind, key, value| {
            arena.region(number, || match kind {
                Insert => self.insert(&arena, key, value),
                Update => {
                    arena.set(find(&arena, key)?.ok_or("an update without a key")?, value);
                    Ok(())
                }
                Delete => {
                    let leaf = leaf_of(&arena, key)?;
                    let (slots, count) = slots(&arena, leaf)?;
                    let gone = find(&arena, key)?.ok_or("a deletion without a key")?;
                    let left: Vec<u64> =
                        slots[..count].iter().copied().filter(|&slot| at(leaf, slot) + 8 != gone).collect();
                    arena.set(leaf + PERMUTATION, permutation(&left));
                    Ok(())
                }
            })
        })
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        finish_splits(arena)?;
        let mut leaf = arena.get(FIRST)?;
        let mut last = 0;
        while leaf != 0 {
            let (slots, count) = slots(arena, leaf)?;
            for &slot in &slots[..count] {
                let key = arena.get(at(leaf, slot))?;
                map::is_known(OPERATIONS, key)?;
                if key <= last {
                    return Err(format!("key {key} comes behind {last}"));
                }
                last = key;
            }
            leaf = arena.get(leaf + NEXT)?;
        }
        map::check_all(OPERATIONS, done, |key| match find(arena, key)? {
            Some(value) => arena.get(value),
            None => Ok(0),
        })
    }
}
