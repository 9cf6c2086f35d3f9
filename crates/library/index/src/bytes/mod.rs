//! `BytesMap`: an ordered map of byte strings.
//!
//! # Where things are
//! Records, a key with its value each, are in persistent memory, in slots by size (`slots.rs`); the order of
//! keys is in ordinary memory, in a lock-free skip list that leads to them, and made again when the map is
//! opened. An insert writes one record, flushes it and fences once. So the leaves are volatile, too: what
//! maps of fixed sizes gain by keeping pairs together, fewer cache misses in a scan, records of any length
//! would lose.
//!
//! # Readers and writers
//! A writer holds the latch of its key, one of a table. What it writes becomes visible after the fence, by
//! one word of the skip list. A reader takes no latch: what it reads in a slot that is used again meanwhile
//! fails the record's checksum, or is another key's, and it looks again. Nodes of the skip list are reclaimed
//! by epochs (`crossbeam-epoch`).
//!
//! # Why every crash leaves a map
//! - *Insert*: a record counts when it is whole, which its checksum says; one of another map, place or time
//!   has another checksum.
//! - *Update*: until the old record is durably erased there are two, and the one with the higher sequence
//!   counts. Its slot is used again only after that.
//! - *Remove*: what of the key's older records may not be durably erased is so first; then its record is.

mod record;
mod slots;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_skiplist::SkipMap;
use space::{Env, Space};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Extent, Extents};
use record::{LONGEST, Record, bytes_of};
use slots::{Free, Region, regions_of, size_of};

/// First word of a map.
const MAGIC: u64 = u64::from_le_bytes(*b"SLBYTES1");
/// Bytes of the first extent that are not for slots: the magic word, the map's number, a checksum of it.
const ROOT: u64 = 256;
/// Times that a reader looks without the latch.
const ATTEMPTS: u32 = 8;
/// Regions for which one thread is enough.
const FEW: usize = 4;

/// How a map is made and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Latches of keys; more of them, more threads that do not wait for each other by chance.
    pub latches: u32,
    /// Threads that read records when the map is opened.
    pub threads: u32,
    /// For tests of the crash checker.
    pub flaw: Flaw,
}

impl Default for Options {
    fn default() -> Self {
        Options { latches: 256, threads: 2, flaw: Flaw::None }
    }
}

/// A mistake that the map can be asked to make, for the tests of the crash checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing is wrong.
    #[default]
    None,
    /// A record is not waited for.
    NotFenced,
    /// A record that was replaced is erased before the new one is durable.
    ErasedEarly,
    /// A key is removed while an older record of it may survive.
    OlderKept,
    /// A slot is used again before it is durably erased.
    ReusedEarly,
}

type EnvOf<H> = <H as Deref>::Target;
type LatchOf<H> = <EnvOf<H> as Env>::Latch<Vec<Erased>>;

/// A slot that was erased, and is not known to be durably so.
#[derive(Clone, Copy, Debug)]
struct Erased {
    slot: u64,
    size: u64,
}

/// An ordered map from byte strings to byte strings, in extents `X` of the space of an environment that `H`
/// leads to. Any number of threads may use it; what an operation changed is durable when it returns.
pub struct BytesMap<H: Deref<Target: Env>, X> {
    env: H,
    extents: X,
    options: Options,
    /// A random number that goes into every checksum.
    number: u64,
    keys: SkipMap<Box<[u8]>, AtomicU64>,
    /// Each with what was erased by its holders.
    latches: Box<[LatchOf<H>]>,
    free: <EnvOf<H> as Env>::Mutex<Free>,
}

