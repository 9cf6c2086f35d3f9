//! How a tree is made, and opened after a crash.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use space::{Env, Observer, Space};

use super::node::{Desk, Discipline, HIGH, LEVEL, LOW, NEXT, load, store};
use super::range::BATCH_MAX;
use super::{EnvOf, LEN_MAX, LEVEL_BITS, Options, Tree, UNIT, Variant, logged};
use crate::arena::Arena;
use crate::extents::make_durable;
use crate::inner::{Growth, Inner};
use crate::nodes::{Nodes, root};
use crate::{Error, Extents, Fixed};

/// First word of a tree.
const MAGIC_WORD: u64 = u64::from_le_bytes(*b"SLTREES1");

/// A level's nodes from the left, each with its low.
type Chain<K> = Vec<(u64, K)>;

impl<H, K, V, X, D> Tree<H, K, V, X, D>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
    D: Variant,
{
    /// Makes an empty tree in extents that hold nothing yet.
    ///
    /// # Errors
    /// If there is something in them, no room for a node, or the options are not possible.
    pub fn create(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        let root = Self::checked(&env, &extents, options)?;
        let space = env.space();
        let found = space.load_u64(root + root::MAGIC);
        if found != 0 {
            return Err(Error::Mismatch { offset: root, found, expected: 0, what: "an empty extent" });
        }
        let (logs, head) = (u64::from(Self::logs(options)), Self::head(options));
        let bytes = extents.all(space).first().map_or(0, |first| first.bytes);
        if bytes < head + options.node {
            return Err(Error::Full { wanted: head + options.node, len: bytes });
        }
        space.store_u64(root + root::SHAPE, Self::shape_word(options));
        for word in [root::CEILING, root::SUMMARIES] {
            space.store_u64(root + word, 0);
        }
        for log in 0..logs {
            space.store_u64(root + root::BYTES + log * logged::log_bytes(options.node), 0);
        }
        if D::Leaf::DURABLE {
            space.flush(root, head);
        }
        let tree = Self::assemble(env, extents, options, root);
        let space = tree.space();
        let leaf = tree.make::<D::Leaf, V>(0, K::from_words([0; 2]), None, &[])?;
        space.store_u64(root + root::TOP, leaf);
        if D::Leaf::DURABLE {
            space.persist(root + root::TOP, 8);
        }
        space.store_u64(root + root::MAGIC, MAGIC_WORD);
        if D::Leaf::DURABLE {
            space.persist(root, 8);
        }
        tree.top.store(leaf, Relaxed);
        tree.inner.build(
            &mut tree.env.lock(&tree.growth),
            [(K::from_words([0; 2]), (leaf / UNIT) as u32)].into_iter(),
        );
        Ok(tree)
    }

    /// Opens a tree and completes what a crash interrupted. Reads all nodes.
    ///
    /// # Errors
    /// If there is no such tree, it is damaged, or it is a volatile variant's, of which nothing is left.
    pub fn open(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        if !D::Leaf::DURABLE {
            return Err(Error::Options("a volatile tree is gone when its program ends"));
        }
        let root = Self::checked(&env, &extents, options)?;
        for (word, expected, what) in [
            (root::MAGIC, MAGIC_WORD, "a tree"),
            (root::SHAPE, Self::shape_word(options), "the variant, its words of keys and values, its logs"),
        ] {
            let found = env.space().load_u64(root + word);
            if found != expected {
                return Err(Error::Mismatch { offset: root + word, found, expected, what });
            }
        }
        let tree = Self::assemble(env, extents, options, root);
        tree.recover()?;
        Ok(tree)
    }

    /// Offset of the root words, if all is possible.
    fn checked(env: &H, extents: &X, options: &Options) -> Result<u64, Error> {
        let slots = D::Leaf::slots::<K, V>(options.node).min(D::Upper::slots::<K, u64>(options.node));
        if !options.node.is_multiple_of(UNIT) || slots < 3 {
            return Err(Error::Options("a node is a multiple of 128 bytes with room for 3 pairs"));
        }
        let counts = options.latches > 0 && (1..256).contains(&options.logs);
        if !counts || !(1..=BATCH_MAX).contains(&options.batch) {
            return Err(Error::Options("at least one latch, 1 to 255 logs, batches of 1 to 64"));
        }
        if env.space().len() > LEN_MAX {
            return Err(Error::Options("a space of at most 256 GiB"));
        }
        extents.all(env.space()).first().map(|first| first.offset).ok_or(Error::Options("no extent"))
    }

    fn logs(options: &Options) -> u32 {
        if D::Leaf::LOGGED || D::Upper::LOGGED { options.logs } else { 0 }
    }

    /// Bytes before the first node.
    fn head(options: &Options) -> u64 {
        let logs = u64::from(Self::logs(options)) * logged::log_bytes(options.node);
        (root::BYTES + logs).next_multiple_of(256)
    }

    /// The variant by its name, and all that its nodes depend on.
    fn shape_word(options: &Options) -> u64 {
        let name = D::NAME.bytes().fold(0u64, |sum, byte| (sum.wrapping_mul(31) + u64::from(byte)) & 0xFFFF);
        let (keys, values) = (K::WORDS as u64, V::WORDS as u64);
        options.node | keys << 32 | values << 36 | u64::from(options.logs) << 40 | name << 48
    }

    fn assemble(env: H, extents: X, options: &Options, root: u64) -> Self {
        let logs = Self::logs(options);
        let nodes = Nodes::new(env.space(), root, options.node, Self::head(options), &extents);
        Tree {
            root,
            options: *options,
            versions: Arena::new(),
            latches: (0..options.latches).map(|_| env.latch(())).collect(),
            passed: (0..options.latches).map(|_| env.space().observer().new_lock()).collect(),
            logs: (0..logs).map(|_| env.latch(())).collect(),
            nodes: env.mutex(nodes),
            top: AtomicU64::new(0),
            rising: env.mutex(()),
            inner: Inner::new(0),
            growth: env.mutex(Growth::default()),
            extents,
            env,
            of: PhantomData,
        }
    }

    fn recover(&self) -> Result<(), Error> {
        let space = self.space();
        make_durable(space, &self.extents.all(space));
        let ceiling = space.load_u64(self.root + root::CEILING);
        let mut nodes = self.env.lock(&self.nodes);
        if ceiling == 0 || ceiling > u64::from(nodes.total()) {
            let offset = self.root + root::CEILING;
            return Err(Error::Damaged { offset, what: "the number of nodes" });
        }
        (nodes.ceiling, nodes.next) = (ceiling as u32, ceiling as u32);
        for number in 0..self.logs.len() as u64 {
            let desk = Desk { log: self.log_offset(number), ..self.desk() };
            if !logged::redo(&desk, |node| nodes.number(node).is_some()) {
                return Err(Error::Damaged { offset: desk.log, what: "a record of the log" });
            }
        }
        drop(nodes);
        space.fence();
        let levels = self.levels()?;
        let Some(leaves) = levels.last() else { unreachable!("at least the leaves") };
        if D::SELECTIVE {
            let leaves = leaves.iter().map(|(node, low)| (*low, (*node / UNIT) as u32));
            self.inner.build(&mut self.env.lock(&self.growth), leaves);
        } else {
            self.complete(&levels)?;
        }
        let mut nodes = self.env.lock(&self.nodes);
        let mut used = vec![false; ceiling as usize];
        for number in levels.iter().flatten().filter_map(|(node, _)| nodes.number(*node)) {
            used[number as usize] = true;
        }
        // What completing splits took is above the ceiling that was.
        nodes.free.extend((0..ceiling as u32).rev().filter(|number| !used[*number as usize]));
        Ok(())
    }

    /// All nodes, the topmost level first, each made whole.
    fn levels(&self) -> Result<Vec<Chain<K>>, Error> {
        let space = self.space();
        let top = space.load_u64(self.root + root::TOP);
        let damaged = |offset, what| Err(Error::Damaged { offset, what });
        if self.env.lock(&self.nodes).number(top).is_none() {
            return damaged(self.root + root::TOP, "the topmost node's offset");
        }
        let level = space.load_u64(top + LEVEL);
        if level >= LEVEL_BITS || (D::SELECTIVE && level != 0) {
            return damaged(top + LEVEL, "the topmost node's level");
        }
        self.top.store(top | level, Relaxed);
        let mut levels = Vec::new();
        let mut first = top;
        for level in (0..=level).rev() {
            let chain = self.chain(first, level)?;
            if let Some(above) = levels.last() {
                self.check_children(above, &chain)?;
            }
            if level > 0 {
                let child = D::Upper::floor::<_, K, u64>(&self.desk(), first, K::from_words([0; 2]));
                match child.filter(|child| self.env.lock(&self.nodes).number(*child).is_some()) {
                    Some(child) => first = child,
                    None => return damaged(first, "the first child of a level"),
                }
            }
            levels.push(chain);
        }
        space.fence();
        Ok(levels)
    }

    /// The nodes of a level. Flushes them, because what is there may be stores of a process that was killed.
    fn chain(&self, first: u64, level: u64) -> Result<Chain<K>, Error> {
        let (space, desk) = (self.space(), self.desk());
        let mut chain: Chain<K> = Vec::new();
        let mut node = first;
        while node != 0 {
            let low: K = load(space, node + LOW);
            let rises = match chain.last() {
                None => low == K::from_words([0; 2]),
                Some((_, before)) => *before < low || (chain.len() == 1 && *before == low),
            };
            if space.load_u64(node + LEVEL) != level || !rises {
                return Err(Error::Damaged { offset: node, what: "the level or low of a node" });
            }
            let next = space.load_u64(node + NEXT);
            if next != 0 && self.env.lock(&self.nodes).number(next).is_none() {
                return Err(Error::Damaged { offset: node + NEXT, what: "the right sibling's offset" });
            }
            if next != 0 {
                let high: K = load(space, next + LOW);
                store(space, node + HIGH, high);
                match level {
                    0 => cut::<D::Leaf, _, K, V>(&desk, node, high),
                    _ => cut::<D::Upper, _, K, u64>(&desk, node, high),
                }
            }
            match level {
                0 => D::Leaf::recover::<_, K, V>(&desk, node),
                _ => D::Upper::recover::<_, K, u64>(&desk, node),
            }
            space.flush(node, self.options.node);
            chain.push((node, low));
            node = next;
        }
        Ok(chain)
    }

    /// Each child of a level's nodes is a node of the level below, with that low.
    fn check_children(&self, above: &Chain<K>, below: &Chain<K>) -> Result<(), Error> {
        for (parent, _) in above {
            for (low, child) in D::Upper::pairs::<_, K, u64>(&self.desk(), *parent) {
                let from = below.partition_point(|(_, other)| *other < low);
                if !below[from..].iter().take(2).any(|known| *known == (child, low)) {
                    return Err(Error::Damaged { offset: *parent, what: "a child of the node" });
                }
            }
        }
        Ok(())
    }

    /// Enters in each level what is missing there of the one below.
    fn complete(&self, levels: &[Chain<K>]) -> Result<(), Error> {
        for (level, chain) in (1..).zip(levels.iter().rev()).collect::<Vec<_>>().into_iter().rev() {
            for &(node, low) in &chain[1..] {
                let known = self.top().1 >= level && {
                    let (parent, _held) = self.hold(low, level);
                    D::Upper::find::<_, K, u64>(&self.desk(), parent, low) == Some(node)
                };
                if !known {
                    self.enter(level, low, node)?;
                }
            }
        }
        Ok(())
    }
}

/// Forgets what a sibling has, if there is anything.
fn cut<L: Discipline, S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, high: K) {
    if L::pairs::<_, K, W>(desk, node).last().is_some_and(|(last, _)| *last >= high) {
        L::cut::<_, K, W>(desk, node, high);
    }
}
