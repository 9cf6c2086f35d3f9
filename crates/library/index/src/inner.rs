//! The upper levels of a tree, in ordinary memory.
//!
//! # A guess, not a promise
//! [`Inner::locate`] takes no lock and checks no version. It may read a node while it is being changed, and
//! lead to a leaf beside the right one. The caller holds the key against the bounds that the leaf itself
//! knows: too far left, it follows the leaf's link; too far right, it asks again. So a change of inner nodes
//! needs no care of readers but one: what was an inner node of a level stays one of that level.
//!
//! # Nodes
//! A node is 96 words: a head (the number of separators), 63 separators in ascending order, 64 children, two
//! in a word. Child `i` has the keys from separator `i - 1` on, below separator `i`. Unused separators are
//! all ones, so that counting those that are not above a key needs no bound. The search looks at the first
//! separator of each cache line, then through one line; the misses of the first step overlap. The second
//! words of 16-byte separators are in an arena of their own.
//!
//! Children of the lowest level are leaves. A child of a higher level may be *lazy*: a group of the entries
//! that a clean close left, of which a node is made when somebody comes by.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::Fixed;
use crate::arena::Arena;

/// Separators of a node at most.
const KEYS: usize = 63;
/// Where separators and children begin.
const KEY: usize = 1;
const CHILD: usize = KEY + KEYS;
/// Words of a cache line.
const LINE: usize = 8;
/// Children of a node that is filled in ascending order.
const FILL: u64 = 48;
/// Words of children.
const CHILDREN: usize = KEYS.div_ceil(2);
/// Words of a node.
const WORDS: usize = CHILD + CHILDREN;
/// Marks a child that is a number of a group yet to be loaded.
const LAZY: u32 = 1 << 31;
/// The top's level, above its number.
const LEVEL: u32 = 32;

/// Where a descent came to a group that is not loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lazy;

/// Entries that a clean close left, in ascending order: the lowest key and the number of each leaf.
pub(crate) type Entries<'a, K> = &'a dyn Fn(u64) -> (K, u32);

/// The upper levels.
pub(crate) struct Inner<K> {
    nodes: Arena<WORDS>,
    /// Second words of the separators.
    seconds: Arena<64>,
    /// Number and level of the top; level 0 is a leaf.
    top: AtomicU64,
    keys: PhantomData<K>,
}

/// What changes to inner nodes need to know; whoever has it changes them.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    next: u32,
    /// Nodes to be used again, by level.
    free: Vec<Vec<u32>>,
    /// Entries that lazy groups are made of.
    entries: u64,
}

impl<K: Fixed> Inner<K> {
    /// Upper levels with nothing but one leaf.
    pub fn new(leaf: u32) -> Self {
        let top = AtomicU64::new(u64::from(leaf));
        Inner { nodes: Arena::new(), seconds: Arena::new(), top, keys: PhantomData }
    }

    /// A leaf that `key` is in, or was, or will be.
    #[inline(always)]
    pub fn locate(&self, key: K) -> Result<u32, Lazy> {
        let (mut at, levels) = self.start();
        for _ in 0..levels {
            if at & LAZY != 0 {
                return Err(Lazy);
            }
            at = self.below(at, key);
        }
        Ok(at)
    }

    /// One step of [`Inner::locate`] for each of several keys. `at` begins with [`Inner::start`].
    #[inline(always)]
    pub fn step(&self, keys: &[K], at: &mut [u32]) {
        for (at, key) in at.iter_mut().zip(keys) {
            if *at & LAZY == 0 {
                *at = self.below(*at, *key);
            }
        }
    }

    /// The top and how many steps lead from it to leaves.
    #[inline(always)]
    pub fn start(&self) -> (u32, u32) {
        let top = self.top.load(Acquire);
        (top as u32, (top >> LEVEL) as u32)
    }

