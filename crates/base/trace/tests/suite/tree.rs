//! The events of a persistent B+-tree being filled with random keys: what a compiler's instrumentation would
//! record of a plain C implementation with 512-byte nodes. Deterministic in its seed.

use event::{Event, FenceKind, FlushKind, Op, SiteId};

/// Keys of a node; with the header, keys and pointers a node takes 512 bytes.
const KEYS: usize = 30;
const KEYS_AT: u64 = 16;
const POINTERS_AT: u64 = KEYS_AT + 8 * KEYS as u64;
const STACK: u64 = 0x7ffd_1000_0000;
const ROOT: u64 = 0x5555_5555_8040;

struct Node {
    addr: u64,
    keys: Vec<u64>,
    /// Empty in a leaf.
    children: Vec<usize>,
}

/// The tree and the events that its operations cause.
pub struct Tree {
    nodes: Vec<Node>,
    root: usize,
    next_addr: u64,
    random: u64,
    /// What happened since the last [`Tree::take`].
    events: Vec<Event>,
}

impl Tree {
    pub fn new(seed: u64) -> Self {
        let mut tree = Tree {
            nodes: Vec::new(),
            root: 0,
            next_addr: 0x7f00_0000_0000,
            random: seed | 1,
            events: Vec::new(),
        };
        tree.root = tree.node();
        tree
    }

    /// Inserts random keys until there are `count` events, and gives exactly as many.
    pub fn take(&mut self, count: usize) -> Vec<Event> {
        while self.events.len() < count {
            let key = self.random();
            self.insert(key);
        }
        let rest = self.events.split_off(count);
        std::mem::replace(&mut self.events, rest)
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn node(&mut self) -> usize {
        let addr = self.next_addr;
        self.next_addr += 512;
        self.nodes.push(Node { addr, keys: Vec::new(), children: Vec::new() });
        self.nodes.len() - 1
    }

    fn push(&mut self, op: Op, site: u32, instructions: u32) {
        self.events.push(Event { op, site: SiteId(site), instructions });
    }

    fn load(&mut self, addr: u64, len: u32, site: u32, instructions: u32) {
        self.push(Op::Load { addr, len }, site, instructions);
    }

    fn store(&mut self, addr: u64, len: u32, site: u32, instructions: u32) {
        self.push(Op::Store { addr, len }, site, instructions);
    }

    fn persist(&mut self, addr: u64, len: u64, site: u32) {
        for line in (addr / 64)..=((addr + len - 1) / 64) {
            self.push(Op::Flush { addr: line * 64, kind: FlushKind::Clwb }, site, 3);
        }
        self.push(Op::Fence(FenceKind::Store), site + 1, 2);
    }

    /// Binary search; the first key that is greater.
    fn search(&mut self, node: usize, key: u64) -> usize {
        let addr = self.nodes[node].addr;
        self.load(addr, 4, 10, 4);
        let (mut low, mut high) = (0, self.nodes[node].keys.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            self.load(addr + KEYS_AT + 8 * middle as u64, 8, 11, 7);
            if self.nodes[node].keys[middle] <= key { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn insert(&mut self, key: u64) {
        self.store(STACK, 8, 1, 5);
        self.load(ROOT, 8, 2, 2);
        let mut path = Vec::new();
        let mut node = self.root;
        loop {
            self.load(self.nodes[node].addr + 4, 4, 3, 3);
            if self.nodes[node].children.is_empty() {
                break;
            }
            let slot = self.search(node, key);
            self.load(self.nodes[node].addr + POINTERS_AT + 8 * slot as u64, 8, 4, 5);
            self.store(STACK + 64 + 8 * path.len() as u64, 8, 5, 3);
            path.push((node, slot));
            node = self.nodes[node].children[slot];
        }
        let slot = self.search(node, key);
        self.put(node, slot, key, None);
        self.split_upwards(node, path);
        self.load(STACK, 8, 6, 4);
    }

    /// Makes room at `slot` by moving what is behind it, and fills it.
    fn put(&mut self, node: usize, slot: usize, key: u64, child: Option<usize>) {
        let Node { addr, ref keys, .. } = self.nodes[node];
        let count = keys.len();
        for moved in (slot..count).rev() {
            let from = addr + KEYS_AT + 8 * moved as u64;
            self.load(from, 8, 20, 2);
            self.store(from + 8, 8, 21, 2);
            let from = addr + POINTERS_AT + 8 * moved as u64;
            self.load(from, 8, 22, 2);
            self.store(from + 8, 8, 23, 2);
        }
        self.store(addr + KEYS_AT + 8 * slot as u64, 8, 24, 4);
        self.store(addr + POINTERS_AT + 8 * slot as u64, 8, 25, 2);
        self.persist(addr + KEYS_AT + 8 * slot as u64, 8 * (count - slot + 1) as u64, 26);
        self.store(addr, 4, 28, 2);
        self.persist(addr, 4, 29);
        self.nodes[node].keys.insert(slot, key);
        if let Some(child) = child {
            self.nodes[node].children.insert(slot + 1, child);
        }
    }

    fn split_upwards(&mut self, mut node: usize, mut path: Vec<(usize, usize)>) {
        while self.nodes[node].keys.len() == KEYS {
            let right = self.node();
            let (from, to) = (self.nodes[node].addr, self.nodes[right].addr);
            self.push(Op::Alloc { addr: to, len: 512 }, 40, 60);
            self.load(from + KEYS_AT + 120, 240, 41, 20);
            self.store(to + KEYS_AT, 240, 42, 4);
            self.persist(to, 512, 43);
            let keys = self.nodes[node].keys.split_off(KEYS / 2);
            let between = keys[0];
            self.nodes[right].keys = keys;
            if !self.nodes[node].children.is_empty() {
                self.nodes[right].keys.remove(0);
                self.nodes[right].children = self.nodes[node].children.split_off(KEYS / 2 + 1);
            }
            let (parent, slot) = path.pop().unwrap_or_else(|| {
                let root = self.node();
                self.nodes[root].children.push(node);
                self.root = root;
                (root, 0)
            });
            self.put(parent, slot, between, Some(right));
            node = parent;
        }
    }
}
