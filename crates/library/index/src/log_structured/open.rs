//! A new tree, and one that is there already.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use space::{Env, Space};

use super::layout::{CHUNK_HEAD, Root};
use super::log::{Chunk, Log, Pool, chunks_of};
use super::mapping::CACHED_MAX;
use super::record::{Content, Kind, NONE, Record};
use super::{Bytes, EnvOf, Flaw, LogTree, Numbers, Options, STRIPES, broken};
use crate::arena::Arena;
use crate::inner::{Growth, Inner};
use crate::{Error, Extents, Fixed};

/// Leaf 0: the leftmost, always there.
const FIRST: u32 = 0;

impl<H, K, V, X> LogTree<H, K, V, X>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    K: Fixed,
    V: Fixed,
    X: Extents<<EnvOf<H> as Env>::Space>,
{
    /// Makes an empty tree. Until this returns there is none, whatever a crash leaves.
    ///
    /// # Errors
    /// If the options are out of range, there is a tree already, or the space has no room for a chunk.
    pub fn create(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        let space = env.space();
        let first = extents.all(space)[0];
        Root::check_new(space, first.offset)?;
        let pair = 8 * (K::WORDS + V::WORDS) as u64;
        let root = Root {
            offset: first.offset,
            chunk_bytes: options.chunk,
            capacity: options.node / pair,
            logs: options.logs,
        };
        root.check::<K, V>()?;
        root.write::<_, K, V>(space);
        let free: Vec<u64> = chunks_of(&root, first).collect();
        for offset in &free {
            space.store_u64(*offset, 0);
            space.flush(*offset, 8);
        }
        space.fence();
        let total = free.len() as u64;
        let tree = Self::assemble(env, extents, options, root, Pool { free, total, next: 1, ceiling: 1 })?;
        tree.append(FIRST, 0, &Content::Whole { pairs: &[], high: None, next: NONE }, true)?;
        root.finish(tree.space());
        let LogTree { env, extents, .. } = tree;
        Self::open(env, extents, options)
    }

    /// A tree of which nothing is known yet.
    fn assemble(env: H, extents: X, options: &Options, root: Root, pool: Pool) -> Result<Self, Error> {
        if !(1..=CACHED_MAX).contains(&options.cached) {
            return Err(Error::Options("there are not 1 to 8 records that are asked for at the same time"));
        }
        Ok(LogTree {
            extents,
            options: *options,
            root,
            inner: Inner::new(FIRST),
            leaves: Arena::new(),
            stripes: (0..STRIPES).map(|_| env.mutex(())).collect(),
            logs: (0..root.logs).map(|_| env.mutex(Log::default())).collect(),
            collectors: (0..root.logs).map(|_| env.mutex(())).collect(),
            bytes: (0..root.logs).map(|_| Bytes::default()).collect(),
            pool: env.mutex(pool),
            growth: env.mutex(Growth::default()),
            numbers: env.mutex(Numbers::default()),
            kind: PhantomData,
            env,
        })
    }

    /// Opens the tree that is there: reads all logs, with the threads that the options say.
    ///
    /// # Errors
    /// If there is none of such keys and values, or it is damaged.
    pub fn open(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        let space = env.space();
        let all = extents.all(space);
        let root = Root::read::<_, K, V>(space, all[0].offset)?;
        let counted = root.extents(space);
        if counted == 0 || counted > all.len() as u64 {
            return Err(Error::Damaged { offset: root.offset, what: "the number of extents" });
        }
        let mut pool =
            Pool { free: Vec::new(), total: 0, next: root.ceiling(space), ceiling: root.ceiling(space) };
        let mut chunks: Vec<Vec<Chunk>> = vec![Vec::new(); root.logs];
        for (number, extent) in (0..).zip(&all) {
            for offset in chunks_of(&root, *extent) {
                pool.total += 1;
                // An extent that is not counted was added just before a crash.
                match Chunk::read(space, offset).filter(|_| number < counted) {
                    Some((log, chunk)) if log < root.logs && chunk.number < pool.next => {
                        chunks[log].push(chunk);
                    }
                    Some(_) => return Err(Error::Damaged { offset, what: "the head of a chunk" }),
                    None => {
                        space.store_u64(offset, 0);
                        space.flush(offset, 8);
                        pool.free.push(offset);
                    }
                }
            }
        }
        space.fence();
        if counted < all.len() as u64 {
            root.set_extents(space, all.len() as u64);
        }
        let tree = Self::assemble(env, extents, options, root, pool)?;
        tree.replay(chunks)?;
        tree.connect()?;
        Ok(tree)
    }

    /// Reads the logs, several at a time.
    fn replay(&self, chunks: Vec<Vec<Chunk>>) -> Result<(), Error> {
        let threads = self.options.threads.clamp(1, self.root.logs as u32);
        let most = self.env.mutex(Ok(0));
        self.env.threads(threads, |thread| {
            let mut found = Ok(0);
            for log in (thread as usize..self.root.logs).step_by(threads as usize) {
                let mut chunks: VecDeque<Chunk> = chunks[log].iter().copied().collect();
                chunks.make_contiguous().sort_unstable();
                let mut words = Vec::new();
                for chunk in &chunks {
                    found =
                        found.and_then(|found: u32| Ok(found.max(self.replay_chunk(*chunk, &mut words)?)));
                }
                self.bytes[log].used.store(self.root.chunk_bytes * chunks.len() as u64, Relaxed);
                // What comes next takes a new chunk: behind the last record is, perhaps, a torn one.
                *self.env.lock(&self.logs[log]) = Log { chunks, at: self.root.chunk_bytes, words };
            }
            let mut most = self.env.lock(&most);
            *most = most.clone().and_then(|most: u32| Ok(most.max(found?)));
        });
        let most = self.env.lock(&most).clone()?;
        self.env.lock(&self.numbers).next = most + 1;
        Ok(())
    }

    /// Reads the records of a chunk; the highest number of a leaf.
    fn replay_chunk(&self, chunk: Chunk, words: &mut Vec<u64>) -> Result<u32, Error> {
        let space = self.space();
        // More leaves than records there are not.
        let numbers = space.len() / 32;
        let end = chunk.offset + self.root.chunk_bytes;
        let mut at = CHUNK_HEAD;
        let mut most = 0;
        loop {
            let position = chunk.position(at);
            let record = if self.options.flaw == Flaw::Unchecked {
                Record::read::<_, K, V>(space, chunk.offset + at, end)
                    .filter(|record| record.position(space) == position)
            } else {
                Record::read_whole::<_, K, V>(space, chunk.offset + at, end, position, words)
            };
            let Some(record) = record else { break };
            if u64::from(record.leaf(space)) > numbers || !self.replay_record(&record, position) {
                return Err(Error::Damaged { offset: record.at, what: "a record of a leaf" });
            }
            most = most.max(record.leaf(space));
            at += record.bytes::<K, V>();
        }
        // A process that was killed may have left what is not durable; from here on it must be.
        space.persist(chunk.offset, at);
        Ok(most)
    }

    /// Enters a record into the mapping table; false if one before it is missing.
    fn replay_record(&self, record: &Record, position: u64) -> bool {
        let space = self.space();
        let leaf = self.leaf(record.leaf(space));
        let bytes = record.bytes::<K, V>();
        match record.kind {
            Kind::Whole { .. } => {
                let keys: Vec<K> = (0..record.count).map(|at| record.key::<_, K, V>(space, at)).collect();
                let link = (record.high(space), record.next(space).unwrap_or(NONE));
                leaf.change(|leaf| leaf.restart((record.at, position, bytes), keys.into_iter(), link));
            }
            // Of a chain whose whole record was given up: a newer one follows.
            Kind::Put | Kind::Remove if !leaf.exists() => {}
            Kind::Put | Kind::Remove if record.before(space) != leaf.newest(0) => return false,
            Kind::Put | Kind::Remove => {
                leaf.change(|leaf| leaf.push(record.at, bytes, record.key::<_, K, V>(space, 0)));
            }
        }
        true
    }

    /// Finds out which leaves are in use, and makes the inner nodes.
    fn connect(&self) -> Result<(), Error> {
        let mut numbers = self.env.lock(&self.numbers);
        let mut in_use = vec![false; numbers.next as usize];
        let mut leaves = Vec::new();
        let (mut number, mut low) = (FIRST, K::from_words([0; 2]));
        loop {
            let leaf = self.leaf(number);
            let seen = in_use.get_mut(number as usize).ok_or_else(|| broken(&self.root))?;
            if *seen || !leaf.exists() {
                return Err(broken(&self.root));
            }
            *seen = true;
            leaf.change(|leaf| leaf.set_low(low));
            leaves.push((low, number));
            self.bytes[self.log_of(number)].live.fetch_add(leaf.bytes(), Relaxed);
            match (leaf.high::<K>(), leaf.next()) {
                (None, None) => break,
                (Some(high), Some(next)) if high > low => (low, number) = (high, next),
                _ => return Err(broken(&self.root)),
            }
        }
        for (number, _) in (0..).zip(&in_use).filter(|(_, used)| !**used) {
            self.leaf(number).change(|leaf| leaf.forget());
            numbers.free.push(number);
        }
        let mut growth = self.env.lock(&self.growth);
        self.inner.build(&mut growth, leaves.into_iter());
        Ok(())
    }
}
