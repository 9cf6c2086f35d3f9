//! A red-black tree, with links to parents.

use region::{Atomicity, Error, Layout, Ptr, Tx};
use space::Env;

use super::structure::Structure;

/// The layout.
pub struct RbTree;

region::persistent! { RbTree:
    /// A node. `red` is 1 or 0.
    pub struct Node { key: u64, value: u64, red: u64, parent: Link, children: [Link; 2] }
}

type Link = Ptr<Node, RbTree>;

impl Layout for RbTree {
    const NAME: &'static str = "rbtree";
    type Root = Link;
}

impl Structure for RbTree {
    const TITLE: &'static str = "RBTree";
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
struct Tree<'a, 'p, 'e, E: Env, A: Atomicity>(&'a mut Tx<'p, &'e E, RbTree, A>);

impl<E: Env, A: Atomicity> Tree<'_, '_, '_, E, A> {
    fn top(&self) -> Link {
        self.0.get(self.0.root())
    }

    fn child(&self, node: Link, side: usize) -> Link {
        self.0.get(Node::children(node).element(side))
    }

    fn set_child(&mut self, node: Link, side: usize, child: Link) -> Result<(), Error> {
        let children = Node::children(node);
        self.0.set(children.element(side), child)
    }

    fn parent(&self, node: Link) -> Link {
        self.0.get(Node::parent(node))
    }

    fn set_parent(&mut self, node: Link, parent: Link) -> Result<(), Error> {
        self.0.set(Node::parent(node), parent)
    }

    /// Nothing is black.
    fn is_red(&self, node: Link) -> bool {
        !node.is_null() && self.0.get(Node::red(node)) == 1
    }

    /// Colours a node, if it has another colour.
    fn colour(&mut self, node: Link, red: bool) -> Result<(), Error> {
        if self.is_red(node) == red {
            return Ok(());
        }
        self.0.set(Node::red(node), u64::from(red))
    }

    /// On which side of `parent` the node is.
    fn side(&self, parent: Link, node: Link) -> usize {
        usize::from(self.child(parent, 0) != node)
    }

    /// Puts `new`, which may be nothing, where `old` is.
    fn replace(&mut self, old: Link, new: Link) -> Result<(), Error> {
        let parent = self.parent(old);
        if parent.is_null() {
            self.0.set(self.0.root(), new)?;
        } else {
            self.set_child(parent, self.side(parent, old), new)?;
        }
        if new.is_null() { Ok(()) } else { self.set_parent(new, parent) }
    }

    /// Lets the child on the other side take the place of `node`, which becomes its child on this side.
    fn rotate(&mut self, node: Link, side: usize) -> Result<(), Error> {
        let up = self.child(node, 1 - side);
        let between = self.child(up, side);
        self.replace(node, up)?;
        self.set_child(node, 1 - side, between)?;
        if !between.is_null() {
            self.set_parent(between, node)?;
        }
        self.set_child(up, side, node)?;
        self.set_parent(node, up)
    }

    fn update(&mut self, key: u64, value: u64) -> Result<(), Error> {
        let (mut parent, mut side, mut at) = (None, 0, self.top());
        while let Some(node) = at.get() {
            let found = self.0.get(Node::key(node));
            if found == key {
                return self.delete(node);
            }
            (parent, side) = (Some(node), usize::from(key > found));
            at = self.child(node, side);
        }
        let above = parent.unwrap_or(Link::NULL);
        let node = self.0.alloc(Node { key, value, red: 1, parent: above, children: [Link::NULL; 2] })?;
        match parent {
            None => self.0.set(self.0.root(), node)?,
            Some(parent) => self.set_child(parent, side, node)?,
        }
        self.mend_red(node)
    }

    /// A red node may have a red parent.
    fn mend_red(&mut self, node: Link) -> Result<(), Error> {
        let mut node = node;
        loop {
            let mut parent = self.parent(node);
            if !self.is_red(parent) {
                break;
            }
            // A red node is not the top one.
            let above = self.parent(parent);
            let side = self.side(above, parent);
            let uncle = self.child(above, 1 - side);
            if self.is_red(uncle) {
                self.colour(parent, false)?;
                self.colour(uncle, false)?;
                self.colour(above, true)?;
                node = above;
                continue;
            }
            if self.side(parent, node) != side {
                self.rotate(parent, side)?;
                parent = node;
            }
            self.colour(parent, false)?;
            self.colour(above, true)?;
            self.rotate(above, 1 - side)?;
            break;
        }
        self.colour(self.top(), false)
    }

    fn delete(&mut self, node: Link) -> Result<(), Error> {
        let [left, right] = [0, 1].map(|side| self.child(node, side));
        // What takes the place of the node that goes, which node that is below, and whether a black one went.
        let (moved, above, went_black);
        if left.is_null() || right.is_null() {
            moved = if left.is_null() { right } else { left };
            above = self.parent(node);
            went_black = !self.is_red(node);
            self.replace(node, moved)?;
        } else {
            let mut next = right;
            while let Some(lower) = self.child(next, 0).get() {
                next = lower;
            }
            moved = self.child(next, 1);
            went_black = !self.is_red(next);
            if next == right {
                above = next;
            } else {
                above = self.parent(next);
                self.replace(next, moved)?;
                self.set_child(next, 1, right)?;
                self.set_parent(right, next)?;
            }
            self.replace(node, next)?;
            self.set_child(next, 0, left)?;
            self.set_parent(left, next)?;
            self.colour(next, self.is_red(node))?;
        }
        if went_black {
            self.mend_black(moved, above)?;
        }
        self.0.free(node)
    }

    /// On the way to `node`, which may be nothing, below `above`, a black one is missing.
    fn mend_black(&mut self, node: Link, above: Link) -> Result<(), Error> {
        let (mut node, mut above) = (node, above);
        while !above.is_null() && !self.is_red(node) {
            let side = self.side(above, node);
            let mut sibling = self.child(above, 1 - side);
            if self.is_red(sibling) {
                self.colour(sibling, false)?;
                self.colour(above, true)?;
                self.rotate(above, side)?;
                sibling = self.child(above, 1 - side);
            }
            let [near, far] = [side, 1 - side].map(|side| self.child(sibling, side));
            if !self.is_red(near) && !self.is_red(far) {
                self.colour(sibling, true)?;
                (node, above) = (above, self.parent(above));
                continue;
            }
            if !self.is_red(far) {
                self.colour(near, false)?;
                self.colour(sibling, true)?;
                self.rotate(sibling, 1 - side)?;
                sibling = near;
            }
            self.colour(sibling, self.is_red(above))?;
            self.colour(above, false)?;
            self.colour(self.child(sibling, 1 - side), false)?;
            self.rotate(above, side)?;
            return Ok(());
        }
        if node.is_null() { Ok(()) } else { self.colour(node, false) }
    }
}

/// The keys, in order; the tree is one and balanced.
#[cfg(test)]
pub(super) fn keys<E: Env, A: Atomicity>(pool: &region::Pool<&E, RbTree, A>) -> Vec<u64> {
    /// Keys below `at`, and black nodes on each way down.
    fn walk<E: Env, A: Atomicity>(
        pool: &region::Pool<&E, RbTree, A>,
        at: Link,
        parent: Option<(Link, u64)>,
        keys: &mut Vec<u64>,
    ) -> u64 {
        let Some(at) = at.get() else { return 0 };
        let node = pool.get(at);
        assert_eq!(node.parent.get(), parent.map(|(link, _)| link));
        assert!(node.red == 0 || parent.is_some_and(|(_, red)| red == 0), "red below red");
        let left = walk(pool, node.children[0], Some((at, node.red)), keys);
        keys.push(node.key);
        let right = walk(pool, node.children[1], Some((at, node.red)), keys);
        assert_eq!(left, right, "black nodes");
        left + 1 - node.red
    }
    let mut keys = Vec::new();
    walk(pool, pool.get(pool.root()), None, &mut keys);
    assert!(keys.is_sorted());
    keys
}
