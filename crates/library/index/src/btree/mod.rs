//! `BTree`: the ordered map that is made for speed, and the one to take unless something speaks against it.
//!
//! # Where things are
//! Leaves are in persistent memory, in sealed slots ([`crate::sealed`]): an insert writes three words,
//! flushes them and fences once. All that a search needs besides is in ordinary memory and made again when
//! the map is opened: inner nodes (`src/inner.rs`), bounds and fingerprints of leaves (`leaf.rs`). A lookup
//! reads one slot from persistent memory.
//!
//! # Readers and writers
//! A writer holds the latch of its leaf, one of a table of latches. What it writes becomes visible
//! after the fence, by a change of the leaf's words in ordinary memory, so readers see durable pairs only,
//! and wait for no fence. A reader takes no latch: it reads between two looks at the leaf's version, and
//! takes the latch after some failed attempts.
//!
//! # Why every crash leaves a map
//! - *Insert, remove, update*: as [`crate::sealed`] says. The erasure of an updated pair's old slot is
//!   durable with the next fence in that leaf; a remove waits for it first.
//! - *Split*: the upper half is copied to a new leaf that nobody can reach, and made durable with its low.
//!   One word, the old leaf's link, splits: from then on what the old leaf has from that low on counts for
//!   nothing.
//! - *An empty leaf* is taken out by its left neighbour's link. Before that the neighbour durably erases what
//!   it has in slots that are not in use, which would count again.
//! - *Which leaves are in use* is what the chain says. A leaf of which only a crash knows is free.
//!
//! # Opening
//! After a crash all leaves are read, by several threads. [`BTree::close`] leaves a list of the leaves with
//! their lows; a map that was closed so is open at once, and inner nodes and leaves are read when somebody
//! comes by.
//!
//! # Damage
//! Where memory was overwritten by others, [`BTree::try_get`] and [`BTree::try_range`] return an error, as
//! whatever changes the map does; [`Map::get`] and [`OrderedMap::range`] panic. What can be recognised is a
//! link that leads to no leaf or back, a key outside its leaf's bounds, a slot that was in use and has lost
//! its seal. A slot that had lost its seal when the map was opened holds nothing, as after a crash.

mod leaf;
mod open;
mod summary;
mod write;

use std::ops::Deref;
use std::sync::atomic::AtomicBool;

use space::{Env, Observer, Space};

use crate::arena::Arena;
use crate::inner::{Growth, Inner};
use crate::nodes::Nodes;
use crate::version::Conflict;
use crate::{Error, Extents, Fixed, Map, OrderedMap};
use leaf::{Leaf, Shape, Side};

/// How a map is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a leaf, a multiple of 256 with room for 4 to 64 pairs. Only for a new map.
    pub node: u64,
    /// Latches of the leaves; more of them, more threads that do not wait for each other by chance.
    pub latches: u32,
    /// Lookups that [`Map::get_many`] does at the same time, 1 to 64.
    pub batch: usize,
    /// Threads that read leaves when the map is opened after a crash.
    pub threads: u32,
    /// For tests of the crash checker.
    pub flaw: Flaw,
}

impl Default for Options {
    fn default() -> Self {
        Options { node: 1536, latches: 1024, batch: 16, threads: 2, flaw: Flaw::None }
    }
}

/// A mistake that the map can be asked to make, for the tests of the crash checker: it must find each of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing is wrong.
    #[default]
    None,
    /// Slots that are written again get the same tag.
    ConstantTag,
    /// A new leaf is linked before it is durable.
    LinkedEarly,
    /// What a leaf still has of those that left is not erased when its right neighbour is taken out.
    StaleKept,
    /// A pair is removed while an older one of its key may survive.
    OlderKept,
    /// A new pair is not waited for.
    NotFenced,
}

/// Attempts of a reader without the latch.
const ATTEMPTS: u32 = 8;
/// Times that inner nodes may lead a writer astray before they are made anew: those that a close left are
/// damaged.
const MISLED: u32 = 1000;
/// Lookups at the same time, at most.
const BATCH_MAX: usize = 64;

/// The environment that a handle leads to.
type EnvOf<H> = <H as Deref>::Target;
type LatchOf<H> = <EnvOf<H> as Env>::Latch<()>;
type MutexOf<H, T> = <EnvOf<H> as Env>::Mutex<T>;
type Held<'a, H> = <EnvOf<H> as Env>::LatchGuard<'a, ()>;

