//! A pool that grows while other threads wait for room: nobody has a place behind the old end before that end
//! is durable, and known.

use std::collections::BTreeSet;

use region::{Atomicity, Error, Layout, Pool, Ptr};
use space::sim::Schedule;
use space::{Env, Scratch};
use strandline::check::{self, Check, Run, Scene};
use strandline::crash::{Outcome, Platform};

use crate::desk::{clean, with_logs};

/// Places for bales, which have a chunk each.
struct Yard;
type Bale = [u64; 512];
impl Layout for Yard {
    const NAME: &'static str = "yard";
    type Root = [[Ptr<Bale, Yard>; EACH]; THREADS];
}

const THREADS: usize = 2;
/// Bales of a thread.
const EACH: usize = 2;
/// Chunks of a pool that grows: a zone's table and the root's slab, so that there is no room for a bale; and
/// as many as a line of the table has words, so that what the pool grows by stands in a line of its own.
const BEFORE: [u64; 2] = [2, 8];
/// What does not fit is tried again so often.
const TRIES: usize = 500;
/// Schedules that are tried.
const SEEDS: u64 = 8;

/// Puts bales into a thread's places, as soon as there is room.
fn stack<E: Env, A: Atomicity>(pool: &Pool<&E, Yard, A>, thread: usize) {
    for at in 0..EACH {
        let place = pool.root().element(thread).element(at);
        let value = (10 * thread + at) as u64;
        let put = || {
            pool.region(|tx| {
                let bale = tx.alloc([value; 512])?;
                tx.set(place, bale)?;
                assert_eq!(tx.get(bale), [value; 512]);
                Ok(bale)
            })
        };
        let tried = (0..TRIES).map(|_| put()).find(|put| !matches!(put, Err(Error::Full { .. })));
        let bale = tried.expect("there is room in the end").expect("there is room");
        assert_eq!(pool.get(bale), [value; 512]);
    }
}

/// How many bales there are; an error if one is not whole, or belongs to nobody.
fn bales<A: Atomicity>(image: &Scratch) -> Result<Option<usize>, String> {
    let env = pmem::Os::new(image);
    let pool = match Pool::<_, Yard, A>::open(&env) {
        Ok((pool, _)) => pool,
        Err(Error::NotAPool { .. }) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut blocks = BTreeSet::from([pool.root().offset()]);
    for (thread, places) in pool.get(pool.root()).into_iter().enumerate() {
        for (at, bale) in places.into_iter().enumerate().filter_map(|(at, bale)| Some((at, bale.get()?))) {
            if pool.get(bale) != [(10 * thread + at) as u64; 512] {
                return Err(format!("bale {at} of thread {thread} is not whole"));
            }
            blocks.insert(bale.offset());
        }
    }
    let allocated: BTreeSet<u64> = pool.blocks().into_iter().map(|(offset, _)| offset).collect();
    let count = blocks.len() - 1;
    (allocated == blocks).then_some(Some(count)).ok_or_else(|| format!("{allocated:x?}, {blocks:x?}"))
}

fn grown<A: Atomicity>(before: u64, seed: u64) -> (Run, Outcome) {
    let (bytes, chunks) = (16384 + before * 4096, (EACH * THREADS) as u64);
    let run = check::record(bytes + chunks * 4096, Platform::ADR, &Schedule::walk(seed), |env: &Scene| {
        let options = region::Options { bytes: Some(bytes), ..with_logs(2, 512) };
        let pool = Pool::<_, Yard, A>::create(env, &options).expect("it fits");
        env.threads(THREADS as u32 + 1, |thread| match (thread as usize).checked_sub(1) {
            Some(thread) => stack(&pool, thread),
            None => {
                (1..=chunks).for_each(|more| pool.grow(bytes + more * 4096).expect("the space is longer"))
            }
        });
    });
    let run = run.unwrap_or_else(|error| panic!("{}, {before} chunks, seed {seed}: {error}", A::NAME));
    let outcome = Check::new(&run).run(|image, crash| {
        let (found, ended) = (bales::<A>(image)?, crash.ended_regions().count());
        let fits = found.map_or(crash.begun() == 0, |found| (ended..=ended + THREADS).contains(&found));
        fits.then_some(()).ok_or_else(|| format!("{ended} regions had ended, bales are {found:?}"))
    });
    (run, outcome)
}

fn is_there<A: Atomicity>() {
    for (before, seed) in BEFORE.into_iter().flat_map(|before| (0..SEEDS).map(move |seed| (before, seed))) {
        let (run, outcome) = grown::<A>(before, seed);
        clean(&run, &outcome);
    }
}

#[test]
fn what_is_put_where_a_pool_has_just_grown_is_there() {
    region::for_each_engine!(sound A => is_there::<A>());
}
