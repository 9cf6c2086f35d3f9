//! What is known of a leaf in ordinary memory, and its slots in the space.
//!
//! # In the space
//! | bytes | |
//! |---|---|
//! | 0 | offset of the next leaf, 0 if it is the last |
//! | 8 | *low*: no key below it belongs here; one or two words |
//! | behind | sealed slots, in no order |
//!
//! A key that is not below the low of the next leaf does not belong here, and its slot counts for nothing.
//!
//! # In ordinary memory
//! Sixteen words, of which readers of small leaves need the first eight. The version is odd while the others
//! change; what a reader found is right if the version is even and the same before and after. A slot is in
//! use if its bit of `live` is set; a byte of its key's hash is its fingerprint.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use space::Space;

use crate::sealed::{Held, Sealed};
use crate::version::{Conflict, Version};
use crate::{Error, Fixed};

/// Words of a leaf in ordinary memory.
pub(super) const WORDS: usize = 16;
const VERSION: usize = 0;
const LIVE: usize = 1;
/// Offset in units of 256 bytes in the upper half, 0 if nothing is known of the leaf; number of the next
/// leaf.
const PLACE: usize = 2;
const LOW: usize = 3;
const HIGH: usize = 4;
const PRINTS: usize = 5;
const LOW2: usize = 13;
const HIGH2: usize = 14;
/// Slots that were erased by stores that are not known to be durable.
const PENDING: usize = 15;

/// Slots of a leaf at most.
pub(super) const SLOTS_MAX: u32 = 64;
/// No next leaf.
pub(super) const NONE: u32 = u32::MAX;
/// In place of the next leaf: this one is not in use.
const DEAD: u32 = u32::MAX - 1;
/// Unit of offsets.
pub(super) const UNIT: u64 = 256;

/// Where a key belongs, seen from a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// In this one.
    Here,
    /// In this one or one behind it.
    Right(u32),
    /// Elsewhere: before this one, or the leaf is not in use.
    Elsewhere,
}

/// How leaves of a tree are laid out.
#[derive(Debug)]
pub(super) struct Shape<K, V> {
    /// Bytes of a leaf.
    pub node: u64,
    /// Slots of a leaf.
    pub slots: u32,
    pairs: PhantomData<(K, V)>,
}

impl<K, V> Clone for Shape<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Shape<K, V> {}

impl<K: Fixed, V: Fixed> Shape<K, V> {
    const HEADER: u64 = 8 + 8 * K::WORDS as u64;

    /// The layout of leaves of `node` bytes, if there is one.
    pub fn new(node: u64) -> Option<Self> {
        let slots = node.checked_sub(Self::HEADER)? / Sealed::<K, V>::BYTES;
        let fits = node.is_multiple_of(UNIT) && (4..=u64::from(SLOTS_MAX)).contains(&slots);
        fits.then_some(Shape { node, slots: slots as u32, pairs: PhantomData })
    }

    /// Bits of all slots.
    #[inline(always)]
    pub fn all(self) -> u64 {
        u64::MAX >> (SLOTS_MAX - self.slots)
    }

    /// Offset of a slot.
    #[inline(always)]
    pub fn slot(self, node: u64, slot: u32) -> u64 {
        node + Self::HEADER + Sealed::<K, V>::BYTES * u64::from(slot)
    }

    /// Words of fingerprints.
    #[inline(always)]
    fn prints(self) -> usize {
        self.slots.div_ceil(8) as usize
    }

    /// The low of the leaf at `node`.
    pub fn low_of<S: Space>(space: &S, node: u64) -> K {
        let mut words = [0; 2];
        for (word, at) in words[..K::WORDS].iter_mut().zip((node + 8..).step_by(8)) {
            *word = space.load_u64(at);
        }
        K::from_words(words)
    }

    /// Writes the head of a leaf.
    pub fn write_head<S: Space>(space: &S, node: u64, next: u64, low: K) {
        space.store_u64(node, next);
        for word in 0..K::WORDS {
            space.store_u64(node + 8 + 8 * word as u64, low.word(word));
        }
    }
}