/// An ordered map from `K` to `V`, in extents `X` of the space of an environment that `H` leads to.
pub struct BTree<H: Deref<Target: Env>, K: Fixed, V: Fixed, X> {
    env: H,
    extents: X,
    options: Options,
    /// Offset of the root words.
    root: u64,
    shape: Shape<K, V>,
    leaves: Arena<{ leaf::WORDS }>,
    inner: Inner<K>,
    /// Whoever changes inner nodes has it. Taken with latches held, not the other way round.
    growth: MutexOf<H, Growth>,
    /// Taken last.
    nodes: MutexOf<H, Nodes>,
    latches: Box<[LatchOf<H>]>,
    /// For observers, one of a latch's leaves: by which lock a new leaf is passed on to those who find it.
    passed: Box<[u64]>,
    /// Offset and number of the entries that a clean close left; 0 if none.
    entries: (u64, u64),
    /// Leaves came or went since the map was opened.
    changed: AtomicBool,
}

impl<H, K, V, X> BTree<H, K, V, X>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    #[inline(always)]
    fn space(&self) -> &<EnvOf<H> as Env>::Space {
        self.env.space()
    }

    #[inline(always)]
    fn leaf(&self, number: u32) -> Leaf<'_> {
        Leaf(self.leaves.get(number))
    }

    /// A leaf that `key` is in, or in one of those behind it, or perhaps not.
    #[inline(always)]
    fn locate(&self, key: K) -> u32 {
        loop {
            if let Ok(number) = self.inner.locate(key) {
                return number;
            }
            self.load_way(key);
        }
    }

    /// Takes the latch of the leaf that `key` belongs to.
    #[inline]
    fn hold(&self, key: K) -> Result<(u32, Held<'_, H>), Error> {
        let mut number = self.locate(key);
        let mut misled = 0;
        loop {
            let held = self.hold_leaf(number)?;
            let leaf = self.leaf(number);
            // A leaf that is just being made is changed without its latch.
            let side = leaf.version().begin().and_then(|version| {
                let side = leaf.side(key);
                leaf.version().unchanged(version).map(|()| side)
            });
            match side {
                Ok(Side::Here) => return Ok((number, held)),
                Ok(Side::Right(next)) => number = next,
                Ok(Side::Elsewhere) | Err(Conflict) => {
                    drop(held);
                    misled += 1;
                    if misled == MISLED {
                        self.find_leaves()?;
                    } else if misled == 100 * MISLED {
                        let offset = self.leaf(number).node();
                        return Err(Error::Damaged {
                            offset,
                            what: "a leaf's bounds that no other leaf meets",
                        });
                    }
                    number = self.locate(key);
                }
            }
        }
    }

    /// Takes the latch of a leaf, and finds out about it if nobody has yet.
    #[inline]
    fn hold_leaf(&self, number: u32) -> Result<Held<'_, H>, Error> {
        let held = self.env.hold(self.latch(number));
        self.pass(number, true);
        if self.leaf(number).node() == 0 {
            self.load_leaf(number)?;
        }
        Ok(held)
    }

    #[inline(always)]
    fn latch(&self, number: u32) -> &LatchOf<H> {
        &self.latches[number as usize % self.latches.len()]
    }

    /// Reports that a new leaf was passed on, or received, by words of ordinary memory.
    #[inline(always)]
    fn pass(&self, number: u32, received: bool) {
        let lock = self.passed[number as usize % self.latches.len()];
        self.space().observer().locked(lock, received);
        self.space().observer().unlocking(lock);
    }

    /// Reads without a latch, in the leaf that `key` belongs to or one before it.
    #[inline(always)]
    fn look<R>(
        &self,
        mut number: u32,
        key: K,
        read: impl Fn(Leaf<'_>) -> Result<R, Conflict>,
    ) -> Result<R, Conflict> {
        loop {
            let leaf = self.leaf(number);
            let version = leaf.version().begin()?;
            if leaf.node() == 0 {
                return Err(Conflict);
            }
            match leaf.side(key) {
                Side::Here => {
                    let found = read(leaf)?;
                    leaf.version().unchanged(version)?;
                    return Ok(found);
                }
                Side::Right(next) => {
                    leaf.version().unchanged(version)?;
                    number = next;
                }
                Side::Elsewhere => return Err(Conflict),
            }
        }
    }

    /// Reads in the leaf that `key` belongs to, with its latch if it must be. `read` fails only if others
    /// write meanwhile.
    #[inline(always)]
    fn read<R>(&self, key: K, read: impl Fn(Leaf<'_>) -> Result<R, Conflict>) -> Result<R, Error> {
        for _ in 0..ATTEMPTS {
            if let Ok(found) = self.look(self.locate(key), key, &read) {
                return Ok(found);
            }
        }
        self.read_held(key, read)
    }

    #[cold]
    fn read_held<R>(&self, key: K, read: impl Fn(Leaf<'_>) -> Result<R, Conflict>) -> Result<R, Error> {
        let (number, _held) = self.hold(key)?;
        let leaf = self.leaf(number);
        read(leaf).map_err(|Conflict| leaf.unsealed())
    }

    /// The value of `key`, as [`Map::get`], for who has to go on where the memory was damaged.
    ///
    /// # Errors
    /// If the map is damaged where the key would be.
    #[inline]
    pub fn try_get(&self, key: K) -> Result<Option<V>, Error> {
        let found = self.read(key, |leaf| leaf.find(self.space(), self.shape, key))?;
        Ok(found.map(|(_, held)| held.value))
    }

    /// Hands out pairs as [`OrderedMap::range`], for who has to go on where the memory was damaged.
    ///
    /// # Errors
    /// If the map is damaged; what lies before the damage was handed out.
    pub fn try_range(&self, mut from: K, visit: &mut dyn FnMut(K, V) -> bool) -> Result<(), Error> {
        loop {
            let (mut pairs, high) = self.read(from, |leaf| {
                let mut pairs = Vec::with_capacity(self.shape.slots as usize);
                leaf.pairs(self.space(), self.shape, &mut pairs)?;
                Ok((pairs, leaf.high::<K>()))
            })?;
            pairs.retain(|held| held.1.key >= from);
            pairs.sort_unstable_by_key(|held| held.1.key);
            for (_, held) in &pairs {
                if !visit(held.key, held.value) {
                    return Ok(());
                }
            }
            match high {
                Some(high) => from = high,
                None => return Ok(()),
            }
        }
    }

    /// The values of at most [`BATCH_MAX`] keys: one level after the other, for all keys.
    fn get_batch(&self, keys: &[K], values: &mut [Option<V>]) {
        let (top, levels) = self.inner.start();
        let mut at = [top; BATCH_MAX];
        let at = &mut at[..keys.len()];
        for _ in 0..levels {
            self.inner.step(keys, at);
        }
        // The first slot that may have the key.
        let mut first = [0; BATCH_MAX];
        for ((at, key), first) in at.iter().zip(keys).zip(&mut first) {
            let leaf = self.leaf(*at);
            let found = leaf.candidates(self.shape, leaf::print_of(*key));
            let slot = found.trailing_zeros().min(self.shape.slots - 1);
            *first = self.shape.slot(leaf.node(), slot);
        }
        // Their misses overlap; what is read is read again below.
        let room = self.space().len() - 64;
        let warm = first.iter().fold(0, |sum, first| sum ^ self.space().load_u64((*first).min(room) & !7));
        std::hint::black_box(warm);
        for ((at, key), value) in at.iter().zip(keys).zip(values) {
            let look = |leaf: Leaf<'_>| leaf.find(self.space(), self.shape, *key);
            let found = Inner::<K>::ended(*at).map_err(|_| Conflict);
            *value = match found.and_then(|number| self.look(number, *key, look)) {
                Ok(found) => found.map(|(_, held)| held.value),
                Err(Conflict) => self.get(*key),
            };
        }
    }
}

impl<H, K, V, X> Map<K, V> for BTree<H, K, V, X>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    #[inline]
    fn get(&self, key: K) -> Option<V> {
        self.try_get(key).unwrap_or_else(|error| damaged(&error))
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.put(key, value, |_| true)
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.put(key, value, |before| before.is_some())
    }

    fn replace(&self, key: K, old: V, new: V) -> Result<bool, Error> {
        let is = |before: Option<V>| before == Some(old);
        Ok(is(self.put(key, new, is)?))
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        self.take(key)
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) {
        assert_eq!(keys.len(), values.len(), "as many values as keys");
        for (keys, values) in keys.chunks(self.options.batch).zip(values.chunks_mut(self.options.batch)) {
            self.get_batch(keys, values);
        }
    }

    fn each(&self, visit: &mut dyn FnMut(K, V) -> bool) {
        self.range(K::from_words([0; 2]), visit);
    }
}

impl<H, K, V, X> OrderedMap<K, V> for BTree<H, K, V, X>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    fn range(&self, from: K, visit: &mut dyn FnMut(K, V) -> bool) {
        self.try_range(from, visit).unwrap_or_else(|error| damaged(&error));
    }

    fn load_sorted(&self, pairs: &mut dyn Iterator<Item = (K, V)>) -> Result<(), Error> {
        self.fill(pairs)
    }
}

/// For those whose interface has no error: memory that the map had was written by others.
#[cold]
fn damaged<T>(error: &Error) -> T {
    panic!("{error}")
}
