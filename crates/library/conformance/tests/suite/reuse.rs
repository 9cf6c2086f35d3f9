//! A block that is given back and taken again while a log still names it: recovery does the old records
//! again, and the new ones behind them.

use region::{Atomicity, Layout, Options, Pool, Ptr};
use space::Image;
use space::sim::{self, Schedule};

struct List;
region::persistent! { List:
    struct Root { first: Ptr<Block, List> }
}
impl Layout for List {
    const NAME: &'static str = "list";
    type Root = Root;
}

type Block = [u64; 4];

/// Has the root lead to a new block with that value, and gives the old one back, which a log names once more
/// for that; where the new one is.
fn replace<A: Atomicity>(pool: &Pool<&sim::Sim<Image>, List, A>, value: u64) -> Ptr<Block, List> {
    let old = pool.get(pool.root()).first;
    if old.get().is_some() {
        pool.region(|tx| tx.set(old, [!value; 4])).expect("there is room");
    }
    let done = pool.region(|tx| {
        let first = Root::first(tx.root());
        let old = tx.get(first);
        if old.get().is_some() {
            tx.free(old)?;
        }
        let new = tx.alloc([value; 4])?;
        tx.set(first, new)?;
        Ok(new)
    });
    done.expect("there is room")
}

fn what_is_taken_again_keeps_what_was_written_last<A: Atomicity>() {
    const TIMES: u64 = 40;
    let written = sim::run(Image::new(4 << 20), &Schedule::walk(1), |env| {
        let pool = Pool::<_, List, A>::create(env, &Options::default()).expect("it fits");
        let mut places: Vec<u64> = (1..=TIMES).map(|value| replace(&pool, value).offset()).collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() < TIMES as usize / 2, "{}: this is about blocks that are taken again", A::NAME);
        // Nothing is settled: the logs name everything.
    });
    written.result.unwrap_or_else(|failure| panic!("{failure}"));
    let found = sim::run(written.space, &Schedule::walk(1), |env| {
        let pool = Pool::<_, List, A>::open(env).expect("it is a pool").0;
        pool.get(pool.get(pool.root()).first)
    });
    let found = found.result.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(found, [TIMES; 4], "{}", A::NAME);
}

#[test]
fn blocks_are_taken_again_by_every_engine() {
    region::for_each_engine!(sound A => what_is_taken_again_keeps_what_was_written_last::<A>());
}
