//! Blocks that are moved: such as are longer than what is copied at a time are whole in their new places, now
//! and when the pool is opened again; and what becomes empty meanwhile serves for something else.

use region::{Atomicity, Geometry, Layout, Options, Pool, Ptr, Untyped};
use space::sim::{self, Schedule};
use space::{Image, Sim};

struct Album;
impl Layout for Album {
    const NAME: &'static str = "album";
    type Root = [Ptr<Picture, Album>; 2];
}

/// Longer than 64 KiB, and by no round number.
type Picture = [u64; WORDS];
const WORDS: usize = 20_003;
const CHUNK: u64 = 4096;
const BYTES: u64 = 32768 + 140 * CHUNK;

fn picture(seed: u64) -> Picture {
    std::array::from_fn(|at| seed << 32 | at as u64)
}

fn is_moved<A: Atomicity>() {
    let geometry = Some(Geometry { logs: 2, log_bytes: 8192, chunk_bytes: CHUNK as u32 });
    let moved = sim::run(Image::new(BYTES), &Schedule::walk(1), |env: &Sim<Image>| {
        let pool = Pool::<_, Album, A>::create(env, &Options { geometry, bytes: None }).expect("it fits");
        let cell = |at| pool.root().element(at);
        for at in 0..2 {
            let done = pool.region(|tx| {
                let place = tx.alloc(picture(1 + at as u64))?;
                tx.set(cell(at), place)
            });
            done.expect("there is room for two");
        }
        pool.region(|tx| tx.free(tx.get(cell(0)))).expect("it is there");
        pool.region(|tx| tx.set(cell(0), Ptr::NULL)).expect("it is there");
        let (old, moving) = (pool.get(cell(1)), pool.moving());
        assert!(moving.wants(old), "{}", A::NAME);
        let new = pool.region(|tx| tx.relocate(cell(1))).expect("there is room");
        assert!(new.offset() < old.offset(), "{}", A::NAME);
        assert!(pool.get(new) == picture(2), "{}: while it is open", A::NAME);
    });
    moved.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
    let found = sim::run(moved.space, &Schedule::walk(1), |env: &Sim<Image>| {
        let (pool, _) = Pool::<_, Album, A>::open(env).expect("it is whole");
        (pool.get(pool.get(pool.root().element(1))) == picture(2), pool.blocks().len())
    });
    let found = found.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
    assert_eq!(found, (true, 2), "{}", A::NAME);
}

#[test]
fn blocks_of_many_pieces_are_moved_whole() {
    region::for_each_engine!(sound A => is_moved::<A>());
}

/// Chunks that became empty while blocks are moved are slabs again before that has ended, and slabs like any
/// others from then on.
fn is_taken_again<A: Atomicity>() {
    let geometry = Some(Geometry { logs: 2, log_bytes: 1024, chunk_bytes: CHUNK as u32 });
    let run = sim::run(Image::new(16384 + 6 * CHUNK), &Schedule::walk(1), |env: &Sim<Image>| {
        let options = Options { geometry, bytes: None };
        let pool = Pool::<_, Untyped, A>::create_named(env, &options, "sheets", 8).expect("it fits");
        // Three sheets are a slab, and all of them have room for twelve.
        let fill = || {
            let mut tx = pool.begin().expect("it is open to write");
            while tx.alloc_bytes(1000).is_ok() {}
            tx.commit().expect("it is durable");
        };
        let free = |goes: &dyn Fn(usize, u64) -> bool| {
            let mut tx = pool.begin().expect("it is open to write");
            let sheets = pool.block_references().into_iter().map(|block| block.0).skip(1).enumerate();
            sheets
                .filter(|&(at, sheet)| goes(at, sheet))
                .for_each(|(_, sheet)| tx.free_block(sheet).expect("it is there"));
            tx.commit().expect("it is durable");
        };
        fill();
        free(&|at, _| at % 3 > 0);
        let sparse = pool.begin_moving();
        assert_eq!(sparse.blocks().len(), 2, "{}", A::NAME);
        // As if they had been moved.
        free(&|_, sheet| pool.wants(&sparse, sheet));
        fill();
        pool.end_moving(sparse).expect("the memory works");
        free(&|at, _| at % 3 > 0);
        let sparse = pool.begin_moving();
        let (first, second) = (sparse.blocks()[0], sparse.blocks()[1]);
        assert!(first.0 < second.0 && sparse.blocks().len() == 2, "{}: {sparse:?}", A::NAME);
        pool.end_moving(sparse).expect("the memory works");
    });
    run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
}

#[test]
fn what_becomes_empty_while_blocks_are_moved_is_taken_again() {
    region::for_each_engine!(sound A => is_taken_again::<A>());
}
