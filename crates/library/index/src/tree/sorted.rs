//! *btree*: sorted nodes of a tree that uses persistent memory as memory. Nothing is flushed or fenced, and
//! nothing is promised after a crash.
//!
//! *Group flushing* is an option of it: after a change of more than one line these lines are flushed
//! together, so that they leave the cache in order, and the device can combine them.

use space::Space;

use super::node::{COUNT, Desk, Discipline, SLOTS};
use crate::Fixed;

/// Sorted, volatile.
#[derive(Debug)]
pub enum Sorted {}

/// Pairs of a sorted node.
#[inline(always)]
pub(super) fn count<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> u64 {
    // A reader may see the words of another layout, in a node that is used again.
    desk.space.load_u64(node + COUNT).min(Sorted::slots::<K, W>(desk.bytes))
}

/// The first of `count` slots whose key is not below `key`.
#[inline(always)]
pub(super) fn position<S: Space, K: Fixed, W: Fixed>(
    desk: &Desk<'_, S>,
    node: u64,
    count: u64,
    key: K,
) -> u64 {
    (0..count).find(|slot| desk.key_at::<K, W>(node, *slot) >= key).unwrap_or(count)
}

/// The slot of `key` in a sorted node.
pub(super) fn slot_of<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<u64> {
    let count = count::<S, K, W>(desk, node);
    let slot = position::<S, K, W>(desk, node, count, key);
    (slot < count && desk.key_at::<K, W>(node, slot) == key).then_some(slot)
}

impl Discipline for Sorted {
    const DURABLE: bool = false;

    #[inline]
    fn find<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W> {
        slot_of::<S, K, W>(desk, node, key).map(|slot| desk.value_at::<K, W>(node, slot))
    }

    #[inline]
    fn floor<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W> {
        let count = count::<S, K, W>(desk, node);
        let above = (0..count).find(|slot| desk.key_at::<K, W>(node, *slot) > key).unwrap_or(count);
        above.checked_sub(1).map(|slot| desk.value_at::<K, W>(node, slot))
    }

    fn pairs<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> Vec<(K, W)> {
        let slots = 0..count::<S, K, W>(desk, node);
        slots.map(|slot| (desk.key_at::<K, W>(node, slot), desk.value_at::<K, W>(node, slot))).collect()
    }

    fn is_full<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> bool {
        count::<S, K, W>(desk, node) >= Self::slots::<K, W>(desk.bytes)
    }

    fn put<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K, to: W) {
        let count = count::<S, K, W>(desk, node);
        let slot = position::<S, K, W>(desk, node, count, key);
        if slot < count && desk.key_at::<K, W>(node, slot) == key {
            desk.store_slot(node, slot, key, to);
            return;
        }
        for from in (slot..count).rev() {
            let (key, to) = (desk.key_at::<K, W>(node, from), desk.value_at::<K, W>(node, from));
            desk.store_slot(node, from + 1, key, to);
        }
        desk.store_slot(node, slot, key, to);
        desk.space.store_u64(node + COUNT, count + 1);
        desk.flush_group(desk.slot::<K, W>(node, slot), desk.slot::<K, W>(node, count + 1));
    }

    fn take<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) {
        let Some(slot) = slot_of::<S, K, W>(desk, node, key) else { return };
        let count = count::<S, K, W>(desk, node);
        for from in slot + 1..count {
            let (key, to) = (desk.key_at::<K, W>(node, from), desk.value_at::<K, W>(node, from));
            desk.store_slot(node, from - 1, key, to);
        }
        desk.space.store_u64(node + COUNT, count - 1);
        desk.flush_group(desk.slot::<K, W>(node, slot), desk.slot::<K, W>(node, count));
    }

    fn fill<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, pairs: &[(K, W)]) {
        for (slot, (key, to)) in (0..).zip(pairs) {
            desk.store_slot(node, slot, *key, *to);
        }
        desk.space.store_u64(node + COUNT, pairs.len() as u64);
        desk.flush_group(node + SLOTS, desk.slot::<K, W>(node, pairs.len() as u64));
    }

    fn cut<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, low: K) {
        let count = count::<S, K, W>(desk, node);
        desk.space.store_u64(node + COUNT, position::<S, K, W>(desk, node, count, low));
    }

    fn recover<S: Space, K: Fixed, W: Fixed>(_: &Desk<'_, S>, _: u64) {}
}
