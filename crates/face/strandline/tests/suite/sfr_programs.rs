//! The programs of `examples/c/sfr`: without persistency their checks know good pools from bad; under every
//! design a killed program leaves a frontier of its SFRs.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::fields::compare;
use crate::common::{Scratch, cc, has_flushes, ok, stderr, stdout, strandline};

/// The benchmarks.
const BENCHMARKS: [&str; 8] = ["cq", "sps", "pc", "rbtree", "tatp", "ll", "tpcc", "ycsb"];

/// Litmus programs, and whether they keep what is forbidden when nothing protects them.
const LITMUS: [(&str, bool); 6] = [
    ("tail", false),
    ("outside", false),
    ("publication", true),
    ("condition", true),
    ("nested", false),
    ("reuse", true),
];

/// The designs under which something survives.
const DESIGNS: [&str; 4] = ["coupled", "decoupled", "strand", "atlas"];

/// Builds them all into a folder with a compiler.
fn build(scratch: &Scratch, compiler: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/c/sfr");
    let folder = scratch.path("build");
    ok(Command::new("make")
        .arg("-C")
        .arg(sources)
        .args(["-j2", "CFLAGS=-std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror"])
        .arg(format!("CC={compiler}"))
        .arg(format!("B={}", folder.display())));
    folder
}

/// A file that is memory, so that a run is as fast as its stores.
fn memory() -> tempfile::TempDir {
    let folder = Path::new("/dev/shm");
    let folder = if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(folder).expect("a folder in memory")
}

/// Whether a pool is good, and why not.
fn check(program: &Path, pool: &Path, acks: Option<&Path>) -> (bool, String) {
    let mut command = Command::new(program);
    command.arg("--check");
    if let Some(acks) = acks {
        command.arg("--acks").arg(acks);
    }
    let output: Output = command.arg(pool).output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{program:?}: {output:?}");
    (output.status.success(), stdout(&output) + &stderr(&output))
}

#[test]
fn benchmarks_run_and_check_themselves() {
    let (scratch, memory) = (Scratch::new(), memory());
    let programs = build(&scratch, "gcc");
    for name in BENCHMARKS {
        for stores in ["1", "2", "64"] {
            let pool = memory.path().join(format!("{name}-{stores}"));
            let acks = memory.path().join(format!("{name}-{stores}-acks"));
            // The second run goes on with the pool of the first.
            for threads in ["1", "3"] {
                let output = ok(Command::new(programs.join(name))
                    .args(["--ops", "3000", "--threads", threads, "--stores-per-sfr", stores, "--acks"])
                    .args([&acks, &pool]));
                let line: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
                assert_eq!(line["benchmark"], name);
                assert!(line["ops"] == 3000 && line["wall_ns"].as_u64() > Some(0), "{line}");
            }
            let (good, said) = check(&programs.join(name), &pool, Some(&acks));
            assert!(good && said.contains("6000 operations counted"), "{said}");
            std::fs::remove_file(&pool).expect("removed");
        }
    }
    let refused = Command::new(programs.join("cq")).args(["--stores-per-sfr", "65", "pool"]).output();
    assert_eq!(refused.expect("it runs").status.code(), Some(2));
}

/// A check that finds nothing in pools that nothing protects would find nothing elsewhere.
#[test]
fn checks_find_what_kills_leave_of_unprotected_pools() {
    let (scratch, memory) = (Scratch::new(), memory());
    let programs = build(&scratch, "gcc");
    for name in ["pc", "rbtree", "tpcc", "ycsb"] {
        let program = programs.join(name);
        let found = (0..300).any(|round| {
            let pool = memory.path().join(format!("{name}-{round}"));
            let mut run = Command::new(&program)
                .args(["--threads", "4", "--size", "200", "--stores-per-sfr", "64", "--ops", "100000"])
                .args(["--seed", &round.to_string()])
                .arg(&pool)
                .stdout(Stdio::null())
                .spawn()
                .expect("it runs");
            std::thread::sleep(Duration::from_millis(3 + round % 27));
            run.kill().expect("it is killed");
            run.wait().expect("it ends");
            let bad = pool.exists() && !check(&program, &pool, None).0;
            _ = std::fs::remove_file(&pool);
            bad
        });
        assert!(found, "{name}: 300 kills left good pools");
    }
}

