//! A set-associative store of tags with an item to each: the buffers and tables of a device, and the caches
//! of a machine.

use crate::replacement::Policy;
use crate::{Divisor, Replacement, Rng, Time};

/// Tag of an empty slot. No line has this number: addresses have 64 bits and lines 64 bytes.
pub const EMPTY: u64 = u64::MAX;

/// A slot: a line (or unit) and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Slot<T> {
    /// The line's number, or [`EMPTY`].
    pub tag: u64,
    /// What is known of it.
    pub item: T,
}

/// How tags are spread over sets.
pub trait Spread {
    /// Number of the set of `tag`.
    fn set(&self, tag: u64) -> usize;
}

/// Tags spread over sets by the remainder of a division by their number.
#[derive(Clone, Copy, Debug)]
pub struct Modulo {
    sets: usize,
    divisor: Divisor,
}

impl Modulo {
    /// Over `sets` sets, at least one.
    #[must_use]
    pub fn new(sets: usize) -> Self {
        Modulo { sets, divisor: Divisor::new(sets as u64) }
    }
}

impl Spread for Modulo {
    #[inline(always)]
    fn set(&self, tag: u64) -> usize {
        if self.sets.is_power_of_two() {
            tag as usize & (self.sets - 1)
        } else {
            self.divisor.remainder(tag) as usize
        }
    }
}

/// A store of `sets * ways` slots; slot `s` belongs to set `s / ways`.
///
/// A search compares one byte per way, eight ways at a time, and looks only at slots whose byte fits. The
/// bytes of a modelled L2 fit in a real L1, which is what a miss costs here.
#[derive(Clone, Debug)]
pub struct Cache<T, S = Modulo> {
    /// All slots, set by set.
    pub slots: Box<[Slot<T>]>,
    /// Per set `words` words of one [`print`] per way.
    prints: Box<[u64]>,
    sets: usize,
    spread: S,
    ways: usize,
    words: usize,
    policy: Policy,
}

/// Print of an empty way.
const PRINT_EMPTY: u8 = 0;
/// Print of a byte that is no way, because the last word of a set is not full.
const PRINT_NONE: u8 = 255;
/// A byte of one in each place.
const ONES: u64 = 0x0101_0101_0101_0101;

/// A byte of a tag's hash, neither [`PRINT_EMPTY`] nor [`PRINT_NONE`].
fn print(tag: u64) -> u8 {
    let hash = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    ((hash * 254) >> 8) as u8 + 1
}

/// The top bit of each byte of `word` that equals `byte`. Above a true one there may be false ones, so
/// only the lowest is certain.
fn equal_bytes(word: u64, byte: u8) -> u64 {
    let difference = word ^ (u64::from(byte) * ONES);
    difference.wrapping_sub(ONES) & !difference & (ONES << 7)
}

impl<T: Copy + Default> Cache<T> {
    /// An empty cache whose sets are chosen by [`Modulo`].
    ///
    /// # Panics
    /// Without a set or a way, or if `replacement` is a tree and `ways` no power of two up to 64.
    #[must_use]
    pub fn new(sets: usize, ways: usize, replacement: Replacement, rng: Rng) -> Self {
        assert!(sets > 0, "checked with the description");
        Cache::spread_by(Modulo::new(sets), sets, ways, replacement, rng)
    }
}

impl<T: Copy + Default, S: Spread> Cache<T, S> {
    /// An empty cache with `spread` over `sets` sets.
    ///
    /// # Panics
    /// As [`Cache::new`].
    #[must_use]
    pub fn spread_by(spread: S, sets: usize, ways: usize, replacement: Replacement, rng: Rng) -> Self {
        assert!(sets > 0 && ways > 0, "checked with the description");
        let words = ways.div_ceil(8);
        let mut prints = vec![u64::from(PRINT_NONE) * ONES; sets * words];
        for (set, way) in (0..sets).flat_map(|set| (0..ways).map(move |way| (set, way))) {
            set_byte(&mut prints[set * words + way / 8], way % 8, PRINT_EMPTY);
        }
        Cache {
            slots: vec![Slot { tag: EMPTY, item: T::default() }; sets * ways].into(),
            prints: prints.into(),
            sets,
            spread,
            ways,
            words,
            policy: Policy::new(replacement, sets, ways, rng),
        }
    }

