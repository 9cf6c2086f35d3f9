//! A hash table in persistent memory: one line written and one fence for an insert, one line read for a get.
//!
//! # The idea
//! Pairs are in buckets of 256 bytes, as [sealed slots](crate::sealed): a slot proves itself that it is
//! whole, so an insert is one slot, flushed, and one fence. Nothing else in persistent memory says which
//! slots are in use. Ordinary memory has a byte of each key's hash (`fingerprints`), so that a get touches
//! the slot of its key and no other, and a key that is absent costs no access at all.
//!
//! A pair is in one of two buckets that follow each other in a *segment* of 64 buckets. Segments are found by
//! the first bits of the hash (extendible hashing): a *directory* in ordinary memory leads from the bits to
//! the segment. When both buckets of a key are full, their segment is split: half of its pairs are copied to
//! a free segment. Others go on meanwhile; only writers of that one segment wait.
//!
//! # What a crash leaves
//! - *Insert*, *remove*: the slot whole or not.
//! - *Update*: the new pair goes to another slot with the next sequence number; once that is durable, the
//!   old one is erased and flushed, and nobody waits. Until another fence follows, a crash may keep both;
//!   the newer counts. Whoever removes the newer one waits for the erasure first (`Erasure`).
//! - *Split*: each segment has a word that says which hashes it has, its *claim*. The new segment is made
//!   durable with its claim, half of what the old one still claims: it does not count. Then one word, the old
//!   segment's claim of its own half, makes both what they are. Pairs that the old segment still has of the
//!   other half are no pairs any more, and their slots are free.
//! - *Growth*: an extent is the table's once the root counts it, and its claims are zeros by then.
//!
//! # Open
//! Open reads the claims, 8 bytes per segment, and frees segments that do not count. What is in a segment
//! is read when the segment is used first, and pairs that are there twice are erased then. So open takes
//! the same time after a crash as after an orderly end, and there is nothing to be written in an orderly
//! end. [`HashTable::load_all`] reads all segments with several threads.
//!
//! # Threads
//! A writer holds the lock of its segment. Locks are striped by hash, so that both halves of a segment belong
//! to stripes of which the first is the segment's own: a split takes both in this order. Readers hold no
//! lock. They hold what they read against the version of both buckets, and take the lock if it has changed.
//! A bucket is closed to readers until a change is durable: nobody sees what a crash could take back.

mod changes;
mod directory;
mod fingerprints;
mod flaw;
mod growth;
mod layout;
mod loading;
mod open;
mod piece;

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::fence;

use space::{Env, Space};

use crate::sealed::{Held, Sealed};
use crate::wish::Wish;
use crate::{Error, Extents, Fixed, Map};
use directory::{Directory, Entry};
use fingerprints::{Bucket, Candidates, SLOTS_MAX, State, fingerprint};
use layout::{BUCKET, PIECES, Root, first_bits};
use piece::{Growth, Home, Piece};

pub use flaw::{
    ConstantTag, ErasedEarly, ExtentEarly, Flaw, LinkedEarly, MovedEarly, NotFenced, OldForgotten, Sound,
};

/// Bits of the number of a lock.
const STRIPE_BITS: u32 = 10;
/// Lookups at the same time, unless [`HashTable::batched`] says otherwise, and at most.
const BATCH: usize = 16;
const BATCH_MAX: usize = 64;

/// What a new table is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Buckets of a segment, a power of 2 from 2 to 65536. Few make splits short and the directory long.
    pub buckets: u32,
    /// What hashes begin with, for tables that are to be the same each time. Random if not given, so that
    /// nobody can choose keys that fall into one segment.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options { buckets: 64, seed: None }
    }
}

/// What a table holds, without owning any of it.
type Kind<K, V, F> = fn() -> (K, V, F);

/// A map without an order; see the [module](self). `F` is for tests alone.
pub struct HashTable<H, X, K, V, F = Sound>
where
    H: Deref<Target: Env + Sized>,
{
    env: H,
    extents: X,
    root: Root,
    pieces: [OnceLock<Piece>; PIECES],
    directory: Directory,
    stripes: Box<[<H::Target as Env>::Mutex<()>]>,
    growth: <H::Target as Env>::Mutex<Growth>,
    kind: PhantomData<Kind<K, V, F>>,
    batch: usize,
}

/// A reader met a writer.
struct Disturbed;

/// A lookup that has begun.
struct Probe<'a> {
    hash: u64,
    entry: Entry,
    piece: &'a Piece,
    /// The first bucket, and what its state was.
    near: Bucket<'a>,
    state: State,
    /// The first of the two slots that the key prefers.
    likely: u64,
}

