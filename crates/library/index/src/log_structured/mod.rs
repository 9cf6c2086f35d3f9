//! `LogTree` (btree-LS): a B+-tree whose leaves are chains of records in logs, so that random updates become
//! sequential writes.
//!
//! # Where things are
//! Inner nodes are in ordinary memory, those of all trees here (`inner.rs`). Their lowest children are
//! numbers of leaves. A *mapping table* in ordinary memory (`mapping.rs`) leads from the number to the
//! leaf's *chain*: the newest record first, each with the offset of the one before, down to one that has
//! the whole leaf. Records are in one of several *logs*; the number of a leaf decides which (`log.rs`,
//! `record.rs`).
//!
//! # What the design leaves open, and what this does
//! - *Delta format*: `record.rs`. A checksum and a position that is used once find a torn record.
//! - *Append*: a log's lock is held until the record is durable: one flush, one fence. So a log has no
//!   holes, and recovery reads it to the first record that is none. Threads wait for each other in a log
//!   alone, so as many logs as threads are enough.
//! - *Circular buffer*: a log is a chain of chunks of a common pool. Giving up a log's first chunk is what
//!   moving its head is elsewhere: one word, once all that is live in it has been copied to the end. The
//!   whole may grow.
//! - *Consolidation*: a chain that names as many items as a leaf has room for is rewritten as one record.
//!   If more than three quarters of the items are live, the leaf is split.
//! - *Split across two logs*: first the new leaf's whole record, durable; then the old leaf's, with the
//!   lower half, the bound, and the new leaf as its right neighbour. That second record alone makes the
//!   split. A leaf is in use if it can be reached from leaf 0 by right neighbours; recovery forgets others.
//!   If such a number is used again, its new whole record comes later in the same log, and what is before
//!   it does not count.
//! - *Inner nodes* are not persistent. Recovery makes them from the chain of leaves.
//! - *Readers and collection*: readers hold no lock and no epoch. Memory of logs is never unmapped, so a
//!   record that was overwritten is read as something else at worst, and the version of the leaf's entry
//!   says so: a collector moves a leaf before it gives up the chunk. Epochs would have to be advanced by
//!   threads that do nothing else, which the simulated environment can't schedule, and would cost each
//!   reader two stores.
//! - *Empty leaves* stay, as one record of 32 bytes, and are filled again.
//!
//! # Collection
//! The garbage of a log is what it occupies and no chain reaches. When it exceeds the threshold, the thread
//! that has appended collects, or others do ([`LogTree::collect`], [`Options::inline`]): from the log's
//! first chunk on, leaves with live records there are consolidated at the log's end. Collectors can take
//! the last free chunks, others can't.

mod collect;
mod layout;
mod log;
mod mapping;
mod open;
mod record;
mod write;

use std::ops::Deref;
use std::sync::atomic::AtomicU64;

use space::{Env, Space};

use crate::arena::Arena;
use crate::inner::{Growth, Inner};
use crate::version::Conflict;
use crate::wish::Wish;
use crate::{Error, Extents, Fixed, Map, OrderedMap};
use layout::Root;
use log::{Log, Pool};
use mapping::{CACHED_MAX, Leaf, Side};
use record::{Kind, Record};

/// How a tree is made, and used. What it is made with counts for a new one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Logs, 1 to 1024: at least as many as threads that write. Only for a new tree.
    pub logs: usize,
    /// Bytes of a leaf's pairs. Only for a new tree.
    pub node: u64,
    /// Bytes of a chunk, a multiple of 256. Only for a new tree.
    pub chunk: u64,
    /// How many of a leaf's newest records are asked for at the same time, 1 to 8.
    pub cached: usize,
    /// Bytes of garbage in a log at which it is collected.
    pub garbage: u64,
    /// Whether threads that write collect.
    pub inline: bool,
    /// Threads of a recovery.
    pub threads: u32,
    /// For tests of the crash checker.
    pub flaw: Flaw,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            logs: 8,
            node: 512,
            chunk: 1 << 16,
            cached: 4,
            garbage: 4 << 20,
            inline: true,
            threads: 2,
            flaw: Flaw::None,
        }
    }
}

/// A mistake that the tree can be asked to make, for the tests of the crash checker: it must find each of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing is wrong.
    #[default]
    None,
    /// The mapping table leads to a record that is not durable.
    NotFenced,
    /// The first chunk of a log is given up before what is live in it is durable elsewhere.
    HeadEarly,
    /// The old leaf of a split leads to the new one before that is durable.
    LinkedEarly,
    /// Recovery takes records without a look at their checksums.
    Unchecked,
}

