//! A B+-tree. Nodes of 256 B are split when they are full and stay when they are empty.
//!
//! Written as the study's: each operation is one failure-atomic region, whose writes the study counts. The
//! trees of `index` need no regions, and would leave nothing to count.

use region::{Atomicity, Error, Layout, Ptr, Tx};
use space::Env;

use super::structure::Structure;

/// Keys of a node.
const WIDTH: usize = 10;

/// The layout.
pub struct BTree;

region::persistent! { BTree:
    /// A node: with `leaf` 1 the keys have values, with 0 the keys from number n on are in child n + 1.
    pub struct Node { count: u32, leaf: u32, keys: [u64; WIDTH], values: [u64; WIDTH], children: [Link; WIDTH + 1] }
}

type Link = Ptr<Node, BTree>;

impl Layout for BTree {
    const NAME: &'static str = "btree";
    type Root = Link;
}

impl Structure for BTree {
    const TITLE: &'static str = "BTree";
    const KEYS: u64 = 1 << 17;
    const FILLED: bool = true;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        Tree(tx).update(key, random)
    }
}

/// The tree in a region.
struct Tree<'a, 'p, 'e, E: Env, A: Atomicity>(&'a mut Tx<'p, &'e E, BTree, A>);

impl<E: Env, A: Atomicity> Tree<'_, '_, '_, E, A> {
    fn update(&mut self, key: u64, value: u64) -> Result<(), Error> {
        let top = self.0.get(self.0.root());
        let Some(mut at) = top.get() else {
            let mut leaf = Node {
                count: 1,
                leaf: 1,
                keys: [0; WIDTH],
                values: [0; WIDTH],
                children: [Link::NULL; WIDTH + 1],
            };
            (leaf.keys[0], leaf.values[0]) = (key, value);
            let leaf = self.0.alloc(leaf)?;
            return self.0.set(self.0.root(), leaf);
        };
        let mut way = Vec::new();
        let mut node = self.0.get(at);
        while node.leaf == 0 {
            let number = node.keys[..node.count as usize].partition_point(|other| *other <= key);
            way.push((at, node, number));
            at = node.children[number];
            node = self.0.get(at);
        }
        let place = node.keys[..node.count as usize].partition_point(|other| *other < key);
        if place < node.count as usize && node.keys[place] == key {
            node.keys.copy_within(place + 1.., place);
            node.values.copy_within(place + 1.., place);
            node.count -= 1;
            return self.write(at, &node);
        }
        if (node.count as usize) < WIDTH {
            insert(&mut node, place, key, value, None);
            return self.write(at, &node);
        }
        let mut right = split(&mut node);
        let (half, place) =
            if key < right.keys[0] { (&mut node, place) } else { (&mut right, place - WIDTH / 2) };
        insert(half, place, key, value, None);
        let between = right.keys[0];
        self.write(at, &node)?;
        let right = self.0.alloc(right)?;
        self.insert_above(way, between, at, right)
    }

    /// Puts `right` behind its left neighbour into the node above, the last one of the way.
    fn insert_above(
        &mut self,
        mut way: Vec<(Link, Node, usize)>,
        between: u64,
        left: Link,
        right: Link,
    ) -> Result<(), Error> {
        let Some((at, mut node, place)) = way.pop() else {
            let mut top =
                Node { count: 1, leaf: 0, keys: [0; WIDTH], values: [0; WIDTH], children: [left; WIDTH + 1] };
            (top.keys[0], top.children[1]) = (between, right);
            let top = self.0.alloc(top)?;
            return self.0.set(self.0.root(), top);
        };
        if (node.count as usize) < WIDTH {
            insert(&mut node, place, between, 0, Some(right));
            return self.write(at, &node);
        }
        // The key in the middle goes up.
        let mut other = split(&mut node);
        let up = other.keys[0];
        other.keys.copy_within(1.., 0);
        other.children.copy_within(1.., 0);
        other.count -= 1;
        if between < up {
            insert(&mut node, place, between, 0, Some(right));
        } else {
            insert(&mut other, place - WIDTH / 2 - 1, between, 0, Some(right));
        }
        self.write(at, &node)?;
        let other = self.0.alloc(other)?;
        self.insert_above(way, up, at, other)
    }

    /// Writes the words of a node that count and have changed.
    fn write(&mut self, at: Link, node: &Node) -> Result<(), Error> {
        let was = self.0.get(at);
        let count = node.count as usize;
        if was.count != node.count {
            self.0.set(Node::count(at), node.count)?;
        }
        let keys = Node::keys(at);
        let values = Node::values(at);
        let children = Node::children(at);
        for number in 0..count {
            if was.keys[number] != node.keys[number] {
                self.0.set(keys.element(number), node.keys[number])?;
            }
            if node.leaf == 1 && was.values[number] != node.values[number] {
                self.0.set(values.element(number), node.values[number])?;
            }
        }
        for number in 0..=count {
            if node.leaf == 0 && was.children[number] != node.children[number] {
                self.0.set(children.element(number), node.children[number])?;
            }
        }
        Ok(())
    }
}

/// Inserts a key into a node that has room for it: with its value, or with the child behind it.
fn insert(node: &mut Node, place: usize, key: u64, value: u64, child: Option<Link>) {
    let count = node.count as usize;
    node.keys.copy_within(place..count, place + 1);
    node.keys[place] = key;
    match child {
        None => {
            node.values.copy_within(place..count, place + 1);
            node.values[place] = value;
        }
        Some(child) => {
            node.children.copy_within(place + 1..=count, place + 2);
            node.children[place + 1] = child;
        }
    }
    node.count += 1;
}

/// Leaves the lower half of a full node in it, and returns the other one. Of a node that is no leaf, child n
/// belongs to key n of the other one, the first of which is to go up.
fn split(node: &mut Node) -> Node {
    let mut other = *node;
    let half = WIDTH / 2;
    other.keys.copy_within(half.., 0);
    other.values.copy_within(half.., 0);
    other.children.copy_within(half.., 0);
    other.count = (WIDTH - half) as u32;
    node.count = half as u32;
    other
}

/// The keys, in order.
#[cfg(test)]
pub(super) fn keys<E: Env, A: Atomicity>(pool: &region::Pool<&E, BTree, A>) -> Vec<u64> {
    fn walk<E: Env, A: Atomicity>(pool: &region::Pool<&E, BTree, A>, at: Link, keys: &mut Vec<u64>) -> usize {
        let node = pool.get(at);
        let count = node.count as usize;
        if node.leaf == 1 {
            keys.extend(&node.keys[..count]);
            return 1;
        }
        let mut depths = (0..=count).map(|number| walk(pool, node.children[number], keys));
        let depth = depths.next().expect("there is a child");
        assert!(depths.all(|other| other == depth), "all leaves lie as deep");
        depth + 1
    }
    let mut keys = Vec::new();
    if let Some(top) = pool.get(pool.root()).get() {
        walk(pool, top, &mut keys);
    }
    assert!(keys.is_sorted());
    keys
}
