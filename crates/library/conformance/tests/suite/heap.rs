//! Long lives of a heap: blocks of all sizes are taken, given back, given up, moved, by several threads, by
//! processes that stop anywhere. Nobody else's bytes change, what is counted is what there is, there is no
//! room only if there is none, and what was given back can be had again.

use std::collections::BTreeMap;
use std::iter;
use std::sync::{Mutex, PoisonError};

use proptest::prelude::*;
use region::{Atomicity, Error, Geometry, Options, Pool, Redo, Untyped, UntypedTx, Usage};
use space::sim::{self, Schedule};
use space::{Env, Image, Sim, Space};

type Heap<'e, A> = Pool<&'e Sim<Image>, Untyped, A>;
type Region<'p, 'e, A> = UntypedTx<'p, &'e Sim<Image>, A>;

const CHUNK: u64 = 4096;
/// Chunks of a zone, one of which is its table.
const ZONE: u64 = CHUNK / 8;
/// What comes before the heap.
const BEFORE: u64 = 20480;
/// References in the root object.
const CELLS: usize = 40;

/// What a process does.
#[derive(Clone, Debug)]
enum Step {
    /// One region puts new blocks into so many cells from one on, in the place of what is there.
    Fill {
        from: usize,
        count: usize,
        bytes: u64,
    },
    /// One region gives back every so many-th.
    Empty {
        from: usize,
        stride: usize,
    },
    /// The same, and blocks are written to, in a region that is given up.
    GiveUp {
        from: usize,
        count: usize,
        bytes: u64,
    },
    Tidy {
        bytes: u64,
    },
    Checkpoint,
    /// Ends, and another one opens the pool.
    Open,
    Grow {
        chunks: u64,
    },
}

fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 1u64..1100,
        2 => 1100..3 * CHUNK,
        2 => Just(CHUNK),
        1 => (30..200u64).prop_map(|chunks| chunks * CHUNK),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let any_fill = || (0..CELLS, 1..CELLS / 2, any_bytes());
    prop_oneof![
        6 => any_fill().prop_map(|(from, count, bytes)| Step::Fill { from, count, bytes }),
        3 => (0..CELLS, 1usize..5).prop_map(|(from, stride)| Step::Empty { from, stride }),
        2 => any_fill().prop_map(|(from, count, bytes)| Step::GiveUp { from, count, bytes }),
        2 => any_bytes().prop_map(|bytes| Step::Tidy { bytes }),
        1 => Just(Step::Checkpoint),
        2 => Just(Step::Open),
        1 => (1u64..12).prop_map(|chunks| Step::Grow { chunks }),
    ]
}

/// A block that somebody has.
#[derive(Clone, Copy, Debug)]
struct Held {
    reference: u64,
    bytes: u64,
    value: u64,
}

/// Where a block holds its value: everywhere, or if it is very long at its ends and in each chunk.
fn places(bytes: u64) -> impl Iterator<Item = u64> {
    let step = if bytes <= 3 * CHUNK { 8 } else { CHUNK / 2 };
    (0..bytes / 8 * 8).step_by(step as usize).chain((bytes >= 16).then(|| bytes / 8 * 8 - 8))
}

/// Takes a block; none if there is no room.
fn take<A: Atomicity>(tx: &mut Region<'_, '_, A>, bytes: u64, value: u64) -> Option<Held> {
    match tx.alloc_bytes(bytes) {
        Ok(reference) => {
            let held = Held { reference, bytes, value };
            write(tx, &held);
            Some(held)
        }
        Err(Error::Full { .. }) => None,
        Err(error) => panic!("{}, {bytes} B: {error}", A::NAME),
    }
}

fn write<A: Atomicity>(tx: &mut Region<'_, '_, A>, held: &Held) {
    for at in places(held.bytes) {
        tx.store_bytes(held.reference + at, &(held.value + at).to_le_bytes()).expect("there is room");
    }
}

/// Whether a block holds its value.
fn holds<A: Atomicity>(pool: &Heap<'_, A>, held: &Held) -> bool {
    places(held.bytes).all(|at| {
        let mut word = [0; 8];
        pool.load_bytes(held.reference + at, &mut word).expect("it is in the pool");
        u64::from_le_bytes(word) == held.value + at
    })
}

