//! Regions of every length around that of a log, by all engines with the shortest logs: whatever they write,
//! no log limits it. And blocks, which have a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use region::{Atomicity, Error, Geometry, Layout, Options, Pool, Ptr, Redo, Untyped};
use space::sim::{self, Accesses, Schedule};
use space::{Env, Image};

struct Field;
region::persistent! { Field:
    struct Root { words: [u64; WORDS], leaves: [Ptr<u64, Field>; LEAVES] }
}
impl Layout for Field {
    const NAME: &'static str = "field";
    type Root = Root;
}

const WORDS: usize = 900;
const LEAVES: usize = 64;

/// Sets so many words, so far apart, and puts new leaves in the place of as many old ones.
fn write<A: Atomicity>(
    pool: &Pool<&sim::Sim<Image>, Field, A>,
    length: usize,
    stride: usize,
    leaves: usize,
) -> Result<(), region::Error> {
    pool.region(|tx| {
        let words = Root::words(tx.root());
        let places = Root::leaves(tx.root());
        for at in 0..leaves {
            let old = tx.get(places.element(at));
            let new = tx.alloc(length as u64)?;
            tx.set(places.element(at), new)?;
            if old.get().is_some() {
                tx.free(old)?;
            }
        }
        (0..length).try_for_each(|at| tx.set(words.element(at * stride % WORDS), (length + at) as u64))
    })
}

fn holds_any_length<A: Atomicity>(logs: u32, log_bytes: u32) {
    let geometry = Some(Geometry { logs, log_bytes, chunk_bytes: 4096 });
    let run = sim::run(Image::new(1 << 20), &Schedule::walk(1), |env| {
        let pool = Pool::<_, Field, A>::create(env, &Options { geometry, bytes: None }).expect("it fits");
        let lengths = (0..70).chain((70..WORDS / 3).step_by(41));
        for (turn, length) in lengths.enumerate() {
            // One run, words of a line, and one on each line; the bits of leaves stand for themselves.
            for (stride, leaves) in [(1, turn % 5), (3, 0), (8, turn % LEAVES)] {
                if let Err(error) = write(&pool, length, stride, leaves) {
                    panic!("{}, {log_bytes} B: {length} words, {leaves} leaves: {error}", A::NAME);
                }
            }
        }
        pool.checkpoint().expect("memory does not fail");
        let blocks = pool.blocks();
        drop(pool);
        let (pool, _) = Pool::<_, Field, A>::open(env).expect("it is whole");
        assert_eq!(pool.blocks(), blocks);
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn no_log_limits_a_region() {
    for (logs, log_bytes) in [(1, 256), (1, 320), (2, 384), (3, 640), (1, 2048)] {
        region::for_each_engine!(sound A => holds_any_length::<A>(logs, log_bytes));
    }
}

/// It is asked for no longer memory that would not help.
#[test]
fn a_block_that_is_too_long_for_any_pool_of_its_kind_is_reported() {
    let geometry = Some(Geometry { logs: 1, log_bytes: 1024, chunk_bytes: 4096 });
    let asked = Arc::new(AtomicU64::new(0));
    let run = sim::run(Image::new(8 << 20), &Schedule::walk(1), |env| {
        let options = Options { geometry, bytes: Some(64 << 10) };
        let pool = Pool::<_, Untyped, Redo>::create_named(env, &options, "blocks", 8).expect("it fits");
        let count = Arc::clone(&asked);
        let pool = pool.growing(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let (most, chunk) = (511 * 4096, 4096);
        let mut tx = pool.begin().expect("it is open to write");
        assert_eq!(tx.alloc_bytes(most + 1), Err(Error::TooLarge { wanted: most + 1, most, chunk }));
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        tx.alloc_bytes(most).expect("the longest one, once the pool has grown");
        tx.commit().expect("it is durable");
        assert!(asked.load(Ordering::Relaxed) > 0);
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Three threads want a block where two have room, and then the pool grows by five: none of them fails, and
/// it grows once.
#[test]
fn room_that_another_thread_makes_is_seen() {
    let geometry = Some(Geometry { logs: 2, log_bytes: 1024, chunk_bytes: 4096 });
    for seed in 0..400 {
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let schedule = Schedule::walk(seed).at_accesses(Accesses::Every);
        let run = sim::run(Image::new(16384 + 40 * 4096), &schedule, |env| {
            let options = Options { geometry, bytes: Some(16384 + 10 * 4096) };
            let pool = Pool::<_, Untyped, Redo>::create_named(env, &options, "blocks", 8).expect("it fits");
            let pool = pool.growing(move |_, _| match count.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(()),
                _ => Err(Error::NoGrowth("it grows once".to_owned())),
            });
            let mut tx = pool.begin().expect("it is open to write");
            (0..8).for_each(|_| _ = tx.alloc_bytes(4096).expect("there is room"));
            tx.commit().expect("it is durable");
            env.threads(3, |thread| {
                for number in 0..3 * u64::from(thread) {
                    let mut tx = pool.begin().expect("it is open to write");
                    tx.store_bytes(pool.root_reference().0, &number.to_le_bytes()).expect("it is there");
                }
                let mut tx = pool.begin().expect("it is open to write");
                tx.alloc_bytes(4096).expect("there is room, or will be");
                tx.commit().expect("it is durable");
            });
        });
        run.result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert_eq!(asked.load(Ordering::Relaxed), 1, "seed {seed}");
    }
}
