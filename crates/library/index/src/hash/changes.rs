//! What changes one pair.

use std::ops::Deref;

use space::{Env, Space};

use super::directory::Entry;
use super::fingerprints::{Candidates, fingerprint};
use super::piece::{Erasure, Home, Piece};
use super::{Flaw, HashTable, Probe};
use crate::sealed::{Held, Sealed};
use crate::wish::Wish;
use crate::{Error, Extents, Fixed};

/// A slot: which of the two buckets, which slot of it.
type Place = (usize, usize);

/// The tag of the flawed twin.
const CONSTANT: u8 = 1;

impl<H, X, K, V, F> HashTable<H, X, K, V, F>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    X: Extents<<H::Target as Env>::Space>,
    K: Fixed,
    V: Fixed,
    F: Flaw,
{
    /// The segment of a hash, and its lock. What is in the segment is known.
    #[inline(always)]
    #[allow(clippy::type_complexity, reason = "a guard of the environment")]
    pub(super) fn hold(&self, hash: u64) -> (Entry, <H::Target as Env>::MutexGuard<'_, ()>) {
        loop {
            let entry = self.directory.entry(hash);
            let guard = self.env.lock(self.stripe(hash, entry.depth()));
            if self.directory.entry(hash) == entry {
                self.load(entry, hash);
                return (entry, guard);
            }
        }
    }

    /// The slot of a key. For the holder of the segment's lock.
    #[inline(always)]
    pub(super) fn find(&self, home: &Home<'_>, key: K, hash: u64) -> Option<(Place, Held<K, V>)> {
        let states = home.buckets.map(|bucket| bucket.state());
        self.find_among(home, Candidates::of(home.buckets, states, fingerprint(hash)), key)
    }

    /// The value of a key.
    #[cold]
    pub(super) fn get_locked(&self, key: K, hash: u64) -> Option<V> {
        let (entry, _guard) = self.hold(hash);
        let home = self.piece(entry).home(entry, hash);
        self.find(&home, key, hash).map(|(_, held)| held.value)
    }

    /// Does with a key what `wish` makes of its value; the value that it had.
    #[inline]
    pub(super) fn change(&self, key: K, wish: impl Fn(Option<V>) -> Wish<V>) -> Result<Option<V>, Error> {
        let Probe { hash, likely, .. } = self.begin(key);
        self.space().prefetch(likely);
        loop {
            let (entry, guard) = self.hold(hash);
            let piece = self.piece(entry);
            let home = piece.home(entry, hash);
            let old = self.find(&home, key, hash);
            let found = old.map(|(_, held)| held.value);
            match (wish(found), old) {
                (Wish::Put(value), _) => match Self::free_slot(&home, hash) {
                    Some(place) => self.put(piece, entry, &home, (hash, key, value), old, place),
                    None => {
                        self.split(entry, hash, guard)?;
                        continue;
                    }
                },
                (Wish::Remove, Some((place, _))) => self.erase(piece, entry, &home, hash, place),
                (Wish::Nothing, _) | (Wish::Remove, None) => {}
            }
            return Ok(found);
        }
    }

    /// A free slot: in the line that the key prefers, or else in the bucket that has more of them.
    #[inline(always)]
    fn free_slot(home: &Home<'_>, hash: u64) -> Option<Place> {
        let preferred = Self::preferred(hash);
        if let Some(slot) = (preferred..preferred + 2).find(|slot| home.buckets[0].fingerprint(*slot) == 0) {
            return Some((0, slot));
        }
        let [(near, first), (far, second)] = home.buckets.map(|bucket| bucket.usage(Self::SLOTS));
        if near <= far { first.map(|slot| (0, slot)) } else { second.map(|slot| (1, slot)) }
    }

    /// Writes a pair to a slot that is free; then there is no other one of this key.
    #[inline(always)]
    fn put(
        &self,
        piece: &Piece,
        entry: Entry,
        home: &Home<'_>,
        (hash, key, value): (u64, K, V),
        old: Option<(Place, Held<K, V>)>,
        place: Place,
    ) {
        let space = self.space();
        let at = Self::slot(home, place);
        let bucket = home.buckets[place.0];
        bucket.close();
        let sequence = old.map_or(0, |(_, held)| held.sequence + 1);
        if F::ERASED_EARLY
            && let Some((place, _)) = old
        {
            Sealed::<K, V>::erase(space, Self::slot(home, place));
            space.persist(Self::slot(home, place), 8);
        }
        if F::CONSTANT_TAG {
            Sealed::write_tagged(space, at, CONSTANT, key, value, sequence);
        } else {
            Sealed::write(space, at, key, value, sequence);
        }
        space.flush(at, Sealed::<K, V>::BYTES);
        let erasure = piece.erasure(entry.segment());
        if let Some(erasure) = erasure {
            space.flush(erasure.slot, 8);
        }
        if !F::NOT_FENCED {
            space.fence();
        }
        bucket.set(place.1, fingerprint(hash));
        let mut left = None;
        if let Some((place, _)) = old {
            left = Some(self.erase_old(home, hash, place));
        }
        bucket.open();
        if left.is_some() || erasure.is_some() {
            piece.set_erasure(entry.segment(), left);
        }
    }

    /// Erases the pair that a newer one has replaced, and does not wait.
    fn erase_old(&self, home: &Home<'_>, hash: u64, place: Place) -> Erasure {
        let (at, bucket) = (Self::slot(home, place), home.buckets[place.0]);
        bucket.close();
        Sealed::<K, V>::erase(self.space(), at);
        self.space().flush(at, 8);
        bucket.set(place.1, 0);
        bucket.open();
        Erasure::new(at, hash)
    }

    #[inline(always)]
    fn erase(&self, piece: &Piece, entry: Entry, home: &Home<'_>, hash: u64, place: Place) {
        let space = self.space();
        let (at, bucket) = (Self::slot(home, place), home.buckets[place.0]);
        if let Some(erasure) = piece.erasure(entry.segment()) {
            space.flush(erasure.slot, 8);
            if erasure.is_of(hash) && !F::OLD_FORGOTTEN {
                space.fence();
            }
        }
        bucket.close();
        Sealed::<K, V>::erase(space, at);
        space.persist(at, 8);
        bucket.set(place.1, 0);
        bucket.open();
        piece.set_erasure(entry.segment(), None);
    }
}
