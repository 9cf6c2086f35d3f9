//! Blocks that are moved together, under the crash checker: each is whole in its old place or its new one,
//! nothing leaks, and chunks become free.

use std::collections::BTreeSet;

use region::{Atomicity, Geometry, Layout, Options, Pool, Ptr, Redo, flaw};
use space::sim::Schedule;
use space::{Env, Scratch};
use strandline::check::{self, Check, Run, Scene};
use strandline::crash::{Outcome, Platform};

use crate::desk::clean;

/// Drawers, some with a sheet in them.
struct Chest;
/// Three of them are a slab.
type Sheet = [u64; 120];
const DRAWERS: usize = 9;
impl Layout for Chest {
    const NAME: &'static str = "chest";
    type Root = [Ptr<Sheet, Chest>; DRAWERS];
}

type Chests<'e, E, A> = Pool<&'e E, Chest, A>;

const BYTES: u64 = 8 * 16384 + 8 * 4096;
const OPTIONS: Options =
    Options { geometry: Some(Geometry { logs: 2, log_bytes: 8192, chunk_bytes: 4096 }), bytes: None };

fn drawer<E: Env, A: Atomicity>(pool: &Chests<'_, E, A>, at: usize) -> Ptr<Ptr<Sheet, Chest>, Chest> {
    pool.root().element(at)
}

/// A chest in which every third drawer has a sheet, in a slab for itself.
fn sparse<'e, E: Env, A: Atomicity>(env: &'e E) -> Chests<'e, E, A> {
    let pool = Chests::<_, A>::create(env, &OPTIONS).expect("it fits");
    for at in 0..DRAWERS {
        let filled = pool.region(|tx| {
            let sheet = tx.alloc([at as u64; 120])?;
            tx.set(drawer(&pool, at), sheet)
        });
        filled.expect("there is room");
    }
    for at in (0..DRAWERS).filter(|at| at % 3 != 1) {
        let emptied = pool.region(|tx| {
            tx.free(tx.get(drawer(&pool, at)))?;
            tx.set(drawer(&pool, at), Ptr::NULL)
        });
        emptied.expect("it is there");
    }
    pool
}

/// Moves what is worth it; how many sheets that were, and how many chunks became free.
fn tidy<E: Env, A: Atomicity>(pool: &Chests<'_, E, A>) -> (usize, u64) {
    let moving = pool.moving();
    let mut moved = 0;
    for at in 0..DRAWERS {
        let old = pool.get(drawer(pool, at));
        if moving.wants(old) {
            let new = pool.region(|tx| tx.relocate(drawer(pool, at))).expect("it is there");
            assert!(new.offset() != old.offset() && !moving.wants(new));
            moved += 1;
        }
    }
    assert_eq!(moved, moving.blocks().len());
    (moved, moving.finish().expect("the memory works"))
}

/// What is wrong with a chest.
fn wrong<A: Atomicity>(image: &Scratch) -> Result<(), String> {
    let env = pmem::Os::new(image);
    let pool = match Chests::<_, A>::open(&env) {
        Ok((pool, _)) => pool,
        Err(error) => return Err(error.to_string()),
    };
    let mut blocks = BTreeSet::from([pool.root().offset()]);
    for at in (1..DRAWERS).step_by(3) {
        let sheet = pool.get(drawer(&pool, at));
        let words =
            sheet.get().map(|sheet| pool.get(sheet)).ok_or_else(|| format!("drawer {at} is empty"))?;
        if words != [at as u64; 120] || !blocks.insert(sheet.offset()) {
            return Err(format!("the sheet in drawer {at}: {words:?}"));
        }
    }
    let allocated: BTreeSet<u64> = pool.blocks().into_iter().map(|(offset, _)| offset).collect();
    if allocated != blocks {
        return Err(format!("allocated are {allocated:x?}, in drawers {blocks:x?}"));
    }
    Ok(())
}