/// Locks of leaves.
const STRIPES: usize = 1024;
/// Attempts of a reader without a lock.
const ATTEMPTS: u32 = 8;
/// Records of a chain, at most, for each item that a leaf has room for.
const DEPTH_MAX: usize = 2;

type EnvOf<H> = <H as Deref>::Target;
type MutexOf<H, T> = <EnvOf<H> as Env>::Mutex<T>;
type Held<'a, H> = <EnvOf<H> as Env>::MutexGuard<'a, ()>;

/// Bytes of a log.
#[derive(Debug, Default)]
struct Bytes {
    /// Of its chunks.
    used: AtomicU64,
    /// Of records that chains reach.
    live: AtomicU64,
}

/// An ordered map; see the [module](self).
pub struct LogTree<H: Deref<Target: Env + Sized>, K, V, X> {
    env: H,
    extents: X,
    options: Options,
    root: Root,
    inner: Inner<K>,
    leaves: Arena<{ mapping::WORDS }>,
    /// Taken in ascending order.
    stripes: Box<[MutexOf<H, ()>]>,
    /// Taken with a leaf's lock held, not the other way round; so the following.
    logs: Box<[MutexOf<H, Log>]>,
    /// Whoever collects a log. Taken before all others.
    collectors: Box<[MutexOf<H, ()>]>,
    bytes: Box<[Bytes]>,
    pool: MutexOf<H, Pool>,
    growth: MutexOf<H, Growth>,
    numbers: MutexOf<H, Numbers>,
    kind: std::marker::PhantomData<fn() -> V>,
}

/// Numbers of leaves that are not in use.
#[derive(Debug, Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

impl<H, K, V, X> LogTree<H, K, V, X>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    /// The environment.
    pub fn env(&self) -> &EnvOf<H> {
        &self.env
    }

    #[inline(always)]
    fn space(&self) -> &<EnvOf<H> as Env>::Space {
        self.env.space()
    }

    #[inline(always)]
    fn leaf(&self, number: u32) -> Leaf<'_> {
        Leaf(self.leaves.get(number))
    }

    /// The log of a leaf.
    #[inline(always)]
    fn log_of(&self, leaf: u32) -> usize {
        (u64::from(leaf).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % self.root.logs
    }

    #[inline(always)]
    fn locate(&self, key: K) -> u32 {
        // Nothing here is lazy.
        self.inner.locate(key).unwrap_or(0)
    }

    fn hold_leaf(&self, number: u32) -> Held<'_, H> {
        self.env.lock(&self.stripes[number as usize % STRIPES])
    }

    /// The leaf that `key` belongs to, and its lock.
    #[inline]
    fn hold(&self, key: K) -> (u32, Held<'_, H>) {
        let mut number = self.locate(key);
        loop {
            let held = self.hold_leaf(number);
            let leaf = self.leaf(number);
            // A leaf that is just being made is changed under its lock as well: what is found is as it is.
            match leaf.side(key) {
                Side::Here => return (number, held),
                Side::Right(next) => number = next,
                Side::Elsewhere => {
                    drop(held);
                    number = self.locate(key);
                }
            }
        }
    }

    /// The records of a leaf, the newest first, until `visit` returns something.
    #[inline(always)]
    fn walk<R>(
        &self,
        leaf: Leaf<'_>,
        mut visit: impl FnMut(&Record) -> Option<R>,
    ) -> Result<Option<R>, Conflict> {
        let space = self.space();
        let (depth, end) = (leaf.depth(), space.len());
        if depth > DEPTH_MAX * self.root.capacity as usize + 1 {
            return Err(Conflict);
        }
        let cached = depth.min(self.options.cached);
        if cached > 1 {
            // All of them are on their way when the first is looked at.
            let warm = (0..cached).fold(0, |warm, number| warm ^ self.warm(leaf.newest(number), end));
            std::hint::black_box(warm);
        }
        let mut before = 0;
        for number in 0..depth {
            let at = if number < cached { leaf.newest(number) } else { before };
            let record = Record::read::<_, K, V>(space, at, end).ok_or(Conflict)?;
            if let Some(found) = visit(&record) {
                return Ok(Some(found));
            }
            if matches!(record.kind, Kind::Whole { .. }) {
                break;
            }
            before = record.before(space);
        }
        Ok(None)
    }

    /// Reads the first word of a record, if that is within the space.
    #[inline(always)]
    fn warm(&self, at: u64, end: u64) -> u64 {
        if at.is_multiple_of(8) && at < end { self.space().load_u64(at) } else { 0 }
    }

    /// The value of a key in its leaf.
    #[inline(always)]
    fn find(&self, leaf: Leaf<'_>, key: K) -> Result<Option<V>, Conflict> {
        if !leaf.may_name(key) {
            return Ok(None);
        }
        let space = self.space();
        let found = self.walk(leaf, |record| {
            let may = !matches!(record.kind, Kind::Whole { .. }) || record.count <= self.root.capacity;
            if may { record.find::<_, K, V>(space, key) } else { None }
        })?;
        Ok(found.flatten())
    }

    /// All pairs of a leaf, in ascending order.
    fn pairs(&self, leaf: Leaf<'_>) -> Result<Vec<(K, V)>, Conflict> {
        let space = self.space();
        let mut newer: Vec<(K, Option<V>)> = Vec::new();
        let mut pairs = Vec::new();
        self.walk(leaf, |record| {
            let key = |number| record.key::<_, K, V>(space, number);
            match record.kind {
                Kind::Put | Kind::Remove => {
                    let key = key(0);
                    if newer.iter().all(|(known, _)| *known != key) {
                        let put = record.kind == Kind::Put;
                        newer.push((key, put.then(|| record.value::<_, K, V>(space, 0))));
                    }
                }
                Kind::Whole { .. } => {
                    for number in 0..record.count.min(self.root.capacity) {
                        let key = key(number);
                        if newer.iter().all(|(known, _)| *known != key) {
                            pairs.push((key, record.value::<_, K, V>(space, number)));
                        }
                    }
                }
            }
            None::<()>
        })?;
        pairs.extend(newer.into_iter().filter_map(|(key, value)| Some((key, value?))));
        pairs.sort_unstable_by_key(|(key, _)| *key);
        Ok(pairs)
    }

    /// Reads in the leaf that `key` belongs to.
    #[inline(always)]
    fn read<R>(&self, key: K, read: impl Fn(Leaf<'_>) -> Result<R, Conflict>) -> R {
        let attempt = || {
            let mut number = self.locate(key);
            loop {
                let leaf = self.leaf(number);
                let version = leaf.version().begin()?;
                match leaf.side(key) {
                    Side::Here => {
                        let found = read(leaf)?;
                        return leaf.version().unchanged(version).map(|()| found);
                    }
                    Side::Right(next) => {
                        leaf.version().unchanged(version)?;
                        number = next;
                    }
                    Side::Elsewhere => return Err(Conflict),
                }
            }
        };
        for _ in 0..ATTEMPTS {
            if let Ok(found) = attempt() {
                return found;
            }
        }
        let (number, _held) = self.hold(key);
        match read(self.leaf(number)) {
            Ok(found) => found,
            Err(Conflict) => panic!("the chain of leaf {number} is broken: memory was written by others"),
        }
    }
}

