//! Slots that a crash leaves whole or not at all, for the price of one fence.
//!
//! # The idea
//! The words of a [`Space`] survive a crash in any combination, even those of one line. A pair that is
//! written first and declared valid by a bit afterwards needs two fences. A *sealed* slot carries its own
//! proof: the low byte of each of its words is a *tag*, the same in all of them. The bytes that the tags
//! displace are in the last word, the *seal*, together with a sequence number. A slot holds a pair if and
//! only if its tags are equal and not 0. A slot that is written again gets a tag that none of its words has,
//! so any mixture of old and new words is no pair.
//!
//! | word | bits 8 to 63 | bits 0 to 7 |
//! |---|---|---|
//! | of the key, of the value | the word's bits 8 to 63 | tag |
//! | seal | from bit 8: the low byte of each word before; above them the sequence number | tag |
//!
//! With 8-byte keys and values a slot has three words and 40 bits of sequence number, with 16-byte ones five
//! words and 24 bits.
//!
//! # What the user of a slot keeps to
//! - *Write*: [`Sealed::write`], flush, fence. The slot's content before does not count any more: it is
//!   erased, or was never sealed.
//! - *Remove*: [`Sealed::erase`], flush, fence. That is one word.
//! - *Update*: the new pair goes to another slot with the next sequence number; once that is durable, the old
//!   slot is erased. Until this is durable, too, a crash leaves two pairs of one key: the newer one counts
//!   ([`Sealed::newer`]). Whoever removes the newer one, or moves it, first makes sure that the old slot is
//!   durably erased.
//! - A slot that was erased may be written again at once: the tag differs from the words that may still
//!   survive below.

use std::marker::PhantomData;

use space::Space;

use crate::Fixed;

/// Words of the largest slot.
const WORDS_MAX: usize = 5;
/// A word without its tag.
const CONTENT: u64 = !0xFF;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// The sequence number, below [`Sealed::SEQUENCES`].
    pub sequence: u64,
}

/// Slots of keys `K` and values `V`; has no values itself.
#[derive(Debug)]
pub struct Sealed<K, V>(PhantomData<(K, V)>);

impl<K: Fixed, V: Fixed> Sealed<K, V> {
    /// Words of a slot.
    pub const WORDS: usize = K::WORDS + V::WORDS + 1;
    /// Bytes of a slot.
    pub const BYTES: u64 = 8 * Self::WORDS as u64;
    /// Where the sequence number begins in the seal.
    const SEQUENCE: u32 = 8 * Self::WORDS as u32;
    /// Sequence numbers are below this, and 0 follows the last one.
    pub const SEQUENCES: u64 = 1 << (u64::BITS - Self::SEQUENCE);

    /// The words of a slot.
    #[inline(always)]
    fn seal(tag: u8, held: &Held<K, V>) -> [u64; WORDS_MAX] {
        let mut words = [0; WORDS_MAX];
        let mut seal = u64::from(tag) | held.sequence << Self::SEQUENCE;
        for (at, sealed) in words.iter_mut().enumerate().take(Self::WORDS - 1) {
            let word = if at < K::WORDS { held.key.word(at) } else { held.value.word(at - K::WORDS) };
            *sealed = word & CONTENT | u64::from(tag);
            seal |= (word & 0xFF) << (8 + 8 * at);
        }
        words[Self::WORDS - 1] = seal;
        words
    }

    /// What these words hold; `None` if they do not belong together.
    #[inline(always)]
    fn unseal(words: &[u64; WORDS_MAX]) -> Option<Held<K, V>> {
        let seal = words[Self::WORDS - 1];
        let tag = seal & 0xFF;
        let different = (0..Self::WORDS - 1).fold(0, |sum, at| sum | (words[at] ^ seal) & 0xFF);
        if tag == 0 || different != 0 {
            return None;
        }
        let (mut key, mut value) = ([0; 2], [0; 2]);
        for at in 0..Self::WORDS - 1 {
            let word = words[at] & CONTENT | seal >> (8 + 8 * at) & 0xFF;
            if at < K::WORDS {
                key[at] = word;
            } else {
                value[at - K::WORDS] = word;
            }
        }
        let sequence = seal >> Self::SEQUENCE;
        Some(Held { key: K::from_words(key), value: V::from_words(value), sequence })
    }

