//! CCEH, extendible hashing: a directory leads by the first bits of a key's hash to segments. A segment has a
//! pattern of `local` bits; what does not begin with it is stale.
//!
//! A split makes the directory lead to the new segment, and lets the old segment's pattern follow. Recovery
//! does what is missing of that.

use space::{Env, LINE, Space};

use super::arena::{Arena, ROOT};
use super::map::{self, Delete, Insert, Operations};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    DepthFirst,
    PatternFirst,
}

const OPERATIONS: Operations = &[
    (Insert, 1),
    (Insert, 2),
    (Insert, 3),
    (Insert, 4),
    (Insert, 5),
    (Delete, 3),
    (Insert, 6),
    (Insert, 7),
    (Insert, 8),
    (Insert, 9),
    (Insert, 10),
    (Insert, 11),
    (Insert, 12),
    (Insert, 3),
    (Insert, 13),
    (Insert, 14),
];

/// Where the directory is: its depth, then its pointers.
const DIRECTORY: u64 = ROOT;
/// Of a segment: the pattern, with its length from bit 32 on, and from the next line on keys and values.
const PATTERN: u64 = 0;
const SLOTS: u64 = LINE;
const FANOUT: u64 = 4;
const SEGMENT: u64 = SLOTS + 16 * FANOUT;
const DEPTH_MAX: u64 = 7;

fn prefix(key: u64, depth: u64) -> u64 {
    if depth == 0 { 0 } else { map::mix(key) >> (64 - depth) }
}

fn global<S: Space>(arena: &Arena<'_, S>) -> Result<u64, String> {
    match arena.get(arena.get(DIRECTORY)?)? {
        depth if depth <= DEPTH_MAX => Ok(depth),
        depth => Err(format!("a directory of 2^{depth} pointers")),
    }
}

/// The directory's pointer at a place.
fn pointer<S: Space>(arena: &Arena<'_, S>, place: u64) -> Result<u64, String> {
    Ok(arena.get(DIRECTORY)? + 8 + 8 * place)
}

/// The segment at a place of the directory, with the length of its pattern and the pattern.
fn segment<S: Space>(arena: &Arena<'_, S>, place: u64) -> Result<(u64, u64, u64), String> {
    let segment = arena.get(pointer(arena, place)?)?;
    let pattern = arena.get(segment + PATTERN)?;
    let (local, depth) = (pattern >> 32, global(arena)?);
    if local > depth {
        return Err(format!("a segment's depth is {local}, the directory's {depth}"));
    }
    Ok((segment, local, pattern & 0xffff_ffff))
}

/// Whether the segment at a place of the directory has that place's bits.
fn belongs<S: Space>(arena: &Arena<'_, S>, place: u64) -> Result<bool, String> {
    let (_, local, bits) = segment(arena, place)?;
    Ok(bits == place >> (global(arena)? - local))
}

