//! What a simulated environment costs: an access that nobody interrupts, one at which it is decided who goes
//! on, and a change of threads.
//!
//! `cargo bench -p space` measures; `cargo test -p space` runs the same for a moment. Every row prints the
//! fastest of several turns.

use std::time::Instant;

use space::sim::{Accesses, Schedule, Strategy, run};
use space::{Env, Image, Space};

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (accesses, turns) = if full { (200_000, 10) } else { (500, 2) };
    println!("{:<58}{:>12}", "per access of 8 bytes", "ns");
    row("on an image", turns, accesses, || {
        let image = Image::new(64);
        (0..accesses).for_each(|round| image.store_u64(round % 8 * 8, round));
    });
    let stay = Schedule::new(Strategy::Stay, 1);
    let never = stay.clone().at_accesses(Accesses::Never);
    let every = stay.at_accesses(Accesses::Every);
    let turn = Schedule::new(Strategy::Turns, 1).at_accesses(Accesses::Every);
    row("simulated, one thread", turns, accesses, || work(&every, 1, accesses));
    row("simulated, two threads, no decisions at accesses", turns, accesses, || work(&never, 2, accesses));
    row("simulated, two threads, a decision at each", turns, accesses, || work(&every, 2, accesses));
    row("simulated, two threads, a change at each", turns, accesses / 20, || work(&turn, 2, accesses / 20));
    row("simulated, two threads, a random walk of one in 16", turns, accesses / 4, || {
        work(&Schedule::walk(1), 2, accesses / 4);
    });
}

/// So many stores, shared among threads.
fn work(schedule: &Schedule, threads: u32, accesses: u64) {
    let ran = run(Image::new(64), schedule, |env| {
        env.threads(threads, |_| {
            let space = env.space();
            (0..accesses / u64::from(threads)).for_each(|round| space.store_u64(round % 8 * 8, round));
        });
    });
    assert_eq!(ran.result, Ok(()));
}

fn row(what: &str, turns: u32, accesses: u64, work: impl Fn()) {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() / accesses as f64 * 1e9
    };
    let best = (0..turns).map(time).fold(f64::INFINITY, f64::min);
    println!("{what:<58}{best:>12.1}");
}