/// A hash in which every bit depends on every bit of the key.
#[inline(always)]
fn hash_of<K: Fixed>(seed: u64, key: K) -> u64 {
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let first = mix(key.word(0) ^ seed, 0xA076_1D64_78BD_642F);
    let second = if K::WORDS > 1 { key.word(1) } else { 0 };
    mix(first ^ second ^ 0xE703_7ED1_A0B4_28DB, 0x8EBC_6AF0_9C88_C6E3)
}

/// Where the slots of a bucket are. First pairs of neighbours within one line, as far as there are such; then
/// the others.
const fn slot_offsets(bytes: u64) -> [u64; SLOTS_MAX] {
    let count = (BUCKET / bytes) as usize;
    let mut offsets = [0; SLOTS_MAX];
    let mut used = [false; SLOTS_MAX];
    let mut filled = 0;
    let mut within_lines = true;
    loop {
        let mut at = 0;
        while at + 1 < count {
            let begin = at as u64 * bytes;
            let in_line = begin / space::LINE == (begin + 2 * bytes - 1) / space::LINE;
            if !used[at] && !used[at + 1] && (in_line || !within_lines) {
                offsets[filled] = begin;
                offsets[filled + 1] = begin + bytes;
                filled += 2;
                used[at] = true;
                used[at + 1] = true;
            }
            at += 1;
        }
        if !within_lines {
            break;
        }
        within_lines = false;
    }
    let mut at = 0;
    while at < count {
        if !used[at] {
            offsets[filled] = at as u64 * bytes;
            filled += 1;
        }
        at += 1;
    }
    offsets
}

