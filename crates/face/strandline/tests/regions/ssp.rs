//! Software SSP: lines that are in one of two pages, with few spare pages and with many.

use region::{Atomicity, Error, Layout, Options, Pool, Ptr, Ssp, flaw};
use space::sim::Schedule;
use space::{Env, Image, Recorded, Recording};
use strandline::check::{Check, Run};
use strandline::crash::Outcome;

use crate::desk::*;

/// A log with room for three spare pages, of one line each.
const THREE: u32 = 640;
/// One with room for none: regions go by words.
const NONE: u32 = 384;

/// Notes and transfers in turn, in a pool with logs of so many bytes: they touch more lines than a few spare
/// pages hold. Pages are brought home between them, if so.
fn check_in_turn<S, A>(log_bytes: u32, ahead: bool) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let run = record::<S>(&with_logs(1, log_bytes), &Schedule::walk(1), |pool| {
        for (number, one) in STEPS.into_iter().enumerate() {
            _ = step(pool, 0, one);
            transfer(pool, number).expect("there is room");
            while ahead && pool.consolidate().expect("memory does not fail") {}
        }
    });
    // By regions that ended: notes and transfers.
    let mut expected = vec![(0, 0)];
    for (number, one) in STEPS.into_iter().enumerate() {
        let notes = expected.last().map_or(0, |(notes, _)| *notes);
        if let Step::GiveUp(_) = one {
            expected.push((notes, number + 1));
        } else {
            expected.extend([(notes + 1, number), (notes + 1, number + 1)]);
        }
    }
    let outcome = Check::new(&run).run(|image, crash| {
        let ended = count_ended(&crash);
        match recovered::<A>(image)? {
            None if crash.begun() == 0 => Ok(()),
            None => Err("the pool is not there".to_owned()),
            Some((transfers, [notes, _])) => {
                let mut allowed = expected.iter().skip(ended).take(2);
                let fits = allowed.any(|(a, b)| notes.contains(a) && transfers.contains(b));
                let text = || format!("{ended} regions had ended; found are {transfers:?} and {notes:?}");
                fits.then_some(()).ok_or_else(text)
            }
        }
    });
    (run, outcome)
}

/// From no spare page at all, where regions go by words, over three and six of one line each to 18 of two
/// lines.
#[test]
fn ssp_keeps_regions_whole_with_few_and_with_many_spare_pages() {
    for log_bytes in [NONE, 512, THREE, 768, 1024, 2048, 4096] {
        let (run, outcome) = check_in_turn::<Ssp, Ssp>(log_bytes, false);
        assert!(outcome.findings.is_empty(), "{log_bytes}: {}", Check::new(&run).story(&outcome));
        assert!(outcome.images > 100, "{outcome:?}");
    }
}

#[test]
fn flaws_of_ssp_are_caught() {
    fn caught<F: flaw::Flaw>(log_bytes: u32, name: &str) {
        let (run, outcome) = check_in_turn::<Ssp<F>, Ssp>(log_bytes, false);
        assert!(!outcome.findings.is_empty(), "{name} was not found in {} images", outcome.images);
        let story = Check::new(&run).story(&outcome);
        assert!(story.contains("not durable"), "{name}: {story}");
    }
    caught::<flaw::LogNotFlushed>(THREE, "a journal that is not flushed");
    caught::<flaw::LogNotFenced>(THREE, "a journal that is not fenced");
    caught::<flaw::PlacesNotFlushed>(THREE, "lines that are not flushed");
    caught::<flaw::NotedEarly>(THREE, "a record that is written before its lines");
    caught::<flaw::NotNoted>(THREE, "a journal that is reused too soon");
    caught::<flaw::TableNotFenced>(THREE, "a table that is not durable when the journal begins anew");
    caught::<flaw::HomeNotFlushed>(THREE, "lines that are not flushed at home");
    caught::<flaw::ReusedEarly>(THREE, "a spare page that is reused too soon");
    caught::<flaw::LogNotFenced>(NONE, "words that are not durable before they are stored");
    caught::<flaw::PlacesNotFlushed>(NONE, "words that are not flushed");
}

