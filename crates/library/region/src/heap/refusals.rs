//! What the heap makes of an engine that refuses: nothing is lost, and nothing is handed out that logs may
//! name. And of one that takes its time: what overflow extents hold to it is nobody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use space::sim::{self, Schedule};
use space::{Env, Image, Sim};

use crate::engine::{Atomicity, Engine, ExtendLog, Extent, Logs, Overflow, Recovered, Ticket};
use crate::{
    Change, Error, Geometry, Group, MicroBuffer, Options, Pool, Redo, Shadow, Ssp, Undo, Untyped, UntypedTx,
};

/// Regions as `A` makes them, under watch.
struct Watched<A>(PhantomData<A>);

impl<A: Atomicity> Atomicity for Watched<A> {
    const NUMBER: u32 = A::NUMBER;
    const NAME: &'static str = A::NAME;
    type Engine<E: Env> = Watch<E, A::Engine<E>>;
}

/// An engine that can be asked to refuse. It has been asked for what it does, so it knows what its logs may
/// name.
struct Watch<E: Env, I> {
    engine: I,
    seen: Mutex<Seen>,
    /// Whoever takes it lets others go on.
    pause: E::Mutex<()>,
}

#[derive(Default)]
struct Seen {
    /// So many calls are answered before one is refused, or all from then on.
    left: Option<u64>,
    for_good: bool,
    refused: u64,
    /// Words that logs may name.
    named: BTreeSet<u64>,
    /// Chunks of overflow extents, and how many there ever were.
    extents: BTreeSet<u64>,
    loans: usize,
}

/// A region under way: the words that it writes, and the chunks of its overflow extents.
struct Region<R> {
    under: R,
    words: Vec<u64>,
    extents: Vec<u64>,
}

impl<E: Env, I> Watch<E, I> {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, left: Option<u64>, for_good: bool) {
        let mut seen = self.seen();
        (seen.left, seen.for_good) = (left, for_good);
    }

    /// Whether a call is answered.
    fn answers(&self) -> Result<(), Error> {
        let mut seen = self.seen();
        match seen.left {
            None => Ok(()),
            Some(0) => {
                seen.left = seen.for_good.then_some(0);
                seen.refused += 1;
                Err(Error::Exhausted)
            }
            Some(left) => {
                seen.left = Some(left - 1);
                Ok(())
            }
        }
    }

    fn lends(&self, extents: &Extent) {
        let mut seen = self.seen();
        seen.loans += extents.chunks.len();
        for &chunk in &extents.chunks {
            assert!(seen.extents.insert(chunk), "the chunk at {chunk:#x} is in two overflow extents");
        }
    }

    /// A region has ended, but its thread does not know it yet.
    fn ended(&self, env: &E, chunks: &[u64]) {
        (0..4).for_each(|_| drop(env.lock(&self.pause)));
        chunks.iter().for_each(|chunk| _ = self.seen().extents.remove(chunk));
    }
}

impl<E: Env, I: Engine<E>> Engine<E> for Watch<E, I> {
    type Region = Region<I::Region>;

    const IN_PLACE: bool = I::IN_PLACE;

    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error> {
        I::recover(space, logs)
    }

    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self {
        Watch { engine: I::new(env, logs, recovered), seen: Mutex::default(), pause: env.mutex(()) }
    }

    fn begin(&self, env: &E) -> Self::Region {
        Region { under: self.engine.begin(env), words: Vec::new(), extents: Vec::new() }
    }

    fn load(&self, env: &E, region: &Self::Region, offset: u64) -> u64 {
        self.engine.load(env, &region.under, offset)
    }

    fn read(&self, env: &E, offset: u64, bytes: &mut [u8]) {
        self.engine.read(env, offset, bytes);
    }

    fn store(&self, env: &E, region: &mut Self::Region, offset: u64, value: u64) -> Result<(), Error> {
        self.answers()?;
        region.words.push(offset);
        self.engine.store(env, &mut region.under, offset, value)
    }

    fn change(&self, env: &E, region: &mut Self::Region, offset: u64, change: Change) -> Result<(), Error> {
        self.answers()?;
        region.words.push(offset);
        self.engine.change(env, &mut region.under, offset, change)
    }