    /// The slot that holds `tag`.
    #[inline]
    pub fn find(&self, tag: u64) -> Option<usize> {
        let set = self.set(tag);
        let wanted = print(tag);
        for (word, &prints) in self.prints[set * self.words..][..self.words].iter().enumerate() {
            let mut fits = equal_bytes(prints, wanted);
            while fits != 0 {
                let slot = set * self.ways + word * 8 + fits.trailing_zeros() as usize / 8;
                if self.slots.get(slot).is_some_and(|held| held.tag == tag) {
                    return Some(slot);
                }
                fits &= fits - 1;
            }
        }
        None
    }

    fn empty_way(&self, set: usize) -> Option<usize> {
        let words = self.prints[set * self.words..][..self.words].iter().enumerate();
        let mut empty = words.map(|(word, &prints)| (word, equal_bytes(prints, PRINT_EMPTY)));
        empty.find(|(_, fits)| *fits != 0).map(|(word, fits)| word * 8 + fits.trailing_zeros() as usize / 8)
    }

    /// Number of the set of `tag`.
    #[inline(always)]
    pub fn set(&self, tag: u64) -> usize {
        self.spread.set(tag)
    }

    /// Reads where searches in `set` begin.
    #[inline(always)]
    pub fn peek_set(&self, set: usize) -> u64 {
        self.prints[set * self.words]
    }

    /// The slot of `set` where `tag` probably is, without looking at it.
    #[inline(always)]
    pub fn guess(&self, set: usize, tag: u64) -> Option<usize> {
        let prints = self.prints[set * self.words..][..self.words].iter().enumerate();
        let slot = prints.fold(usize::MAX, |slot, (word, &prints)| {
            let fits = equal_bytes(prints, print(tag));
            let found = set * self.ways + word * 8 + fits.trailing_zeros() as usize / 8;
            if fits == 0 { slot } else { slot.min(found) }
        });
        (slot != usize::MAX).then_some(slot)
    }

    /// The slot of `set` that probably makes room for the next line. `chance` decides as the policy's own
    /// source of chance will, and goes on as it does.
    #[inline(always)]
    pub fn guess_victim(&self, set: usize, chance: &mut Rng) -> usize {
        let way = self.empty_way(set).unwrap_or_else(|| self.policy.candidate(set, self.ways, chance));
        set * self.ways + way
    }

    /// For [`Cache::guess_victim`]: the draws to come.
    #[must_use]
    pub fn foresight(&self) -> Rng {
        self.policy.foresight()
    }

    /// The slot was used.
    pub fn touch(&mut self, slot: usize) {
        self.policy.touch(slot / self.ways, slot % self.ways, slot);
    }

    /// First slot and number of the set of `tag`, where the number of sets is a power of two.
    #[inline(always)]
    pub fn masked_set(&self, tag: u64) -> (usize, usize) {
        let set = tag as usize & (self.sets - 1);
        (set * self.ways, set)
    }

    /// As [`Cache::touch`], where set and way are known.
    #[inline(always)]
    pub fn touch_way(&mut self, set: usize, way: usize, slot: usize) {
        self.policy.touch(set, way, slot);
    }

    /// Puts `tag`, which is not held yet, into a slot and makes it the most recently used. Returns the
    /// slot and what had to leave it.
    pub fn insert(&mut self, tag: u64, item: T) -> (usize, Option<(u64, T)>) {
        debug_assert_eq!(self.find(tag), None);
        let set = self.set(tag);
        let way = self.empty_way(set).unwrap_or_else(|| self.policy.victim(set, self.ways));
        self.put(set, way, tag, item)
    }

    /// Puts `tag` into `way` of `set`.
    fn put(&mut self, set: usize, way: usize, tag: u64, item: T) -> (usize, Option<(u64, T)>) {
        let slot = set * self.ways + way;
        let old = std::mem::replace(&mut self.slots[slot], Slot { tag, item });
        set_byte(&mut self.prints[set * self.words + way / 8], way % 8, print(tag));
        self.policy.touch(set, way, slot);
        (slot, (old.tag != EMPTY).then_some((old.tag, old.item)))
    }

