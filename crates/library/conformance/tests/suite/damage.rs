//! Pools that were damaged: an error, or what the pool held, and never anything else.

use proptest::prelude::*;
use region::{Atomicity, Error, Geometry, Layout, Options, Pool, Ptr, Redo, Ssp};
use space::sim::Schedule;
use space::{Env, Image};

struct Chain;
region::persistent! { Chain:
    struct Link { value: u64, next: Ptr<Link, Chain> }
}
impl Layout for Chain {
    const NAME: &'static str = "chain";
    type Root = Ptr<Link, Chain>;
}

const BYTES: u64 = 24576 + 8 * 4096;
const LINKS: u64 = 40;

/// Runs `work` in a simulated environment of one thread around an image, and returns what it did to the
/// image.
fn on<R>(image: Image, work: impl FnOnce(&space::Sim<Image>) -> R) -> (R, Image) {
    let run = space::sim::run(image, &Schedule::walk(0), work);
    (run.result.unwrap_or_else(|failure| panic!("{failure}")), run.space)
}

/// A pool with a chain. `settled`: nothing is left in its logs.
fn pool<A: Atomicity>(settled: bool) -> Vec<u8> {
    pool_with_logs::<A>(1, 1024, settled)
}

fn pool_with_logs<A: Atomicity>(logs: u32, log_bytes: u32, settled: bool) -> Vec<u8> {
    let geometry = Geometry { logs, log_bytes, chunk_bytes: 4096 };
    let ((), image) = on(Image::new(BYTES), |env| {
        let pool = Pool::<_, Chain, A>::create(env, &Options { geometry: Some(geometry), bytes: None })
            .expect("it fits");
        for value in 0..LINKS {
            let done = pool.region(|tx| {
                let link = tx.alloc(Link { value, next: tx.get(tx.root()) })?;
                tx.set(tx.root(), link)
            });
            done.expect("there is room");
        }
        let large = pool.region(|tx| tx.alloc([7u64; 600])).expect("there is room");
        assert_eq!(pool.get(large)[599], 7);
        if settled {
            pool.checkpoint().expect("memory does not fail");
        }
    });
    image.to_bytes()
}

/// The chain's values, and the blocks.
type Contents = (Vec<u64>, Vec<(u64, u64)>);

/// What the pool in `bytes` holds.
fn contents<A: Atomicity>(bytes: &[u8]) -> Result<Contents, Error> {
    on(Image::from_bytes(bytes), |env| {
        let (pool, _) = Pool::<_, Chain, A>::open(env)?;
        let mut values = Vec::new();
        let mut at = pool.get(pool.root());
        while let Some(link) = at.get() {
            let link = pool.get(link);
            values.push(link.value);
            at = link.next;
        }
        Ok((values, pool.blocks()))
    })
    .0
}

/// Bytes that the library answers for: everything but what blocks hold, and what nobody has.
fn guarded<A: Atomicity>(bytes: &[u8]) -> Vec<usize> {
    let whole = contents::<A>(bytes).expect("it is whole");
    let maps = |chunk: u64| (chunk..chunk + 64).collect::<Vec<_>>();
    let slabs: std::collections::BTreeSet<u64> =
        whole.1.iter().filter(|(_, size)| *size < 4096).map(|(offset, _)| offset & !4095).collect();
    let mut places: Vec<u64> = (0..124).chain(4096..4096 + 124).chain(8192..8200).chain(8256..8272).collect();
    // Spare pages hold what blocks hold; before them are the journal and two tables, of four lines each.
    places.extend(12288..12288 + if A::NUMBER == <Ssp as Atomicity>::NUMBER { 512 } else { 1024 });
    places.extend(16384..16384 + 64);
    places.extend(slabs.into_iter().flat_map(maps));
    places.into_iter().map(|place| place as usize).collect()
}

fn is_read_as_it_was_left<A: Atomicity>() {
    for settled in [false, true] {
        let (values, blocks) = contents::<A>(&pool::<A>(settled)).expect("it is whole");
        assert_eq!(values, (0..LINKS).rev().collect::<Vec<_>>());
        assert_eq!(blocks.len() as u64, LINKS + 2);
    }
}

#[test]
fn a_pool_is_read_as_it_was_left() {
    region::for_each_engine!(sound A => is_read_as_it_was_left::<A>());
}

/// Changes each byte that is guarded in a few ways.
fn is_found_or_does_no_harm<A: Atomicity>() {
    for settled in [false, true] {
        let bytes = pool::<A>(settled);
        let whole = contents::<A>(&bytes).expect("it is whole");
        for place in guarded::<A>(&bytes) {
            for flip in [1u8, 0x40, 0x81, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[place] ^= flip;
                if let Ok(found) = contents::<A>(&damaged) {
                    assert_eq!(found, whole, "{}: {flip:#x} at {place:#x}, settled {settled}", A::NAME);
                }
            }
        }
    }
}

#[test]
fn every_guarded_byte_is_found_or_does_no_harm() {
    region::for_each_engine!(sound A => is_found_or_does_no_harm::<A>());
}