    /// Writes a slot; the caller flushes and fences. The sequence number counts modulo [`Self::SEQUENCES`].
    #[inline]
    pub fn write<S: Space>(space: &S, at: u64, key: K, value: V, sequence: u64) {
        let tag = Self::fresh_tag(space, at);
        Self::write_tagged(space, at, tag, key, value, sequence);
    }

    /// As [`Self::write`], with a tag of the caller's choice. Only where it is certain that no word of the
    /// slot has this tag: in memory that is zeros, durably.
    #[inline]
    pub fn write_tagged<S: Space>(space: &S, at: u64, tag: u8, key: K, value: V, sequence: u64) {
        let sequence = sequence % Self::SEQUENCES;
        let words = Self::seal(tag, &Held { key, value, sequence });
        for (word, at) in words[..Self::WORDS].iter().zip((at..).step_by(8)) {
            space.store_u64(at, *word);
        }
    }

    /// The pair of a slot, if it holds one.
    #[inline]
    pub fn read<S: Space>(space: &S, at: u64) -> Option<Held<K, V>> {
        let mut words = [0; WORDS_MAX];
        for (word, at) in words[..Self::WORDS].iter_mut().zip((at..).step_by(8)) {
            *word = space.load_u64(at);
        }
        Self::unseal(&words)
    }

    /// Whether a slot that begins with this word may hold the key: false of most others, and never of the
    /// key's own.
    #[inline(always)]
    #[must_use]
    pub fn may_hold(first: u64, key: K) -> bool {
        (first ^ key.word(0)) & CONTENT == 0
    }

    /// Takes the pair out of a slot by storing its first word; the caller flushes and fences. Whether there
    /// was one: a slot that holds none keeps its tags, which the next write has to avoid.
    #[inline]
    pub fn erase<S: Space>(space: &S, at: u64) -> bool {
        let holds = Self::read(space, at).is_some();
        if holds {
            space.store_u64(at, 0);
        }
        holds
    }

    /// Whether sequence number `a` is one of those that follow `b`: at most half of all numbers later.
    #[inline]
    #[must_use]
    pub fn newer(a: u64, b: u64) -> bool {
        let distance = a.wrapping_sub(b) % Self::SEQUENCES;
        distance != 0 && distance < Self::SEQUENCES / 2
    }

    /// A tag that no word of the slot has.
    #[inline]
    fn fresh_tag<S: Space>(space: &S, at: u64) -> u8 {
        let mut taken = [0; WORDS_MAX];
        for (tag, at) in taken[..Self::WORDS].iter_mut().zip((at..).step_by(8)) {
            *tag = space.load_u64(at) as u8;
        }
        let mut tag = taken[Self::WORDS - 1].wrapping_add(1);
        while tag == 0 || taken[..Self::WORDS].contains(&tag) {
            tag = tag.wrapping_add(1);
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use space::Image;

    use super::*;

    /// The contents that a crash can leave of a slot, when word `i` had the contents of `versions[..].i` one
    /// after the other: each combination.
    fn torn(versions: &[Vec<u64>], words: usize) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::new()];
        for word in 0..words {
            all = all
                .iter()
                .flat_map(|front| {
                    versions.iter().map(move |version| [front.as_slice(), &[version[word]]].concat())
                })
                .collect();
        }
        all
    }

    fn words<K: Fixed, V: Fixed>(space: &Image) -> Vec<u64> {
        (0..Sealed::<K, V>::WORDS as u64).map(|word| space.load_u64(8 * word)).collect()
    }

    fn pair_in<K: Fixed, V: Fixed>(words: &[u64]) -> Option<Held<K, V>> {
        let space = Image::new(64);
        space.store_words(0, words);
        Sealed::read(&space, 0)
    }

