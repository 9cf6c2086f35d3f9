//! When redo's places are durable: with the next record of their log, which may be another thread's, or when
//! the log is given up.

use region::{Atomicity, Error, Layout, Pool, Redo, flaw};
use space::sim::Schedule;
use space::{Env, Scratch};
use strandline::check::{self, Check, Run, Scene};
use strandline::crash::{Outcome, Platform};

use crate::desk::{clean, count_ended, with_logs};

/// Lines that are written to once: two by each region of a thread.
struct Field;
type Line = [u64; 8];
const REGIONS: usize = 7;
const THREADS: usize = 2;
impl Layout for Field {
    const NAME: &'static str = "field";
    type Root = [[[Line; 2]; REGIONS]; THREADS];
}

const BYTES: u64 = 16384 + 4 * 4096;

fn checked<S: Atomicity>(logs: u32, seed: u64) -> (Run, Outcome) {
    let run = check::record(BYTES, Platform::ADR, &Schedule::walk(seed), |env: &Scene| {
        let pool = Pool::<_, Field, S>::create(env, &with_logs(logs, 256)).expect("it fits");
        env.threads(THREADS as u32, |thread| {
            for at in 0..REGIONS {
                let pair = pool.root().element(thread as usize).element(at);
                let done = pool.region(|tx| {
                    (0..2).try_for_each(|line| tx.set(pair.element(line).element(0), 1 + at as u64))
                });
                done.expect("there is room");
            }
        });
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let outcome = Check::new(&run).run(|image, crash| {
        let ended = count_ended(&crash);
        let found = found(image)?;
        let fits = found.is_some_and(|found| (ended..=ended + THREADS).contains(&found));
        let fits = fits || (found.is_none() && crash.begun() == 0);
        fits.then_some(()).ok_or_else(|| format!("{ended} regions had ended, found are {found:?}"))
    });
    (run, outcome)
}

/// How many regions recovery found, if there is a pool.
fn found(image: &Scratch) -> Result<Option<usize>, String> {
    let env = pmem::Os::new(image);
    let pool = match Pool::<_, Field, Redo>::open(&env) {
        Ok((pool, _)) => pool,
        Err(Error::NotAPool { .. }) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut regions = 0;
    for pairs in pool.get(pool.root()) {
        let values = pairs.map(|[one, other]| [one[0], other[0]]);
        let count = values.iter().take_while(|pair| pair[0] > 0).count();
        let whole = |at: usize| if at < count { 1 + at as u64 } else { 0 };
        if !(0..REGIONS).all(|at| values[at] == [whole(at); 2]) {
            return Err(format!("{values:?}"));
        }
        regions += count;
    }
    Ok(Some(regions))
}

#[test]
fn lines_that_are_written_to_once_are_there() {
    for seed in 0..4 {
        let (run, outcome) = checked::<Redo>(1 + seed as u32 % 2, seed);
        clean(&run, &outcome);
    }
}

#[test]
fn who_forgets_the_last_records_places_is_caught() {
    for logs in [1, 2] {
        let found =
            (0..20).any(|seed| !checked::<Redo<flaw::OpenForgotten>>(logs, seed).1.findings.is_empty());
        assert!(found, "with {logs} logs");
    }
}
