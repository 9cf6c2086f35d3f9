//! What checking costs over recording, on a map with 20,000 inserts.
//!
//! `cargo bench -p strandline --bench checking [-- ROUNDS]`. Two maps:
//!
//! * A C program (`tests/programs/map_inserts.c`): plain, recorded (`strandline record`), and checked without a recovery command
//!   (`strandline check`: the lints, as pmemcheck does it). With one, the check takes a process per image: images per second are reported.
//! * A map in this process: recorded, and then checked at every crash point, by a recovery that looks at what the log and the
//!   last insert touched. A recovery that walks over the whole map costs what its walks cost; how many images it gets through is reported.
//!
//! Times are processor time of all processes or of this one, the median of the rounds, and ratios are made within a round.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::{Scratch, ok, strandline};
use rustix::time::{ClockId, clock_gettime};
use space::sim::Schedule;
use space::{Env, Space};
use strandline::check::{self, Check, Scene};
use strandline::crash::{Platform, Strategy};

const INSERTS: u64 = 20_000;
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../observe/instrument/include");
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/map_inserts.c");

fn main() {
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(5);
    let scratch = Scratch::new();
    in_c(&scratch, rounds);
    in_process(rounds);
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn in_c(scratch: &Scratch, rounds: usize) {
    for (mut command, output) in [(Command::new("gcc"), "plain"), (strandline(), "observed")] {
        if output == "observed" {
            command.arg("cc");
        }
        ok(command.current_dir(scratch.dir()).args([
            "-O2",
            "-g",
            "-mclflushopt",
            "-I",
            INCLUDE,
            "-o",
            output,
            SOURCE,
        ]));
    }
    let pool = tempfile::Builder::new().prefix("strandline-bench-").tempdir_in("/dev/shm").expect("memory");
    let (pool, count) = (pool.path().join("pool"), INSERTS.to_string());
    let run = |words: &[&str]| {
        std::fs::remove_file(&pool).ok();
        let mut command = if words.is_empty() { Command::new(scratch.path("plain")) } else { strandline() };
        if !words.is_empty() {
            command.args(words).arg("--").arg(scratch.path("observed"));
        }
        time(command.arg(&pool).arg(&count), scratch.dir())
    };
    let mut figures = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let plain = run(&[]);
        let recorded = run(&["record", "-o", "t.slt"]);
        let values = run(&["record", "--values", "-o", "v.slt"]);
        let checked = run(&["check", "--out", "found"]);
        for (figures, figure) in figures.iter_mut().zip([plain, recorded, values, checked]) {
            figures.push(figure);
        }
    }
    println!("{INSERTS} inserts in C, processor time, median of {rounds} rounds");
    let [plain, recorded, values, checked] = figures;
    let ratio = |a: &[f64], b: &[f64]| median(a.iter().zip(b).map(|(a, b)| a / b).collect());
    let of_recorded = [ratio(&plain, &recorded), 1.0, ratio(&values, &recorded), ratio(&checked, &recorded)];
    let rows =
        [("plain", plain), ("recorded", recorded), ("recorded with values", values), ("checked", checked)];
    for ((name, figures), ratio) in rows.into_iter().zip(of_recorded) {
        println!("{name:<24} {:>8.3} s {ratio:>7.2}x of recorded", median(figures));
    }
}

/// Processor seconds of a run, children included.
fn time(command: &mut Command, dir: &Path) -> f64 {
    let before = children_cpu();
    ok(command.current_dir(dir));
    children_cpu() - before
}

/// Processor seconds of all children that ended (`cutime` and `cstime` of /proc/self/stat, 100 a second).
fn children_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    let ticks: f64 = [13, 14].iter().map(|&i| fields[i].parse::<f64>().expect("a number")).sum();
    ticks / 100.0
}

/// Processor seconds of this process.
fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Slots of a line each: key, value, and a word that says that they are there.
const SLOTS: u64 = 1 << 15;
const LEN: u64 = (SLOTS + 64) * 64;

fn slot(key: u64) -> u64 {
    4096 + key.wrapping_mul(0x9E37_79B9_7F4A_7C15) % SLOTS * 64
}

fn fill(env: &Scene) {
    let space = env.space();
    for key in 1..=INSERTS {
        let mut at = slot(key);
        while space.load_u64(at) != 0 {
            at = 4096 + (at - 4096 + 64) % (SLOTS * 64);
        }
        // The key last: it says that the rest is there.
        space.store_u64(at + 8, key * 3);
        space.persist(at + 8, 8);
        space.store_u64(at, key);
        space.persist(at, 8);
        space.store_u64(0, key);
        space.persist(0, 8);
    }
}

fn find<S: Space>(space: &S, key: u64) -> Option<u64> {
    let mut at = slot(key);
    loop {
        match space.load_u64(at) {
            0 => return None,
            found if found == key => return Some(space.load_u64(at + 8)),
            _ => at = 4096 + (at - 4096 + 64) % (SLOTS * 64),
        }
    }
}

/// The newest insert and the one that may be under way.
fn look<S: Space>(space: &S) -> Result<(), String> {
    let count = space.load_u64(0);
    if count > 0 && find(space, count) != Some(count * 3) {
        return Err("the newest key is lost".into());
    }
    match find(space, count + 1) {
        Some(value) if value != (count + 1) * 3 => Err("a key has no value".into()),
        _ => Ok(()),
    }
}

fn walk<S: Space>(space: &S) -> Result<(), String> {
    let mut found = 0;
    for number in 0..SLOTS {
        let at = 4096 + number * 64;
        let key = space.load_u64(at);
        if key != 0 && space.load_u64(at + 8) != key * 3 {
            return Err("a key has no value".into());
        }
        found += u64::from(key != 0);
    }
    if found < space.load_u64(0) { Err("a key is lost".into()) } else { Ok(()) }
}

fn in_process(rounds: usize) {
    println!("{INSERTS} inserts in this process, median of {rounds} rounds");
    let (mut recorded, mut checked, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let start = own_cpu();
        let run = check::record(LEN, Platform::ADR, &Schedule::walk(1), fill).expect("the map is filled");
        recorded.push(own_cpu() - start);
        let mut check = Check::new(&run);
        check.checker.strategy = Strategy::Targeted;
        let start = own_cpu();
        let outcome = check.run(|image, _| look(image));
        checked.push(own_cpu() - start);
        ratios.push(checked[round] / recorded[round]);
        assert_eq!(outcome.findings, [], "the map is right");
        if round + 1 == rounds {
            println!("{:<24} {:>8.3} s", "recorded", median(recorded.clone()));
            println!(
                "{:<24} {:>8.3} s {:>7.2}x of recorded; {} crash points, {} images, {:.0}/s",
                "checked, two keys each",
                median(checked.clone()),
                median(ratios.clone()),
                outcome.points_done,
                outcome.images,
                outcome.images as f64 / checked[round]
            );
            // As long as the check before: how far does it come?
            let start = Instant::now();
            let limit = 5.0 * recorded[round];
            let outcome =
                check.run_while(|image, _| walk(image), &mut |_| start.elapsed().as_secs_f64() < limit);
            println!(
                "{:<24} {:>8.3} s {:>7.2}x of recorded; {} of {} crash points, {} images",
                "checked, the whole map",
                start.elapsed().as_secs_f64(),
                start.elapsed().as_secs_f64() / recorded[round],
                outcome.points_done,
                outcome.points,
                outcome.images,
            );
        }
    }
}
