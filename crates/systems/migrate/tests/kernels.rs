//! Numerical kernels moved in the middle of their work: their results are those of an undisturbed run, bit for bit.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use migrate::live::{Migrate, migrate};
use migrate::restore::exit_code;

mod common;

use common::{built, memory};

/// Kernels and rounds that take about a second.
const ALL: [(&str, &str); 7] = [
    ("ep", "60"),
    ("is", "20"),
    ("cg", "120"),
    ("mg", "40"),
    ("ft", "15"),
    ("canneal", "40"),
    ("streamcluster", "120"),
];

fn moved(program: &Path, folder: &Path, (kernel, rounds): (&str, &str), threads: &str) {
    let out = folder.join(format!("{kernel}.{threads}"));
    let start = || {
        let mut command = Command::new(program);
        command.args([kernel, threads, rounds]).arg(&out);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("it was just built")
    };
    let begin = Instant::now();
    assert!(start().wait().expect("it ends").success());
    let whole = begin.elapsed();
    let mut child = start();
    std::thread::sleep(whole.mul_f64(0.4).min(Duration::from_secs(2)));
    let fam = folder.join(format!("fam.{kernel}.{threads}"));
    let done = migrate(child.id().cast_signed(), &fam, &Migrate::default()).expect("it moves");
    let _ = child.wait();
    assert_eq!(exit_code(done.child.expect("a target of ours")).expect("our child"), 0, "{kernel}");
    let text = std::fs::read_to_string(&out).expect("written");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{kernel}, {threads} threads: {lines:?}");
    println!("{kernel}, {threads} threads: stopped {:.1} ms, {} faults", done.downtime_s * 1e3, done.faults);
    let _ = std::fs::remove_dir_all(fam);
}

fn all(kernels: &[(&str, &str)], threads: &[&str]) {
    let folder = memory();
    let Some(program) = built(folder.path(), "kernels") else { return };
    for kernel in kernels {
        for threads in threads {
            moved(&program, folder.path(), *kernel, threads);
        }
    }
}

#[test]
fn results_are_those_of_an_undisturbed_run() {
    all(&[ALL[2], ALL[5]], &["2"]);
}

#[test]
#[ignore = "--long: seven kernels with one thread and with two"]
fn all_results_are_those_of_an_undisturbed_run() {
    all(&ALL, &["1", "2"]);
}
