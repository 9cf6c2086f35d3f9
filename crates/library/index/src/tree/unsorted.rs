//! *unsorted leaf* and *persistent unsorted*: pairs in any slots, and a bit for each that counts.
//!
//! The durable one writes a slot, flushes and fences, then stores the bits, one word, flushes and fences. An
//! update goes to a free slot; the word with the new bit and without the old one makes it count.

use space::Space;

use super::node::{COUNT, Desk, Discipline, Flaw, stride};
use crate::Fixed;

/// Unsorted with a bitmap; durable or not.
#[derive(Debug)]
pub struct Unsorted<const DURABLE: bool>;

/// Slots in use.
fn used<S: Space>(desk: &Desk<'_, S>, node: u64) -> impl Iterator<Item = u64> {
    let bits = desk.space.load_u64(node + COUNT);
    (0..64).filter(move |slot| bits >> slot & 1 == 1)
}

impl<const DURABLE: bool> Unsorted<DURABLE> {
    fn slot_of<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<u64> {
        let slots = Self::slots::<K, W>(desk.bytes);
        used(desk, node).filter(|slot| *slot < slots).find(|slot| desk.key_at::<K, W>(node, *slot) == key)
    }

    fn persist<S: Space>(desk: &Desk<'_, S>, at: u64, len: u64) {
        if DURABLE {
            desk.space.persist(at, len);
        }
    }

    fn set<S: Space>(desk: &Desk<'_, S>, node: u64, bits: u64) {
        desk.space.store_u64(node + COUNT, bits);
        Self::persist(desk, node + COUNT, 8);
    }
}

impl<const D: bool> Discipline for Unsorted<D> {
    const DURABLE: bool = D;

    #[inline]
    fn find<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W> {
        Self::slot_of::<S, K, W>(desk, node, key).map(|slot| desk.value_at::<K, W>(node, slot))
    }

    fn floor<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W> {
        let pairs = Self::pairs::<S, K, W>(desk, node);
        pairs.into_iter().rev().find(|(low, _)| *low <= key).map(|(_, to)| to)
    }

    fn pairs<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> Vec<(K, W)> {
        let slots = Self::slots::<K, W>(desk.bytes);
        let pair = |slot| (desk.key_at::<K, W>(node, slot), desk.value_at::<K, W>(node, slot));
        let mut pairs: Vec<_> = used(desk, node).filter(|slot| *slot < slots).map(pair).collect();
        pairs.sort_unstable_by_key(|(key, _)| *key);
        pairs
    }

    fn is_full<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> bool {
        used(desk, node).count() as u64 >= Self::slots::<K, W>(desk.bytes)
    }

    fn put<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K, to: W) {
        let before = Self::slot_of::<S, K, W>(desk, node, key);
        let bits = desk.space.load_u64(node + COUNT);
        let slot = u64::from(bits.trailing_ones());
        let bits = bits & !before.map_or(0, |slot| 1 << slot) | 1 << slot;
        let at = desk.slot::<K, W>(node, slot);
        if desk.flaw == Flaw::BitFirst {
            desk.space.store_u64(node + COUNT, bits);
            desk.space.flush(node + COUNT, 8);
        }
        desk.store_slot(node, slot, key, to);
        Self::persist(desk, at, stride::<K, W>());
        if desk.flaw != Flaw::BitFirst {
            Self::set(desk, node, bits);
        }
    }

    fn take<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) {
        if let Some(slot) = Self::slot_of::<S, K, W>(desk, node, key) {
            Self::set(desk, node, desk.space.load_u64(node + COUNT) & !(1 << slot));
        }
    }

    fn fill<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, pairs: &[(K, W)]) {
        for (slot, (key, to)) in (0..).zip(pairs) {
            desk.store_slot(node, slot, *key, *to);
        }
        let bits = if pairs.is_empty() { 0 } else { u64::MAX >> (64 - pairs.len()) };
        desk.space.store_u64(node + COUNT, bits);
    }

    fn cut<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, low: K) {
        let slots = Self::slots::<K, W>(desk.bytes);
        let stays = |slot: &u64| *slot < slots && desk.key_at::<K, W>(node, *slot) < low;
        let bits = used(desk, node).filter(stays).fold(0, |bits, slot| bits | 1 << slot);
        Self::set(desk, node, bits);
    }

    fn recover<S: Space, K: Fixed, W: Fixed>(_: &Desk<'_, S>, _: u64) {}
}