    /// As [`Cache::insert`], with `Policy::shortest_wait` for the victim.
    pub fn insert_passing_over(
        &mut self,
        tag: u64,
        item: T,
        mut wait: impl FnMut(u64, T) -> Time,
    ) -> Option<(u64, T)> {
        debug_assert_eq!(self.find(tag), None);
        let set = self.set(tag);
        let slots = &self.slots[set * self.ways..][..self.ways];
        let way = self.empty_way(set).unwrap_or_else(|| {
            self.policy.shortest_wait(set, self.ways, |way| wait(slots[way].tag, slots[way].item))
        });
        self.put(set, way, tag, item).1
    }

    /// Empties the slot.
    pub fn remove(&mut self, slot: usize) -> T {
        debug_assert_ne!(self.slots[slot].tag, EMPTY);
        let (set, way) = (slot / self.ways, slot % self.ways);
        set_byte(&mut self.prints[set * self.words + way / 8], way % 8, PRINT_EMPTY);
        self.slots[slot].tag = EMPTY;
        self.slots[slot].item
    }

    /// Everything held, by slot.
    pub fn held(&self) -> impl Iterator<Item = (usize, u64, T)> {
        let slots = self.slots.iter().enumerate().filter(|(_, held)| held.tag != EMPTY);
        slots.map(|(slot, held)| (slot, held.tag, held.item))
    }
}

fn set_byte(word: &mut u64, at: usize, byte: u8) {
    *word = *word & !(0xff << (8 * at)) | u64::from(byte) << (8 * at);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of two ways; even numbers go to set 0.
    fn tiny(replacement: Replacement) -> Cache<()> {
        Cache::new(2, 2, replacement, Rng::new(1))
    }

    fn insert(cache: &mut Cache<()>, tag: u64) -> Option<u64> {
        cache.insert(tag, ()).1.map(|(old, _)| old)
    }

    #[test]
    fn a_set_fills_before_it_evicts_and_sets_do_not_mix() {
        let mut cache = tiny(Replacement::Lru);
        assert_eq!([0, 2, 1, 3].map(|tag| insert(&mut cache, tag)), [None; 4]);
        assert_eq!(insert(&mut cache, 4), Some(0));
        assert_eq!(insert(&mut cache, 5), Some(1));
        assert_eq!((cache.find(0), cache.find(2).is_some(), cache.find(3).is_some()), (None, true, true));
    }

    #[test]
    fn a_use_saves_a_line_and_an_emptied_slot_is_taken_first() {
        let mut cache = tiny(Replacement::Lru);
        insert(&mut cache, 0);
        insert(&mut cache, 2);
        let slot = cache.find(0).unwrap();
        cache.touch(slot);
        assert_eq!(insert(&mut cache, 4), Some(2));
        cache.remove(slot);
        assert_eq!(insert(&mut cache, 6), None);
        assert_eq!(cache.held().map(|(_, tag, _)| tag).collect::<Vec<_>>(), [6, 4]);
    }

    #[test]
    fn a_search_finds_what_is_held_and_nothing_else() {
        for ways in [1, 7, 8, 11, 64, 100] {
            let mut cache: Cache<()> = Cache::new(1, ways, Replacement::Lru, Rng::new(1));
            for tag in 0..3 * ways as u64 {
                let before = cache.find(tag);
                let (slot, _) = cache.insert(tag, ());
                assert_eq!((before, cache.find(tag)), (None, Some(slot)));
                let oldest = tag.saturating_sub(ways as u64 - 1);
                assert!((oldest..=tag).all(|tag| cache.find(tag).is_some()), "{ways} ways, {tag}");
                assert_eq!(cache.held().count() as u64, tag - oldest + 1);
            }
        }
    }

    #[test]
    fn any_number_of_sets_holds_what_fits() {
        let mut cache: Cache<()> = Cache::new(3, 2, Replacement::Random, Rng::new(1));
        assert!((0..6).all(|tag| insert(&mut cache, tag).is_none()));
        assert!((0..6).all(|tag| cache.find(tag).is_some()));
        assert!(insert(&mut cache, 6).is_some_and(|old| old % 3 == 0));
    }
}