/// Pages are brought home before a commit needs their slots, of which there are so many here that some are
/// taken and a quarter is one.
#[test]
fn consolidation_ahead_keeps_regions_whole() {
    let [(_, without), (run, ahead)] = [false, true].map(|ahead| check_in_turn::<Ssp, Ssp>(768, ahead));
    assert!(ahead.findings.is_empty(), "{}", Check::new(&run).story(&ahead));
    assert_ne!(ahead.images, without.images, "it brought nothing home");
}

/// A few pages at a time, until a quarter of the spare ones is free.
#[test]
fn consolidation_ahead_ends_and_loses_nothing() {
    let env = pmem::Os::new(Image::new(1 << 20));
    // 18 slots, of which four are a quarter.
    let pool = Pool::<_, Field, Ssp>::create(&env, &with_logs(1, 4096)).expect("a pool can be made");
    assert_eq!(pool.consolidate(), Ok(false), "all are free");
    for value in 1..200u64 {
        for page in 0..PAGES {
            pool.region(|tx| tx.set(word(&pool, page, 0), value)).expect("there is room");
        }
        while pool.consolidate().expect("memory does not fail") {}
        assert_eq!(pool.consolidate(), Ok(false), "enough are free");
        assert!((0..PAGES).all(|page| pool.get(word(&pool, page, 0)) == value), "{value}");
    }
    drop(pool);
    let (pool, recovered) = Pool::<_, Field, Ssp>::open_read_only(&env).expect("it is whole");
    assert_eq!(recovered.moved_lines, 14, "the others were at home");
    assert_eq!(pool.consolidate(), Err(Error::ReadOnly));
}

/// All pages of the last commit, too.
#[test]
fn consolidation_ahead_frees_a_quarter_after_a_region_over_all_pages() {
    let env = pmem::Os::new(Image::new(1 << 20));
    // 18 slots, of which four are a quarter.
    let pool = Pool::<_, Field, Ssp>::create(&env, &with_logs(1, 4096)).expect("a pool can be made");
    pool.region(|tx| (0..18).try_for_each(|page| tx.set(word(&pool, page, 0), 7))).expect("there is room");
    while pool.consolidate().expect("memory does not fail") {}
    drop(pool);
    let (_, recovered) = Pool::<_, Field, Ssp>::open(&env).expect("it is whole");
    assert_eq!(recovered.moved_lines, 14);
}

/// While two others have regions.
#[test]
fn consolidation_by_a_thread_keeps_regions_whole() {
    for log_bytes in [THREE, 768, 1024, 2048] {
        for seed in 0..6 {
            let (run, outcome) = check_threads_beside::<Ssp, Ssp>(
                &with_logs(1, log_bytes),
                seed,
                Some(|pool| (0..20).for_each(|_| _ = pool.consolidate().expect("memory does not fail"))),
            );
            clean(&run, &outcome);
        }
    }
}

/// Words of one line, and bits of one map, by two threads.
#[test]
fn threads_share_lines() {
    for seed in 0..4 {
        for options in [SMALL, with_logs(1, THREE), with_logs(1, NONE)] {
            let (run, outcome) = check_threads::<Ssp, Ssp>(&options, seed);
            clean(&run, &outcome);
        }
    }
}

/// A word in each of so many pages.
struct Field;
impl Layout for Field {
    const NAME: &'static str = "field";
    type Root = [u64; PAGES * STRIDE];
}

const PAGES: usize = 64;
/// Words from one of them to the next: a page has 1 KiB in a pool of 1 MiB.
const STRIDE: usize = 128;

/// The word of a page.
fn word<A: Atomicity, E: Env>(pool: &Pool<&E, Field, A>, page: usize, at: usize) -> Ptr<u64, Field> {
    pool.root().element(page * STRIDE + at)
}