/// Memory that was lost reads as zeros as a rule. A log's line without anything is one that was not written
/// yet.
fn a_line_that_is_lost_is_found_or_does_no_harm<A: Atomicity>() {
    // Full, so that the table's second line has blocks, too, and none of the first one is lost with the root
    // object.
    let (table, image) = on(Image::from_bytes(&pool::<A>(true)), |env| {
        let (pool, _) = Pool::<_, Chain, A>::open(env).expect("it is whole");
        while pool.region(|tx| tx.alloc([7u64; 300])).is_ok() {}
        pool.checkpoint().expect("memory does not fail");
        let last = pool.blocks().last().expect("there are blocks").0;
        assert!((last - 16384) / 4096 >= 8, "{last:#x}");
        [16384, 16448]
    });
    let bytes = image.to_bytes();
    let whole = contents::<A>(&bytes).expect("it is whole");
    let beside_logs = guarded::<A>(&bytes).into_iter().filter(|at| !(12288..16384).contains(at));
    let lines: std::collections::BTreeSet<usize> = beside_logs.map(|at| at / 64 * 64).chain(table).collect();
    for line in lines {
        let mut damaged = bytes.clone();
        damaged[line..line + 64].fill(0);
        let found = contents::<A>(&damaged);
        // Without the mark nobody knows which records were done.
        assert!(line != 8192 || found.is_err(), "{}: the mark", A::NAME);
        if let Ok(found) = found {
            assert_eq!(found, whole, "{}: the line at {line:#x}", A::NAME);
        }
    }
}

#[test]
fn every_guarded_line_that_is_lost_is_found_or_does_no_harm() {
    region::for_each_engine!(sound A => a_line_that_is_lost_is_found_or_does_no_harm::<A>());
}

/// Opening such a pool ends, and so does going through its blocks. Links may be damaged, too.
fn harmless<A: Atomicity>(settled: bool, damage: &[(usize, u8)]) -> Result<(), TestCaseError> {
    let mut bytes = pool::<A>(settled);
    for &(place, byte) in damage {
        bytes[place] = byte;
    }
    let (opened, _) = on(Image::from_bytes(&bytes), |env| {
        Pool::<_, Chain, A>::open(env).map(|(pool, _)| pool.blocks().len())
    });
    prop_assert!(opened.is_err() || opened.is_ok_and(|blocks| blocks < 10_000));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_damage_neither_hangs_nor_panics(
        settled: bool,
        damage in prop::collection::vec((0usize..16384 + 4096 * 3, any::<u8>()), 1..40)
    ) {
        region::for_each_engine!(sound A => harmless::<A>(settled, &damage)?);
    }

    #[test]
    fn cut_files_are_errors(length in 0u64..BYTES / 8) {
        let mut bytes = pool::<Redo>(true);
        bytes.truncate(length as usize * 8);
        prop_assert!(contents::<Redo>(&bytes).is_err());
    }
}

/// A record in the middle of a log is missed when damage makes it look torn, however many logs there are that
/// a crash could have torn.
#[test]
fn a_record_that_looks_torn_is_missed() {
    let whole = pool_with_logs::<Redo>(2, 6144, false);
    let (mut found, mut missed) = (0, 0);
    for line in (12288..12288 + 2 * 6144).step_by(64) {
        if whole[line..line + 64].iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut bytes = whole.clone();
        // More than a byte, which would not be missed.
        bytes[line] ^= 1;
        bytes[line + 1] ^= 1;
        let opened = on(Image::from_bytes(&bytes), |env| Pool::<_, Chain, Redo>::open(env).map(|_| ())).0;
        *(if opened.is_err() { &mut found } else { &mut missed }) += 1;
    }
    // The last record may be torn, and the first one may be of a region that has not ended, in the other log.
    assert!(found >= 20 && missed <= 8, "{found} lines were missed, {missed} were not");
}

/// The regions of two threads have numbers in turn, so those of a log that is gone leave gaps among the
/// other's.
#[test]
fn a_log_that_was_emptied_is_missed() {
    let geometry = Geometry { logs: 2, log_bytes: 4096, chunk_bytes: 4096 };
    let run = space::sim::run(Image::new(BYTES), &Schedule::walk(1), |env| {
        let pool = Pool::<_, Chain, Redo>::create(env, &Options { geometry: Some(geometry), bytes: None })
            .expect("it fits");
        env.threads(2, |_| {
            (0..10u64).for_each(|n| _ = pool.region(|tx| tx.alloc([n; 2])).expect("there is room"));
        });
        pool.header().logs()
    });
    let (logs, whole) = (run.result.unwrap_or_else(|failure| panic!("{failure}")), run.space.to_bytes());
    contents::<Redo>(&whole).expect("it is whole");
    for base in logs.starts() {
        let mut bytes = whole.clone();
        bytes[base as usize..(base + logs.bytes) as usize].fill(0);
        let found = contents::<Redo>(&bytes);
        assert!(matches!(found, Err(Error::Damaged(_))), "{found:?}");
    }
}
