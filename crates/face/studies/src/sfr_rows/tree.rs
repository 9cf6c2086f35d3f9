//! RB-tree: a red-black tree under one lock, as Cormen, Leiserson, Rivest and Stein have it. An operation
//! takes a random key: it deletes it if it is there, and inserts it if not.

use sfr::{Error, Thread};
use space::Env;

use super::program::{Locks, Program, mix, payload};
use crate::pattern::Draw;

/// The benchmark.
pub(super) struct Tree<E: Env> {
    lock: Locks<E>,
    tree: u64,
    stores: u64,
}

/// Keys at the beginning; there are twice as many to draw from.
const KEYS: u64 = 4096;
/// Fields of a node, and of the tree.
const PARENT: u64 = 0;
const CHILD: [u64; 2] = [8, 16];
const RED: u64 = 24;
const KEY: u64 = 32;
const WORDS: u64 = 40;
const TOP: u64 = 0;
const NIL: u64 = 8;
const COUNT: u64 = 16;

/// A tree under change.
struct Cut<'t, 'p, 'e, E: Env> {
    thread: &'t mut Thread<'p, 'e, E>,
    tree: u64,
    nil: u64,
    stores: u64,
}

impl<E: Env> Cut<'_, '_, '_, E> {
    fn get(&self, node: u64, field: u64) -> u64 {
        self.thread.load_u64(node + field)
    }

    fn set(&mut self, node: u64, field: u64, value: u64) {
        self.thread.store_u64(node + field, value);
    }

    fn top(&self) -> u64 {
        self.get(self.tree, TOP)
    }

    fn is_red(&self, node: u64) -> bool {
        self.get(node, RED) != 0
    }

    /// Which child of its parent a node is.
    fn side(&self, node: u64) -> usize {
        let parent = self.get(node, PARENT);
        usize::from(self.get(parent, CHILD[1]) == node)
    }

    /// Where `node` hangs, `other` hangs from here on.
    fn replace(&mut self, node: u64, other: u64) {
        let parent = self.get(node, PARENT);
        if parent == self.nil {
            self.set(self.tree, TOP, other);
        } else {
            let side = self.side(node);
            self.set(parent, CHILD[side], other);
        }
        self.set(other, PARENT, parent);
    }

    /// The node's child on the other side comes above it.
    fn rotate(&mut self, node: u64, to: usize) {
        let up = self.get(node, CHILD[1 - to]);
        let inner = self.get(up, CHILD[to]);
        self.set(node, CHILD[1 - to], inner);
        if inner != self.nil {
            self.set(inner, PARENT, node);
        }
        self.replace(node, up);
        self.set(up, CHILD[to], node);
        self.set(node, PARENT, up);
    }

    fn insert(&mut self, parent: u64, key: u64) -> Result<(), Error> {
        let mut node = self.thread.alloc(WORDS + self.stores * 8)?;
        for (field, value) in
            [(PARENT, parent), (CHILD[0], self.nil), (CHILD[1], self.nil), (RED, 1), (KEY, key)]
        {
            self.set(node, field, value);
        }
        payload(self.thread, node + WORDS, self.stores, key, mix(key));
        if parent == self.nil {
            self.set(self.tree, TOP, node);
        } else {
            let side = usize::from(key > self.get(parent, KEY));
            self.set(parent, CHILD[side], node);
        }
        let count = self.get(self.tree, COUNT);
        self.set(self.tree, COUNT, count + 1);
        while self.is_red(self.get(node, PARENT)) {
            let mut parent = self.get(node, PARENT);
            let above = self.get(parent, PARENT);
            let at = self.side(parent);
            let uncle = self.get(above, CHILD[1 - at]);
            if self.is_red(uncle) {
                self.set(parent, RED, 0);
                self.set(uncle, RED, 0);
                self.set(above, RED, 1);
                node = above;
                continue;
            }
            if self.side(node) != at {
                node = parent;
                self.rotate(node, at);
                parent = self.get(node, PARENT);
            }
            self.set(parent, RED, 0);
            self.set(above, RED, 1);
            self.rotate(above, 1 - at);
        }
        let top = self.top();
        self.set(top, RED, 0);
        Ok(())
    }

    fn repair(&mut self, mut node: u64) {
        while node != self.top() && !self.is_red(node) {
            let at = self.side(node);
            let parent = self.get(node, PARENT);
            let mut sibling = self.get(parent, CHILD[1 - at]);
            if self.is_red(sibling) {
                self.set(sibling, RED, 0);
                self.set(parent, RED, 1);
                self.rotate(parent, at);
                sibling = self.get(parent, CHILD[1 - at]);
            }
            if !self.is_red(self.get(sibling, CHILD[0])) && !self.is_red(self.get(sibling, CHILD[1])) {
                self.set(sibling, RED, 1);
                node = parent;
                continue;
            }
            if !self.is_red(self.get(sibling, CHILD[1 - at])) {
                let near = self.get(sibling, CHILD[at]);
                self.set(near, RED, 0);
                self.set(sibling, RED, 1);
                self.rotate(sibling, 1 - at);
                sibling = self.get(parent, CHILD[1 - at]);
            }
            let red = self.get(parent, RED);
            self.set(sibling, RED, red);
            self.set(parent, RED, 0);
            let far = self.get(sibling, CHILD[1 - at]);
            self.set(far, RED, 0);
            self.rotate(parent, at);
            node = self.top();
        }
        self.set(node, RED, 0);
    }

    fn delete(&mut self, node: u64) -> Result<(), Error> {
        let mut out = node;
        if CHILD.iter().all(|&child| self.get(node, child) != self.nil) {
            out = self.get(node, CHILD[1]);
            while self.get(out, CHILD[0]) != self.nil {
                out = self.get(out, CHILD[0]);
            }
        }
        let was_red = self.is_red(out);
        let side = usize::from(self.get(out, CHILD[0]) == self.nil);
        let into = self.get(out, CHILD[side]);
        self.replace(out, into);
        if !was_red {
            self.repair(into);
        }
        if out != node {
            // The repair may have moved the node, and made it another one's parent.
            self.replace(node, out);
            let red = self.get(node, RED);
            self.set(out, RED, red);
            for child in CHILD {
                let below = self.get(node, child);
                self.set(out, child, below);
                if below != self.nil {
                    self.set(below, PARENT, out);
                }
            }
        }
        let count = self.get(self.tree, COUNT);
        self.set(self.tree, COUNT, count - 1);
        self.thread.free(node)
    }

    /// Inserts the key, or deletes it.
    fn toggle(&mut self, key: u64) -> Result<(), Error> {
        let (mut parent, mut node) = (self.nil, self.top());
        while node != self.nil {
            let here = self.get(node, KEY);
            if here == key {
                return self.delete(node);
            }
            (parent, node) = (node, self.get(node, CHILD[usize::from(key > here)]));
        }
        self.insert(parent, key)
    }
}

impl<E: Env> Program<E> for Tree<E> {
    fn setup(thread: &mut Thread<'_, '_, E>, stores: u64) -> Result<u64, Error> {
        let tree = thread.zalloc(24)?;
        let nil = thread.zalloc(WORDS + stores * 8)?;
        thread.store_u64(tree + NIL, nil);
        thread.store_u64(tree + TOP, nil);
        let mut cut = Cut { thread, tree, nil, stores };
        // Every other key, scattered.
        (0..KEYS).try_for_each(|number| cut.toggle(2 * (number * 1031 % KEYS)))?;
        Ok(tree)
    }

    fn start(env: &E, root: u64, stores: u64) -> Self {
        Tree { lock: Locks::new(env, 1), tree: root, stores }
    }

    fn operate(&self, env: &E, thread: &mut Thread<'_, '_, E>, draw: &mut Draw) -> Result<(), Error> {
        let key = draw.below(2 * KEYS);
        let held = self.lock.take(env, thread, 0);
        let nil = thread.load_u64(self.tree + NIL);
        let done = Cut { thread, tree: self.tree, nil, stores: self.stores }.toggle(key);
        held.give(thread);
        done
    }
}
