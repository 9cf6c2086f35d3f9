//! Blocks that are moved together, under the crash checker: each is whole in its old place or its new one, nothing leaks, and chunks become free.

use std::collections::BTreeSet;

use region::{Atomicity, Geometry, Layout, MicroBuffer, Options, Pool, Ptr, Redo, Shadow, Ssp, Undo};
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
    let run = check::record(BYTES, Platform::Adr, &Schedule::walk(1), |env: &Scene| {
        let pool = sparse::<_, A>(env);
        pool.settle().expect("the memory works");
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
    let run = check::record(BYTES, Platform::Adr, &Schedule::walk(1), |env: &Scene| {
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
    keeps_sheets::<Redo>();
    keeps_sheets::<Undo>();
    keeps_sheets::<MicroBuffer>();
    keeps_sheets::<Shadow>();
    keeps_sheets::<Ssp>();
}