    fn commit(&self, env: &E, region: Self::Region) -> Result<Ticket, Error> {
        let done = match self.answers() {
            Ok(()) => self.engine.commit(env, region.under),
            Err(refused) => {
                self.engine.abort(env, region.under);
                Err(refused)
            }
        };
        self.ended(env, &region.extents);
        self.seen().named.extend(region.words);
        done
    }

    fn is_due(&self, env: &E, ticket: Ticket) -> bool {
        self.engine.is_due(env, ticket)
    }

    fn wait(&self, env: &E, ticket: Ticket) -> Result<(), Error> {
        self.engine.wait(env, ticket)
    }

    fn sync(&self, env: &E) -> Result<(), Error> {
        self.engine.sync(env)
    }

    fn abort(&self, env: &E, region: Self::Region) {
        self.engine.abort(env, region.under);
        self.ended(env, &region.extents);
    }

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        self.answers()?;
        self.engine.set_alone(env, offset, value)
    }

    fn checkpoint(&self, env: &E) -> Result<(), Error> {
        self.answers()?;
        self.engine.checkpoint(env)?;
        self.seen().named.clear();
        Ok(())
    }

    fn overflow(&self) -> Option<&impl Overflow<E, Self::Region>> {
        self.engine.overflow().map(|_| self)
    }

    fn extension(&self) -> Option<&impl ExtendLog<E, Self::Region>> {
        self.engine.extension().map(|_| self)
    }
}

impl<E: Env, I: Engine<E>> Overflow<E, Region<I::Region>> for Watch<E, I> {
    fn overflow_words(&self, region: &Region<I::Region>) -> u64 {
        self.engine.overflow().map_or(0, |overflow| overflow.overflow_words(&region.under))
    }

    fn commit_overflow(&self, env: &E, region: Region<I::Region>, extent: &Extent) -> Result<Ticket, Error> {
        self.lends(extent);
        let overflow = self.engine.overflow().expect("it has overflowed");
        let done = match self.answers() {
            Ok(()) => overflow.commit_overflow(env, region.under, extent),
            Err(refused) => {
                self.engine.abort(env, region.under);
                Err(refused)
            }
        };
        self.ended(env, &extent.chunks);
        self.seen().named.extend(region.words.iter().chain(&extent.chunks));
        done
    }
}

impl<E: Env, I: Engine<E>> ExtendLog<E, Region<I::Region>> for Watch<E, I> {
    fn extend_log(&self, env: &E, region: &mut Region<I::Region>, extent: Extent) {
        self.lends(&extent);
        region.extents.extend(&extent.chunks);
        let extension = self.engine.extension().expect("it extends logs");
        extension.extend_log(env, &mut region.under, extent);
    }

    fn take_extent(&self, region: &mut Region<I::Region>) -> Option<Extent> {
        self.engine.extension()?.take_extent(&mut region.under)
    }
}

type Heap<'e, A> = Pool<&'e Sim<Image>, Untyped, Watched<A>>;
type Tx<'p, 'e, A> = UntypedTx<'p, &'e Sim<Image>, Watched<A>>;
/// Reference and bytes, by cell.
type Blocks = BTreeMap<u64, (u64, u64)>;

const CHUNK: u64 = 4096;
/// What comes before the heap.
const BEFORE: u64 = 16384;
/// References in the root object.
const CELLS: u64 = 12;
/// Words behind them.
const WORDS: u64 = 40;

fn create<A: Atomicity>(env: &Sim<Image>) -> Heap<'_, A> {
    let geometry = Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: CHUNK as u32 });
    Heap::create_named(env, &Options { geometry, bytes: None }, "heap", 8 * (CELLS + WORDS)).expect("it fits")
}

fn word<A: Atomicity>(pool: &Heap<'_, A>, at: u64) -> u64 {
    pool.root_reference().0 + 8 * (CELLS + at)
}

/// Sets all words, no two of them in one run: more than a log holds.
fn widen<A: Atomicity>(pool: &Heap<'_, A>, tx: &mut Tx<'_, '_, A>, value: u64) -> Result<(), Error> {
    (0..WORDS).rev().try_for_each(|at| tx.store_bytes(word(pool, at), &value.to_le_bytes()))
}