/// Of slabs with blocks for so many bytes: blocks taken, and blocks in all.
fn slabs(usage: &Usage, bytes: u64) -> (u64, u64) {
    let sizes = iter::once(16).chain((0..5).flat_map(|power| [32 << power, 48 << power])).chain([1024]);
    let slabs = sizes.into_iter().find(|size| *size >= bytes).and_then(|size| usage.slabs.get(&size));
    slabs.map_or((0, 0), |&(_, taken, blocks)| (taken, blocks))
}

/// No block of so many bytes can be had: there are no such chunks, and slabs of its size are full.
fn is_full<A: Atomicity>(pool: &Heap<'_, A>, bytes: u64) {
    let usage = pool.usage();
    let chunks = bytes.div_ceil(CHUNK) * CHUNK;
    assert!(usage.longest_free < chunks, "{}: no room for {bytes} B in {usage:?}", A::NAME);
    let (taken, blocks) = slabs(&usage, bytes);
    assert_eq!(taken, blocks, "{}: no room for {bytes} B in slabs that have some", A::NAME);
}

/// What is free in slabs is taken before a chunk is.
fn is_thrifty<A: Atomicity>(pool: &Heap<'_, A>, bytes: u64) {
    let before = pool.usage();
    let (taken, blocks) = slabs(&before, bytes);
    if taken < blocks {
        let mut tx = pool.begin().expect("it is open to write");
        take(&mut tx, bytes, 0).expect("there is room");
        let free = pool.usage().free_chunks;
        assert_eq!(free, before.free_chunks, "{}: a chunk for {bytes} B, and {before:?}", A::NAME);
    }
}

/// A pool, and what must be in it.
struct Life<'e, A: Atomicity> {
    env: &'e Sim<Image>,
    pool: Heap<'e, A>,
    cells: BTreeMap<usize, Held>,
    /// Bytes of free chunks when nothing but the root object was there.
    free: u64,
    value: u64,
}

impl<'e, A: Atomicity> Life<'e, A> {
    fn new(env: &'e Sim<Image>, chunks: u64) -> Self {
        let geometry = Some(Geometry { logs: 2, log_bytes: 4096, chunk_bytes: CHUNK as u32 });
        let options = Options { geometry, bytes: Some(BEFORE + chunks * CHUNK) };
        let pool = Heap::create_named(env, &options, "heap", 8 * CELLS as u64).expect("it fits");
        let free = pool.usage().free_chunks;
        Life { env, pool, cells: BTreeMap::new(), free, value: 0 }
    }

    fn cell(&self, at: usize) -> u64 {
        self.pool.root_reference().0 + 8 * at as u64
    }

    /// Runs a region and ends it, if `work` says so; whether it did.
    fn region(
        &mut self,
        work: impl FnOnce(&mut Region<'_, 'e, A>, &mut BTreeMap<usize, Held>) -> bool,
    ) -> bool {
        let mut cells = self.cells.clone();
        let mut tx = self.pool.begin().expect("it is open to write");
        if !work(&mut tx, &mut cells) {
            return false;
        }
        let root = self.pool.root_reference().0;
        for at in 0..CELLS {
            let reference = |cells: &BTreeMap<usize, Held>| cells.get(&at).map_or(0, |held| held.reference);
            let (old, new) = (reference(&self.cells), reference(&cells));
            // By undo there may be no room to remember it.
            if old != new && tx.store_bytes(root + 8 * at as u64, &new.to_le_bytes()).is_err() {
                return false;
            }
        }
        match tx.commit() {
            Ok(()) => self.cells = cells,
            Err(Error::Full { .. }) => return false,
            Err(error) => panic!("{}: {error}", A::NAME),
        }
        true
    }