    /// The leaf at the end of steps.
    #[inline(always)]
    pub fn ended(at: u32) -> Result<u32, Lazy> {
        if at & LAZY == 0 { Ok(at) } else { Err(Lazy) }
    }

    /// The child of a node that has `key`.
    #[inline(always)]
    fn below(&self, number: u32, key: K) -> u32 {
        let node = self.nodes.get(number);
        // Their lines are asked for before it is known which of them is needed.
        let touched = (CHILD..WORDS).step_by(LINE).fold(0, |sum, at| sum ^ node[at].load(Relaxed));
        std::hint::black_box(touched);
        child_of(node, self.not_above(number, node, key))
    }

    /// How many separators are not above `key`.
    #[inline(always)]
    fn not_above(&self, number: u32, node: &[AtomicU64; WORDS], key: K) -> usize {
        let first = key.word(0);
        let count = (node[0].load(Relaxed) as usize).min(KEYS);
        let below = |word: u64| if K::WORDS == 1 { word <= first } else { word < first };
        let mut lines = 0;
        for line in 1..CHILD / LINE {
            lines += usize::from(below(node[line * LINE].load(Relaxed)));
        }
        let mut found = LINE * lines;
        for word in &node[LINE * lines + 1..][..LINE - 1] {
            found += usize::from(below(word.load(Relaxed)));
        }
        found = found.min(count);
        if K::WORDS > 1 {
            let seconds = self.seconds.get(number);
            while found < count
                && node[KEY + found].load(Relaxed) == first
                && seconds[found].load(Relaxed) <= key.word(1)
            {
                found += 1;
            }
        }
        found
    }

    fn count(&self, node: u32) -> usize {
        self.nodes.get(node)[0].load(Relaxed) as usize
    }

    fn key(&self, node: u32, at: usize) -> K {
        let second = if K::WORDS > 1 { self.seconds.get(node)[at].load(Relaxed) } else { 0 };
        K::from_words([self.nodes.get(node)[KEY + at].load(Relaxed), second])
    }

    fn child(&self, node: u32, at: usize) -> u32 {
        child_of(self.nodes.get(node), at)
    }

    fn set_key(&self, node: u32, at: usize, key: K) {
        if K::WORDS > 1 {
            self.seconds.get(node)[at].store(key.word(1), Relaxed);
        }
        self.nodes.get(node)[KEY + at].store(key.word(0), Relaxed);
    }