impl<H, K, V, X> Map<K, V> for LogTree<H, K, V, X>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    fn get(&self, key: K) -> Option<V> {
        self.read(key, |leaf| self.find(leaf, key))
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.change(key, |_| Wish::Put(value))
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.change(key, |old| old.map_or(Wish::Nothing, |_| Wish::Put(value)))
    }

    fn replace(&self, key: K, old: V, new: V) -> Result<bool, Error> {
        let is_old = |found: Option<V>| found.is_some_and(|found| same(found, old));
        let found = self.change(key, |found| if is_old(found) { Wish::Put(new) } else { Wish::Nothing })?;
        Ok(is_old(found))
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        self.change(key, |old| old.map_or(Wish::Nothing, |_| Wish::Remove))
    }

    fn each(&self, visit: &mut dyn FnMut(K, V) -> bool) {
        self.range(K::from_words([0; 2]), visit);
    }
}

impl<H, K, V, X> OrderedMap<K, V> for LogTree<H, K, V, X>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    fn range(&self, from: K, visit: &mut dyn FnMut(K, V) -> bool) {
        let mut from = from;
        loop {
            let (pairs, high) = self.read(from, |leaf| Ok((self.pairs(leaf)?, leaf.high::<K>())));
            let mut wanted = pairs.into_iter().filter(|(key, _)| *key >= from);
            if !wanted.all(|(key, value)| visit(key, value)) {
                return;
            }
            match high {
                Some(high) => from = high,
                None => return,
            }
        }
    }

    fn load_sorted(&self, pairs: &mut dyn Iterator<Item = (K, V)>) -> Result<(), Error> {
        self.fill(pairs)
    }
}

/// Whether two values have the same words.
fn same<V: Fixed>(a: V, b: V) -> bool {
    (0..V::WORDS).all(|word| a.word(word) == b.word(word))
}

/// A chain that is held is broken: somebody else wrote to the logs.
#[cold]
fn broken(root: &Root) -> Error {
    Error::Damaged { offset: root.offset, what: "a chain of records" }
}

const _: () = assert!(CACHED_MAX == 8);
