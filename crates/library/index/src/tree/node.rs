//! Nodes in the space, whatever their slots look like.
//!
//! | bytes | |
//! |---|---|
//! | 0 | number of pairs, or a bit for each slot in use |
//! | 8 | offset of the right sibling, 0 if none |
//! | 16 | level, 0 for leaves |
//! | 24 | low: no key below it belongs here; room for two words |
//! | 40 | high: the low of the right sibling, for readers; made again when the tree is opened |
//! | 64 | slots |

use std::fmt::Debug;

use space::{LINE, Space};

use crate::Fixed;

pub(super) const COUNT: u64 = 0;
pub(super) const NEXT: u64 = 8;
pub(super) const LEVEL: u64 = 16;
pub(super) const LOW: u64 = 24;
pub(super) const HIGH: u64 = 40;
pub(super) const SLOTS: u64 = 64;
/// Slots of a node at most.
pub(super) const SLOTS_MAX: u64 = 64;

/// A mistake that a tree can be asked to make, for the tests of the crash checker: it must find each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing is wrong.
    #[default]
    None,
    /// *FAST/FAIR*: slots are shifted without waiting for each other.
    NotInOrder,
    /// *Persistent unsorted*: the bit is stored before its slot.
    BitFirst,
    /// *btree-WAL*: the record is not waited for before the node is written.
    LogNotFenced,
    /// A new node is linked before it is durable.
    LinkedEarly,
    /// *Group flushing*: a new node whose slots were flushed as a group is not flushed itself.
    GroupTrusted,
}

/// What a discipline works with.
#[derive(Clone, Copy)]
pub struct Desk<'a, S> {
    pub space: &'a S,
    /// Bytes of a node.
    pub bytes: u64,
    /// The log of the calling thread, which nobody else uses meanwhile; 0 for disciplines without one.
    pub log: u64,
    /// Flush groups of lines that were modified together.
    pub group_flush: bool,
    pub flaw: Flaw,
}

/// A discipline: how pairs are kept in the slots of a node, and what is flushed and fenced when.
///
/// `W` is what keys lead to, values or children. Functions that change a node are called with its latch held
/// and its version odd; readers hold what they read against the version.
pub trait Discipline: Debug + Send + Sync + 'static {
    /// What an operation changed is durable when it returns.
    const DURABLE: bool;
    /// It needs a log.
    const LOGGED: bool = false;

    /// Slots of a node.
    fn slots<K: Fixed, W: Fixed>(bytes: u64) -> u64 {
        (bytes.saturating_sub(SLOTS) / stride::<K, W>()).min(SLOTS_MAX)
    }

    /// What `key` leads to.
    fn find<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W>;

    /// What the greatest key that is not above `key` leads to.
    fn floor<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W>;

    /// All pairs in ascending order.
    fn pairs<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> Vec<(K, W)>;

    /// Whether a pair can't be put in.
    fn is_full<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> bool;

    /// Puts a pair in, in the place of that of the same key.
    fn put<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K, to: W);

    /// Takes a key out that is there.
    fn take<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K);

    /// Fills a node that nobody can reach with pairs in ascending order; the caller flushes and fences.
    fn fill<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, pairs: &[(K, W)]);

    /// Forgets the pairs from `low` on: a sibling has them, and a crash can't take it away.
    fn cut<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, low: K);

    /// Completes what a crash interrupted; the caller flushes and fences.
    fn recover<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64);
}

/// Bytes of a plain slot.
pub(super) const fn stride<K: Fixed, W: Fixed>() -> u64 {
    8 * (K::WORDS + W::WORDS) as u64
}

/// Words at an offset.
#[inline(always)]
pub(super) fn load<S: Space, T: Fixed>(space: &S, at: u64) -> T {
    let mut words = [0; 2];
    for (word, at) in words[..T::WORDS].iter_mut().zip((at..).step_by(8)) {
        *word = space.load_u64(at);
    }
    T::from_words(words)
}

/// Stores words at an offset.
#[inline(always)]
pub(super) fn store<S: Space, T: Fixed>(space: &S, at: u64, value: T) {
    for word in 0..T::WORDS {
        space.store_u64(at + 8 * word as u64, value.word(word));
    }
}

impl<S: Space> Desk<'_, S> {
    /// Key and value of a plain slot.
    #[inline(always)]
    pub fn slot<K: Fixed, W: Fixed>(&self, node: u64, slot: u64) -> u64 {
        node + SLOTS + slot * stride::<K, W>()
    }

    #[inline(always)]
    pub fn key_at<K: Fixed, W: Fixed>(&self, node: u64, slot: u64) -> K {
        load(self.space, self.slot::<K, W>(node, slot))
    }

    #[inline(always)]
    pub fn value_at<K: Fixed, W: Fixed>(&self, node: u64, slot: u64) -> W {
        load(self.space, self.slot::<K, W>(node, slot) + 8 * K::WORDS as u64)
    }

    pub fn store_slot<K: Fixed, W: Fixed>(&self, node: u64, slot: u64, key: K, value: W) {
        let at = self.slot::<K, W>(node, slot);
        store(self.space, at, key);
        store(self.space, at + 8 * K::WORDS as u64, value);
    }

    /// The right sibling and its low, if there is one.
    #[inline(always)]
    pub fn right<K: Fixed>(&self, node: u64) -> Option<(u64, K)> {
        let next = self.space.load_u64(node + NEXT);
        (next != 0).then(|| (next, load(self.space, node + HIGH)))
    }

    /// Flushes what was modified together if it is more than one line, so that the device sees neighbours
    /// together. Not for durability: no fence belongs to it.
    pub fn flush_group(&self, from: u64, to: u64) {
        if self.group_flush && to.saturating_sub(from & !(LINE - 1)) > LINE {
            self.space.flush(from, to - from);
        }
    }
}