    /// A slot that is written, erased and written again holds one of the pairs or none, whatever a crash
    /// keeps; a pair that is durably erased is never seen again.
    fn no_mixture<K: Fixed, V: Fixed>(pairs: &[(K, V)], left: &[u64]) {
        let space = Image::new(64);
        // What an earlier crash left: any words that hold no pair.
        space.store_words(0, &left[..Sealed::<K, V>::WORDS]);
        Sealed::<K, V>::erase(&space, 0);
        let mut before = words::<K, V>(&space);
        let mut old = None;
        for (number, &(key, value)) in (0..).zip(pairs) {
            let held = Held { key, value, sequence: number % Sealed::<K, V>::SEQUENCES };
            // Erased without waiting, and written again at once.
            Sealed::<K, V>::erase(&space, 0);
            let erased = words::<K, V>(&space);
            Sealed::write(&space, 0, key, value, number);
            let after = words::<K, V>(&space);
            assert_eq!(Sealed::read(&space, 0), Some(held));
            for image in torn(&[before.clone(), erased.clone(), after.clone()], after.len()) {
                let found = pair_in::<K, V>(&image);
                assert!(found.is_none() || found == old || found == Some(held), "{image:x?}");
                assert_eq!(found == Some(held), image == after, "{image:x?}");
            }
            for image in torn(&[erased, after.clone()], after.len()) {
                let found = pair_in::<K, V>(&image);
                assert!(found.is_none() || found == Some(held), "{image:x?}");
            }
            (before, old) = (after, Some(held));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn words_of_different_writes_hold_no_pair(
            small in prop::collection::vec((any::<u64>(), any::<u64>()), 1..8),
            wide in prop::collection::vec((any::<[u64; 2]>(), any::<[u64; 2]>()), 1..4),
            left in any::<[u64; 5]>(),
        ) {
            no_mixture(&small, &left);
            no_mixture(&wide, &left);
            let mixed: Vec<_> = small.iter().map(|&(key, value)| (key, [value, key])).collect();
            no_mixture(&mixed, &left);
        }

        #[test]
        fn numbers_are_newer_in_a_circle(a in any::<u64>(), step in 1u64..1 << 20) {
            type Wide = Sealed<[u64; 2], [u64; 2]>;
            let (a, b) = (a % Wide::SEQUENCES, a.wrapping_add(step) % Wide::SEQUENCES);
            prop_assert!(Wide::newer(b, a) && !Wide::newer(a, b) && !Wide::newer(a, a));
        }
    }

    /// A crash left one word of a new pair. Erasing the slot would forget that its tag is in use, and the
    /// next pair would be taken for a whole one with that word in it.
    #[test]
    fn a_slot_without_a_pair_is_left_alone() {
        let space = Image::new(64);
        Sealed::write_tagged(&space, 0, 1, 0x100u64, 0x100u64, 0);
        space.store_u64(0, 0x302);
        let before = words::<u64, u64>(&space);
        assert!(!Sealed::<u64, u64>::erase(&space, 0));
        assert_eq!(words::<u64, u64>(&space), before);
        Sealed::write(&space, 0, 0x500u64, 0x500u64, 0);
        let after = words::<u64, u64>(&space);
        for image in torn(&[before, after.clone()], 3) {
            assert_eq!(pair_in::<u64, u64>(&image).is_some(), image == after, "{image:x?}");
        }
        assert!(Sealed::<u64, u64>::erase(&space, 0) && !Sealed::<u64, u64>::erase(&space, 0));
    }

    #[test]
    fn more_writes_than_tags() {
        let pairs: Vec<_> = (0..600).map(|at| (at, at << 40)).collect();
        no_mixture::<u64, u64>(&pairs, &[0; 5]);
    }

    /// What the tag is for: with the same one each time, halves of two pairs make a third.
    #[test]
    fn a_constant_tag_makes_mixtures() {
        let space = Image::new(64);
        Sealed::write_tagged(&space, 0, 1, 0x100u64, 0x100u64, 0);
        let before = words::<u64, u64>(&space);
        Sealed::<u64, u64>::erase(&space, 0);
        Sealed::write_tagged(&space, 0, 1, 0x200u64, 0x200u64, 0);
        let after = words::<u64, u64>(&space);
        let mixed = |image: &Vec<u64>| {
            pair_in::<u64, u64>(image).is_some_and(|held| (held.key == 0x100) != (held.value == 0x100))
        };
        assert!(torn(&[before, after], 3).iter().any(mixed));
    }
}
