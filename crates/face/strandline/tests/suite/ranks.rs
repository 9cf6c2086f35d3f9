//! Modelled time against real time, by rank, over the small programs of this project.
//!
//! `cargo test --workspace --test suite -- --ignored --nocapture thirty_programs` prints the table of the
//! lab. Timings are the machine's and nothing is asserted of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::common::{Scratch, compile, ok, stdout, strandline};

/// Times that a program runs for the best of them.
const RUNS: usize = 5;

fn sources() -> Vec<PathBuf> {
    let own = env!("CARGO_MANIFEST_DIR");
    let folders = [format!("{own}/../../../examples/c/slow"), format!("{own}/tests/programs/everyday")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let mut all: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "c" || end == "cc"));
    all.sort();
    all
}

/// Seconds of the best run of the program without hooks.
fn real(folder: &Path, source: &Path) -> f64 {
    let compiler = if source.extension().is_some_and(|end| end == "cc") { "g++" } else { "gcc" };
    let mut command = Command::new(compiler);
    ok(command.current_dir(folder).args(["-O1", "-pthread", "-o", "plain"]).arg(source));
    let run = || {
        let start = Instant::now();
        let status = Command::new(folder.join("plain")).stdout(Stdio::null()).status().expect("it runs");
        assert!(status.success());
        start.elapsed().as_secs_f64()
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

/// Seconds on the model: those of the accesses that ran there, for all of them.
fn modelled(scratch: &Scratch, source: &Path) -> Option<f64> {
    let verb = if source.extension().is_some_and(|end| end == "cc") { "c++" } else { "cc" };
    compile(scratch.dir(), verb, &format!("-O1 -g -pthread -o app {}", source.display()));
    let output = ok(strandline().current_dir(scratch.dir()).args(["profile", "--json", "--", "./app"]));
    let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let number = |of: &Value| of.as_f64();
    let all = number(&report["counts"]["loads"])? + number(&report["counts"]["stores"])?;
    let modelled = &report["modelled"];
    Some(number(&modelled["elapsed_ns"])? / 1e9 * all / number(&modelled["accesses"])?)
}

/// Places in the order of size.
fn ranks(of: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..of.len()).collect();
    order.sort_by(|&a, &b| of[a].total_cmp(&of[b]));
    let mut ranks = vec![0.0; of.len()];
    order.into_iter().enumerate().for_each(|(place, at)| ranks[at] = place as f64);
    ranks
}

/// Spearman's coefficient.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let count = a.len() as f64;
    let squares: f64 = ranks(a).iter().zip(ranks(b)).map(|(a, b)| (a - b) * (a - b)).sum();
    1.0 - 6.0 * squares / (count * (count * count - 1.0))
}

#[test]
fn ranks_that_agree_correlate_and_reversed_ones_do_the_opposite() {
    let up = [1.0, 5.0, 7.0, 9.0];
    assert!((correlation(&up, &[2.0, 3.0, 4.0, 8.0]) - 1.0).abs() < 1e-9);
    assert!((correlation(&up, &[8.0, 4.0, 3.0, 2.0]) + 1.0).abs() < 1e-9);
}

#[test]
#[ignore = "--long: thirty programs, each profiled once and run five times"]
fn thirty_programs_by_modelled_and_by_real_time() {
    let scratch = Scratch::new();
    let (mut model, mut machine) = (Vec::new(), Vec::new());
    for source in sources() {
        let Some(seconds) = modelled(&scratch, &source) else { continue };
        let own = real(scratch.dir(), &source);
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        println!("{name:<20} modelled {:>9.3} ms   real {:>9.3} ms", seconds * 1e3, own * 1e3);
        model.push(seconds);
        machine.push(own);
    }
    println!("{} programs, rank correlation {:.2}", model.len(), correlation(&model, &machine));
}
