//! `strandline measure --on real` beside programs that measure the same in their own way (kernels after STREAM, a pointer
//! chase after multichase), turn by turn in one run.
//!
//! `cargo bench -p strandline --bench agreement [-- ROUNDS]` prints the best round of each, their ratio, and how far the rounds
//! of each lie apart. On a machine that does something else at the same time the rounds lie far apart, and nothing is proved.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Command;

use common::{Scratch, ok, stdout, strandline};
use serde_json::Value;

/// Two ways to measure one thing.
struct Pair {
    name: String,
    /// Arguments of the C program.
    theirs: String,
    /// Arguments of `strandline measure`.
    ours: String,
    /// What of its figures is the same thing.
    figure: &'static str,
    /// Whether the largest round is the best.
    rate: bool,
}

fn main() {
    let rounds: usize = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(5);
    let scratch = Scratch::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/memory_speed.c");
    let program = scratch.path("memory_speed");
    // A copy that stays a loop: memcpy has its own ideas about caches.
    let flags = ["-O3", "-march=native", "-fno-tree-loop-distribute-patterns", "-pthread", "-o"];
    ok(Command::new("gcc").args(flags).arg(&program).arg(source));
    println!(
        "{:<26} {:>10} {:>10} {:>7}   {:>8} {:>8}",
        "best of rounds", "theirs", "ours", "ratio", "spread", "spread"
    );
    for pair in pairs(std::thread::available_parallelism().map_or(1, usize::from)) {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..rounds.max(1) {
            theirs.push(other(&program, &pair));
            ours.push(own(&scratch, &pair));
        }
        let ((best, spread), (own_best, own_spread)) =
            (reported(&theirs, pair.rate), reported(&ours, pair.rate));
        let ratio = own_best / best;
        println!(
            "{:<26} {best:>10.2} {own_best:>10.2} {ratio:>7.3}   {spread:>7.0}% {own_spread:>7.0}%",
            pair.name
        );
    }
}

fn pairs(cpus: usize) -> Vec<Pair> {
    const MIB: usize = 1024;
    // The best of short runs, as the other side has it.
    let rate = "/gb_per_s_range/1";
    let mut pairs = Vec::new();
    for threads in [1, cpus] {
        pairs.push(Pair {
            name: format!("read, {threads} threads, GB/s"),
            theirs: format!("read {threads} {MIB}"),
            ours: format!("threads --threads {threads} --region {MIB}MiB --access-size 4KiB --op load"),
            figure: rate,
            rate: true,
        });
        pairs.push(Pair {
            name: format!("copy, {threads} threads, GB/s"),
            theirs: format!("copy {threads} {MIB}"),
            // One access is a pass: the first half of the region onto the second.
            ours: format!("threads --threads {threads} --region {MIB}MiB --access-size {MIB}MiB --op copy"),
            figure: rate,
            rate: true,
        });
        if cpus == 1 {
            break;
        }
    }
    pairs.push(Pair {
        name: format!("random load in {MIB} MiB, ns"),
        theirs: format!("chase {MIB}"),
        ours: format!("read-after-write --raw chase --region {MIB}MiB"),
        figure: "/line_ns",
        rate: false,
    });
    pairs
}

fn other(program: &Path, pair: &Pair) -> f64 {
    let text = stdout(&ok(Command::new(program).args(pair.theirs.split(' '))));
    text.trim().parse().expect("a number")
}

fn own(scratch: &Scratch, pair: &Pair) -> f64 {
    let mut command = strandline();
    command.current_dir(scratch.dir()).arg("measure").args(pair.ours.split(' '));
    command.args(["--runtime", "50ms", "--repeat", "20", "--json"]);
    let json: Value = serde_json::from_str(&stdout(&ok(&mut command))).expect("JSON");
    let figures = &json["measurements"][0]["outcome"]["done"];
    figures.pointer(pair.figure).and_then(Value::as_f64).expect("it was measured")
}

/// The best, and how far the worst is from it in percent.
fn reported(rounds: &[f64], rate: bool) -> (f64, f64) {
    let (low, high) =
        (rounds.iter().copied().fold(f64::MAX, f64::min), rounds.iter().copied().fold(0.0, f64::max));
    let best = if rate { high } else { low };
    (best, 100.0 * (high - low) / best)
}
