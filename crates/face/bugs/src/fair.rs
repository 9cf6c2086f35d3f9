//! A B+-tree whose nodes are split as FAIR does: the new sibling is linked first, and the level above learns
//! of it afterwards. Recovery enters siblings above, with a new root if need be.
//!
//! A node's slots are not sorted; a bitmap, one word, says which are in use.
//!
//! Not a use of `index::tree`, on purpose: a published bug sits in a particular order of stores and a
//! particular recovery, which the library's FAST/FAIR does not have (its root is found from the siblings, its
//! new nodes are made in one place). Here both are short enough to read beside the bug's report, and a change
//! of the library can't make a bug disappear. The library's trees have twins of their own, which its tests
//! ask for.

use space::{Env, LINE, Space};

use super::arena::{Arena, ROOT};
use super::map::{self, Delete, Insert, Operations, Update};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    RootSplit,
    SiblingUnflushed,
}

const OPERATIONS: Operations = &[
    (Insert, 50),
    (Insert, 20),
    (Insert, 80),
    (Insert, 10),
    (Insert, 40),
    (Update, 20),
    (Insert, 30),
    (Insert, 90),
    (Delete, 80),
    (Insert, 35),
    (Insert, 5),
    (Insert, 60),
    (Insert, 70),
    (Insert, 33),
    (Update, 5),
    (Insert, 37),
];

/// Where the root is.
const TREE: u64 = ROOT;
/// Of a node.
const BITMAP: u64 = 0;
const LEVEL: u64 = LINE;
const LOW: u64 = LINE + 8;
const NEXT: u64 = LINE + 16;
const SLOTS: u64 = 2 * LINE;
const FANOUT: u64 = 4;
const NODE: u64 = SLOTS + 16 * FANOUT;

/// The slots of a node that are in use.
fn used<S: Space>(arena: &Arena<'_, S>, node: u64) -> Result<impl Iterator<Item = u64> + use<S>, String> {
    let bitmap = arena.get(node + BITMAP)?;
    Ok((0..FANOUT).filter(move |slot| bitmap >> slot & 1 == 1).map(move |slot| node + SLOTS + 16 * slot))
}

/// The node of `level` where a key belongs.
fn descend<S: Space>(arena: &Arena<'_, S>, key: u64, level: u64) -> Result<u64, String> {
    let mut node = arena.get(TREE)?;
    loop {
        let next = arena.get(node + NEXT)?;
        if next != 0 && arena.get(next + LOW)? <= key {
            node = next;
            continue;
        }
        if arena.get(node + LEVEL)? <= level {
            return Ok(node);
        }
        let mut best = None;
        for slot in used(arena, node)? {
            let low = arena.get(slot)?;
            if low <= key && best.is_none_or(|(other, _)| other <= low) {
                best = Some((low, slot));
            }
        }
        let (_, slot) = best.ok_or_else(|| format!("an inner node has no child for key {key}"))?;
        node = arena.get(slot + 8)?;
    }
}

