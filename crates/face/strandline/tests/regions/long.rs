//! Regions that are longer than a log: what they write goes on in chunks of the heap, several of them.

use region::{
    Atomicity, Error, Geometry, Layout, MicroBuffer, Options, Pool, Ptr, Redo, Shadow, Ssp, Undo, flaw,
};
use space::sim::Schedule;
use space::{Env, Image};
use strandline::check::{self, Check, Run, Scene};
use strandline::crash::{Outcome, Platform};

use crate::desk::{of_processor, on_processor};

/// Words by thread, and blocks that a region takes and gives back.
struct Wide;
region::persistent! { Wide:
    struct Root { words: [[u64; WORDS]; THREADS], leaves: [[Ptr<u64, Wide>; LEAVES]; THREADS] }
}
impl Layout for Wide {
    const NAME: &'static str = "wide";
    type Root = Root;
}

const THREADS: usize = 2;
/// By undo: a few in a log, 63 in each of two chunks, and more.
const WORDS: usize = 150;
const LEAVES: usize = 8;
const BYTES: u64 = 16384 + 12 * 4096;
const OPTIONS: Options =
    Options { geometry: Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 4096 }), bytes: None };

type Wides<'e, E, A> = Pool<&'e E, Wide, A>;

/// Sets all words of a thread, no two of them in one run, and puts new leaves in the place of the old ones.
fn widen<E: Env, A: Atomicity>(pool: &Wides<'_, E, A>, thread: usize, value: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let words = Root::words(tx.root());
        let leaves = Root::leaves(tx.root());
        for at in 0..LEAVES {
            let leaf = leaves.element(thread).element(at);
            let old = tx.get(leaf);
            let new = tx.alloc(value)?;
            tx.set(leaf, new)?;
            if old.get().is_some() {
                tx.free(old)?;
            }
        }
        (0..WORDS).rev().try_for_each(|at| tx.set(words.element(thread).element(at), value))?;
        assert_eq!(tx.get(words.element(thread)), [value; WORDS], "a region sees what it wrote");
        if value == GIVEN_UP { Err(Error::Aborted("enough".to_owned())) } else { Ok(()) }
    })
}

/// A region with this value is given up.
const GIVEN_UP: u64 = 2;

/// What recovery found of each thread.
fn found<A: Atomicity>(image: &space::Scratch) -> Result<Option<[u64; THREADS]>, String> {
    let env = pmem::Os::new(image);
    let pool = match Pool::<_, Wide, A>::open(&env) {
        Ok((pool, _)) => pool,
        Err(Error::NotAPool { .. }) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let root = pool.get(pool.root());
    let mut blocks = 1;
    for thread in 0..THREADS {
        let value = root.words[thread][0];
        if root.words[thread].iter().any(|word| *word != value) {
            return Err(format!("half of a region: {:?}", root.words[thread]));
        }
        for leaf in root.leaves[thread].into_iter().filter_map(|leaf| leaf.get()) {
            blocks += 1;
            if pool.get(leaf) != value {
                return Err(format!("a leaf of {} where the words are {value}", pool.get(leaf)));
            }
        }
    }
    let allocated = pool.blocks().len();
    if allocated != blocks {
        return Err(format!("{allocated} blocks, {blocks} can be reached"));
    }
    let again = pool.region(|tx| {
        let words = Root::words(tx.root());
        (0..16).rev().try_for_each(|at| tx.set(words.element(0).element(at), 77))
    });
    again.map_err(|error| error.to_string())?;
    Ok(Some(root.words.map(|words| words[0])))
}

/// Long regions of so many threads at once.
fn checked<S: Atomicity, A: Atomicity>(threads: usize, seed: u64) -> (Run, Outcome) {
    let image = of_processor(Image::new(BYTES));
    let run = check::record_on(image, Platform::ADR, &Schedule::walk(seed), |env| {
        let pool = Wides::<Scene, S>::create(env, &OPTIONS).expect("a pool can be made");
        env.threads(threads as u32, |thread| {
            for value in 1..4 {
                assert_eq!(widen(&pool, thread as usize, value).is_err(), value == GIVEN_UP);
            }
        });
    });
    let run = run.unwrap_or_else(|error| panic!("{}: {error}", S::NAME));
    let mut check = Check::new(&run);
    // By undo there are a thousand points.
    check.checker.bounds.per_cut = if A::NUMBER == <Undo as Atomicity>::NUMBER { 8 } else { 256 };
    let outcome = check.run(|image, crash| {
        let ended = crash.ended_regions().count();
        match found::<A>(image)? {
            None if crash.begun() == 0 => Ok(()),
            None => Err("the pool is not there".to_owned()),
            Some(values) => {
                // 0, 1 and 3 are what there is before, between and after the regions of a thread that end.
                let regions: usize = values.iter().map(|value| (*value as usize).div_ceil(2)).sum();
                let fits = values.iter().all(|value| [0, 1, 3].contains(value))
                    && (ended..=ended + threads).contains(&regions);
                fits.then_some(()).ok_or_else(|| format!("{ended} had ended, found {values:?}"))
            }
        }
    });
    (run, outcome)
}

fn stays_whole<A: Atomicity>() {
    for (threads, seed, past_cache) in [(1, 1, false), (1, 1, true), (2, 2, true), (2, 3, false)] {
        let (run, outcome) = on_processor(past_cache, || checked::<A, A>(threads, seed));
        assert!(outcome.findings.is_empty(), "{}: {}", A::NAME, Check::new(&run).story(&outcome));
        assert!(outcome.images > 100, "{outcome:?}");
    }
}

/// Words that a region sets over and over without reading any: a log of 512 bytes holds each of them once,
/// and not as often as they are set.
const AGAIN: usize = 20;

/// Sets each so many times; what is set last is the value.
fn set_over_and_over<E: Env>(pool: &Wides<'_, E, Redo>, times: usize, value: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let words = Root::words(tx.root());
        (0..times * AGAIN).rev().try_for_each(|at| {
            let round = (at / AGAIN) as u64;
            tx.set(words.element(0).element(7 * (at % AGAIN)), value + 100 * round)
        })
    })
}

