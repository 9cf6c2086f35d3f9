//! How micro-buffering writes back: by the length of what was written whole, by non-temporal stores or
//! through the cache, and safely either way.

use event::Counts;
use region::{Error, Layout, MicroBuffer, Options, Pool, flaw};
use space::sim::Schedule;
use space::{Env, Image, Recorded, Recording};
use strandline::check::{self, Check, Run, Scene};
use strandline::crash::{Outcome, Platform};

/// Four lines and a half.
struct Sheet;
region::persistent! { Sheet:
    struct Words { words: [u64; 36], more: [u64; 12] }
}
impl Layout for Sheet {
    const NAME: &'static str = "sheet";
    type Root = Words;
}

type Sheets<'e, E, F = flaw::Sound> = Pool<&'e E, Sheet, MicroBuffer<F>>;

const BYTES: u64 = 1 << 17;

/// An odd value goes to one part, an even one to the other: what the last region wrote back is in no later
/// record.
fn fill<E: Env, F: flaw::Flaw>(pool: &Sheets<'_, E, F>, value: u64) {
    let words = Words::words(pool.root());
    let more = Words::more(pool.root());
    let fill = |tx: &mut region::Tx<'_, &E, Sheet, MicroBuffer<F>>| match value % 2 {
        1 => tx.set(words, [value; 36]),
        _ => tx.set(more, [value; 12]),
    };
    pool.region(fill).expect("it fits");
}

/// What stands in both parts once regions have filled them with 1 up to that value.
fn filled(last: u64) -> ([u64; 36], [u64; 12]) {
    let (odd, even) = if last % 2 == 1 { (last, last - 1) } else { (last.saturating_sub(1), last) };
    ([odd; 36], [even; 12])
}

/// What a region that writes the sheet does to memory, with that threshold: non-temporal stores and flushes.
fn traffic(threshold: u64) -> (u64, u64) {
    let of = |regions: u64| {
        let recording = Recording::persistent("regions", "pool");
        let space = Recorded::new(Image::new(BYTES), Counts::default(), &recording).expect("counts take it");
        let env = pmem::Os::new(space);
        {
            let pool: Sheets<'_, _> = Sheets::create(&env, &Options::default()).expect("a pool can be made");
            pool.engine().set_threshold(threshold);
            (0..regions).for_each(|value| fill(&pool, value));
        }
        let (_, counts) = env.into_space().finish().expect("counts do not fail");
        (counts.nt_stores, counts.flushes)
    };
    let (without, with) = (of(1), of(2));
    (with.0 - without.0, with.1 - without.1)
}

/// A record of 36 words, a mark and two heads is 6 lines long, which are always stored non-temporally.
#[test]
fn stretches_from_the_threshold_on_go_past_the_cache() {
    const RECORD: u64 = 6;
    assert_eq!(traffic(u64::MAX), (RECORD, 5));
    assert_eq!(traffic(257), (RECORD, 5), "no stretch is so long");
    assert_eq!(traffic(256), (RECORD + 4, 1), "the last line is not whole");
    assert_eq!(traffic(0), (RECORD + 4, 1));
}

fn check_fills<F: flaw::Flaw>(threshold: u64) -> (Run, Outcome) {
    let run = check::record(BYTES, Platform::ADR, &Schedule::walk(1), |env| {
        let pool = Sheets::<Scene, F>::create(env, &Options::default()).expect("a pool can be made");
        pool.engine().set_threshold(threshold);
        (1..=4).for_each(|value| fill(&pool, value));
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let outcome = Check::new(&run).run(|image, crash| {
        let env = pmem::Os::new(image);
        let ended = crash.ended_regions().count() as u64;
        match Pool::<_, Sheet, MicroBuffer>::open(&env) {
            Ok((pool, _)) => {
                let Words { words, more } = pool.get(pool.root());
                let fits = (ended..=ended + 1).any(|last| filled(last) == (words, more));
                fits.then_some(())
                    .ok_or_else(|| format!("{ended} regions had ended, found is {words:?}, {more:?}"))
            }
            Err(Error::NotAPool { .. }) if crash.begun() == 0 => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    (run, outcome)
}

#[test]
fn whatever_way_words_go_back_regions_are_whole() {
    for threshold in [0, 256, u64::MAX] {
        let (run, outcome) = check_fills::<flaw::Sound>(threshold);
        assert!(outcome.findings.is_empty(), "{threshold}: {}", Check::new(&run).story(&outcome));
        assert!(outcome.images > 100, "{threshold}: {outcome:?}");
    }
}

#[test]
fn words_that_go_past_the_cache_too_early_are_caught() {
    for threshold in [0, u64::MAX] {
        for outcome in
            [check_fills::<flaw::AppliedEarly>(threshold).1, check_fills::<flaw::NotedEarly>(threshold).1]
        {
            assert!(!outcome.findings.is_empty(), "threshold {threshold}, {} images", outcome.images);
        }
    }
}

/// Where the clock counts events, both ways take their events' time: the answer is the same each time, and it
/// is one of those that there are.
#[test]
fn a_threshold_can_be_measured() {
    let measured = || {
        let run = space::sim::run(Image::new(1 << 20), &Schedule::walk(1), |env| {
            let pool: Sheets<'_, _> = Sheets::create(env, &Options::default()).expect("a pool can be made");
            let blocks = pool.blocks();
            let measured = pool.measure_threshold().expect("there is room");
            assert_eq!(pool.engine().threshold(), measured);
            assert_eq!(pool.blocks(), blocks, "the memory is free again");
            fill(&pool, 3);
            assert_eq!(pool.get(pool.root()).words, [3; 36]);
            measured
        });
        run.result.unwrap_or_else(|failure| panic!("{failure}"))
    };
    let first = measured();
    assert!(first == u64::MAX || (first.is_power_of_two() && (64..=8192).contains(&first)), "{first}");
    assert_eq!(measured(), first);
    let small = space::sim::run(Image::new(BYTES), &Schedule::walk(1), |env| {
        let pool: Sheets<'_, _> = Sheets::create(env, &Options::default()).expect("a pool can be made");
        let before = pool.engine().threshold();
        assert_eq!(pool.measure_threshold(), Err(Error::Full { wanted: 256 << 10 }));
        assert_eq!(pool.engine().threshold(), before);
        drop(pool);
        let (pool, _) = Sheets::<_>::open_read_only(env).expect("it is whole");
        assert_eq!(pool.measure_threshold(), Err(Error::ReadOnly));
    });
    small.result.unwrap_or_else(|failure| panic!("{failure}"));
}