/// A heap, and the blocks that must be in it.
struct Life<'e, A: Atomicity> {
    pool: Heap<'e, A>,
    blocks: Blocks,
    random: u64,
}

impl<'e, A: Atomicity> Life<'e, A> {
    fn chance(&mut self, count: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % count
    }

    /// A region that keeps what it did if `work` and its end succeed. If the engine refused anything, it
    /// fails.
    fn region(
        &mut self,
        work: impl FnOnce(&Heap<'e, A>, &mut Tx<'_, 'e, A>, &mut Blocks) -> Result<(), Error>,
    ) {
        let refused = self.pool.engine.seen().refused;
        let mut blocks = self.blocks.clone();
        let mut tx = self.pool.begin().expect("it is open to write");
        let done = work(&self.pool, &mut tx, &mut blocks).and_then(|()| tx.commit());
        match done {
            Ok(()) => self.blocks = blocks,
            Err(Error::Full { .. } | Error::Exhausted) => {}
            Err(error) => panic!("{}: {error}", A::NAME),
        }
        let refused = self.pool.engine.seen().refused > refused;
        assert!(!refused || done == Err(Error::Exhausted), "{}: refused, and {done:?}", A::NAME);
    }

    /// Puts new blocks into cells, in the place of what is there.
    fn fill(&mut self, from: u64, count: u64, bytes: u64) {
        self.region(|pool, tx, blocks| {
            (from..CELLS).take(count as usize).try_for_each(|at| {
                let new = tx.alloc_bytes(bytes)?;
                unnamed(pool, new, bytes);
                tx.store_bytes(new, &[7; 16])?;
                tx.store_bytes(pool.root_reference().0 + 8 * at, &new.to_le_bytes())?;
                match blocks.insert(at, (new, bytes)) {
                    Some((old, _)) => tx.free_block(old),
                    None => Ok(()),
                }
            })
        });
    }

    fn empty(&mut self, from: u64, stride: u64) {
        self.region(|_, tx, blocks| {
            (from..CELLS)
                .step_by(stride as usize)
                .filter_map(|at| blocks.remove(&at))
                .try_for_each(|(old, _)| tx.free_block(old))
        });
    }

    /// Moves what is worth it.
    fn tidy(&mut self) {
        let sparse = self.pool.begin_moving();
        for (at, (old, bytes)) in self.blocks.clone() {
            if self.pool.wants(&sparse, old) {
                self.region(|pool, tx, blocks| {
                    let new = tx.relocate(pool.root_reference().0 + 8 * at)?;
                    if new != old {
                        unnamed(pool, new, bytes);
                    }
                    blocks.insert(at, (new, bytes));
                    Ok(())
                });
            }
        }
        let refused = self.pool.engine.seen().refused;
        let ended = self.pool.end_moving(sparse).is_ok();
        assert_eq!(ended, refused == self.pool.engine.seen().refused, "{}", A::NAME);
    }

    /// Does something, by chance.
    fn step(&mut self) {
        let (from, count) = (self.chance(CELLS), 1 + self.chance(4));
        match self.chance(12) {
            0..3 => self.fill(from, count, [16, 100, 700][count as usize % 3]),
            3..5 => self.fill(from, count, CHUNK),
            5..7 => self.empty(from, count),
            7 | 8 => self.region(|_, tx, blocks| {
                // They are not new any more, so this goes into a log.
                blocks.values().try_for_each(|(block, _)| tx.store_bytes(*block, &[8; 8]))
            }),
            9 => self.region(|pool, tx, _| widen(pool, tx, from)),
            _ => self.tidy(),
        }
        self.is_counted();
    }

    /// Every byte is free, or of a slab, or of a block that somebody has.
    fn is_counted(&self) {
        let (usage, blocks) = (self.pool.usage(), self.pool.block_references());
        let references: Vec<u64> = blocks.iter().map(|block| block.0).collect();
        let held = self.blocks.values().map(|block| block.0).chain([self.pool.root_reference().0]);
        assert_eq!(references, Vec::from_iter(held.collect::<BTreeSet<u64>>()), "{}", A::NAME);
        assert_eq!(usage.blocks, blocks.len() as u64, "{}", A::NAME);
        let slabs: u64 = usage.slabs.values().map(|slabs| slabs.0 * CHUNK).sum();
        let large: u64 = blocks.iter().map(|block| block.1).filter(|bytes| *bytes > CHUNK / 4).sum();
        assert_eq!(usage.free_chunks + slabs + large, usage.heap, "{}: {usage:?}", A::NAME);
    }
}

/// No log names any word of a block that has whole chunks: what is written there past them stays.
fn unnamed<A: Atomicity>(pool: &Heap<'_, A>, reference: u64, bytes: u64) {
    let begin = reference - pool.root_reference().0 + pool.root().offset();
    let in_place = <<Watched<A> as Atomicity>::Engine<Sim<Image>> as Engine<_>>::IN_PLACE;
    if bytes >= CHUNK && !in_place {
        let seen = pool.engine.seen();
        let named = seen.named.range(begin..begin + bytes).next();
        assert_eq!(named, None, "{}: the block at {begin:#x} is one that logs name", A::NAME);
    }
}

/// A life in which the engine refuses a call, or all from then on; whether it lasted that long.
fn loses_nothing<A: Atomicity>(seed: u64, left: u64, for_good: bool) -> bool {
    let run = sim::run(Image::new(BEFORE + 10 * CHUNK), &Schedule::walk(1), |env| {
        let pool = create::<A>(env);
        let free = pool.usage().free_chunks;
        pool.engine.refuse(Some(left), for_good);
        let mut life = Life { pool, blocks: BTreeMap::new(), random: seed };
        (0..60).for_each(|_| life.step());
        life.pool.engine.refuse(None, false);
        life.empty(0, 1);
        life.tidy();
        life.is_counted();
        assert_eq!(life.pool.usage().free_chunks, free, "{}", A::NAME);
        life.pool.engine.seen().refused > 0
    });
    let what = || format!("{}, seed {seed}, refused after {left}, for good: {for_good}", A::NAME);
    run.result.unwrap_or_else(|failure| panic!("{}: {failure}", what()))
}

#[test]
fn what_is_refused_is_not_lost() {
    fn of<A: Atomicity>(step: usize) {
        for seed in 0..2 {
            for for_good in [false, true] {
                let lasted = (0..).step_by(step).take_while(|left| loses_nothing::<A>(seed, *left, for_good));
                assert!(lasted.count() > 20, "{}", A::NAME);
            }
        }
    }
    of::<Redo>(1);
    of::<Undo>(5);
    of::<MicroBuffer>(5);
    of::<Shadow>(5);
    of::<Ssp>(5);
    of::<Group>(5);
}

/// One thread has long regions, and another one takes all the room there is, again and again. How many chunks
/// overflow extents had.
fn what_is_lent_stays<A: Atomicity>(seed: u64) -> usize {
    let run = sim::run(Image::new(BEFORE + 3 * CHUNK), &Schedule::walk(seed), |env| {
        let pool = create::<A>(env);
        env.threads(2, |thread| {
            for turn in 1..if thread == 0 { 5 } else { 40 } {
                let mut tx = pool.begin().expect("it is open to write");
                if thread == 0 {
                    // There may be no room. Every other one is given up.
                    let wide = widen(&pool, &mut tx, turn);
                    _ = wide.and_then(|()| if turn % 2 == 0 { tx.commit() } else { Ok(()) });
                } else if let Ok(block) = tx.alloc_bytes(CHUNK) {
                    let offset = block - pool.root_reference().0 + pool.root().offset();
                    let taken = pool.engine.seen().extents.contains(&offset);
                    assert!(
                        !taken,
                        "{}, seed {seed}: the chunk at {offset:#x} is in an overflow extent",
                        A::NAME
                    );
                }
            }
        });
        pool.engine.seen().loans
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn nobody_has_what_is_lent() {
    fn of<A: Atomicity>() {
        let loans: usize = (0..30).map(what_is_lent_stays::<A>).sum();
        assert!(loans >= 20, "{}: {loans}", A::NAME);
    }
    of::<Redo>();
    of::<Undo>();
    of::<MicroBuffer>();
    of::<Shadow>();
    of::<Group>();
}
