//! Published trees for persistent memory as variants of one B+-tree, to compare them: *btree*, *unsorted
//! leaf*, *btree-WAL*, *FAST/FAIR*, *persistent unsorted* and *FAST/FAIR with selective persistence* (Ni,
//! Enabling Efficient Persistent Memory Systems, 2022, chapter 5). Take [`crate::BTree`] for a map to use.
//!
//! # What they share
//! Nodes of equal size with a link to the right sibling (`node.rs`), linear search, and the way threads meet:
//! a reader holds what it reads in a node against the node's version, and takes latches after some failed
//! attempts; a writer holds the latch of one node at a time. A split makes a right sibling and links it by
//! one word; from then on what the old node has from the sibling's low on counts for nothing. The parent
//! learns of it afterwards; until then, and after a crash in between, the link leads on. Opening a tree
//! enters what is missing.
//!
//! # What is each variant's own
//! How pairs are kept in a node, and what is flushed and fenced when: a `Discipline`, a file each. With
//! *selective persistence* the upper levels are in ordinary memory, made again when the tree is opened.

mod logged;
mod node;
mod open;
mod range;
mod shifted;
mod sorted;
mod split;
mod unsorted;

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;

use space::{Env, Observer, Space};

use crate::arena::Arena;
use crate::inner::{Growth, Inner};
use crate::nodes::Nodes;
use crate::version::{Conflict, Version};
use crate::{Error, Extents, Fixed};
use logged::Logged;
pub use node::Flaw;
use node::{Desk, Discipline};
use shifted::Shifted;
use sorted::Sorted;
use unsorted::Unsorted;

/// How a tree is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a node, a multiple of 128 with room for 3 pairs.
    pub node: u64,
    /// Latches of the nodes.
    pub latches: u32,
    /// Logs, for variants that have them; threads beyond their number share them. At most 255.
    pub logs: u32,
    /// Lookups that [`crate::Map::get_many`] does at the same time, 1 to 64.
    pub batch: usize,
    /// *Group flushing*: flush lines that were modified together, so that they leave the cache together. For
    /// volatile variants; not for durability.
    pub group_flush: bool,
    /// For tests of the crash checker.
    pub flaw: Flaw,
}

impl Default for Options {
    fn default() -> Self {
        Options { node: 512, latches: 1024, logs: 64, batch: 4, group_flush: false, flaw: Flaw::None }
    }
}

/// A published tree.
pub trait Variant: std::fmt::Debug + Send + Sync + 'static {
    /// Its name in the literature.
    const NAME: &'static str;
    /// How leaves are kept.
    #[doc(hidden)]
    type Leaf: Discipline;
    /// How upper levels are kept.
    #[doc(hidden)]
    type Upper: Discipline;
    /// Upper levels are in ordinary memory.
    const SELECTIVE: bool = false;
}

