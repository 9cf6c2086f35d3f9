//! The allocator under several threads: each takes from slabs of its own and frees what others took. Whatever
//! a crash leaves, blocks that are allocated are those that can be reached, and those that are free can be
//! had, once each.

use std::collections::BTreeSet;
use std::sync::Mutex;

use region::{Atomicity, Error, Geometry, Layout, Options, Pool, Ptr, Redo, Untyped, flaw};
use space::sim::Schedule;
use space::{Env, Image, Scratch};
use strandline::check::{self, Check, Run, Scene};
use strandline::crash::{Outcome, Platform};

use crate::desk::{self, check_threads, clean};

/// A list that threads share, under a lock.
struct Board;
region::persistent! { Board:
    struct Root { first: Ptr<Slip, Board> }
    struct Slip { text: [u64; 3], next: Ptr<Slip, Board> }
}
impl Layout for Board {
    const NAME: &'static str = "board";
    type Root = Root;
}

type Boards<'e, E, A> = Pool<&'e E, Board, A>;

/// Room for a zone's table, the root's slab, and so many others.
const fn bytes(slabs: u64) -> u64 {
    16384 + (2 + slabs) * 4096
}

const OPTIONS: Options =
    Options { geometry: Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 4096 }), bytes: None };
const THREADS: u32 = 3;

fn push<E: Env, A: Atomicity>(pool: &Boards<'_, E, A>, text: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let next = tx.get(tx.root()).first;
        let first = tx.alloc(Slip { text: [text; 3], next })?;
        tx.set(tx.root(), Root { first })
    })
}

/// Takes the first one away; given up in the end, if so.
fn pop<E: Env, A: Atomicity>(pool: &Boards<'_, E, A>, give_up: bool) -> Result<(), Error> {
    pool.region(|tx| {
        let first = tx.get(tx.root()).first;
        let next = tx.get(first).next;
        tx.set(tx.root(), Root { first: next })?;
        tx.free(first)?;
        if give_up { Err(Error::Aborted("enough".to_owned())) } else { Ok(()) }
    })
}

/// What is on the board, and its blocks.
fn slips<E: Env, A: Atomicity>(pool: &Boards<'_, E, A>) -> Result<(Vec<u64>, BTreeSet<u64>), String> {
    let mut blocks = BTreeSet::from([pool.root().offset()]);
    let mut texts = Vec::new();
    let mut at = pool.get(pool.root()).first;
    while let Some(slip) = at.get() {
        let Slip { text, next } = pool.get(slip);
        if text != [text[0]; 3] || !blocks.insert(slip.offset()) {
            return Err(format!("half a slip, or one that leads to itself, behind {texts:?}"));
        }
        texts.push(text[0]);
        at = next;
    }
    texts.reverse();
    Ok((texts, blocks))
}

/// Three slips by one thread, then the pool is opened again and three threads put slips there and take
/// others' away. What was on the board after each region.
fn work<A: Atomicity>(env: &impl Env, states: &Mutex<Vec<Vec<u64>>>) {
    let mut board: Vec<u64> = (1..4).collect();
    let mut all: Vec<Vec<u64>> = (0..=board.len()).map(|count| board[..count].to_vec()).collect();
    let pool = Boards::<_, A>::create(env, &OPTIONS).expect("it fits");
    board.iter().for_each(|&text| push(&pool, text).expect("there is room"));
    drop(pool);
    let (pool, _) = Boards::<_, A>::open(env).expect("it is whole");
    let shared = env.mutex((&mut board, &mut all));
    // With a mistake, a thread may find less room than there is, and go without.
    env.threads(THREADS, |thread| {
        let mut own = u64::from(thread + 1) * 100;
        let mut put = || {
            let mut shared = env.lock(&shared);
            own += 1;
            if push(&pool, own).is_ok() {
                shared.0.push(own);
                let board = shared.0.clone();
                shared.1.push(board);
            }
        };
        let take = |give_up| {
            let mut shared = env.lock(&shared);
            if !shared.0.is_empty() && pop(&pool, give_up).is_ok() {
                shared.0.pop();
                let board = shared.0.clone();
                shared.1.push(board);
            }
        };
        put();
        put();
        take(thread == 1);
        put();
        (0..3).for_each(|_| take(false));
    });
    drop(shared);
    *states.lock().expect("nobody panicked") = all;
}

/// What is wrong with a pool, of which those boards are possible.
fn wrong<A: Atomicity>(image: &Scratch, expected: &[Vec<u64>]) -> Result<(), String> {
    let env = pmem::Os::new(image);
    let (pool, _) = Boards::<_, A>::open(&env).map_err(|error| error.to_string())?;
    let (texts, mut blocks) = slips(&pool)?;
    if !expected.contains(&texts) {
        return Err(format!("the board has {texts:?}, and not one of {expected:?}"));
    }
    let allocated: BTreeSet<u64> = pool.blocks().into_iter().map(|(offset, _)| offset).collect();
    if allocated != blocks {
        return Err(format!("allocated are {allocated:x?}, reachable {blocks:x?}"));
    }
    // What is free is nobody else's, and can be had once.
    for _ in 0..3 {
        let new = pool.region(|tx| tx.alloc(Slip { text: [0; 3], next: Ptr::NULL }));
        let new = new.map_err(|error| error.to_string())?;
        if !blocks.insert(new.offset()) {
            return Err(format!("{:#x} was not free", new.offset()));
        }
    }
    Ok(())
}

