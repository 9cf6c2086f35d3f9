//! SPS, PC and TATP: many locks, and one SFR that stores per operation.

use sfr::{Error, Thread};
use space::Env;

use super::program::{Locks, Program, mix, payload};
use crate::pattern::Draw;

/// SPS: elements of two stripes are moved in a circle.
pub(super) struct Swaps<E: Env> {
    locks: Locks<E>,
    array: u64,
    stores: u64,
}

const ELEMENTS: u64 = 65_536;
const STRIPE: u64 = 64;

impl<E: Env> Program<E> for Swaps<E> {
    fn setup(thread: &mut Thread<'_, '_, E>, _: u64) -> Result<u64, Error> {
        let array = thread.alloc(ELEMENTS * 8)?;
        (0..ELEMENTS).for_each(|element| thread.store_u64(array + element * 8, element));
        Ok(array)
    }

    fn start(env: &E, root: u64, stores: u64) -> Self {
        Swaps { locks: Locks::new(env, ELEMENTS / STRIPE), array: root, stores }
    }

    fn operate(&self, env: &E, thread: &mut Thread<'_, '_, E>, draw: &mut Draw) -> Result<(), Error> {
        let (one, other) = (draw.below(ELEMENTS / STRIPE), draw.below(ELEMENTS / STRIPE));
        let (from, to) = (draw.below(STRIPE), draw.below(STRIPE));
        let first = if one == other { self.stores } else { self.stores.div_ceil(2) };
        let place = |number: u64| {
            let (stripe, within) = if number < first { (one, from) } else { (other, to) };
            self.array + (stripe * STRIPE + (within + number) % STRIPE) * 8
        };
        let low = self.locks.take(env, thread, one.min(other));
        let high = (one != other).then(|| self.locks.take(env, thread, one.max(other)));
        let last = thread.load_u64(place(self.stores - 1));
        for number in (1..self.stores).rev() {
            let value = thread.load_u64(place(number - 1));
            thread.store_u64(place(number), value);
        }
        thread.store_u64(place(0), last);
        if let Some(high) = high {
            high.give(thread);
        }
        low.give(thread);
        Ok(())
    }
}

/// PC: entries of a hash table with chains are updated.
pub(super) struct Entries<E: Env> {
    locks: Locks<E>,
    buckets: u64,
    stores: u64,
}

const ENTRIES: u64 = 16_384;
const BUCKETS: u64 = ENTRIES / 2 + 1;
const LOCKS: u64 = 1024;

impl<E: Env> Program<E> for Entries<E> {
    fn setup(thread: &mut Thread<'_, '_, E>, stores: u64) -> Result<u64, Error> {
        let buckets = thread.zalloc(BUCKETS * 8)?;
        for key in 0..ENTRIES {
            let head = buckets + mix(key) % BUCKETS * 8;
            let entry = thread.alloc(16 + stores * 8)?;
            let next = thread.load_u64(head);
            thread.store_u64(entry, next);
            thread.store_u64(entry + 8, key);
            payload(thread, entry + 16, stores, key, 1);
            thread.store_u64(head, entry);
        }
        Ok(buckets)
    }

    fn start(env: &E, root: u64, stores: u64) -> Self {
        Entries { locks: Locks::new(env, LOCKS), buckets: root, stores }
    }

    fn operate(&self, env: &E, thread: &mut Thread<'_, '_, E>, draw: &mut Draw) -> Result<(), Error> {
        let key = draw.below(ENTRIES);
        let bucket = mix(key) % BUCKETS;
        let held = self.locks.take(env, thread, bucket % LOCKS);
        let mut entry = thread.load_u64(self.buckets + bucket * 8);
        while thread.load_u64(entry + 8) != key {
            entry = thread.load_u64(entry);
        }
        let version = thread.load_u64(entry + 16) + 1;
        payload(thread, entry + 16, self.stores, key, version);
        held.give(thread);
        Ok(())
    }
}

/// TATP's Update Location: a subscriber is found by number, and its location changes.
pub(super) struct Subscribers<E: Env> {
    locks: Locks<E>,
    index: u64,
    stores: u64,
}

const SUBSCRIBERS: u64 = 10_000;
const SLOTS: u64 = 2 * SUBSCRIBERS;
/// Bytes of a row in front of the location: the number (16), the id, and what other transactions read.
const ROW: u64 = 64;

impl<E: Env> Subscribers<E> {
    /// The row of a subscriber: its number is 16 bytes, and its first word suffices here.
    fn find(thread: &Thread<'_, '_, E>, index: u64, id: u64) -> (u64, u64) {
        let mut slot = mix(id) % SLOTS;
        loop {
            let row = thread.load_u64(index + slot * 8);
            if row == 0 || thread.load_u64(row) == mix(id ^ 1) {
                return (index + slot * 8, row);
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

impl<E: Env> Program<E> for Subscribers<E> {
    fn setup(thread: &mut Thread<'_, '_, E>, stores: u64) -> Result<u64, Error> {
        let index = thread.zalloc(SLOTS * 8)?;
        for id in 0..SUBSCRIBERS {
            let row = thread.zalloc(ROW + stores * 8)?;
            thread.store_u64(row, mix(id ^ 1));
            thread.store_u64(row + 16, id);
            payload(thread, row + ROW, stores, id, 1);
            let (slot, _) = Self::find(thread, index, id);
            thread.store_u64(slot, row);
        }
        Ok(index)
    }

    fn start(env: &E, root: u64, stores: u64) -> Self {
        Subscribers { locks: Locks::new(env, LOCKS), index: root, stores }
    }

    fn operate(&self, env: &E, thread: &mut Thread<'_, '_, E>, draw: &mut Draw) -> Result<(), Error> {
        let id = draw.below(SUBSCRIBERS);
        let (_, row) = Self::find(thread, self.index, id);
        let held = self.locks.take(env, thread, id % LOCKS);
        let version = thread.load_u64(row + ROW) + 1;
        payload(thread, row + ROW, self.stores, id, version);
        held.give(thread);
        Ok(())
    }
}
