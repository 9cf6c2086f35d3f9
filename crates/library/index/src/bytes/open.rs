//! How a map is made, opened and closed.
//!
//! Opening goes over all slots twice. First it finds the records that count and makes all that it found
//! durable, as it may be stores of a process that was killed. Only then, behind a fence, it erases older
//! records of a key and torn ones: a crash that kept the erasure and lost the record would lose the key.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crossbeam_skiplist::SkipMap;
use space::{Env, Space};
use xxhash_rust::xxh3::xxh3_64;

use super::record::Record;
use super::slots::{self, Free, Region, regions_of, size_of};
use super::writers::Writers;
use super::{BytesMap, EnvOf, Erased, Flaw, Options, damaged};
use crate::{Error, Extent, Extents};

/// First word of a map.
const MAGIC: u64 = u64::from_le_bytes(*b"SLBYTES1");
/// Bytes of the first extent that are not for slots: the magic word, the map's number, a checksum of it, and
/// how many records may be torn.
const ROOT: u64 = 256;
/// Where the last of these is.
const WRITERS: u64 = 24;
/// Regions for which one thread is enough.
const FEW: usize = 4;

/// What does not count and is to be erased.
#[derive(Default)]
struct Outdated {
    /// Records of keys that have a later one.
    older: Vec<Erased>,
    /// Neither empty nor a record.
    torn: Vec<Erased>,
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
        Writers::create(space, root + WRITERS);
        space.persist(root, WRITERS + 8);
        space.store_u64(root, MAGIC);
        space.persist(root, 8);
        Self::open(env, extents, options)
    }

    /// Opens a map, by reading all of its records.
    ///
    /// # Errors
    /// If there is none, or it is damaged. A record that its checksum does not confirm is damage if the map
    /// was closed, or if there are more of them than were being written at a time; else it is one that a
    /// crash cut short ([`BytesMap::unfinished`]).
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
        let mut map = BytesMap {
            options: *options,
            number,
            keys: SkipMap::new(),
            latches: (0..options.latches).map(|_| env.latch(Vec::new())).collect(),
            free: env.mutex(Free::default()),
            writers: Writers::open(space, root + WRITERS)?,
            unfinished: 0,
            extents,
            env,
        };
        map.unfinished = map.read_all()?;
        Ok(map)
    }

    fn root(extents: &X, space: &<EnvOf<H> as Env>::Space) -> Result<Extent, Error> {
        let first = extents.all(space).first().copied().ok_or(Error::Options("no extent"))?;
        if first.bytes < ROOT + slots::HEAD {
            return Err(Error::Full { wanted: ROOT + slots::HEAD, len: first.bytes });
        }
        Ok(first)
    }

    /// Finds all records, on several threads if there are many; the number of torn ones.
    fn read_all(&self) -> Result<u64, Error> {
        let (space, mut regions) = (self.env.space(), Vec::new());
        for (at, extent) in self.extents.all(space).into_iter().enumerate() {
            let head = if at == 0 { ROOT } else { 0 };
            let (some, blank) = regions_of(space, self.number, extent, head)?;
            regions.extend(some);
            let mut free = self.env.lock(&self.free);
            free.total += extent.bytes;
            free.blank.push(blank);
        }
        let (next, all) = (AtomicUsize::new(0), Mutex::new(Outdated::default()));
        let work = |_: u32| {
            let mut outdated = Outdated::default();
            while let Some(region) = regions.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.read_region(*region, &mut outdated);
            }
            // What counts is durable before anything is erased.
            self.env.space().fence();
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.older.append(&mut outdated.older);
            all.torn.append(&mut outdated.torn);
        };
        match (regions.len() / FEW).min(self.options.threads as usize) {
            0 | 1 => work(0),
            threads => self.env.threads(threads as u32, work),
        }
        let Outdated { mut older, torn } = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !self.writers.may_leave(torn.len()) {
            return Err(damaged(torn.iter().map(|torn| torn.slot).min().unwrap_or(0)));
        }
        let unfinished = torn.len() as u64;
        older.extend(torn);
        older.iter().for_each(|outdated| self.erase(outdated.slot));
        space.fence();
        self.free_erased(&mut older);
        self.writers.none(space);
        Ok(unfinished)
    }

    fn read_region(&self, region: Region, outdated: &mut Outdated) {
        let (space, size) = (self.env.space(), region.size);
        if self.options.flaw != Flaw::FoundFree {
            region.flush(space);
        }
        let mut free = Vec::new();
        for slot in region.slots() {
            match Record::read(space, self.number, slot, size) {
                Some(record) => outdated.older.extend(self.compete(record, slot)),
                None if space.load_u64(slot) == 0 => free.push(slot),
                None => outdated.torn.push(Erased { slot, size }),
            }
        }
        let mut all = self.env.lock(&self.free);
        free.into_iter().rev().for_each(|slot| all.give(size, slot));
    }

    /// Of two records of a key the one with the higher sequence counts; the other one.
    fn compete(&self, record: Record, slot: u64) -> Option<Erased> {
        if self.options.flaw == Flaw::FoundFree {
            self.env.space().flush(slot, record.bytes());
        }
        let _held = self.env.hold(self.latch(record.key()));
        let Some(entry) = self.keys.get(record.key()) else {
            self.keys.insert(record.key().into(), AtomicU64::new(slot));
            return None;
        };
        let other_slot = entry.value().load(Ordering::Relaxed);
        let other = self.record(other_slot);
        let older = match other {
            Some(other) if other.sequence > record.sequence => Erased { slot, size: size_of(record.bytes()) },
            other => {
                entry.value().store(slot, Ordering::Relaxed);
                let bytes = other.as_ref().map_or(record.bytes(), Record::bytes);
                Erased { slot: other_slot, size: size_of(bytes) }
            }
        };
        if self.options.flaw == Flaw::RecoveredEarly {
            self.erase(older.slot);
        }
        Some(older)
    }

    /// Closes the map: what is torn when it is opened again is damage. A map that is not closed is opened all
    /// the same.
    pub fn close(self) {
        let space = self.env.space();
        for latch in &self.latches {
            self.flush_erased(&self.env.hold(latch));
        }
        space.fence();
        self.writers.none(space);
    }
}
