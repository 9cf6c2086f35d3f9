//! How a map is made, and opened after a crash.

use std::ops::{Deref, Range};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use space::{Env, Observer, Space};

use super::leaf::{NONE, Shape};
use super::{Arena, BATCH_MAX, BTree, EnvOf, Options};
use crate::inner::{Growth, Inner};
use crate::nodes::{Nodes, root};
use crate::{Error, Extents, Fixed};

/// Leaves for which one thread is enough.
const FEW: u32 = 2048;
/// First word of a map.
const MAGIC_WORD: u64 = u64::from_le_bytes(*b"SLINDEX1");
/// In place of the number of a next leaf: there is none at that offset.
const NO_LEAF: u32 = u32::MAX - 2;

impl<H, K, V, X> BTree<H, K, V, X>
where
    H: Deref<Target: Env> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    /// Makes an empty map in extents that hold nothing yet.
    ///
    /// # Errors
    /// If there is something in them, no room for a leaf, or the options are not possible.
    pub fn create(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        let shape = Self::checked(options)?;
        let space = env.space();
        let Some(first) = extents.all(space).first().copied() else {
            return Err(Error::Options("no extent"));
        };
        let root = first.offset;
        let found = space.load_u64(root + root::MAGIC);
        if found != 0 {
            return Err(Error::Mismatch { offset: root, found, expected: 0, what: "an empty extent" });
        }
        if first.bytes < root::BYTES + shape.node {
            return Err(Error::Full { wanted: root::BYTES + shape.node, len: first.bytes });
        }
        space.store_u64(root + root::SHAPE, Self::shape_word(shape));
        for word in [root::CEILING, root::SUMMARY, root::SUMMARIES] {
            space.store_u64(root + word, 0);
        }
        space.flush(root, root::BYTES);
        let map = Self::assemble(env, extents, options, root, shape);
        let space = map.space();
        let (head, node) = map.env.lock(&map.nodes).take(space, &map.extents)?;
        let low = K::from_words([0; 2]);
        map.write_leaf(node, 0, low, std::iter::empty());
        space.fence();
        space.store_u64(root + root::MAGIC, MAGIC_WORD);
        space.persist(root, 8);
        map.publish(head, node, None, (low, None), std::iter::empty());
        Ok(map)
    }

    /// Opens a map. At once if it was closed ([`BTree::close`]), else by reading all of it.
    ///
    /// # Errors
    /// If there is no map of these keys and values, or it is damaged.
    pub fn open(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        let mut shape = Self::checked(options)?;
        let space = env.space();
        let Some(first) = extents.all(space).first().copied() else {
            return Err(Error::Options("no extent"));
        };
        let root = first.offset;
        let found = space.load_u64(root + root::MAGIC);
        let expected = MAGIC_WORD;
        if found != expected {
            return Err(Error::Mismatch { offset: root, found, expected, what: "an ordered map" });
        }
        let found = space.load_u64(root + root::SHAPE);
        if let Some(stored) = Shape::new(found & u64::from(u32::MAX)) {
            shape = stored;
        }
        let expected = Self::shape_word(shape);
        if found != expected || first.bytes < root::BYTES + shape.node {
            let what = "bytes of a leaf, words of keys and values";
            return Err(Error::Mismatch { offset: root + root::SHAPE, found, expected, what });
        }
        let mut map = Self::assemble(env, extents, options, root, shape);
        if !map.resume()? {
            map.recover()?;
        }
        Ok(map)
    }

    fn checked(options: &Options) -> Result<Shape<K, V>, Error> {
        if options.latches == 0 || options.threads == 0 || !(1..=BATCH_MAX).contains(&options.batch) {
            return Err(Error::Options("at least one latch and one thread, batches of 1 to 64"));
        }
        Shape::new(options.node).ok_or(Error::Options("a leaf is a multiple of 256 bytes with 4 to 64 pairs"))
    }

    fn shape_word(shape: Shape<K, V>) -> u64 {
        shape.node | (K::WORDS as u64) << 32 | (V::WORDS as u64) << 40
    }

    fn assemble(env: H, extents: X, options: &Options, root: u64, shape: Shape<K, V>) -> Self {
        let nodes = Nodes::new(env.space(), root, shape.node, root::BYTES, &extents);
        BTree {
            root,
            shape,
            options: *options,
            leaves: Arena::new(),
            inner: Inner::new(0),
            growth: env.mutex(Growth::default()),
            nodes: env.mutex(nodes),
            latches: (0..options.latches).map(|_| env.latch(())).collect(),
            passed: (0..options.latches).map(|_| env.space().observer().new_lock()).collect(),
            entries: (0, 0),
            changed: AtomicBool::new(true),
            extents,
            env,
        }
    }

    /// Finds out about a leaf that this map does not know yet; its latch is held, or nobody else is there.
    #[cold]
    pub(super) fn load_leaf(&self, number: u32) -> Result<(), Error> {
        let space = self.space();
        let nodes = self.env.lock(&self.nodes);
        let node = nodes.offset(number);
        let offset = space.load_u64(node);
        let next = match (offset, nodes.number(offset)) {
            (0, _) => None,
            (_, Some(next)) => Some((next, Shape::<K, V>::low_of(space, offset))),
            (_, None) => return Err(Error::Damaged { offset: node, what: "the next leaf's offset" }),
        };
        drop(nodes);
        // Lows rise along the chain, or readers would go round for ever. Only the head's may be the next
        // one's.
        let low = Shape::<K, V>::low_of(space, node);
        let rises = |(next, high): (u32, K)| next != 0 && (low < high || number == 0 && low == high);
        if !next.is_none_or(rises) {
            return Err(Error::Damaged { offset: node, what: "a next leaf that lies before it" });
        }
        let mut result = Ok(());
        self.leaf(number).change(|leaf| result = leaf.load(space, self.shape, node, next));
        space.fence();
        result
    }

    /// Reads all leaves.
    fn recover(&mut self) -> Result<(), Error> {
        let space = self.space();
        let ceiling = space.load_u64(self.root + root::CEILING);
        let mut nodes = self.env.lock(&self.nodes);
        if ceiling == 0 || ceiling > u64::from(nodes.total()) {
            let offset = self.root + root::CEILING;
            return Err(Error::Damaged { offset, what: "the number of leaves" });
        }
        (nodes.ceiling, nodes.next) = (ceiling as u32, ceiling as u32);
        drop(nodes);
        // What was stored by a process that was killed is made durable before anybody builds on it.
        space.flush(self.root, root::BYTES);
        let chain = self.find_leaves()?;
        let mut used = vec![false; ceiling as usize];
        for number in &chain {
            used[*number as usize] = true;
        }
        self.spread(chain.len() as u32, |part| {
            part.map(|at| chain[at as usize])
                .try_for_each(|number| self.load_leaf(number))
                .map(|()| Vec::<()>::new())
        })?;
        let free = (0..ceiling as u32).rev().filter(|number| !used[*number as usize]);
        self.env.lock(&self.nodes).free.extend(free);
        Ok(())
    }

    /// Makes inner nodes from the heads of the leaves; the leaves' numbers in ascending order of keys.
    pub(super) fn find_leaves(&self) -> Result<Vec<u32>, Error> {
        let mut growth = self.env.lock(&self.growth);
        let count = self.env.lock(&self.nodes).next;
        let heads: Vec<(u32, K)> = self.spread(count, |part| Ok(self.heads(part)))?;
        let mut chain: Vec<u32> = Vec::with_capacity(heads.len());
        let mut at = 0;
        while at != NONE {
            let Some(&(next, low)) = heads.get(at as usize) else {
                let offset = chain.last().map_or(self.root, |last| self.env.lock(&self.nodes).offset(*last));
                return Err(Error::Damaged { offset, what: "the next leaf's offset" });
            };
            let before = chain.last().map(|last| heads[*last as usize].1);
            // Only the head's low may be that of the next one, too.
            let rises = before.is_none_or(|before| before < low || chain.len() == 1 && before == low);
            if !rises || (at == 0 && low != K::from_words([0; 2])) {
                let offset = self.env.lock(&self.nodes).offset(at);
                return Err(Error::Damaged { offset, what: "the lowest key of a leaf" });
            }
            chain.push(at);
            at = next;
        }
        self.inner.build(&mut growth, chain.iter().map(|at| (heads[*at as usize].1, *at)));
        Ok(chain)
    }

    /// The numbers of the next leaves, and the lows, of some leaves.
    fn heads(&self, part: Range<u32>) -> Vec<(u32, K)> {
        let space = self.space();
        // A table of its own, so that threads do not wait for each other.
        let nodes = Nodes::new(space, self.root, self.shape.node, root::BYTES, &self.extents);
        let head = |number| {
            let node = nodes.offset(number);
            let next = match space.load_u64(node) {
                0 => NONE,
                offset => nodes.number(offset).unwrap_or(NO_LEAF),
            };
            (next, Shape::<K, V>::low_of(space, node))
        };
        part.map(head).collect()
    }

    /// Does something with the numbers below `count`, on several threads if there are many; all results.
    fn spread<T: Send>(
        &self,
        count: u32,
        body: impl Fn(Range<u32>) -> Result<Vec<T>, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let threads = if count < FEW { 1 } else { self.options.threads };
        if threads == 1 {
            return body(0..count);
        }
        let each = count.div_ceil(threads);
        let results: Vec<Mutex<Result<Vec<T>, Error>>> =
            (0..threads).map(|_| Mutex::new(Ok(Vec::new()))).collect();
        self.env.threads(threads, |thread| {
            let from = thread * each;
            let result = body(from.min(count)..(from + each).min(count));
            *results[thread as usize].lock().unwrap_or_else(PoisonError::into_inner) = result;
        });
        let mut all = Vec::with_capacity(count as usize);
        for result in results {
            all.extend(result.into_inner().unwrap_or_else(PoisonError::into_inner)?);
        }
        Ok(all)
    }
}