macro_rules! variants {
    ($($(#[$about:meta])* $type:ident $name:literal $leaf:ty, $upper:ty, $selective:literal;)*) => {
        $($(#[$about])* #[derive(Debug)] pub enum $type {}
                impl Variant for $type {
            const NAME: &'static str = $name;
            type Leaf = $leaf;
            type Upper = $upper;
            const SELECTIVE: bool = $selective;
        })*
    };
}
variants! {
    /// Sorted nodes, nothing flushed: a tree that uses persistent memory as memory.
    Plain "btree" Sorted, Sorted, false;
    /// As [`Plain`], with unsorted leaves: an insert writes one slot and a bit.
    UnsortedLeaf "unsorted leaf" Unsorted<false>, Sorted, false;
    /// Sorted nodes with a write-ahead log.
    Wal "btree-WAL" Logged, Logged, false;
    /// Sorted nodes without a log, shifted in order.
    FastFair "FAST/FAIR" Shifted, Shifted, false;
    /// Unsorted leaves, durable slot before bit; upper levels with a log.
    PersistentUnsorted "persistent unsorted" Unsorted<true>, Logged, false;
    /// As [`FastFair`], with selective persistence.
    FastFairSp "FAST/FAIR SP" Shifted, Sorted, true;
}

/// Attempts of a reader without latches.
const ATTEMPTS: u32 = 8;
/// Unit of the offsets that upper levels in ordinary memory have.
const UNIT: u64 = 128;
/// Highest end of a space, so that these fit.
const LEN_MAX: u64 = UNIT << 31;
/// Bits of a top that are its level; nodes are at multiples of [`UNIT`].
const LEVEL_BITS: u64 = UNIT - 1;

type EnvOf<H> = <H as Deref>::Target;
type LatchOf<H> = <EnvOf<H> as Env>::Latch<()>;
type MutexOf<H, T> = <EnvOf<H> as Env>::Mutex<T>;
type Held<'a, H> = <EnvOf<H> as Env>::LatchGuard<'a, ()>;

/// A tree of the variant `D`, in extents `X` of the space of an environment that `H` leads to.
pub struct Tree<H: Deref<Target: Env>, K: Fixed, V: Fixed, X, D> {
    env: H,
    extents: X,
    options: Options,
    /// Offset of the root words.
    root: u64,
    /// Versions of the nodes, by their offset in units of a node.
    versions: Arena<1>,
    latches: Box<[LatchOf<H>]>,
    /// For observers, one of a latch's nodes: by which lock a new node is passed on to those who find it.
    passed: Box<[u64]>,
    logs: Box<[LatchOf<H>]>,
    nodes: MutexOf<H, Nodes>,
    /// Offset of the topmost node, and its level in the low bits. The mutex is for whoever puts one above it.
    top: AtomicU64,
    rising: MutexOf<H, ()>,
    /// Upper levels in ordinary memory, of leaves by their offset in units.
    inner: Inner<K>,
    growth: MutexOf<H, Growth>,
    of: PhantomData<(V, D)>,
}

impl<H, K, V, X, D> Tree<H, K, V, X, D>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
    D: Variant,
{
    #[inline(always)]
    fn space(&self) -> &<EnvOf<H> as Env>::Space {
        self.env.space()
    }

    /// What disciplines work with; without a log.
    #[inline(always)]
    fn desk(&self) -> Desk<'_, <EnvOf<H> as Env>::Space> {
        let Options { node, group_flush, flaw, .. } = self.options;
        Desk { space: self.space(), bytes: node, log: 0, group_flush, flaw }
    }

    #[inline(always)]
    fn version(&self, node: u64) -> Version<'_> {
        Version(&self.versions.get((node / self.options.node) as u32)[0])
    }

    fn index(&self, node: u64) -> usize {
        (node / self.options.node) as usize % self.latches.len()
    }

    /// Takes the latch of a node.
    fn latch(&self, node: u64) -> Held<'_, H> {
        let held = self.env.hold(&self.latches[self.index(node)]);
        self.pass(node, true);
        held
    }

    /// Reports that a new node was passed on, or received, by words that order nothing.
    fn pass(&self, node: u64, received: bool) {
        let lock = self.passed[self.index(node)];
        self.space().observer().locked(lock, received);
        self.space().observer().unlocking(lock);
    }

    /// The topmost node and its level.
    fn top(&self) -> (u64, u64) {
        let top = self.top.load(Acquire);
        (top & !LEVEL_BITS, top & LEVEL_BITS)
    }

    /// One step down, or to the right, of a search for `key` at a level: the next node and its level; the
    /// same if it is at its end.
    #[inline(always)]
    fn step(&self, key: K, target: u64, (node, level): (u64, u64)) -> Result<(u64, u64), Conflict> {
        let desk = self.desk();
        if let Some((right, high)) = desk.right::<K>(node)
            && key >= high
        {
            return Ok((right, level));
        }
        if level == target {
            return Ok((node, level));
        }
        let child = D::Upper::floor::<_, K, u64>(&desk, node, key).ok_or(Conflict)?;
        Ok((child, level - 1))
    }

    /// Where a search at a level begins.
    #[inline(always)]
    fn start(&self, key: K, level: u64) -> (u64, u64) {
        if D::SELECTIVE {
            debug_assert_eq!(level, 0, "there are no upper levels in the space");
            let leaf = self.inner.locate(key).unwrap_or(0);
            return (u64::from(leaf) * UNIT, 0);
        }
        self.top()
    }

    /// A node of a level that `key` belongs to, or did, without latches.
    #[inline(always)]
    fn find_node(&self, key: K, level: u64) -> Result<u64, Conflict> {
        let mut at = self.start(key, level);
        loop {
            let version = self.version(at.0).begin()?;
            let next = self.step(key, level, at)?;
            self.version(at.0).unchanged(version)?;
            if next == at {
                return Ok(at.0);
            }
            at = next;
        }
    }

    /// Takes the latch of the node of a level that `key` belongs to.
    fn hold(&self, key: K, level: u64) -> (u64, Held<'_, H>) {
        let guess = (0..ATTEMPTS).find_map(|_| self.find_node(key, level).ok());
        let mut at = guess.map_or_else(|| self.start(key, level), |node| (node, level));
        loop {
            let held = self.latch(at.0);
            match self.step(key, level, at) {
                Ok(next) if next == at => return (at.0, held),
                Ok(next) => at = next,
                Err(Conflict) => {
                    unreachable!("each node but the leftmost of a level has a low in its parent")
                }
            }
        }
    }

    /// Reads in the leaf that `key` belongs to.
    #[inline(always)]
    fn read<R>(&self, key: K, read: impl Fn(u64) -> R) -> R {
        for _ in 0..ATTEMPTS {
            if let Ok(found) = self.look(key, &read) {
                return found;
            }
        }
        let (node, _held) = self.hold(key, 0);
        read(node)
    }

    #[inline(always)]
    fn look<R>(&self, key: K, read: impl Fn(u64) -> R) -> Result<R, Conflict> {
        let node = self.find_node(key, 0)?;
        self.look_in(node, key, read)
    }

    /// Reads in a leaf without its latch, if `key` belongs to it.
    #[inline(always)]
    fn look_in<R>(&self, node: u64, key: K, read: impl Fn(u64) -> R) -> Result<R, Conflict> {
        let version = self.version(node).begin()?;
        if self.desk().right::<K>(node).is_some_and(|(_, high)| key >= high) {
            return Err(Conflict);
        }
        let found = read(node);
        self.version(node).unchanged(version)?;
        Ok(found)
    }

    /// The log of the calling thread, if the discipline has one, and the proof of having it.
    fn log<L: Discipline>(&self) -> (u64, Option<Held<'_, H>>) {
        if !L::LOGGED {
            return (0, None);
        }
        let number = self.env.thread_number() as usize % self.logs.len();
        let held = self.env.hold(&self.logs[number]);
        (self.log_offset(number as u64), Some(held))
    }

    fn log_offset(&self, number: u64) -> u64 {
        self.root + crate::nodes::root::BYTES + number * logged::log_bytes(self.options.node)
    }

    /// Sets the value of `key` if `wanted` says so of the one that it has; that one.
    fn set(&self, key: K, value: V, wanted: impl Fn(Option<V>) -> bool) -> Result<Option<V>, Error> {
        loop {
            let (node, held) = self.hold(key, 0);
            let desk = self.desk();
            let before = D::Leaf::find::<_, K, V>(&desk, node, key);
            if !wanted(before) || before == Some(value) {
                return Ok(before);
            }
            if D::Leaf::is_full::<_, K, V>(&desk, node) {
                self.split_node::<D::Leaf, V>((node, held), 0)?;
                continue;
            }
            self.put::<D::Leaf, V>(node, key, value);
            return Ok(before);
        }
    }

    /// Puts a pair in a node with room, whose latch is held.
    fn put<L: Discipline, W: Fixed>(&self, node: u64, key: K, to: W) {
        let (log, _log_held) = self.log::<L>();
        let desk = Desk { log, ..self.desk() };
        self.version(node).change(|| L::put(&desk, node, key, to));
    }

    /// Takes `key` out.
    fn take(&self, key: K) -> Option<V> {
        let (node, _held) = self.hold(key, 0);
        let before = D::Leaf::find::<_, K, V>(&self.desk(), node, key)?;
        let (log, _log_held) = self.log::<D::Leaf>();
        let desk = Desk { log, ..self.desk() };
        self.version(node).change(|| D::Leaf::take::<_, K, V>(&desk, node, key));
        Some(before)
    }
}