    fn step(&mut self, step: &Step) {
        self.value += 1 << 32;
        let value = self.value;
        match *step {
            Step::Fill { from, count, bytes } => {
                is_thrifty(&self.pool, bytes);
                let mut full = false;
                self.region(|tx, cells| {
                    (from..CELLS).take(count).all(|at| {
                        let taken = take(tx, bytes, value + at as u64);
                        full = taken.is_none();
                        let old = taken.and_then(|held| cells.insert(at, held));
                        old.is_none_or(|old| tx.free_block(old.reference).is_ok()) && !full
                    })
                });
                if full && A::NUMBER == <Redo as Atomicity>::NUMBER {
                    // Again, alone.
                    let mut tx = self.pool.begin().expect("it is open to write");
                    while take(&mut tx, bytes, value).is_some() {}
                    is_full(&self.pool, bytes);
                }
            }
            Step::Empty { from, stride } => {
                self.region(|tx, cells| {
                    for at in (from..CELLS).step_by(stride) {
                        if let Some(held) = cells.remove(&at) {
                            tx.free_block(held.reference).expect("it is there");
                            assert!(tx.free_block(held.reference).is_err(), "{}: twice", A::NAME);
                        }
                    }
                    true
                });
            }
            Step::GiveUp { from, count, bytes } => self.give_up(from, count, bytes),
            Step::Tidy { bytes } => self.tidy(bytes),
            Step::Checkpoint => self.pool.checkpoint().expect("the memory works"),
            Step::Open => {
                self.pool = Heap::open_named(self.env, "heap").expect("it is whole").0;
                self.all_hold();
            }
            Step::Grow { chunks } => {
                let (bytes, heap) = (self.pool.header().bytes, self.pool.usage().heap);
                if bytes + chunks * CHUNK <= self.env.space().len() {
                    self.pool.grow(bytes + chunks * CHUNK).expect("the space is longer");
                    self.free += self.pool.usage().heap - heap;
                }
            }
        }
        self.is_counted();
    }

    /// Takes blocks, writes to all there are and frees some, for nothing.
    fn give_up(&mut self, from: usize, count: usize, bytes: u64) {
        self.region(|tx, cells| {
            for at in (from..CELLS).take(count) {
                // An engine may find no room for so many words; what it has of them is given up.
                let Ok(reference) = tx.alloc_bytes(bytes) else { break };
                if places(bytes).any(|at| tx.store_bytes(reference + at, &[0xEE; 8]).is_err()) {
                    break;
                }
                if let Some(held) = cells.get(&at)
                    && (tx.store_bytes(held.reference, &[0xEE; 8][..held.bytes.min(8) as usize]).is_err()
                        || at % 3 == 0 && tx.free_block(held.reference).is_err())
                {
                    break;
                }
            }
            // What lies behind a new block is not new.
            let mut firsts = cells.values().map(|held| (held.reference, held.bytes.min(8) as usize));
            _ = firsts.all(|(at, count)| tx.store_bytes(at, &[0xEE; 8][..count]).is_ok());
            false
        });
        self.all_hold();
    }

    /// Moves what is worth it, and takes a block meanwhile.
    fn tidy(&mut self, bytes: u64) {
        let (root, sparse) = (self.pool.root_reference().0, self.pool.begin_moving());
        assert!(!self.pool.wants(&sparse, root), "{}: the root object stays", A::NAME);
        let has_room = self.pool.usage().free_chunks > 8 * CHUNK;
        let before = self.cells.clone();
        for (&at, &held) in &before {
            // Some stay, and what was closed for them is open again then. Of the large ones some are moved
            // that nobody asked for.
            let large = held.bytes > CHUNK / 4;
            if self.pool.wants(&sparse, held.reference) && at % 4 != 3 || large && at % 4 == 0 {
                let cell = self.cell(at);
                let mut tx = self.pool.begin().expect("it is open to write");
                let reference = tx.relocate(cell).expect("it is there");
                tx.commit().expect("there is room");
                if large {
                    assert!(reference <= held.reference, "{}: {held:?} is at {reference}", A::NAME);
                } else {
                    assert!(reference != held.reference, "{}: {held:?} stays", A::NAME);
                    assert!(!self.pool.wants(&sparse, reference), "{}: {held:?}", A::NAME);
                }
                self.cells.insert(at, Held { reference, ..held });
            }
        }
        let free = (0..CELLS).find(|at| !self.cells.contains_key(at));
        if let Some(at) = free.filter(|_| bytes <= CHUNK / 4 && has_room) {
            let (pool, value) = (&self.pool, self.value);
            let mut tx = pool.begin().expect("it is open to write");
            let held = take(&mut tx, bytes, value).expect("there is room");
            assert!(!pool.wants(&sparse, held.reference), "{}: a block of what is to become empty", A::NAME);
            tx.store_bytes(pool.root_reference().0 + 8 * at as u64, &held.reference.to_le_bytes())
                .expect("there is room");
            tx.commit().expect("there is room");
            self.cells.insert(at, held);
        }
        self.pool.end_moving(sparse).expect("the memory works");
        let small = self.cells.values().filter(|held| held.bytes <= CHUNK / 4);
        small.for_each(|held| is_thrifty(&self.pool, held.bytes));
    }