fn with_logs_of(log_bytes: u32) -> Options {
    Options { geometry: Some(Geometry { logs: 2, log_bytes, chunk_bytes: 4096 }), bytes: None }
}

const ROOMY: u64 = BYTES + 4 * 4096;

#[test]
fn words_that_are_set_over_and_over_make_no_region_long() {
    let fences = |log_bytes, times| {
        let counts = event::Counts::default();
        let space =
            space::Recorded::new(Image::new(ROOMY), counts, &space::Recording::persistent("regions", "pool"));
        let env = pmem::Os::new(space.expect("counts take it"));
        {
            let pool = Wides::<_, Redo>::create(&env, &with_logs_of(log_bytes)).expect("a pool can be made");
            (1..10).for_each(|value| set_over_and_over(&pool, times, value).expect("there is room"));
        }
        env.into_space().finish().expect("counts do not fail").1.fences
    };
    // A log that the record would not fit into gets each word once.
    assert_eq!(fences(512, 3), fences(512, 1));
    // One that it fits into is full sooner; a long region has a fence more each time.
    let (thrice, once) = (fences(4096, 3), fences(4096, 1));
    assert!(thrice < once + 9, "{thrice}, {once}");
}

#[test]
fn words_that_are_set_over_and_over_have_what_was_set_last() {
    for log_bytes in [512, 4096] {
        let image = of_processor(Image::new(ROOMY));
        let run = check::record_on(image, Platform::ADR, &Schedule::walk(1), |env| {
            let pool =
                Wides::<Scene, Redo>::create(env, &with_logs_of(log_bytes)).expect("a pool can be made");
            (1..4).for_each(|value| set_over_and_over(&pool, 3, value).expect("there is room"));
        });
        let run = run.expect("it is recorded");
        let check = Check::new(&run);
        let outcome = check.run(|image, crash| {
            let env = pmem::Os::new(image);
            let pool = match Pool::<_, Wide, Redo>::open(&env) {
                Ok((pool, _)) => pool,
                Err(Error::NotAPool { .. }) if crash.begun() == 0 => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            let words = pool.get(pool.root()).words[0];
            let (value, ended) = (words[0], crash.ended_regions().count() as u64);
            let whole = (0..AGAIN).all(|at| words[7 * at] == value) && (ended..=ended + 1).contains(&value);
            whole.then_some(()).ok_or_else(|| format!("{ended} had ended, found {words:?}"))
        });
        assert!(outcome.findings.is_empty(), "{log_bytes}: {}", Check::new(&run).story(&outcome));
        assert!(outcome.images > 100, "{outcome:?}");
    }
}

region::for_each_engine!(tests stays_whole);

#[test]
fn flaws_of_long_regions_are_caught() {
    fn caught<S: Atomicity, A: Atomicity>(name: &str) {
        let (_, outcome) = checked::<S, A>(1, 1);
        assert!(
            !outcome.findings.is_empty(),
            "{} with {name} was not found in {} images",
            A::NAME,
            outcome.images
        );
    }
    caught::<Undo<flaw::LogNotFlushed>, Undo>("lines that are not flushed");
    caught::<Undo<flaw::LogNotFenced>, Undo>("lines that are not fenced before the store");
    caught::<MicroBuffer<flaw::ExtentNotFenced>, MicroBuffer>("words elsewhere that are not durable");
    caught::<MicroBuffer<flaw::PlacesNotFlushed>, MicroBuffer>("places that are not flushed");
    caught::<Shadow<flaw::ExtentNotFenced>, Shadow>("words elsewhere that are not durable");
    caught::<Shadow<flaw::PlacesNotFlushed>, Shadow>("places that are not flushed");
    caught::<Ssp<flaw::ExtentNotFenced>, Ssp>("words elsewhere that are not durable");
    caught::<Ssp<flaw::PlacesNotFlushed>, Ssp>("places that are not flushed");
}

/// Thousands of words, with logs of a few lines, and again: what was lent comes back.
#[test]
fn regions_have_no_limit_but_the_pool() {
    fn many<A: Atomicity>() {
        let env = pmem::Os::new(Image::new(4 << 20));
        let pool = Pool::<_, Untold, A>::create(&env, &OPTIONS).expect("a pool can be made");
        for value in 1..12 {
            let done =
                pool.region(|tx| (0..MANY).rev().try_for_each(|at| tx.set(tx.root().element(at), value)));
            done.unwrap_or_else(|error| panic!("{}: {error}", A::NAME));
            let given_up: Result<(), Error> = pool.region(|tx| {
                (0..MANY).rev().try_for_each(|at| tx.set(tx.root().element(at), 99))?;
                Err(Error::Aborted("enough".to_owned()))
            });
            assert!(matches!(given_up, Err(Error::Aborted(_))), "{}: {given_up:?}", A::NAME);
            assert!(pool.get(pool.root()).iter().all(|word| *word == value), "{}", A::NAME);
        }
        assert_eq!(pool.blocks().len(), 1);
    }
    region::for_each_engine!(sound A => many::<A>());
}

struct Untold;
impl Layout for Untold {
    const NAME: &'static str = "untold";
    type Root = [u64; MANY];
}

const MANY: usize = 20_000;