/// The fingerprint of a key.
#[inline(always)]
pub(super) fn print_of<K: Fixed>(key: K) -> u8 {
    let mut hash = key.word(0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    if K::WORDS > 1 {
        hash = (hash ^ key.word(1)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    (hash >> 56) as u8
}

/// The bytes of `word` that are `print`, a bit each.
#[inline(always)]
fn matches(word: u64, print: u8) -> u64 {
    const LOW_BITS: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let differs = word ^ (u64::from(print) * 0x0101_0101_0101_0101);
    let equal = !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS);
    (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// A slot and what it holds.
pub type Found<K, V> = (u32, Held<K, V>);

/// What is known of a leaf.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a>(pub &'a [AtomicU64; WORDS]);

impl Leaf<'_> {
    /// Holds for all other words.
    #[inline(always)]
    pub fn version(&self) -> Version<'_> {
        Version(&self.0[VERSION])
    }

    /// Makes changes that readers see as one; under the leaf's latch.
    #[inline(always)]
    pub fn change(self, make: impl FnOnce(Self)) {
        self.version().change(|| make(self));
    }

    /// Slots in use.
    #[inline(always)]
    pub fn live(self) -> u64 {
        self.0[LIVE].load(Relaxed)
    }

    pub fn set_live(self, live: u64) {
        self.0[LIVE].store(live, Relaxed);
    }

    pub fn pending(self) -> u64 {
        self.0[PENDING].load(Relaxed)
    }

    pub fn set_pending(self, slots: u64) {
        self.0[PENDING].store(slots, Relaxed);
    }

    /// Offset of the leaf in the space; 0 if nothing is known of it yet.
    #[inline(always)]
    pub fn node(self) -> u64 {
        (self.0[PLACE].load(Relaxed) >> 32) * UNIT
    }

    /// The leaf behind it, unless this one is not in use.
    #[inline(always)]
    pub fn next(self) -> Option<u32> {
        let next = self.0[PLACE].load(Relaxed) as u32;
        (next != DEAD).then_some(next)
    }

    pub fn set_place(self, node: u64, next: Option<u32>) {
        self.0[PLACE].store((node / UNIT) << 32 | u64::from(next.unwrap_or(DEAD)), Relaxed);
    }

    pub fn low<K: Fixed>(self) -> K {
        K::from_words([self.0[LOW].load(Relaxed), self.0[LOW2].load(Relaxed)])
    }

    /// The low of the next leaf, if there is one.
    pub fn high<K: Fixed>(self) -> Option<K> {
        let high = K::from_words([self.0[HIGH].load(Relaxed), self.0[HIGH2].load(Relaxed)]);
        self.next().filter(|next| *next != NONE).map(|_| high)
    }

    pub fn set_low<K: Fixed>(self, low: K) {
        self.0[LOW].store(low.word(0), Relaxed);
        if K::WORDS > 1 {
            self.0[LOW2].store(low.word(1), Relaxed);
        }
    }

    pub fn set_high<K: Fixed>(self, high: K) {
        self.0[HIGH].store(high.word(0), Relaxed);
        if K::WORDS > 1 {
            self.0[HIGH2].store(high.word(1), Relaxed);
        }
    }

    /// Where a key belongs, as this leaf knows it; it is known.
    #[inline(always)]
    pub fn side<K: Fixed>(self, key: K) -> Side {
        match self.next() {
            None => Side::Elsewhere,
            Some(_) if key < self.low() => Side::Elsewhere,
            Some(next)
                if next != NONE
                    && key >= K::from_words([self.0[HIGH].load(Relaxed), self.0[HIGH2].load(Relaxed)]) =>
            {
                Side::Right(next)
            }
            Some(_) => Side::Here,
        }
    }

    pub fn set_print(self, slot: u32, print: u8) {
        let word = &self.0[PRINTS + slot as usize / 8];
        let shift = slot % 8 * 8;
        word.store(word.load(Relaxed) & !(0xFF << shift) | u64::from(print) << shift, Relaxed);
    }

    /// Slots in use with that fingerprint.
    #[inline(always)]
    pub fn candidates<K: Fixed, V: Fixed>(self, shape: Shape<K, V>, print: u8) -> u64 {
        let mut found = 0;
        for word in 0..shape.prints() {
            found |= matches(self.0[PRINTS + word].load(Relaxed), print) << (8 * word);
        }
        found & self.live()
    }

    /// The slot of `key` and what it holds.
    #[inline(always)]
    pub fn find<S: Space, K: Fixed, V: Fixed>(
        self,
        space: &S,
        shape: Shape<K, V>,
        key: K,
    ) -> Result<Option<Found<K, V>>, Conflict> {
        let node = self.node();
        for slot in bits(self.candidates(shape, print_of(key))) {
            let held = Sealed::<K, V>::read(space, shape.slot(node, slot)).ok_or(Conflict)?;
            if held.key == key {
                return Ok(Some((slot, held)));
            }
        }
        Ok(None)
    }

    /// All slots in use, in no order.
    pub fn pairs<S: Space, K: Fixed, V: Fixed>(
        self,
        space: &S,
        shape: Shape<K, V>,
        pairs: &mut Vec<Found<K, V>>,
    ) -> Result<(), Conflict> {
        pairs.clear();
        let node = self.node();
        for slot in bits(self.live()) {
            pairs.push((slot, Sealed::<K, V>::read(space, shape.slot(node, slot)).ok_or(Conflict)?));
        }
        Ok(())
    }

    /// A slot that is in use holds no pair: somebody else wrote to the leaf.
    #[cold]
    pub fn unsealed(self) -> Error {
        Error::Damaged { offset: self.node(), what: "a slot of the leaf lost its seal" }
    }

    /// Finds out all about a leaf from its slots, and erases the older of two pairs of one key, which an
    /// update that was interrupted leaves. Makes the leaf durable first, because what is here may be stores
    /// of a process that was killed: the older pair may not go before the newer one is durable. Does not
    /// fence what it erases.
    ///
    /// # Errors
    /// If there is a key that was never the leaf's.
    pub fn load<S: Space, K: Fixed, V: Fixed>(
        self,
        space: &S,
        shape: Shape<K, V>,
        node: u64,
        next: Option<(u32, K)>,
    ) -> Result<(), Error> {
        let low = Shape::<K, V>::low_of(space, node);
        space.flush(node, shape.node);
        let (mut live, mut erased) = (0, Vec::new());
        let mut known: Vec<(u32, Held<K, V>)> = Vec::with_capacity(shape.slots as usize);
        for slot in 0..shape.slots {
            let at = shape.slot(node, slot);
            let Some(held) = Sealed::<K, V>::read(space, at) else { continue };
            if next.is_some_and(|(_, high)| held.key >= high) {
                continue;
            }
            if held.key < low {
                return Err(Error::Damaged { offset: at, what: "a key below the leaf's" });
            }
            let print = print_of(held.key);
            let twin = known.iter_mut().find(|(_, other)| other.key == held.key);
            let mut older = None;
            match twin {
                Some(other) if Sealed::<K, V>::newer(held.sequence, other.1.sequence) => {
                    older = Some(other.0);
                    *other = (slot, held);
                }
                Some(_) => older = Some(slot),
                None => known.push((slot, held)),
            }
            live |= 1 << slot;
            self.set_print(slot, print);
            if let Some(older) = older {
                erased.push(shape.slot(node, older));
                live &= !(1 << older);
            }
        }
        if !erased.is_empty() {
            space.fence();
        }
        for slot in erased {
            Sealed::<K, V>::erase(space, slot);
            space.flush(slot, 8);
        }
        self.set_low(low);
        if let Some((_, high)) = next {
            self.set_high(high);
        }
        self.set_pending(0);
        self.set_live(live);
        self.set_place(node, Some(next.map_or(NONE, |(next, _)| next)));
        Ok(())
    }
}

/// The numbers of the bits that are set.
#[inline(always)]
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        (word != 0).then(|| {
            word &= word - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_equal() {
        for word in [0, u64::MAX, 0x0102_0304_0506_0708, 0x8001_7F80_0101_00FF] {
            for print in 0..=255u8 {
                let expected =
                    word.to_le_bytes().iter().rev().fold(0, |sum, byte| sum << 1 | u64::from(*byte == print));
                assert_eq!(matches(word, print), expected, "{word:x} {print:x}");
            }
        }
    }

    #[test]
    fn layouts() {
        assert_eq!(Shape::<u64, u64>::new(512).map(|shape| shape.slots), Some(20));
        assert_eq!(Shape::<[u64; 2], [u64; 2]>::new(256).map(|shape| shape.slots), Some(5));
        assert!(Shape::<u64, u64>::new(128).is_none() && Shape::<u64, u64>::new(2048).is_none());
    }
}