#[test]
fn a_broken_word_is_found_in_every_pool() {
    let (scratch, memory) = (Scratch::new(), memory());
    let programs = build(&scratch, "gcc");
    for name in BENCHMARKS {
        let (program, pool) = (programs.join(name), memory.path().join(name));
        ok(Command::new(&program).args(["--ops", "50", "--size", "20", "--stores-per-sfr", "4"]).arg(&pool));
        assert!(check(&program, &pool, None).0);
        // Where the data is follows from nothing here: some of these words are of it.
        let bytes = std::fs::read(&pool).expect("read");
        let file = std::fs::File::options().write(true).open(&pool).expect("opened");
        let used = bytes.iter().rposition(|byte| *byte != 0).expect("something is stored") / 8;
        let found = (used / 2..used).rev().step_by(7).take(300).any(|word| {
            let put = |byte: u8| file.write_all_at(&[byte], word as u64 * 8).expect("written");
            put(bytes[word * 8] ^ 1);
            let bad = !check(&program, &pool, None).0;
            put(bytes[word * 8]);
            bad
        });
        assert!(found, "{name}");
        std::fs::remove_file(&pool).expect("removed");
    }
}

#[test]
fn litmus_programs_show_what_nothing_protects() {
    let (scratch, memory) = (Scratch::new(), memory());
    let programs = build(&scratch, "gcc");
    for (name, kept) in LITMUS {
        let (program, pool) = (programs.join(format!("litmus-{name}")), memory.path().join(name));
        let died = Command::new(&program).arg(&pool).output().expect("it runs");
        assert_eq!(died.status.code(), None, "{name} did not die: {died:?}");
        let (good, said) = check(&program, &pool, None);
        assert_eq!(good, kept, "{name}: {said}");
    }
}

/// Kills each benchmark under each design so often, each time going on with what the last one left.
fn killed(rounds: u64) {
    let (scratch, memory) = (Scratch::new(), memory());
    let programs = build(&scratch, &format!("{} --persist=decoupled", cc("cc")));
    for (design, name) in DESIGNS.iter().flat_map(|design| BENCHMARKS.map(|name| (*design, name))) {
        let program = programs.join(name);
        let file = |what: &str| memory.path().join(format!("{name}-{design}{what}"));
        let (pool, acks) = (file(""), file("-acks"));
        for round in 0..rounds {
            if round % 8 == 0 {
                _ = (std::fs::remove_file(&pool), std::fs::remove_file(&acks));
            }
            let stores = 1 + round * 7 % 17;
            let mut run = Command::new(&program)
                .env("STRANDLINE_PERSIST", design)
                .args(["--threads", "3", "--ops", "30000", "--size", "40"])
                .args(["--seed", &round.to_string(), "--stores-per-sfr", &stores.to_string()])
                .arg("--acks")
                .args([&acks, &pool])
                .stdout(Stdio::null())
                .spawn()
                .expect("it runs");
            std::thread::sleep(Duration::from_millis(30 + round * 13 % 150));
            run.kill().expect("it is killed");
            run.wait().expect("it ends");
            if pool.exists() {
                let (good, said) = check(&program, &pool, Some(&acks));
                assert!(good, "{name}, {design}, round {round}: {said}");
                if said.contains("the crash came before") {
                    _ = (std::fs::remove_file(&pool), std::fs::remove_file(&acks));
                }
            }
        }
        _ = std::fs::remove_file(&pool);
    }
}

#[test]
fn killed_programs_leave_a_frontier() {
    killed(1);
}

#[test]
#[ignore = "kills thousands of processes"]
fn programs_killed_again_and_again_leave_a_frontier() {
    killed(100);
}

/// What is forbidden does not survive, but for what ATLAS leaves unprotected: as it was published, also what
/// atomics and conditions order.
#[test]
fn litmus_programs_distinguish_the_designs() {
    let (scratch, memory) = (Scratch::new(), memory());
    let programs = build(&scratch, &format!("{} --persist=decoupled", cc("cc")));
    let published = ("atlas", "published", &["outside", "publication", "condition", "reuse"][..]);
    let unlogged = &["outside", "reuse"][..];
    let designs = DESIGNS.map(|name| (name, "sound", if name == "atlas" { unlogged } else { &[] }));
    for (design, kind, broken) in designs.into_iter().chain([published]) {
        for (name, _) in LITMUS {
            let (program, pool) = (programs.join(format!("litmus-{name}")), memory.path().join("pool"));
            let mut run = Command::new(&program);
            run.env("STRANDLINE_PERSIST", design).env("STRANDLINE_PERSIST_ATLAS", kind);
            let died = run.arg(&pool).output().expect("it runs");
            assert_eq!(died.status.code(), None, "{name} did not die: {died:?}");
            let (good, said) = check(&program, &pool, None);
            assert_eq!(good, !broken.contains(&name), "{name}, {design}, {kind}: {said}");
            std::fs::remove_file(&pool).expect("removed");
        }
    }
}