    fn set_child(&self, node: u32, at: usize, child: u32) {
        let word = &self.nodes.get(node)[CHILD + at / 2];
        let shift = at % 2 * 32;
        let others = word.load(Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(others | u64::from(child) << shift, Release);
    }

    fn set_count(&self, node: u32, count: usize) {
        for word in &self.nodes.get(node)[KEY + count..CHILD] {
            word.store(u64::MAX, Relaxed);
        }
        self.nodes.get(node)[0].store(count as u64, Relaxed);
    }

    /// A node of that level with one child.
    fn allocate(&self, growth: &mut Growth, level: u32, child: u32) -> u32 {
        let freed = growth.free.get_mut(level as usize).and_then(Vec::pop);
        let node = freed.unwrap_or_else(|| {
            growth.next += 1;
            growth.next - 1
        });
        self.set_count(node, 0);
        self.set_child(node, 0, child);
        node
    }

    fn set_top(&self, node: u32, level: u32) {
        self.top.store(u64::from(node) | u64::from(level) << LEVEL, Release);
    }

    /// Enters a leaf that has the keys from `low` on.
    pub fn enter(&self, growth: &mut Growth, low: K, leaf: u32, entries: Entries<'_, K>) {
        let (mut at, levels) = self.start();
        let mut way = Vec::with_capacity(levels as usize);
        for level in (1..=levels).rev() {
            let slot = self.not_above(at, self.nodes.get(at), low);
            way.push((at, slot));
            if level > 1 {
                at = self.loaded(growth, at, slot, level - 1, entries);
            }
        }
        let (mut low, mut child) = (low, leaf);
        for level in 1..=levels {
            let Some((node, slot)) = way.pop() else { return };
            if level == 1 && slot > 0 && self.key(node, slot - 1) == low {
                self.set_child(node, slot, child);
                return;
            }
            if self.count(node) < KEYS {
                self.insert(node, slot, low, child);
                return;
            }
            (low, child) = self.split(growth, level, node, slot, low, child);
        }
        let (top, _) = self.start();
        let above = self.allocate(growth, levels + 1, top);
        self.insert(above, 0, low, child);
        self.set_top(above, levels + 1);
    }

    /// Puts a separator at `slot` and its child behind it, in a node with room.
    fn insert(&self, node: u32, slot: usize, low: K, child: u32) {
        let count = self.count(node);
        // Children first: a reader that sees an old separator with a new child comes out on the left.
        for at in (slot..count).rev() {
            self.set_child(node, at + 2, self.child(node, at + 1));
            self.set_key(node, at + 1, self.key(node, at));
        }
        self.set_child(node, slot + 1, child);
        self.set_key(node, slot, low);
        self.nodes.get(node)[0].store(count as u64 + 1, Relaxed);
    }

    /// Splits a full node and puts the separator where it belongs; what has to be entered above.
    fn split(&self, growth: &mut Growth, level: u32, node: u32, slot: usize, low: K, child: u32) -> (K, u32) {
        if slot == KEYS {
            // Ascending keys: the node stays full.
            return (low, self.allocate(growth, level, child));
        }
        let middle = KEYS / 2;
        let right = self.allocate(growth, level, self.child(node, middle + 1));
        for at in middle + 1..KEYS {
            self.set_key(right, at - middle - 1, self.key(node, at));
            self.set_child(right, at - middle, self.child(node, at + 1));
        }
        self.nodes.get(right)[0].store((KEYS - middle - 1) as u64, Relaxed);
        let up = self.key(node, middle);
        if slot > middle {
            self.insert(right, slot - middle - 1, low, child);
            self.set_count(node, middle);
        } else {
            self.set_count(node, middle);
            self.insert(node, slot, low, child);
        }
        (up, right)
    }

    /// Leads all keys from `low` on, below `high`, that lead to leaf `from`, to leaf `to` on its left.
    pub fn retire(
        &self,
        growth: &mut Growth,
        (low, high): (K, Option<K>),
        (from, to): (u32, u32),
        entries: Entries<'_, K>,
    ) {
        let (top, levels) = self.start();
        if levels > 0 {
            self.retire_below(growth, (top, levels), (low, high), (from, to), entries);
        }
    }

    /// [`Inner::retire`] in what is below a node. Whether nothing but `to` is left there.
    fn retire_below(
        &self,
        growth: &mut Growth,
        (node, level): (u32, u32),
        (low, high): (K, Option<K>),
        (from, to): (u32, u32),
        entries: Entries<'_, K>,
    ) -> bool {
        let first = self.not_above(node, self.nodes.get(node), low);
        for at in (first..=self.count(node)).rev() {
            if at > first && high.is_some_and(|high| self.key(node, at - 1) >= high) {
                continue;
            }
            let superfluous = if level == 1 {
                self.child(node, at) == from
            } else {
                let child = self.loaded(growth, node, at, level - 1, entries);
                let only = self.retire_below(growth, (child, level - 1), (low, high), (from, to), entries);
                only && at > 0 && self.key(node, at - 1) >= low
            };
            if superfluous && at > 0 {
                if level > 1 {
                    let below = level as usize - 1;
                    growth.free.resize_with(growth.free.len().max(below + 1), Vec::new);
                    growth.free[below].push(self.child(node, at));
                }
                self.take_out(node, at);
            } else if superfluous && level == 1 {
                self.set_child(node, 0, to);
            }
        }
        level == 1 && self.count(node) == 0 && self.child(node, 0) == to
    }

    /// Takes out child `at`, which is not the first, and the separator before it.
    fn take_out(&self, node: u32, at: usize) {
        let count = self.count(node);
        for at in at..count {
            self.set_key(node, at - 1, self.key(node, at));
            self.set_child(node, at, self.child(node, at + 1));
        }
        self.set_count(node, count - 1);
    }

    /// Makes the upper levels for `entries` that a clean close left, as far as somebody comes by.
    pub fn restore(&self, growth: &mut Growth, count: u64, entries: Entries<'_, K>) {
        growth.entries = count;
        let level = (1..).find(|level| FILL.pow(*level) >= count).unwrap_or(1);
        let top = self.load_group(growth, level, 0, entries);
        self.set_top(top, level);
    }

    /// Loads all groups on the way to `key`.
    pub fn load_way(&self, growth: &mut Growth, key: K, entries: Entries<'_, K>) {
        let (mut at, levels) = self.start();
        for level in (2..=levels).rev() {
            let slot = self.not_above(at, self.nodes.get(at), key);
            at = self.loaded(growth, at, slot, level - 1, entries);
        }
    }

    /// The child of a node, an inner node of `level` itself.
    fn loaded(
        &self,
        growth: &mut Growth,
        node: u32,
        slot: usize,
        level: u32,
        entries: Entries<'_, K>,
    ) -> u32 {
        let child = self.child(node, slot);
        if child & LAZY == 0 {
            return child;
        }
        let group = self.load_group(growth, level, u64::from(child & !LAZY), entries);
        self.set_child(node, slot, group);
        group
    }

    /// A node of `level` for a group of the entries: those from `group * FILL^level` on.
    fn load_group(&self, growth: &mut Growth, level: u32, group: u64, entries: Entries<'_, K>) -> u32 {
        let each = FILL.pow(level - 1);
        let first = group * FILL;
        let all = growth.entries;
        let children = (first..first + FILL).take_while(|child| child * each < all);
        let mut node = None;
        for child in children {
            let (low, leaf) = entries(child * each);
            let target = if level == 1 { leaf } else { child as u32 | LAZY };
            match node {
                None => node = Some(self.allocate(growth, level, target)),
                Some(node) => self.insert(node, (child - first) as usize - 1, low, target),
            }
        }
        node.unwrap_or_else(|| self.allocate(growth, level, 0))
    }

    /// Makes the upper levels anew for leaves in ascending order of their lowest keys.
    pub fn build(&self, growth: &mut Growth, leaves: impl Iterator<Item = (K, u32)>) {
        // The node that is being filled, per level from 1 on.
        let mut open: Vec<u32> = Vec::new();
        let mut only = None;
        for (low, leaf) in leaves {
            let Some(first) = only else {
                only = Some(leaf);
                continue;
            };
            let mut child = leaf;
            // What the first node of a new level has as its first child.
            let mut below = first;
            for level in 1.. {
                let Some(&node) = open.get(level - 1) else {
                    let node = self.allocate(growth, level as u32, below);
                    self.insert(node, 0, low, child);
                    open.push(node);
                    break;
                };
                if (self.count(node) as u64) < FILL - 1 {
                    self.insert(node, self.count(node), low, child);
                    break;
                }
                below = node;
                child = self.allocate(growth, level as u32, child);
                open[level - 1] = child;
            }
        }
        match (open.last(), only) {
            (Some(&top), _) => self.set_top(top, open.len() as u32),
            (None, leaf) => self.set_top(leaf.unwrap_or(0), 0),
        }
    }
}

/// Child `at` of a node.
#[inline(always)]
fn child_of(node: &[AtomicU64; WORDS], at: usize) -> u32 {
    (node[CHILD + at / 2].load(Acquire) >> (at % 2 * 32)) as u32
}