/// The slot of a key.
fn find<S: Space>(arena: &Arena<'_, S>, key: u64) -> Result<Option<u64>, String> {
    let (segment, local, bits) = segment(arena, prefix(key, global(arena)?))?;
    if prefix(key, local) != bits {
        return Ok(None);
    }
    for slot in (0..FANOUT).map(|slot| segment + SLOTS + 16 * slot) {
        if arena.get(slot)? == key {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// Makes the places of a segment lead to it, but for those that a further split took.
fn enter<S: Space>(arena: &Arena<'_, S>, added: u64, local: u64, bits: u64) -> Result<(), String> {
    let shift = global(arena)? - local;
    for place in bits << shift..(bits + 1) << shift {
        if segment(arena, place)?.1 < local || !belongs(arena, place)? {
            arena.set(pointer(arena, place)?, added);
        }
    }
    Ok(())
}

/// A directory twice as long, in which the upper half of the segment at `place` is `added`.
fn double<S: Space>(arena: &Arena<'_, S>, place: u64, added: u64) -> Result<(), String> {
    let depth = global(arena)? + 1;
    let new = arena.allocate(8 + (8 << depth))?;
    arena.put(new, depth);
    for other in 0..1 << depth {
        let old = arena.get(pointer(arena, other / 2)?)?;
        arena.put(new + 8 + 8 * other, if other == 2 * place + 1 { added } else { old });
    }
    arena.space.fence();
    arena.set(DIRECTORY, new);
    Ok(())
}

impl Variant {
    fn split<S: Space>(self, arena: &Arena<'_, S>, place: u64) -> Result<(), String> {
        let (old, local, bits) = segment(arena, place)?;
        let added = arena.allocate(SEGMENT)?;
        arena.put(added + PATTERN, ((local + 1) << 32) | (bits * 2 + 1));
        let mut used = 0;
        for slot in (0..FANOUT).map(|slot| old + SLOTS + 16 * slot) {
            let key = arena.get(slot)?;
            if key != 0 && prefix(key, local + 1) == bits * 2 + 1 {
                arena.put(added + SLOTS + 16 * used, key);
                arena.put(added + SLOTS + 16 * used + 8, arena.get(slot + 8)?);
                used += 1;
            }
        }
        arena.space.fence();
        let doubles = local == global(arena)?;
        let early = match self {
            Variant::Fixed => false,
            Variant::DepthFirst => doubles,
            Variant::PatternFirst => !doubles,
        };
        let shorter = ((local + 1) << 32) | (bits * 2);
        if early {
            arena.set(old + PATTERN, shorter);
        }
        if doubles {
            double(arena, place, added)?;
        } else {
            enter(arena, added, local + 1, bits * 2 + 1)?;
        }
        if !early {
            arena.set(old + PATTERN, shorter);
        }
        Ok(())
    }

    fn insert<S: Space>(self, arena: &Arena<'_, S>, key: u64, value: u64) -> Result<(), String> {
        loop {
            let place = prefix(key, global(arena)?);
            let (segment, local, bits) = segment(arena, place)?;
            for slot in (0..FANOUT).map(|slot| segment + SLOTS + 16 * slot) {
                let there = arena.get(slot)?;
                if there == 0 || prefix(there, local) != bits {
                    arena.set(slot, 0);
                    arena.set(slot + 8, value);
                    arena.set(slot, key);
                    return Ok(());
                }
            }
            self.split(arena, place)?;
        }
    }
}

/// Finishes splits whose segment the directory leads to.
fn finish_splits<S: Space>(arena: &Arena<'_, S>) -> Result<(), String> {
    for place in 0..1 << global(arena)? {
        let (added, local, bits) = segment(arena, place)?;
        if bits & 1 == 1 {
            enter(arena, added, local, bits)?;
            let (half, other, _) = segment(arena, (bits - 1) << (global(arena)? - local))?;
            if other < local {
                arena.set(half + PATTERN, local << 32 | (bits - 1));
            }
        }
    }
    Ok(())
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), 8);
        let directory = arena.allocate(8 + 16)?;
        arena.put(directory, 1);
        for bits in 0..2 {
            let segment = arena.allocate(SEGMENT)?;
            arena.put(segment + PATTERN, 1 << 32 | bits);
            arena.put(directory + 8 + 8 * bits, segment);
        }
        arena.space.fence();
        arena.set(DIRECTORY, directory);
        arena.ready();
        map::each(OPERATIONS, |number, kind, key, value| {
            arena.region(number, || {
                if kind == Delete {
                    arena.set(find(&arena, key)?.ok_or("a deletion without a key")?, 0);
                    Ok(())
                } else {
                    self.insert(&arena, key, value)
                }
            })
        })
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        finish_splits(arena)?;
        for place in 0..1 << global(arena)? {
            let (segment, local, bits) = segment(arena, place)?;
            if !belongs(arena, place)? {
                return Err(format!("place {place} of the directory leads to another place's segment"));
            }
            for slot in (0..FANOUT).map(|slot| segment + SLOTS + 16 * slot) {
                let key = arena.get(slot)?;
                if key != 0 && prefix(key, local) == bits {
                    map::is_known(OPERATIONS, key)?;
                    if find(arena, key)? != Some(slot) {
                        return Err(format!("key {key} is there twice"));
                    }
                }
            }
        }
        map::check_all(OPERATIONS, done, |key| match find(arena, key)? {
            Some(slot) => arena.get(slot + 8),
            None => Ok(0),
        })
    }
}