/// The slot of a key in a node.
fn slot_of<S: Space>(arena: &Arena<'_, S>, node: u64, key: u64) -> Result<Option<u64>, String> {
    for slot in used(arena, node)? {
        if arena.get(slot)? == key {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

impl Variant {
    fn insert<S: Space>(self, arena: &Arena<'_, S>, key: u64, value: u64, level: u64) -> Result<(), String> {
        let mut node = descend(arena, key, level)?;
        if arena.get(node + BITMAP)? == (1 << FANOUT) - 1 {
            self.split(arena, node)?;
            node = descend(arena, key, level)?;
        }
        let bitmap = arena.get(node + BITMAP)?;
        let free = u64::from(bitmap.trailing_ones());
        arena.put(node + SLOTS + 16 * free, key);
        arena.put(node + SLOTS + 16 * free + 8, value);
        arena.space.fence();
        arena.set(node + BITMAP, bitmap | 1 << free);
        Ok(())
    }

    fn split<S: Space>(self, arena: &Arena<'_, S>, node: u64) -> Result<(), String> {
        let mut entries = Vec::new();
        for slot in used(arena, node)? {
            entries.push((arena.get(slot)?, arena.get(slot + 8)?));
        }
        entries.sort_unstable();
        let moved = &entries[entries.len() / 2..];
        let level = arena.get(node + LEVEL)?;
        let next = arena.get(node + NEXT)?;
        let new = self.make_node(arena, level, moved[0].0, next, moved)?;
        arena.set(node + NEXT, new);
        cut_off(arena, node)?;
        self.enter(arena, node, new)
    }

    /// A node that nobody can reach yet.
    fn make_node<S: Space>(
        self,
        arena: &Arena<'_, S>,
        level: u64,
        low: u64,
        next: u64,
        entries: &[(u64, u64)],
    ) -> Result<u64, String> {
        let node = arena.allocate(NODE)?;
        let head = [(BITMAP, (1 << entries.len()) - 1), (LEVEL, level), (LOW, low), (NEXT, next)];
        let slots = (0..).zip(entries);
        let slots =
            slots.flat_map(|(at, &(key, value))| [(SLOTS + 16 * at, key), (SLOTS + 16 * at + 8, value)]);
        for (offset, word) in head.into_iter().chain(slots) {
            arena.space.store_u64(node + offset, word);
            if self != Variant::SiblingUnflushed {
                arena.space.flush(node + offset, 8);
            }
        }
        arena.space.fence();
        Ok(node)
    }

    /// Tells the level above that `new` was split off `node`.
    fn enter<S: Space>(self, arena: &Arena<'_, S>, node: u64, new: u64) -> Result<(), String> {
        let (level, low) = (arena.get(node + LEVEL)?, arena.get(new + LOW)?);
        if arena.get(TREE)? == node {
            let above = self.make_node(arena, level + 1, 0, 0, &[(0, node), (low, new)])?;
            arena.set(TREE, above);
            Ok(())
        } else {
            self.insert(arena, low, new, level + 1)
        }
    }

    /// Finishes each split that had begun, from the root downwards.
    fn recover<S: Space>(self, arena: &Arena<'_, S>) -> Result<(), String> {
        for level in (0..=arena.get(arena.get(TREE)? + LEVEL)?.min(8)).rev() {
            let mut node = descend(arena, 0, level)?;
            loop {
                let next = arena.get(node + NEXT)?;
                if next == 0 {
                    break;
                }
                cut_off(arena, node)?;
                let is_root = arena.get(TREE)? == node;
                if if is_root { self != Variant::RootSplit } else { !is_entered(arena, next)? } {
                    self.enter(arena, node, next)?;
                }
                node = next;
            }
        }
        Ok(())
    }
}

/// Durably forgets the entries of a node that its sibling has.
fn cut_off<S: Space>(arena: &Arena<'_, S>, node: u64) -> Result<(), String> {
    let low = arena.get(arena.get(node + NEXT)? + LOW)?;
    let before = arena.get(node + BITMAP)?;
    let mut bitmap = before;
    for slot in used(arena, node)? {
        if arena.get(slot)? >= low {
            bitmap &= !(1 << ((slot - node - SLOTS) / 16));
        }
    }
    if bitmap != before {
        arena.set(node + BITMAP, bitmap);
    }
    Ok(())
}

/// Whether the level above leads to a node.
fn is_entered<S: Space>(arena: &Arena<'_, S>, node: u64) -> Result<bool, String> {
    let (low, level) = (arena.get(node + LOW)?, arena.get(node + LEVEL)?);
    let above = descend(arena, low, level + 1)?;
    match slot_of(arena, above, low)? {
        Some(slot) => Ok(arena.get(slot + 8)? == node),
        None => Ok(false),
    }
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), 8);
        arena.set(TREE, arena.allocate(NODE)?);
        arena.ready();
        map::each(OPERATIONS, |number, kind, key, value| {
            arena.region(number, || {
                let node = descend(&arena, key, 0)?;
                match (kind, slot_of(&arena, node, key)?) {
                    (Insert, None) => return self.insert(&arena, key, value, 0),
                    (Update, Some(slot)) => arena.set(slot + 8, value),
                    (Delete, Some(slot)) => {
                        let bit = 1 << ((slot - node - SLOTS) / 16);
                        arena.set(node + BITMAP, arena.get(node + BITMAP)? & !bit);
                    }
                    (kind, _) => return Err(format!("{kind:?} of key {key} makes no sense")),
                }
                Ok(())
            })
        })
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        self.recover(arena)?;
        let root = arena.get(TREE)?;
        if arena.get(root + NEXT)? != 0 {
            return Err("the root is a chain of two nodes".to_owned());
        }
        for level in 0..arena.get(root + LEVEL)? {
            let mut node = descend(arena, 0, level)?;
            while node != 0 {
                if !is_entered(arena, node)? {
                    return Err(format!("no node of level {} leads to the node at {node:#x}", level + 1));
                }
                for slot in used(arena, node)?.filter(|_| level == 0) {
                    map::is_known(OPERATIONS, arena.get(slot)?)?;
                }
                node = arena.get(node + NEXT)?;
            }
        }
        map::check_all(OPERATIONS, done, |key| match slot_of(arena, descend(arena, key, 0)?, key)? {
            Some(slot) => arena.get(slot + 8),
            None => Ok(0),
        })
    }
}