impl<H, X> BytesMap<H, X>
where
    H: Deref<Target: Env> + Send + Sync,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    /// Makes an empty map in extents that hold nothing yet.
    ///
    /// # Errors
    /// If there is something in them, or the options are not possible.
    pub fn create(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        let space = env.space();
        let root = Self::root(&extents, space)?.offset;
        let found = space.load_u64(root);
        if found != 0 {
            return Err(Error::Mismatch { offset: root, found, expected: 0, what: "an empty extent" });
        }
        let number = env.random();
        space.store_u64(root + 8, number);
        space.store_u64(root + 16, xxh3_64(&number.to_le_bytes()));
        space.persist(root, 24);
        space.store_u64(root, MAGIC);
        space.persist(root, 8);
        Self::open(env, extents, options)
    }

    /// Opens a map, by reading all of its records.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn open(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        if options.latches == 0 || options.threads == 0 {
            return Err(Error::Options("at least one latch and one thread"));
        }
        let space = env.space();
        let root = Self::root(&extents, space)?.offset;
        let [found, number, check] = [0, 8, 16].map(|at| space.load_u64(root + at));
        if found != MAGIC {
            return Err(Error::Mismatch {
                offset: root,
                found,
                expected: MAGIC,
                what: "a map of byte strings",
            });
        }
        if check != xxh3_64(&number.to_le_bytes()) {
            return Err(Error::Damaged { offset: root + 8, what: "the map's number" });
        }
        let map = BytesMap {
            options: *options,
            number,
            keys: SkipMap::new(),
            latches: (0..options.latches).map(|_| env.latch(Vec::new())).collect(),
            free: env.mutex(Free::default()),
            extents,
            env,
        };
        map.read_all()?;
        Ok(map)
    }

    fn root(extents: &X, space: &<EnvOf<H> as Env>::Space) -> Result<Extent, Error> {
        let first = extents.all(space).first().copied().ok_or(Error::Options("no extent"))?;
        if first.bytes < ROOT + slots::HEAD {
            return Err(Error::Full { wanted: ROOT + slots::HEAD, len: first.bytes });
        }
        Ok(first)
    }

    /// Finds all records, on several threads if there are many.
    fn read_all(&self) -> Result<(), Error> {
        let (space, mut regions) = (self.env.space(), Vec::new());
        for (at, extent) in self.extents.all(space).into_iter().enumerate() {
            let head = if at == 0 { ROOT } else { 0 };
            let (some, blank) = regions_of(space, self.number, extent, head)?;
            regions.extend(some);
            let mut free = self.env.lock(&self.free);
            free.total += extent.bytes;
            free.blank.push(blank);
        }
        let next = AtomicUsize::new(0);
        let work = |_: u32| {
            while let Some(region) = regions.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.read_region(*region);
            }
            // What was erased is durably so before anybody builds on it.
            self.env.space().fence();
        };
        match (regions.len() / FEW).min(self.options.threads as usize) {
            0 | 1 => work(0),
            threads => self.env.threads(threads as u32, work),
        }
        Ok(())
    }

    fn read_region(&self, region: Region) {
        let size = region.size;
        let mut free = Vec::new();
        for slot in region.slots() {
            match Record::read(self.env.space(), self.number, slot, size) {
                Some(record) => free.extend(self.compete(record, slot)),
                None => free.push(Erased { slot, size }),
            }
        }
        let mut all = self.env.lock(&self.free);
        free.into_iter().rev().for_each(|free| all.give(free.size, free.slot));
    }

    /// Of two records of a key the one with the higher sequence counts; the other is erased.
    fn compete(&self, record: Record, slot: u64) -> Option<Erased> {
        // What it is may be stores of a process that was killed.
        self.env.space().flush(slot, record.bytes());
        let _held = self.env.hold(self.latch(record.key()));
        let Some(entry) = self.keys.get(record.key()) else {
            self.keys.insert(record.key().into(), AtomicU64::new(slot));
            return None;
        };
        let other_slot = entry.value().load(Ordering::Relaxed);
        let other = self.record(other_slot)?;
        let loser = if other.sequence > record.sequence {
            Erased { slot, size: size_of(record.bytes()) }
        } else {
            entry.value().store(slot, Ordering::Relaxed);
            Erased { slot: other_slot, size: size_of(other.bytes()) }
        };
        self.erase(loser.slot);
        Some(loser)
    }

    fn latch(&self, key: &[u8]) -> &LatchOf<H> {
        &self.latches[(xxh3_64(key) % self.latches.len() as u64) as usize]
    }

    fn erase(&self, slot: u64) {
        self.env.space().store_u64(slot, 0);
        self.env.space().flush(slot, 8);
    }

    /// Before a fence: what the latch's holders erased becomes durable by it.
    fn flush_erased(&self, erased: &[Erased]) {
        erased.iter().for_each(|erased| self.env.space().flush(erased.slot, 8));
    }

    /// After that fence.
    fn free_erased(&self, erased: &mut Vec<Erased>) {
        if !erased.is_empty() {
            let mut free = self.env.lock(&self.free);
            erased.drain(..).for_each(|erased| free.give(erased.size, erased.slot));
        }
    }

    /// A slot, also one of those that wait to be durably erased.
    fn slot(&self, size: u64, own: &mut Vec<Erased>) -> Result<u64, Error> {
        let take = || self.env.lock(&self.free).take(self.env.space(), self.number, &self.extents, size);
        match take() {
            Err(Error::Full { .. }) if !own.is_empty() => {
                self.flush_erased(own);
                self.env.space().fence();
                self.free_erased(own);
                take()
            }
            other => other,
        }
    }

    /// The record at `slot`, which `key` leads to.
    fn record(&self, slot: u64) -> Option<Record> {
        let space = self.env.space();
        Record::read(space, self.number, slot, space.len().saturating_sub(slot))
    }

    fn look(&self, key: &[u8]) -> Result<Option<Record>, u64> {
        let Some(entry) = self.keys.get(key) else { return Ok(None) };
        let slot = entry.value().load(Ordering::Acquire);
        match self.record(slot) {
            Some(record) if record.key() == key => Ok(Some(record)),
            _ => Err(slot),
        }
    }

    fn find(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        for _ in 0..ATTEMPTS {
            if let Ok(found) = self.look(key) {
                return Ok(found);
            }
        }
        let _held = self.env.hold(self.latch(key));
        self.look(key).map_err(damaged)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// If its record is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.find(key)?.map(Record::into_value))
    }

    /// The values of several keys: records are asked for before the first is read, so that their cache misses
    /// overlap.
    ///
    /// # Errors
    /// If a record is damaged.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let slot = |key: &K| self.keys.get(key.as_ref()).map(|entry| entry.value().load(Ordering::Acquire));
        let slots = keys.iter().filter_map(slot);
        std::hint::black_box(slots.fold(0, |sum, slot| sum ^ self.env.space().load_u64(slot)));
        keys.iter().map(|key| self.get(key.as_ref())).collect()
    }

    /// Sets the value of `key`; the one before.
    ///
    /// # Errors
    /// If there is no room, or key or value are longer than 4 GiB; the map is as before.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.put(key, value, |_| true)
    }

    /// Sets the value of `key` if it has one; the one before.
    ///
    /// # Errors
    /// As [`BytesMap::insert`].
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.put(key, value, |there| there)
    }

    fn put(&self, key: &[u8], value: &[u8], wanted: impl Fn(bool) -> bool) -> Result<Option<Vec<u8>>, Error> {
        if key.len() > LONGEST || value.len() > LONGEST {
            return Err(Error::Options("a key or value is longer than 4 GiB"));
        }
        let space = self.env.space();
        let mut erased = self.env.hold(self.latch(key));
        let before = self.look(key).map_err(damaged)?;
        if !wanted(before.is_some()) {
            return Ok(None);
        }
        let size = size_of(bytes_of(key.len(), value.len()));
        let slot = self.slot(size, &mut erased)?;
        let old = self.keys.get(key).map(|entry| entry.value().load(Ordering::Acquire));
        let old = old.zip(before.as_ref());
        let old = old.map(|(slot, record)| Erased { slot, size: size_of(record.bytes()) });
        if let (Flaw::ErasedEarly, Some(old)) = (self.options.flaw, old) {
            self.erase(old.slot);
        }
        self.flush_erased(&erased);
        let sequence = before.as_ref().map_or(0, |record| record.sequence + 1);
        record::write(space, self.number, slot, sequence, key, value);
        if self.options.flaw != Flaw::NotFenced {
            space.fence();
        }
        self.free_erased(&mut erased);
        match (self.keys.get(key), old) {
            (Some(entry), Some(old)) => {
                entry.value().store(slot, Ordering::Release);
                self.erase(old.slot);
                if self.options.flaw == Flaw::ReusedEarly {
                    self.env.lock(&self.free).give(old.size, old.slot);
                } else {
                    erased.push(old);
                }
            }
            _ => _ = self.keys.insert(key.into(), AtomicU64::new(slot)),
        }
        Ok(before.map(Record::into_value))
    }

    /// Takes `key` out; the value that it had.
    ///
    /// # Errors
    /// If its record is damaged.
    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut erased = self.env.hold(self.latch(key));
        let Some(record) = self.look(key).map_err(damaged)? else { return Ok(None) };
        if !erased.is_empty() && self.options.flaw != Flaw::OlderKept {
            // One of them may be an older record of this key.
            self.flush_erased(&erased);
            self.env.space().fence();
            self.free_erased(&mut erased);
        }
        let Some(entry) = self.keys.remove(key) else { return Ok(None) };
        let slot = entry.value().load(Ordering::Acquire);
        self.erase(slot);
        self.env.space().fence();
        self.env.lock(&self.free).give(size_of(record.bytes()), slot);
        Ok(Some(record.into_value()))
    }

    /// Hands out keys with their values from `from` on, in the order of keys, until `visit` returns false.
    /// Pairs that change meanwhile are seen before or after it; all others are seen once.
    ///
    /// # Errors
    /// If a record is damaged.
    pub fn range(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Error> {
        for entry in self.keys.range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Unbounded))
        {
            let Some(record) = self.find(entry.key())? else { continue };
            if !visit(record.key(), record.value()) {
                break;
            }
        }
        Ok(())
    }

    /// Fills an empty map, durable once this returns: one fence for all of it. After a crash meanwhile it has
    /// some of them.
    ///
    /// # Errors
    /// If the map is not empty, or there is no room for all of them.
    pub fn load<'a>(&self, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Error> {
        if !self.keys.is_empty() {
            return Err(Error::Options("pairs are loaded into an empty map"));
        }
        let space = self.env.space();
        let mut made: HashMap<&[u8], u64> = HashMap::new();
        for (key, value) in pairs {
            let size = size_of(bytes_of(key.len(), value.len()));
            let slot = self.slot(size, &mut Vec::new())?;
            record::write(space, self.number, slot, 0, key, value);
            if made.insert(key, slot).is_some() {
                return Err(Error::Options("a key is there twice"));
            }
        }
        space.fence();
        for (key, slot) in made {
            self.keys.insert(key.into(), AtomicU64::new(slot));
        }
        Ok(())
    }

    /// Pairs that there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

fn damaged(offset: u64) -> Error {
    Error::Damaged { offset, what: "a record that its checksum confirms" }
}
