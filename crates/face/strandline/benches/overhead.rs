//! What observation costs: LMDB and SQLite plain, counted, recorded and profiled, turn by turn in one run.
//!
//! `cargo bench -p strandline --bench overhead [-- ROUNDS]` prints wall and processor time of each as a ratio to
//! the plain program of the same round, the median over the rounds.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use common::{Scratch, c_sources, ok, strandline};

/// One program, built twice.
struct Program {
    name: &'static str,
    plain: PathBuf,
    observed: PathBuf,
    arguments: Vec<String>,
    database: PathBuf,
}

fn main() {
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(5);
    let scratch = Scratch::new();
    println!("{:<24} {:>10} {:>8} {:>8}   median of {rounds} rounds", "", "wall", "wall", "cpu");
    for program in [lmdb(&scratch), sqlite(&scratch)] {
        let modes: [(&str, &[&str]); 3] = [
            ("counted", &["record", "--count"]),
            ("recorded", &["record", "-o", "t.slt"]),
            ("profiled, no trace", &["profile", "--out", "report"]),
        ];
        let mut figures = vec![Vec::new(); modes.len() + 1];
        for _ in 0..rounds {
            let plain = time(Command::new(&program.plain).args(&program.arguments), &program, scratch.dir());
            figures[0].push((plain.0, 1.0, 1.0));
            for (mode, (_, words)) in modes.iter().enumerate() {
                let mut command = strandline();
                command.args(*words).arg("--").arg(&program.observed).args(&program.arguments);
                let (wall, cpu) = time(&mut command, &program, scratch.dir());
                figures[mode + 1].push((wall, wall / plain.0, cpu / plain.1));
            }
        }
        let names = ["plain"].into_iter().chain(modes.iter().map(|mode| mode.0));
        for (name, mut rounds) in names.zip(figures) {
            rounds.sort_by(|a, b| a.1.total_cmp(&b.1));
            let (wall, wall_ratio, cpu_ratio) = rounds[rounds.len() / 2];
            let name = format!("{} {name}", program.name);
            println!("{name:<24} {wall:>8.2} s {wall_ratio:>7.2}x {cpu_ratio:>7.2}x");
        }
        let size = std::fs::metadata(scratch.path("t.slt")).map_or(0, |m| m.len());
        let info = common::info(&scratch.path("t.slt"));
        let events = common::number(&info, "events");
        #[allow(clippy::cast_precision_loss)]
        let per_event = size as f64 / events as f64;
        println!("{:<24} {} events, {per_event:.2} bytes each", format!("{} trace", program.name), events);
    }
}

/// Wall and processor seconds of a run, children included, on a fresh database.
fn time(command: &mut Command, program: &Program, dir: &Path) -> (f64, f64) {
    for end in ["", "-lock", "-journal"] {
        let mut file = program.database.clone().into_os_string();
        file.push(end);
        drop(std::fs::remove_file(file));
    }
    let before = children_cpu();
    let start = Instant::now();
    ok(command.current_dir(dir));
    (start.elapsed().as_secs_f64(), children_cpu() - before)
}

/// Processor seconds of all children that ended (`cutime` and `cstime` of /proc/self/stat, 100 a second).
fn children_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    let ticks: f64 = [13, 14].iter().map(|&i| fields[i].parse::<f64>().expect("a number")).sum();
    ticks / 100.0
}

fn lmdb(scratch: &Scratch) -> Program {
    let source = c_sources("lmdb-master-sys", "lmdb/libraries/liblmdb");
    let files = ["mdb.c", "midl.c"].map(|f| source.join(f));
    build(scratch, "lmdb", &source, &files, "1000000")
}

fn sqlite(scratch: &Scratch) -> Program {
    let source = c_sources("libsqlite3-sys", "sqlite3");
    let files = [source.join("sqlite3.c")];
    build(scratch, "sqlite", &source, &files, "100000")
}

fn build(scratch: &Scratch, name: &'static str, include: &Path, files: &[PathBuf], size: &str) -> Program {
    let loader = format!("{}/tests/programs/{name}_load.c", env!("CARGO_MANIFEST_DIR"));
    let (plain, observed) =
        (scratch.path(&format!("{name}-plain")), scratch.path(&format!("{name}-observed")));
    let mut observer = strandline();
    observer.arg("cc");
    for (mut command, output) in [(Command::new("gcc"), &plain), (observer, &observed)] {
        command
            .args(["-O2", "-pthread", "-I"])
            .arg(include)
            .arg("-o")
            .arg(output)
            .arg(&loader)
            .args(files)
            .arg("-lm");
        ok(&mut command);
    }
    let database = scratch.path(&format!("{name}.db"));
    let arguments = vec![database.display().to_string(), size.to_owned()];
    Program { name, plain, observed, arguments, database }
}
