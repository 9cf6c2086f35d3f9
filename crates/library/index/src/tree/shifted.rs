//! *FAST/FAIR*: sorted nodes that are shifted slot by slot, each durable before the one that it came from is
//! written over. There is no log: a crash leaves a pair twice, or a slot that holds none, and readers skip
//! both.
//!
//! # Keys and values of two words
//! The published algorithm shifts pairs of an 8-byte key and an 8-byte pointer, and knows a duplicate by its
//! pointer: one 8-byte store makes a slot valid, another one invalid. A pair of four words has no such word.
//! Its slot is *sealed* ([`crate::sealed`]): a fifth word and a tag in each make a slot whose words are of
//! two moments no pair. The published algorithm also relies on the words of a cache line to persist in their
//! order, which the contract of [`Space`] does not promise; so here a fence follows each shifted slot, and
//! not each line.
//!
//! An insert shifts towards the nearest slot that is free, on either side. An update is an insert beside the
//! old pair with a higher sequence number; then the old one is erased.

use space::Space;

use super::node::{Desk, Discipline, Flaw, SLOTS, SLOTS_MAX};
use crate::Fixed;
use crate::sealed::{Held, Sealed};

/// Sorted, shifted in order.
#[derive(Debug)]
pub enum Shifted {}

fn at<K: Fixed, W: Fixed>(node: u64, slot: u64) -> u64 {
    node + SLOTS + slot * Sealed::<K, W>::BYTES
}

/// All slots with a pair, from the left.
fn held<S: Space, K: Fixed, W: Fixed>(
    desk: &Desk<'_, S>,
    node: u64,
) -> impl DoubleEndedIterator<Item = (u64, Held<K, W>)> {
    let slots = 0..Shifted::slots::<K, W>(desk.bytes);
    slots.filter_map(move |slot| Some((slot, Sealed::read(desk.space, at::<K, W>(node, slot))?)))
}

/// Flushes a slot; and fences, if what follows relies on it.
fn flush<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, slot: u64, is_last: bool) {
    desk.space.flush(at::<K, W>(node, slot), Sealed::<K, W>::BYTES);
    if is_last || desk.flaw != Flaw::NotInOrder {
        desk.space.fence();
    }
}

fn write<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, slot: u64, held: Held<K, W>) {
    Sealed::write(desk.space, at::<K, W>(node, slot), held.key, held.value, held.sequence);
}

impl Discipline for Shifted {
    const DURABLE: bool = true;

    fn slots<K: Fixed, W: Fixed>(bytes: u64) -> u64 {
        (bytes.saturating_sub(SLOTS) / Sealed::<K, W>::BYTES).min(SLOTS_MAX)
    }

    #[inline]
    fn find<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W> {
        let mut found: Option<Held<K, W>> = None;
        for (_, held) in held::<S, K, W>(desk, node).take_while(|(_, held)| held.key <= key) {
            let newer = |found: Held<K, W>| Sealed::<K, W>::newer(held.sequence, found.sequence);
            if held.key == key && found.is_none_or(newer) {
                found = Some(held);
            }
        }
        found.map(|held| held.value)
    }

    #[inline]
    fn floor<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W> {
        held::<S, K, W>(desk, node).take_while(|(_, held)| held.key <= key).last().map(|(_, held)| held.value)
    }

    fn pairs<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> Vec<(K, W)> {
        let mut pairs: Vec<Held<K, W>> = Vec::new();
        for (_, held) in held::<S, K, W>(desk, node) {
            match pairs.last_mut() {
                Some(last) if last.key == held.key => {
                    if Sealed::<K, W>::newer(held.sequence, last.sequence) {
                        *last = held;
                    }
                }
                _ => pairs.push(held),
            }
        }
        pairs.into_iter().map(|held| (held.key, held.value)).collect()
    }

    fn is_full<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> bool {
        held::<S, K, W>(desk, node).count() as u64 >= Self::slots::<K, W>(desk.bytes)
    }

    fn put<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K, to: W) {
        let slots = Self::slots::<K, W>(desk.bytes);
        let mut taken = 0u64;
        // Behind the last key that is not above.
        let mut place = 0;
        let mut old = None;
        for (slot, held) in held::<S, K, W>(desk, node) {
            taken |= 1 << slot;
            if held.key <= key {
                place = slot + 1;
            }
            if held.key == key {
                old = Some((slot, held.sequence));
            }
        }
        let is_free = |slot: &u64| taken >> slot & 1 == 0;
        let right = (place..slots).find(is_free);
        let left = (0..place).rfind(is_free);
        let nearer = match (left, right) {
            (Some(left), Some(right)) if place - left <= right - place => Err(left),
            (Some(left), None) => Err(left),
            (_, Some(right)) => Ok(right),
            (None, None) => unreachable!("the caller looked for room"),
        };
        let shift = |from: u64, to: u64| {
            if let Some(held) = Sealed::<K, W>::read(desk.space, at::<K, W>(node, from)) {
                write(desk, node, to, held);
                flush::<S, K, W>(desk, node, to, false);
            }
        };
        match nearer {
            Ok(right) => (place..right).rev().for_each(|slot| shift(slot, slot + 1)),
            Err(left) => {
                (left + 1..place).for_each(|slot| shift(slot, slot - 1));
                place -= 1;
                // The pair of the same key, if there is one, moved with the others.
                old = old.map(|(slot, sequence)| (slot - 1, sequence));
            }
        }
        let sequence = old.map_or(0, |(_, sequence)| sequence + 1);
        write(desk, node, place, Held { key, value: to, sequence });
        flush::<S, K, W>(desk, node, place, true);
        if let Some((slot, _)) = old {
            Sealed::<K, W>::erase(desk.space, at::<K, W>(node, slot));
            flush::<S, K, W>(desk, node, slot, true);
        }
    }

    fn take<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) {
        if let Some((slot, _)) = held::<S, K, W>(desk, node).find(|(_, held)| held.key == key) {
            Sealed::<K, W>::erase(desk.space, at::<K, W>(node, slot));
            flush::<S, K, W>(desk, node, slot, true);
        }
    }

    fn fill<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, pairs: &[(K, W)]) {
        for slot in 0..Self::slots::<K, W>(desk.bytes) {
            match pairs.get(slot as usize) {
                Some(&(key, value)) => write(desk, node, slot, Held { key, value, sequence: 0 }),
                None => _ = Sealed::<K, W>::erase(desk.space, at::<K, W>(node, slot)),
            }
        }
    }

    fn cut<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, low: K) {
        for (slot, _) in held::<S, K, W>(desk, node).filter(|(_, held)| held.key >= low) {
            Sealed::<K, W>::erase(desk.space, at::<K, W>(node, slot));
        }
        desk.space.flush(node + SLOTS, desk.bytes - SLOTS);
    }

    /// Erases the older of two pairs of one key, and one of two that are the same.
    fn recover<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) {
        let mut last: Option<(u64, Held<K, W>)> = None;
        for (slot, held) in held::<S, K, W>(desk, node) {
            let twin = last.filter(|(_, last)| last.key == held.key);
            let older = match twin {
                Some((_, last)) if Sealed::<K, W>::newer(last.sequence, held.sequence) => Some(slot),
                Some((left, _)) => Some(left),
                None => None,
            };
            if let Some(older) = older {
                Sealed::<K, W>::erase(desk.space, at::<K, W>(node, older));
            }
            if older != Some(slot) {
                last = Some((slot, held));
            }
        }
    }
}