/// What `strandline check` says of a few operations of a benchmark under a design.
struct Checked {
    crash_points: u64,
    images: u64,
    failing: u64,
}

/// Operations on a pool that is there, so that the images are those of the operations.
fn checked(program: &Path, design: &str, pool: &Path, bounds: &[&str]) -> Checked {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let size = match name {
        "sps" => "128",
        "tpcc" => "1",
        "ll" | "cq" => "4",
        _ => "20",
    };
    let stores = if name == "sps" { "4" } else { "2" };
    let options = ["--threads", "2", "--ops", "4", "--size", size, "--stores-per-sfr", stores];
    let designed = |command: &mut Command| {
        command.env("STRANDLINE_PERSIST", design);
    };
    let mut setup = Command::new(program);
    designed(&mut setup);
    ok(setup.arg("--setup").args(options).arg(pool));
    let mut check = strandline();
    designed(&mut check);
    check.args(["check", "--json", "--findings", "1"]).args(bounds);
    check.args(["--recover", &format!("{} --check POOL", program.display()), "--"]);
    let output = check.arg(program).args(options).arg(pool).output().expect("it runs");
    std::fs::remove_file(pool).expect("removed");
    // The program's own line comes first.
    let text = stdout(&output);
    let json = text.find('{').map_or("", |_| text.trim_start_matches(|of| of != '{'));
    let values = serde_json::Deserializer::from_str(json).into_iter::<serde_json::Value>();
    let report = values.filter_map(Result::ok).find(|value| value["images"].is_u64());
    let report = report.unwrap_or_else(|| panic!("{name}, {design}: {text}{}", stderr(&output)));
    let count = |field: &str| report[field].as_u64().unwrap_or(0);
    Checked { crash_points: count("crash_points"), images: count("images"), failing: count("images_failing") }
}

/// Checks benchmarks under designs, prints a table, and holds it against what has to be.
fn matrix(benchmarks: &[&str], designs: &[&str], bounds: &[&str]) {
    if !has_flushes() {
        return;
    }
    let (scratch, memory) = (Scratch::new(), memory());
    let programs = build(&scratch, &format!("{} --persist=decoupled", cc("cc")));
    for name in benchmarks {
        for design in designs {
            let Checked { crash_points, images, failing } =
                checked(&programs.join(name), design, &memory.path().join(name), bounds);
            println!("| {name} | {design} | {crash_points} | {images} | {failing} |");
            assert!(images > 0, "{name}, {design}: no images");
            assert_eq!(failing > 0, *design == "none", "{name}, {design}: {failing} of {images} images fail");
        }
    }
}

#[test]
fn check_finds_nothing_in_benchmarks_but_without_persistency() {
    matrix(&["sps"], &["decoupled", "none"], &["--images", "8", "--time", "4s"]);
    matrix(&["ll"], &["coupled"], &["--images", "8", "--time", "4s"]);
}

#[test]
#[ignore = "recovers thousands of images"]
fn check_finds_nothing_in_any_benchmark_but_without_persistency() {
    let designs = ["coupled", "decoupled", "atlas", "strand", "none"];
    matrix(&BENCHMARKS, &designs, &["--images", "64", "--time", "30s"]);
}

#[test]
fn bench_compares_the_designs() {
    let scratch = Scratch::new();
    let page = scratch.path("page.html");
    let output = ok(strandline()
        .args(["bench", "sfr", "--ops", "200", "--rounds", "1", "--benchmark", "sps,tatp"])
        .args(["--stores-per-sfr", "2,8", "--json", "--html"])
        .arg(&page));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    compare(include_str!("../../../../../docs/bench-sfr-json.md"), std::slice::from_ref(&results), &[], &[]);
    let rows = results["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 2 * 7, "{results:#}");
    for row in rows {
        assert!(row["wall_ns"].as_f64() > Some(0.0), "{row}");
        let logs = ["coupled", "decoupled", "strand", "atlas"].iter().any(|name| row["variant"] == *name);
        let entries = row["counters"]["entries"].as_u64().unwrap_or(0);
        // Each operation stores its words, in an entry of 32 bytes at least.
        assert_eq!(entries > 0, logs, "{row}");
    }
    assert_eq!(results["steps"].as_array().map(Vec::len), Some(2 * 4 * 5), "{results:#}");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("decoupled: time of an operation with more and more of the logging"));
    let refused = strandline().args(["bench", "sfr", "--design", "faster"]).output().expect("it runs");
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("decoupled"), "{refused:?}");
}
