//! Predictions of `plan` for storage engines, held against simulations of the whole run: LMDB and SQLite as
//! recorded, and three of our own. Their table is in `docs/lab/2026-11-28-plan.md`.

use serde_json::Value;

use crate::common::{Scratch, c_sources, compile, ok, stdout, strandline};

/// `cascade-lake` with caches so small that what the engines keep does not fit.
fn machine(scratch: &Scratch, name: &str, llc: &str) {
    let small = [
        ("[l1]", "size", "\"16KiB\""),
        ("[l2]", "size", "\"64KiB\""),
        ("[l2]", "ways", "8"),
        ("[llc]", "size", llc),
        ("[llc]", "ways", "48"),
        ("[llc]", "replacement", "\"lru\""),
    ];
    let preset = machine::Config::preset_text("cascade-lake").expect("a preset");
    let mut table = String::new();
    let mut text = String::new();
    for line in preset.lines() {
        if line.starts_with('[') {
            line.split(' ').next().unwrap_or_default().clone_into(&mut table);
        }
        let key = line.split(" = ").next().unwrap_or_default();
        match small.iter().find(|(of, name, _)| *of == table && *name == key) {
            Some((_, _, value)) => text.push_str(&format!("{key} = {value}\n")),
            None => text.push_str(&format!("{line}\n")),
        }
    }
    scratch.file(name, &text);
}

/// Errors of the verified configurations, and how many are in their interval.
fn verify(scratch: &Scratch, name: &str, arguments: &str) -> (Vec<f64>, usize) {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["plan", "--json"]).args(arguments.split(' '));
    let plan: Value = serde_json::from_str(&stdout(&ok(&mut command))).expect("JSON");
    let verified = plan["verified"].as_array().expect("they are verified");
    let mut errors: Vec<f64> =
        verified.iter().map(|one| one["error"].as_f64().expect("a number").abs()).collect();
    errors.sort_by(f64::total_cmp);
    let held = verified.iter().filter(|one| one["within"] == true).count();
    println!(
        "| {name} | {} of {} | {held} | {:.3} | {:.2} |",
        errors.iter().filter(|error| **error <= 0.1).count(),
        errors.len(),
        errors.iter().sum::<f64>() / errors.len() as f64,
        errors[errors.len() - 1]
    );
    (errors, held)
}

fn lmdb(scratch: &Scratch, keys: &str) {
    let source = c_sources("lmdb-master-sys", "lmdb/libraries/liblmdb");
    let loader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/lmdb_load.c");
    let source = source.display();
    compile(
        scratch.dir(),
        "cc",
        &format!("-O2 -w -I{source} -o load {loader} {source}/mdb.c {source}/midl.c -pthread"),
    );
    ok(strandline()
        .current_dir(scratch.dir())
        .args(["record", "-o", "lmdb.slt", "--", "./load", "l.mdb", keys]));
}

fn sqlite(scratch: &Scratch, rows: &str) {
    let source = c_sources("libsqlite3-sys", "sqlite3");
    let loader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sqlite_load.c");
    let source = source.display();
    compile(
        scratch.dir(),
        "cc",
        &format!("-O1 -w -I{source} -o sq {loader} {source}/sqlite3.c -lm -pthread"),
    );
    ok(strandline().current_dir(scratch.dir()).args([
        "record",
        "-o",
        "sqlite.slt",
        "--",
        "./sq",
        "s.db",
        rows,
    ]));
}

#[test]
fn a_recorded_engine_is_planned_and_verified() {
    let scratch = Scratch::new();
    machine(&scratch, "small.toml", "\"384KiB\"");
    lmdb(&scratch, "5000");
    let (errors, _) = verify(&scratch, "lmdb", "--tiers small.toml --trace lmdb.slt --verify 5");
    assert!(errors.len() >= 5 && errors[errors.len() / 2] < 0.2, "{errors:?}");
}

#[test]
#[ignore = "--long: simulates 385 configurations"]
fn five_engines_in_all_configurations() {
    let scratch = Scratch::new();
    machine(&scratch, "small.toml", "\"1536KiB\"");
    machine(&scratch, "smaller.toml", "\"384KiB\"");
    lmdb(&scratch, "20000");
    sqlite(&scratch, "3000");
    let runs = [
        ("lmdb", "--tiers small.toml --trace lmdb.slt"),
        ("sqlite", "--tiers smaller.toml --trace sqlite.slt"),
        ("kv", "--tiers small.toml --workload kv-fill --ops 20000"),
        ("index", "--tiers small.toml --workload index-fill --ops 60000"),
        ("hash", "--tiers small.toml --workload hash --ops 60000"),
    ];
    for (name, arguments) in runs {
        let (errors, _) = verify(&scratch, name, &format!("{arguments} --verify 77"));
        assert!(errors.len() == 77 && errors[38] < 0.3, "{name}: {errors:?}");
    }
}
