//! Storage engines that others wrote, with their own build systems, in their documented settings: `check
//! --files` finds what breaks a promise of their documentation, and nothing else. The table of the verdicts is
//! `docs/engines.md`.
//!
//! `./test --long` runs it. An engine whose sources can't be had is skipped, with the reason.

mod build;
#[path = "../common/mod.rs"]
mod common;
mod page;
mod surviving;
mod unmodified;

use std::time::Instant;

use build::{Built, Engine};
use common::{Scratch, ok, stderr, strandline};
use page::{Measured, Row};
use serde_json::Value;

/// Checks a row of the page.
fn check(scratch: &Scratch, built: &Built, row: &Row) -> (Option<i32>, Value) {
    let data = scratch.path("data");
    std::fs::remove_dir_all(&data).ok();
    std::fs::create_dir(&data).expect("the folder is made");
    // The run begins with an empty store that is durable: what making one takes is not promised.
    ok(built.plain().current_dir(scratch.dir()).args([&row.settings, "data", "0"]));
    let recover = format!("{} --verify {} '{}' POOL", built.plain, row.lost, row.settings);
    let observed = if row.is_as_shipped { Some(&built.shipped) } else { built.in_source_order.as_ref() };
    let mut command = strandline();
    command.current_dir(scratch.dir());
    command.args(["check", "--json", "--jobs", "1", "--files", "data", "--platform", &row.platform]);
    command.args(["--images", &row.engine.images().to_string(), "--recover", &recover]);
    command.arg("--").arg(observed.expect("it is built")).args([
        &row.settings,
        "data",
        row.engine.transactions(),
    ]);
    let output = command.output().expect("it runs");
    let answer = serde_json::from_slice(&output.stdout);
    (output.status.code(), answer.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output))))
}

/// Checks all rows of an engine, and that each finding's token repeats it.
fn hold(engine: Engine) {
    let scratch = Scratch::new();
    let rows = page::rows(engine);
    let built = match build::build(engine, rows.iter().any(|row| !row.is_as_shipped), &scratch) {
        Ok(built) => built,
        Err(reason) => return println!("skipped: {engine:?}: {reason}"),
    };
    let mut differ = Vec::new();
    for row in rows {
        let started = Instant::now();
        let (status, answer) = check(&scratch, &built, &row);
        let seconds = started.elapsed().as_secs_f64();
        let findings = answer["findings"].as_array().unwrap_or_else(|| panic!("{row:?}: {answer:#}"));
        assert_eq!(status, Some(i32::from(!findings.is_empty())), "{row:?}: {answer:#}");
        let token = findings.first().map(|finding| finding["token"].as_str().expect("a token").to_owned());
        if let Some(token) = &token {
            let recover = format!("{} --verify {} '{}' POOL", built.plain, row.lost, row.settings);
            let mut again = strandline();
            again.current_dir(scratch.dir()).args(["check", "--recover", &recover, "--replay", token]);
            assert_eq!(again.output().expect("it runs").status.code(), Some(1), "{row:?}: {token}");
        }
        let images = answer["images"].as_u64().expect("a number");
        println!(
            "{engine:?} {} on {}: {} findings in {images} images, {seconds:.1} s",
            row.settings,
            row.platform,
            findings.len()
        );
        differ.extend(row.hold(&answer, &Measured { images, seconds, token }));
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
#[ignore = "builds an engine and checks it for a minute"]
fn leveldb_keeps_its_promises_where_folders_are_synced() {
    hold(Engine::LevelDb);
}

#[test]
#[ignore = "builds an engine and checks it for a minute"]
fn lmdb_keeps_its_promises_but_for_what_the_compiler_reorders() {
    hold(Engine::Lmdb);
}

#[test]
#[ignore = "builds an engine and checks it for a minute"]
fn libmdbx_keeps_its_promises() {
    hold(Engine::Libmdbx);
}

#[test]
#[ignore = "builds an engine and checks it for a minute"]
fn kyoto_cabinets_transactions_lose_data() {
    hold(Engine::KyotoCabinet);
}
