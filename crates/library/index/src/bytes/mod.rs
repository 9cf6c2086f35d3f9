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
//! - *Opening* first makes durable what it found, then erases what does not count (`open.rs`).
//!
//! # Torn or damaged
//! A checksum can't tell a record that a crash cut short from one that was durable and is damaged. Their
//! number can: a word of the root says how many records may be torn, and more of them are damage
//! (`writers.rs`).

mod open;
mod record;
mod slots;
mod write;
mod writers;

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_skiplist::SkipMap;
use space::{Env, Space};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Extents};
use record::Record;
use slots::Free;
use writers::Writers;

/// Times that a reader looks without the latch.
const ATTEMPTS: u32 = 8;

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
    /// Opening erases a record that was replaced before the one that counts is durable.
    RecoveredEarly,
    /// Opening takes a slot for free whose erasure may not be durable.
    FoundFree,
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
    writers: Writers,
    unfinished: u64,
}

impl<H, X> BytesMap<H, X>
where
    H: Deref<Target: Env> + Send + Sync,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    fn latch(&self, key: &[u8]) -> &LatchOf<H> {
        &self.latches[(xxh3_64(key) % self.latches.len() as u64) as usize]
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

    /// Pairs that there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Records that were found torn when the map was opened, and erased: inserts that a crash cut short, or
    /// damage that can't be distinguished from them. 0 after a map was closed.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.unfinished
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