    fn all_hold(&self) {
        for (at, held) in &self.cells {
            assert!(holds(&self.pool, held), "{}: the block in cell {at}, {held:?}", A::NAME);
        }
    }

    /// What the pool says of itself is what there is, and adds up.
    fn is_counted(&self) {
        let (usage, blocks) = (self.pool.usage(), self.pool.block_references());
        let root = self.pool.root_reference().0;
        let mut expected: Vec<u64> = self.cells.values().map(|held| held.reference).chain([root]).collect();
        expected.sort_unstable();
        assert_eq!(blocks.iter().map(|block| block.0).collect::<Vec<_>>(), expected, "{}", A::NAME);
        assert!(blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{}: {blocks:x?}", A::NAME);
        let bytes = |reference| blocks[blocks.partition_point(|block| block.0 < reference)].1;
        for held in self.cells.values() {
            let bytes = bytes(held.reference);
            assert!(bytes >= held.bytes, "{}: {held:?} has {bytes} B", A::NAME);
            assert!(bytes < 64 || !bytes.is_power_of_two() || held.reference.is_multiple_of(64), "{held:x?}");
        }
        let taken = blocks.iter().map(|block| block.1).sum::<u64>();
        assert_eq!((usage.blocks, usage.taken), (blocks.len() as u64, taken), "{}", A::NAME);
        let slabs: u64 = usage.slabs.values().map(|slabs| slabs.0 * CHUNK).sum();
        let large: u64 = blocks.iter().map(|block| block.1).filter(|bytes| *bytes > CHUNK / 4).sum();
        assert_eq!(usage.free_chunks + slabs + large, usage.heap, "{}: {usage:?}", A::NAME);
        for (size, (slabs, taken, blocks)) in &usage.slabs {
            assert!(taken <= blocks && blocks * size < slabs * CHUNK, "{}: {usage:?}", A::NAME);
        }
    }

    /// Once all is given back, all of it is free again.
    fn ends(mut self) {
        self.step(&Step::Open);
        (0..4).rev().for_each(|from| self.step(&Step::Empty { from, stride: 4 }));
        let sparse = self.pool.begin_moving();
        self.pool.end_moving(sparse).expect("the memory works");
        self.is_counted();
        assert_eq!(self.pool.usage().free_chunks, self.free, "{}", A::NAME);
        if self.pool.header().bytes <= BEFORE + ZONE * CHUNK {
            assert_eq!(self.pool.usage().longest_free, self.free, "{}: it is one piece", A::NAME);
        }
    }
}

fn lives<A: Atomicity>(chunks: u64, steps: &[Step]) {
    let most = BEFORE + (chunks + 24) * CHUNK;
    let run = sim::run(Image::new(most), &Schedule::walk(1), |env| {
        let mut life = Life::<A>::new(env, chunks);
        steps.iter().for_each(|step| life.step(step));
        life.ends();
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_had_once_and_again(
        chunks in prop_oneof![6..24u64, ZONE - 8..ZONE + 4],
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        region::for_each_engine!(sound A => lives::<A>(chunks, &steps));
    }
}

/// What is on the table is all that there is, and once it is given back as much is free as before.
fn comes_back<A: Atomicity>(pool: &Heap<'_, A>, table: &[Held], free: u64, seed: u64) {
    let blocks: Vec<u64> = pool.block_references().iter().map(|block| block.0).collect();
    let root = pool.root_reference().0;
    let mut expected: Vec<u64> = table.iter().map(|held| held.reference).chain([root]).collect();
    expected.sort_unstable();
    assert_eq!(blocks, expected, "{}, seed {seed}", A::NAME);
    assert_eq!(pool.usage().blocks, blocks.len() as u64, "{}, seed {seed}", A::NAME);
    // A few at a time: by undo, longer regions need more room.
    for some in table.chunks(10) {
        let mut tx = pool.begin().expect("it is open to write");
        for held in some {
            assert!(holds(pool, held), "{}, seed {seed}: somebody else wrote to {held:x?}", A::NAME);
            tx.free_block(held.reference).expect("it is there");
        }
        tx.commit().expect("there is room");
    }
    let sparse = pool.begin_moving();
    pool.end_moving(sparse).expect("the memory works");
    let usage = pool.usage();
    assert_eq!((usage.free_chunks, usage.longest_free), (free, free), "{}, seed {seed}: {usage:?}", A::NAME);
}

/// Threads that take blocks and free each other's, in a pool in which there is hardly room.
fn are_exchanged<A: Atomicity>(seed: u64) {
    const THREADS: u32 = 3;
    const TURNS: u64 = 25;
    let chunks = 4 + seed % 4;
    let schedule = Schedule::walk(seed);
    let run = sim::run(Image::new(BEFORE + chunks * CHUNK), &schedule, |env| {
        let geometry = Some(Geometry { logs: 2, log_bytes: 4096, chunk_bytes: CHUNK as u32 });
        let pool =
            Heap::<A>::create_named(env, &Options { geometry, bytes: None }, "heap", 8).expect("it fits");
        let free = pool.usage().free_chunks;
        let table: Mutex<Vec<Held>> = Mutex::default();
        let table = || table.lock().unwrap_or_else(PoisonError::into_inner);
        env.threads(THREADS, |thread| {
            let mut random = seed * u64::from(THREADS) + u64::from(thread);
            let mut chance = |count: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % count
            };
            for turn in 1..=TURNS {
                let there = table().len() as u64;
                let given = (0..chance(4).min(there)).filter_map(|_| {
                    let mut table = table();
                    let at = table.len().checked_sub(1)? as u64;
                    Some(table.swap_remove(chance(at + 1) as usize))
                });
                let given: Vec<Held> = given.collect();
                let mut tx = pool.begin().expect("it is open to write");
                for held in &given {
                    assert!(holds(&pool, held), "{}, seed {seed}: somebody else wrote to {held:x?}", A::NAME);
                    tx.free_block(held.reference).expect("it is there");
                }
                let bytes = [24, 200, 1000, CHUNK][chance(4) as usize];
                let value = u64::from(thread + 1) << 48 | turn << 32;
                let taken: Vec<Held> =
                    (0..chance(8)).filter_map(|at| take(&mut tx, bytes, value + at)).collect();
                let is_given_up = chance(5) == 0;
                let ended = if is_given_up {
                    drop(tx);
                    false
                } else {
                    tx.commit().is_ok()
                };
                table().extend(if ended { taken } else { given });
            }
        });
        let table = std::mem::take(&mut *table());
        comes_back(&pool, &table, free, seed);
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn threads_exchange_blocks_where_there_is_hardly_room() {
    for seed in 0..60 {
        region::for_each_engine!(sound A => are_exchanged::<A>(seed));
    }
}

/// More blocks than a word of the slab's map has bits, and the first one is free again.
#[test]
fn what_was_full_has_room_again() {
    let run = sim::run(Image::new(BEFORE + 8 * CHUNK), &Schedule::walk(1), |env| {
        let pool = Life::<Redo>::new(env, 8).pool;
        let mut blocks = Vec::new();
        while blocks.is_empty() || slabs(&pool.usage(), 16).0 < slabs(&pool.usage(), 16).1 {
            let mut tx = pool.begin().expect("it is open to write");
            blocks.push(tx.alloc_bytes(16).expect("there is room"));
            tx.commit().expect("there is room");
        }
        assert!(blocks.len() > 128, "{}", blocks.len());
        let mut tx = pool.begin().expect("it is open to write");
        tx.free_block(blocks[0]).expect("it is there");
        tx.commit().expect("there is room");
        is_thrifty(&pool, 16);
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
}