/// By three threads in a pool with room for so many slabs of slips.
fn checked<S: Atomicity, A: Atomicity>(slabs: u64, seed: u64) -> (Run, Outcome) {
    let states = Mutex::default();
    let run = check::record(bytes(slabs), Platform::ADR, &Schedule::walk(seed), |env: &Scene| {
        work::<S>(env, &states);
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let states = states.into_inner().expect("nobody panicked");
    let outcome = Check::new(&run).run(|image, crash| {
        if crash.begun() == 0 {
            return Ok(());
        }
        let ended = crash.ended_regions().count();
        wrong::<A>(image, &states[ended..states.len().min(ended + 2)])
    });
    (run, outcome)
}

fn are_accounted_for<A: Atomicity>() {
    // A slab for each thread, and one for all of them.
    for (slabs, seed) in [(3, 1), (3, 2), (1, 3), (1, 4)] {
        let (run, outcome) = checked::<A, A>(slabs, seed);
        clean(&run, &outcome);
    }
}

#[test]
fn blocks_that_threads_exchange_are_accounted_for() {
    region::for_each_engine!(sound A => are_accounted_for::<A>());
}

fn caught<S: Atomicity>(name: &str, slabs: u64) {
    let found = (0..20).any(|seed| !checked::<S, Redo>(slabs, seed).1.findings.is_empty());
    assert!(found, "{name} was not found");
}

#[test]
fn mistakes_of_the_allocator_are_caught() {
    caught::<Redo<flaw::HandedOutTwice>>("a slab that two threads have", 3);
    // Two threads with lists of their own, and one slab for both.
    let narrow = Options { bytes: Some(desk::BYTES - 4096), ..desk::SMALL };
    let check = |seed| check_threads::<Redo<flaw::FreedEarly>, Redo>(&narrow, seed).1;
    assert!(
        (0..20).any(|seed| !check(seed).findings.is_empty()),
        "a block that is taken too soon was not found"
    );
    for seed in 0..6 {
        let (run, outcome) = check_threads::<Redo, Redo>(&narrow, seed);
        clean(&run, &outcome);
    }
}

/// A block with its first word in each of its ends.
fn take<A: Atomicity>(pool: &Pool<&pmem::Os<Image>, Untyped, A>, bytes: u64) -> (u64, u64) {
    let mut tx = pool.begin().expect("it is open to write");
    let block = tx.alloc_bytes(bytes).expect("there is room");
    tx.store_bytes(block, &block.to_le_bytes()).expect("it is there");
    tx.store_bytes(block + bytes - 8, &block.to_le_bytes()).expect("it is there");
    tx.commit().expect("it is durable");
    (block, bytes)
}

fn give<A: Atomicity>(pool: &Pool<&pmem::Os<Image>, Untyped, A>, (block, bytes): (u64, u64)) {
    for at in [block, block + bytes - 8] {
        let mut word = [0; 8];
        pool.load_bytes(at, &mut word).expect("it is there");
        assert_eq!(u64::from_le_bytes(word), block, "somebody else wrote to {at:#x}");
    }
    let mut tx = pool.begin().expect("it is open to write");
    tx.free_block(block).expect("it is allocated");
    tx.commit().expect("it is durable");
}

/// Blocks of many sizes, by real threads that free each other's: each is somebody's once, and opened again
/// the pool says the same.
#[test]
fn real_threads_exchange_blocks() {
    let env = &pmem::Os::new(Image::new(8 << 20));
    let pool = Pool::<_, Untyped, Redo>::create_named(env, &Options::default(), "bench", 8).expect("it fits");
    let bench: Mutex<Vec<(u64, u64)>> = Mutex::default();
    env.threads(4, |thread| {
        let mut random = u64::from(thread) + 1;
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut there = bench.lock().expect("nobody panicked");
            let old = match there.len() {
                0..100 => None,
                count if count < 200 && random >> 63 == 0 => None,
                count => Some(there.swap_remove((random >> 32) as usize % count)),
            };
            drop(there);
            match old {
                Some(block) => give(&pool, block),
                None => {
                    let block = take(&pool, 16 + (random >> 50) % 3000);
                    bench.lock().expect("nobody panicked").push(block);
                }
            }
        }
    });
    let there = bench.into_inner().expect("nobody panicked");
    let mut blocks: Vec<u64> = there.iter().map(|block| block.0).collect();
    blocks.push(pool.root_reference().0);
    blocks.sort_unstable();
    let allocated = |pool: &Pool<_, Untyped, Redo>| -> Vec<u64> {
        pool.block_references().into_iter().map(|(block, _)| block).collect()
    };
    assert_eq!(allocated(&pool), blocks);
    assert_eq!(pool.usage().blocks, blocks.len() as u64);
    there[..50].iter().for_each(|&block| give(&pool, block));
    let left = allocated(&pool);
    assert_eq!(left.len(), blocks.len() - 50);
    drop(pool);
    let (pool, _) = Pool::<_, Untyped, Redo>::open_named(env, "bench").expect("it is whole");
    assert_eq!(allocated(&pool), left);
    there[50..].iter().for_each(|&block| give(&pool, block));
    assert_eq!(pool.usage().blocks, 1);
}
