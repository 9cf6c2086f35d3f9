//! The source's index, a B+-tree from keys to locations, as a pattern of accesses: how many levels, and where
//! its nodes lie.

use event::{Event, FenceKind, FlushKind};

use crate::pattern::{self, LINE, after, fence, flush, load, store};

/// Keys of a full node, 8 B each with 8 B of pointer, and their number after random insertion.
pub(super) const NODE: u64 = 256;
const PER_NODE: u64 = 11;
/// Behind the first byte of the memory that it is in.
const TREE: u64 = 8 << 30;
/// Instructions to find the way in a node.
const PER_NODE_SEARCHED: u32 = 50;

/// A tree of so many keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Index {
    /// Its keys.
    pub keys: u64,
    /// In persistent memory, or in DRAM.
    pub persistent: bool,
}

impl Index {
    fn base(self) -> u64 {
        if self.persistent { pattern::PERSISTENT } else { pattern::VOLATILE }
    }

    /// The nodes on the way to a key, the root first, and where the leaf has the key.
    fn way(self, key: u64) -> (Vec<u64>, u64) {
        // Leaves lie in the order of their making, not of their keys.
        let leaf = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.keys / PER_NODE;
        let mut level = self.keys / PER_NODE;
        let (mut nodes, mut node) = (Vec::new(), leaf);
        while level > 0 {
            // Levels lie behind each other; each is as large as all above it together, and more.
            nodes.push(self.base() + TREE + (level + node) * NODE);
            (level, node) = (level / PER_NODE, node / PER_NODE);
        }
        nodes.reverse();
        let at = nodes.last().copied().unwrap_or_default() + key % 2 * 3 * LINE;
        (nodes, at)
    }

    /// Follows the way from the root: the line in the middle of a node, and the one with the pointer. Returns
    /// where the leaf has the key.
    pub fn find(self, events: &mut Vec<Event>, key: u64) -> u64 {
        let (nodes, at) = self.way(key);
        for node in nodes {
            events.push(after(PER_NODE_SEARCHED, load(node + 2 * LINE, 8)));
            events.push(load(node + key % 2 * 3 * LINE, 8));
        }
        at
    }

    /// Has the key lead elsewhere; its leaf was just found.
    pub fn point(self, events: &mut Vec<Event>, key: u64) {
        let (_, at) = self.way(key);
        self.persist(events, at, 8);
    }

    /// Adds or takes out a key: those behind it move in its leaf, half of it on average.
    pub fn shift(self, events: &mut Vec<Event>, key: u64) {
        let (nodes, _) = self.way(key);
        let leaf = nodes.last().copied().unwrap_or_default();
        self.persist(events, leaf + NODE / 2, NODE / 2);
    }

    /// Goes on to the next leaves, for as many keys as are read behind one that was found.
    pub fn next(self, events: &mut Vec<Event>, key: u64, keys: u64) {
        for leaf in 1..=keys / PER_NODE {
            let (nodes, _) = self.way(key.wrapping_add(leaf));
            let leaf = nodes.last().copied().unwrap_or_default();
            (0..NODE).step_by(LINE as usize).for_each(|line| events.push(load(leaf + line, LINE)));
        }
    }

    fn persist(self, events: &mut Vec<Event>, at: u64, bytes: u64) {
        let lines = (at..at + bytes).step_by(LINE as usize);
        events.extend(lines.clone().map(|line| store(line, bytes.min(LINE))));
        if self.persistent {
            events.extend(lines.map(|line| flush(line, FlushKind::Clwb)));
            events.push(fence(FenceKind::Store));
        }
    }
}
