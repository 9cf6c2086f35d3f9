//! Power failures: at each fence the memory is cut to what is durable, to what is newest, and to a mixture of
//! lines, and recovered.

use space::conformance::{Cut, Powered};
use space::sim::{self, Schedule};
use space::{Env, Image, LINE, Sim, Space};

use region::{Atomicity, Error, Geometry, Options, Pool, Untyped};

/// Bytes of a log: one for which most regions are too long, and one that has room for all but the longest.
const LOG_BYTES: [u32; 2] = [512, 2048];
/// Lines of the root object, of which each region sets a word.
const ROOT_LINES: u64 = 8;
/// Words of the region that is longer than a log.
const LONG: u64 = 100;
/// Bytes of the root object.
const ROOT_BYTES: u64 = ROOT_LINES * LINE + 16 * LONG;
/// Where the root object refers to a block.
const CELL: u64 = 8;
const REGIONS: u64 = 12;

type Numbers<'e, S, A> = Pool<&'e Sim<S>, Untyped, A>;

/// Region `number`: sets a word of each line of the root object, and exchanges the block that it refers to.
/// One is longer than a log.
fn region<S: Space, A: Atomicity>(pool: &Numbers<'_, S, A>, number: u64) -> Result<(), Error> {
    let (root, _) = pool.root_reference();
    let mut tx = pool.begin()?;
    for line in 0..ROOT_LINES {
        tx.store_bytes(root + line * LINE, &number.to_le_bytes())?;
    }
    if number == REGIONS / 2 {
        for word in 0..LONG {
            tx.store_bytes(root + ROOT_LINES * LINE + 16 * word, &number.to_le_bytes())?;
        }
    }
    let mut old = [0; 8];
    tx.load_bytes(root + CELL, &mut old)?;
    let old = u64::from_le_bytes(old);
    if old != 0 {
        tx.free_block(old)?;
    }
    let block = tx.alloc_bytes(40)?;
    tx.store_bytes(block, &number.to_le_bytes())?;
    tx.store_bytes(root + CELL, &block.to_le_bytes())?;
    tx.commit()
}

/// How many regions a recovered pool holds; `None` if there is no pool.
fn held<A: Atomicity>(image: Image) -> Result<Option<u64>, String> {
    let run = sim::run(image, &Schedule::walk(1), |env: &Sim<Image>| {
        let pool = match Numbers::<Image, A>::open_named(env, "numbers") {
            Ok((pool, _)) => pool,
            Err(Error::NotAPool { .. }) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (root, _) = pool.root_reference();
        let word = |at| {
            let mut bytes = [0; 8];
            pool.load_bytes(at, &mut bytes).map_err(|error| error.to_string())?;
            Ok::<u64, String>(u64::from_le_bytes(bytes))
        };
        let number = word(root)?;
        for line in 0..ROOT_LINES {
            let other = word(root + line * LINE)?;
            if other != number {
                return Err(format!("line {line} is of region {other}, and line 0 of region {number}"));
            }
        }
        for at in 0..LONG {
            let other = word(root + ROOT_LINES * LINE + 16 * at)?;
            let expected = if number < REGIONS / 2 { 0 } else { REGIONS / 2 };
            if other != expected {
                return Err(format!("after region {number}, word {at} of the long one is {other}"));
            }
        }
        let block = word(root + CELL)?;
        if number > 0 && word(block)? != number {
            return Err(format!("after region {number}, its block holds {}", word(block)?));
        }
        let blocks = pool.block_references().len() as u64;
        if blocks != 1 + number.min(1) {
            return Err(format!("after region {number}, {blocks} blocks are allocated"));
        }
        Ok(Some(number))
    });
    run.result.unwrap_or_else(|failure| Err(failure.to_string()))
}

/// After a power failure at any fence, a pool holds what the regions that had ended wrote, and all or nothing
/// of the one under way.
///
/// # Panics
/// If it holds anything else.
pub fn power_failures<A: Atomicity>() {
    LOG_BYTES.into_iter().for_each(power_failures_with::<A>);
}

fn power_failures_with<A: Atomicity>(log_bytes: u32) {
    let geometry = Some(Geometry { logs: 2, log_bytes, chunk_bytes: 4096 });
    let bytes = 16384 + 2 * u64::from(log_bytes) + 6 * 4096;
    let run = sim::run(Powered::new(bytes), &Schedule::walk(1), |env: &Sim<Powered>| {
        let options = Options { geometry, bytes: None };
        let pool = Numbers::<Powered, A>::create_named(env, &options, "numbers", ROOT_BYTES);
        let pool = pool.unwrap_or_else(|error| panic!("{}: {error}", A::NAME));
        let begun = env.space().inner().cuts();
        for number in 1..=REGIONS {
            region(&pool, number).unwrap_or_else(|error| panic!("{}, region {number}: {error}", A::NAME));
            env.space().inner().end_step();
        }
        begun
    });
    let begun = run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
    for (at, Cut { bytes, steps: ended, .. }) in run.space.into_cuts().into_iter().enumerate() {
        match held::<A>(Image::from_bytes(&bytes)) {
            Ok(None) if at < begun => {}
            Ok(Some(number)) if (ended..=ended + 1).contains(&number) => {}
            found => {
                panic!(
                    "{}, logs of {log_bytes} B: {ended} regions had ended before cut {at}, found: {found:?}",
                    A::NAME
                )
            }
        }
    }
}