/// Fences of some regions that write to so many pages.
fn fences(options: &Options, regions: u64, pages: usize) -> u64 {
    let counts = event::Counts::default();
    let space = Recorded::new(Image::new(1 << 20), counts, &Recording::persistent("regions", "pool"))
        .expect("counts take it");
    let env = pmem::Os::new(space);
    {
        let pool = Pool::<_, Field, Ssp>::create(&env, options).expect("a pool can be made");
        for value in 0..regions {
            let done = pool.region(|tx| (0..pages).try_for_each(|page| tx.set(word(&pool, page, 0), value)));
            done.expect("there is room");
        }
    }
    let (_, counts) = env.into_space().finish().expect("counts do not fail");
    counts.fences
}

/// Lines, then what the journal says of them. By words: the words' record, the words, and before and behind
/// them that nothing else counts.
#[test]
fn fences_of_a_region_do_not_depend_on_its_length() {
    let few = Options {
        geometry: Some(region::Geometry { logs: 1, log_bytes: 1536, chunk_bytes: 4096 }),
        bytes: None,
    };
    for lines in [1, 4, 16, 64] {
        // Each table is behind what making the pool did, at most once.
        let fences = |options: &Options| fences(options, 7, lines) - fences(options, 2, lines);
        assert_eq!(fences(&Options::default()), 5 * 2, "{lines} lines");
        if lines == 16 {
            assert_eq!(fences(&few), 5 * 4, "{lines} lines by words");
        }
    }
}

/// Threads whose words are in the same lines, on few spare pages: lines go to and fro and pages lose their
/// spares all the time, and each thread always finds what it wrote.
#[test]
fn who_reads_finds_what_it_wrote_while_others_move_its_lines() {
    let env = pmem::Os::new(Image::new(1 << 20));
    let options = Options {
        geometry: Some(region::Geometry { logs: 1, log_bytes: 2048, chunk_bytes: 4096 }),
        bytes: None,
    };
    let pool = Pool::<_, Field, Ssp>::create(&env, &options).expect("a pool can be made");
    env.threads(5, |thread| {
        if thread == 4 {
            return (0..3000).for_each(|_| _ = pool.consolidate().expect("memory does not fail"));
        }
        let mut random = u64::from(thread) + 1;
        let mut expected = [0; PAGES];
        for value in 1..3000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = (random >> 33) as usize % PAGES;
            let place = |page| word(&pool, page, thread as usize);
            let done = pool.region(|tx| {
                assert_eq!(tx.get(place(page)), expected[page]);
                tx.set(place(page), value)
            });
            done.expect("there is room");
            expected[page] = value;
            let other = (random >> 48) as usize % PAGES;
            assert_eq!(pool.get(place(other)), expected[other], "thread {thread}, page {other}");
        }
        (0..PAGES).for_each(|page| assert_eq!(pool.get(word(&pool, page, thread as usize)), expected[page]));
    });
    pool.checkpoint().expect("memory does not fail");
    drop(pool);
    let (_, recovered) = Pool::<_, Field, Ssp>::open(&env).expect("it is whole");
    assert!(recovered.was_clean(), "{recovered:?}");
}

#[test]
fn what_fits_nowhere_leaves_nothing() {
    let env = pmem::Os::new(Image::new(BYTES));
    let pool = Desks::<_, Ssp>::create(&env, &with_logs(1, NONE)).expect("a pool can be made");
    // Twenty words and a bit of the map are too many for the journal, and fit into a chunk.
    let block = pool.region(|tx| tx.alloc([5u64; 20])).expect("a chunk is free");
    pool.region(|tx| tx.free(block)).expect("it is there");
    pool.region(|tx| tx.alloc([0u64; 512])).expect("there is a chunk for it");
    let blocks = pool.blocks();
    let too_long = pool.region(|tx| tx.alloc([5u64; 20]));
    assert_eq!(too_long, Err(Error::Full { wanted: 8 * 23 }));
    assert_eq!(pool.blocks(), blocks);
    transfer(&pool, 0).expect("two words fit");
    assert_eq!(pool.get(pool.root()).accounts, accounts(1));
}
