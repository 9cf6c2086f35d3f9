//! A log that several threads append to, and its crash check, in this process.
//!
//! ```sh
//! cargo run --release --example check_log                # right: nothing is found
//! cargo run --release --example check_log -- --wrong     # its fence comes too late
//! ```
//!
//! The log is generic over `Env`: on `pmem::Os` it runs on real memory, on the simulated environment it is checked.

use std::process::ExitCode;

use strandline::check::{self, Check, Crash, RunError, Scene};
use strandline::crash::{Outcome, Platform};
use strandline::space::sim::Schedule;
use strandline::space::{Env, Observer, Space};

/// Where the number of records is.
const COUNT: u64 = 0;
/// Where the first record is: its value, and the complement of that.
const FIRST: u64 = 64;
const RECORD: u64 = 64;
/// Of the whole log.
const BYTES: u64 = 4096;

const THREADS: u32 = 2;
const APPENDS: u64 = 3;

struct Log<'e, E: Env> {
    env: &'e E,
    count: E::Mutex<u64>,
    wrong: bool,
}

impl<'e, E: Env> Log<'e, E> {
    fn new(env: &'e E, wrong: bool) -> Self {
        Log { env, count: env.mutex(0), wrong }
    }

    fn append(&self, value: u64) {
        let space = self.env.space();
        let mut count = self.env.lock(&self.count);
        let at = FIRST + *count * RECORD;
        space.store_u64(at, value);
        space.store_u64(at + 8, !value);
        space.flush(at, 16);
        if !self.wrong {
            space.fence();
        }
        *count += 1;
        space.store_u64(COUNT, *count);
        space.persist(COUNT, 8);
    }
}

/// What the program does. Each append is a region, so that a crash knows how many had ended.
fn scenario(env: &Scene, wrong: bool) {
    let log = Log::new(env, wrong);
    env.threads(THREADS, |thread| {
        for number in 0..APPENDS {
            let region = u64::from(thread) * APPENDS + number + 1;
            env.space().observer().region_begin(region);
            log.append(region);
            env.space().observer().region_end(region);
        }
    });
}

/// What must hold after every crash.
fn recover(image: &impl Space, crash: Crash<'_>) -> Result<(), String> {
    let count = image.load_u64(COUNT);
    for at in (0..count).map(|record| FIRST + record * RECORD) {
        let (value, complement) = (image.load_u64(at), image.load_u64(at + 8));
        if complement != !value {
            return Err(format!("the record at {at} is torn"));
        }
    }
    if count < crash.ended() {
        return Err(format!("{} appends had ended, and there are {count} records", crash.ended()));
    }
    Ok(())
}

/// Runs the scenario by one schedule of its threads and tries every crash of it; what was found, and in words.
pub fn examine(seed: u64, wrong: bool) -> Result<(Outcome, String), RunError> {
    let run = check::record(BYTES, Platform::ADR, &Schedule::walk(seed), |env| scenario(env, wrong))?;
    let check = Check::new(&run);
    let outcome = check.run(recover);
    // Each token repeats its image.
    for finding in &outcome.findings {
        let again = check.replay(&finding.token, recover);
        assert_eq!(again.ok().flatten().map(|again| again.message), Some(finding.message.clone()));
    }
    let story = check.story(&outcome);
    Ok((outcome, story))
}

fn main() -> Result<ExitCode, RunError> {
    let wrong = std::env::args().any(|word| word == "--wrong");
    let mut images = 0;
    for seed in 1..=20 {
        let (outcome, story) = examine(seed, wrong)?;
        images += outcome.images;
        if !outcome.findings.is_empty() {
            print!("{story}");
            return Ok(ExitCode::FAILURE);
        }
    }
    println!("nothing found; {images} images of 20 schedules");
    Ok(ExitCode::SUCCESS)
}