impl<H, X, K, V, F> HashTable<H, X, K, V, F>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    X: Extents<<H::Target as Env>::Space>,
    K: Fixed,
    V: Fixed,
    F: Flaw,
{
    /// Slots of a bucket.
    const SLOTS: usize = (BUCKET / Sealed::<K, V>::BYTES) as usize;
    const OFFSETS: [u64; SLOTS_MAX] = slot_offsets(Sealed::<K, V>::BYTES);
    /// How many pairs of slots there are that a key may prefer.
    const PREFERRED: u64 = if Self::SLOTS < 8 { Self::SLOTS as u64 / 2 } else { 4 };
    /// From the first to the second of two slots that a key prefers.
    const STEP: u64 = Sealed::<K, V>::BYTES;

    /// The environment.
    pub fn env(&self) -> &H::Target {
        &self.env
    }

    #[inline(always)]
    fn space(&self) -> &<H::Target as Env>::Space {
        self.env.space()
    }

    #[inline(always)]
    fn hash(&self, key: K) -> u64 {
        hash_of(self.root.seed, key)
    }

    #[inline(always)]
    fn piece(&self, entry: Entry) -> &Piece {
        match self.pieces[entry.piece()].get() {
            Some(piece) => piece,
            None => unreachable!("an entry is made after its piece"),
        }
    }

    /// The lock of the segment that has this hash.
    #[inline(always)]
    fn stripe(&self, hash: u64, depth: u32) -> &<H::Target as Env>::Mutex<()> {
        let cut = STRIPE_BITS.saturating_sub(depth);
        &self.stripes[(first_bits(hash, STRIPE_BITS) >> cut << cut) as usize]
    }

    /// The first of the two slots of a key's first bucket that it goes to if one of them is free. Where
    /// they are follows from the hash alone, so their line is asked for while fingerprints arrive.
    #[inline(always)]
    fn preferred(hash: u64) -> usize {
        2 * (((hash >> 16 & 0xFFFF) * Self::PREFERRED) >> 16) as usize
    }

    /// Where a slot is.
    #[inline(always)]
    fn slot(home: &Home<'_>, (bucket, slot): (usize, usize)) -> u64 {
        home.offsets[bucket] + Self::OFFSETS[slot]
    }

    /// The slot that has this key among those which may have it.
    #[inline(always)]
    fn find_among(
        &self,
        home: &Home<'_>,
        mut candidates: Candidates,
        key: K,
    ) -> Option<((usize, usize), Held<K, V>)> {
        while let Some(place) = candidates.first() {
            let held = Sealed::<K, V>::read(self.space(), Self::slot(home, place));
            if let Some(held) = held.filter(|held| held.key == key) {
                return Some((place, held));
            }
            candidates = candidates.without_first();
        }
        None
    }

    /// Where a key probably is, and the state of its first bucket. Uses nothing that is not at hand.
    #[inline(always)]
    fn begin(&self, key: K) -> Probe<'_> {
        let hash = self.hash(key);
        let entry = self.directory.entry(hash);
        let piece = self.piece(entry);
        let (near, offset) = piece.near(entry, hash);
        let likely = offset + Self::OFFSETS[Self::preferred(hash)];
        Probe { hash, entry, piece, near, state: near.state(), likely }
    }

    /// The value of a key, without a lock.
    #[inline(always)]
    fn finish(&self, key: K, probe: &Probe<'_>) -> Result<Option<V>, Disturbed> {
        if !Bucket::is_open(probe.state) {
            return Err(Disturbed);
        }
        fence(Acquire);
        let space = self.space();
        // No branch between the two: it could be predicted only once the line is there.
        let second = probe.likely + Self::STEP;
        let is_second = Sealed::<K, V>::may_hold(space.load_u64(second), key);
        let at = if is_second { second } else { probe.likely };
        let Some(held) = Sealed::<K, V>::read(space, at).filter(|held| held.key == key) else {
            return self.finish_elsewhere(key, probe);
        };
        fence(Acquire);
        if probe.near.state() == probe.state { Ok(Some(held.value)) } else { Err(Disturbed) }
    }

    /// The same, where the key is not in the line that it prefers.
    fn finish_elsewhere(&self, key: K, probe: &Probe<'_>) -> Result<Option<V>, Disturbed> {
        let home = probe.piece.home(probe.entry, probe.hash);
        let states = [probe.state, home.buckets[1].state()];
        if !Bucket::is_open(states[1]) {
            return Err(Disturbed);
        }
        fence(Acquire);
        let candidates = Candidates::of(home.buckets, states, fingerprint(probe.hash));
        let found = self.find_among(&home, candidates, key);
        fence(Acquire);
        let as_before = [0, 1].into_iter().all(|at| home.buckets[at].state() == states[at]);
        match found {
            Some((_, held)) if as_before => Ok(Some(held.value)),
            // Unless the segment was split and no longer has this hash.
            None if as_before && self.directory.entry(probe.hash) == probe.entry => Ok(None),
            _ => Err(Disturbed),
        }
    }

    /// The same table, with so many lookups at the same time in [`Map::get_many`], 1 to 64.
    #[must_use]
    pub fn batched(self, lookups: usize) -> Self {
        HashTable { batch: lookups.clamp(1, BATCH_MAX), ..self }
    }

    /// The values of a few keys: first all lines are asked for.
    fn get_batch(&self, keys: &[K], values: &mut [Option<V>]) {
        let mut probes = [const { None }; BATCH_MAX];
        for (probe, key) in probes.iter_mut().zip(keys) {
            let begun = self.begin(*key);
            self.space().prefetch(begun.likely);
            *probe = Some(begun);
        }
        for ((key, value), probe) in keys.iter().zip(values).zip(probes.iter().flatten()) {
            let found = self.finish(*key, probe);
            *value = found.unwrap_or_else(|Disturbed| self.get_locked(*key, probe.hash));
        }
    }
}

impl<H, X, K, V, F> Map<K, V> for HashTable<H, X, K, V, F>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    X: Extents<<H::Target as Env>::Space>,
    K: Fixed,
    V: Fixed,
    F: Flaw,
{
    #[inline]
    fn get(&self, key: K) -> Option<V> {
        let probe = self.begin(key);
        self.finish(key, &probe).unwrap_or_else(|Disturbed| self.get_locked(key, probe.hash))
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.change(key, |_| Wish::Put(value))
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.change(key, |old| old.map_or(Wish::Nothing, |_| Wish::Put(value)))
    }

    fn replace(&self, key: K, old: V, new: V) -> Result<bool, Error> {
        let is_old = |found: Option<V>| found == Some(old);
        let found = self.change(key, |found| if is_old(found) { Wish::Put(new) } else { Wish::Nothing })?;
        Ok(is_old(found))
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        self.change(key, |old| old.map_or(Wish::Nothing, |_| Wish::Remove))
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) {
        assert_eq!(keys.len(), values.len(), "as many values as keys");
        for (keys, values) in keys.chunks(self.batch).zip(values.chunks_mut(self.batch)) {
            self.get_batch(keys, values);
        }
    }

    fn each(&self, visit: &mut dyn FnMut(K, V) -> bool) {
        let mut from = Some(0);
        while let Some(hash) = from {
            let (pairs, next) = self.pairs_of(hash);
            if !pairs.into_iter().all(|(key, value)| visit(key, value)) {
                return;
            }
            from = next;
        }
    }
}
