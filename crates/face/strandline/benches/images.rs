//! How many crash images of a small structure are examined per second and core.
//!
//! `cargo bench -p strandline --bench images`. A hash table of 64 slots in 8 KiB: a line per slot, key and value persisted before a token, then the
//! token. Recovery walks over the whole table. The images are those that recovery can tell apart; in the second row
//! every image of every crash point. Beside them, in the same run, recovery alone on a fresh copy of the image, as a checker
//! without a rolled back image would do it.

use std::time::Instant;

use space::sim::Schedule;
use space::{Env, Image, Space};
use strandline::check::{self, Check, Scene};
use strandline::crash::{Platform, Strategy};

const SLOTS: u64 = 64;
const LEN: u64 = 64 + SLOTS * 64 + 4096 - 64;

fn slot(key: u64) -> u64 {
    64 + key.wrapping_mul(0x9E37_79B9_7F4A_7C15) % SLOTS * 64
}

fn fill(env: &Scene) {
    let space = env.space();
    for key in 1..=400u64 {
        let at = slot(key);
        space.store_u64(at, 0);
        space.persist(at, 8);
        // Five words of a line in any prefix, and a count on another line.
        for word in 1..6 {
            space.store_u64(at + word * 8, key + word);
        }
        space.store_u64(0, key);
        space.flush(at, 64);
        space.flush(0, 8);
        space.fence();
        space.store_u64(at, key);
        space.persist(at, 8);
    }
}

fn recover<S: Space>(space: &S) -> Result<(), String> {
    for number in 0..SLOTS {
        let at = 64 + number * 64;
        let key = space.load_u64(at);
        if key != 0 && space.load_u64(at + 8) != key + 1 {
            return Err(format!("slot {number} has key {key} and another's value"));
        }
    }
    if space.load_u64(0) > 400 { Err("the count is wrong".into()) } else { Ok(()) }
}

fn main() {
    let run = check::record(LEN, Platform::ADR, &Schedule::walk(1), fill).expect("the table is filled");
    println!("{:<28} {:>9} {:>9} {:>12} {:>10}", "", "images", "repeated", "images/s", "findings");
    for (name, strategy) in [("that recovery tells apart", Strategy::Targeted), ("all", Strategy::Exhaustive)]
    {
        let mut check = Check::new(&run);
        check.checker.strategy = strategy;
        let start = Instant::now();
        let outcome = check.run(|image, _| recover(image));
        let rate = outcome.images as f64 / start.elapsed().as_secs_f64();
        println!(
            "{name:<28} {:>9} {:>9} {rate:>12.0} {:>10}",
            outcome.images,
            outcome.repeated,
            outcome.findings.len()
        );
    }
    let bytes = vec![0; LEN as usize];
    let count = 20_000;
    let start = Instant::now();
    for _ in 0..count {
        recover(std::hint::black_box(&Image::from_bytes(std::hint::black_box(&bytes))))
            .expect("an empty table");
    }
    println!(
        "{:<28} {count:>9} {:>9} {:>12.0}",
        "a fresh image each",
        "",
        f64::from(count) / start.elapsed().as_secs_f64()
    );
}