fn keeps_sheets<A: Atomicity>() {
    let run = check::record(BYTES, Platform::ADR, &Schedule::walk(1), |env: &Scene| {
        let pool = sparse::<_, A>(env);
        pool.checkpoint().expect("the memory works");
        let before = pool.usage();
        assert_eq!(tidy(&pool), (2, 2), "{}", A::NAME);
        let after = pool.usage();
        assert_eq!((after.blocks, after.taken), (before.blocks, before.taken));
        assert_eq!(after.free_chunks, before.free_chunks + 2 * 4096);
        assert!(after.fragmentation() < before.fragmentation());
        assert_eq!(tidy(&pool), (0, 0), "what is tidy stays");
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let outcome = searched::<A>(&run);
    clean(&run, &outcome);
}

/// Looks at what a crash may leave once the chest is sparse.
fn searched<A: Atomicity>(run: &Run) -> Outcome {
    Check::new(run).run(|image, crash| {
        if crash.ended_regions().count() < DRAWERS + DRAWERS * 2 / 3 { Ok(()) } else { wrong::<A>(image) }
    })
}

/// A program that moves a sheet in one region and says where it is in another one.
#[test]
fn sheets_that_are_moved_in_two_regions_are_lost() {
    let run = check::record(BYTES, Platform::ADR, &Schedule::walk(1), |env: &Scene| {
        let pool = sparse::<_, Redo>(env);
        let old = pool.get(drawer(&pool, 1));
        let moved = pool.region(|tx| {
            let new = tx.alloc(tx.get(old))?;
            tx.free(old).map(|()| new)
        });
        let new = moved.expect("there is room");
        pool.region(|tx| tx.set(drawer(&pool, 1), new)).expect("it is there");
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    assert!(!searched::<Redo>(&run).findings.is_empty());
}

#[test]
fn sheets_that_are_moved_are_whole() {
    region::for_each_engine!(sound A => keeps_sheets::<A>());
}

/// Trunks, in blocks of one chunk or two, with room between them.
struct Loft;
type Trunk = [u64; 512];
type Long = [[u64; 512]; 2];
const PLACES: usize = 6;
region::persistent! { Loft:
    struct Things { trunks: [Ptr<Trunk, Loft>; PLACES], long: [Ptr<Long, Loft>; PLACES] }
}
impl Layout for Loft {
    const NAME: &'static str = "loft";
    type Root = Things;
}

type Lofts<'e, E, A> = Pool<&'e E, Loft, A>;

fn trunk<E: Env, A: Atomicity>(pool: &Lofts<'_, E, A>, at: usize) -> Ptr<Ptr<Trunk, Loft>, Loft> {
    Things::trunks(pool.root()).element(at)
}

fn long<E: Env, A: Atomicity>(pool: &Lofts<'_, E, A>, at: usize) -> Ptr<Ptr<Long, Loft>, Loft> {
    Things::long(pool.root()).element(at)
}

/// What a block at that place is full of.
fn filling(at: usize) -> u64 {
    100 + at as u64
}

/// Moves all large blocks that are worth it, until none is; how many moves that were.
fn move_large<E: Env, A: Atomicity>(pool: &Lofts<'_, E, A>) -> usize {
    let mut moved = 0;
    loop {
        let moving = pool.moving();
        let before = moved;
        for at in 0..PLACES {
            if moving.wants(pool.get(trunk(pool, at))) {
                let old = pool.get(trunk(pool, at));
                let new = pool.region(|tx| tx.relocate(trunk(pool, at))).expect("it is there");
                moved += usize::from(new.offset() < old.offset());
            }
            if moving.wants(pool.get(long(pool, at))) {
                let old = pool.get(long(pool, at));
                let new = pool.region(|tx| tx.relocate(long(pool, at))).expect("it is there");
                moved += usize::from(new.offset() < old.offset());
            }
        }
        assert_eq!(moving.finish().expect("the memory works"), 0, "no slab became empty");
        if moved == before {
            return moved;
        }
    }
}

/// Regions before anything is moved.
const FILLED: usize = 2 * PLACES + PLACES;

fn check_large<S: Atomicity, A: Atomicity>() -> (Run, Outcome) {
    let run = check::record(BYTES, Platform::ADR, &Schedule::walk(1), |env: &Scene| {
        let pool = Lofts::<_, S>::create(env, &OPTIONS).expect("it fits");
        for at in 0..PLACES {
            let fill = pool.region(|tx| {
                let block = tx.alloc([filling(at); 512])?;
                tx.set(trunk(&pool, at), block)
            });
            fill.expect("there is room");
            let fill = pool.region(|tx| {
                let block = tx.alloc([[filling(at); 512]; 2])?;
                tx.set(long(&pool, at), block)
            });
            fill.expect("there is room");
        }
        for at in 0..PLACES {
            let emptied = pool.region(|tx| {
                if at % 2 == 0 {
                    tx.free(tx.get(trunk(&pool, at)))?;
                    tx.set(trunk(&pool, at), Ptr::NULL)
                } else {
                    tx.free(tx.get(long(&pool, at)))?;
                    tx.set(long(&pool, at), Ptr::NULL)
                }
            });
            emptied.expect("it is there");
        }
        pool.checkpoint().expect("the memory works");
        let before = pool.usage();
        assert!(move_large(&pool) > 2, "{}", S::NAME);
        let after = pool.usage();
        assert_eq!((after.blocks, after.taken), (before.blocks, before.taken));
        assert_eq!(after.free_chunks, before.free_chunks);
        assert_eq!(after.longest_free, after.free_chunks, "{}: all that is free is one piece", S::NAME);
        assert!(after.longest_free > before.longest_free, "{}: {before:?}", S::NAME);
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let outcome = Check::new(&run).run(|image, crash| {
        if crash.ended_regions().count() < FILLED { Ok(()) } else { wrong_large::<A>(image) }
    });
    (run, outcome)
}

/// What is wrong with a loft.
fn wrong_large<A: Atomicity>(image: &Scratch) -> Result<(), String> {
    let env = pmem::Os::new(image);
    let (pool, _) = Lofts::<_, A>::open(&env).map_err(|error| error.to_string())?;
    let mut blocks = BTreeSet::from([pool.root().offset()]);
    for at in 0..PLACES {
        let block = if at % 2 == 1 {
            let block = pool.get(trunk(&pool, at)).get().ok_or("a trunk is gone")?;
            (pool.get(block) == [filling(at); 512]).then_some(block.offset())
        } else {
            let block = pool.get(long(&pool, at)).get().ok_or("a long trunk is gone")?;
            (pool.get(block) == [[filling(at); 512]; 2]).then_some(block.offset())
        };
        blocks.insert(block.ok_or_else(|| format!("what is in place {at} is not what was there"))?);
    }
    let allocated: BTreeSet<u64> = pool.blocks().into_iter().map(|(offset, _)| offset).collect();
    if allocated == blocks {
        Ok(())
    } else {
        Err(format!("allocated are {allocated:x?}, in places {blocks:x?}"))
    }
}

#[test]
fn large_blocks_that_are_moved_are_whole() {
    fn keeps<A: Atomicity>() {
        let (run, outcome) = check_large::<A, A>();
        assert!(outcome.findings.is_empty(), "{}: {}", A::NAME, Check::new(&run).story(&outcome));
        assert!(outcome.images > 50, "{}: {outcome:?}", A::NAME);
    }
    region::for_each_engine!(sound A => keeps::<A>());
}

#[test]
fn large_blocks_that_are_not_waited_for_are_caught() {
    let (_, outcome) = check_large::<Redo<flaw::FreshNotFenced>, Redo>();
    assert!(!outcome.findings.is_empty(), "{} images", outcome.images);
}
