//! Small file programs of the shapes that public reports have, each with a wrong twin, and the verdict on
//! each. The table of the verdicts is `tests/programs/corpus/README.md`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::common::{Scratch, compile, ok, stderr, strandline};
use serde_json::Value;

const TABLE: &str = include_str!("../programs/corpus/README.md");

/// The table's rows: program, twin, the verdict on ext4 and on posix, why, and what it is after.
fn rows() -> Vec<[&'static str; 6]> {
    let rows = TABLE.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = |row: &'static str| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    rows.map(|row| cells(row).try_into().expect("six columns")).collect()
}

/// Checks a row on a platform; what is wrong with the answer, if something is.
fn differs(scratch: &Scratch, row: &[&str; 6], platform: &str, wanted: &str) -> Option<String> {
    let [name, twin, _, _, why, _] = row;
    let folder = scratch.path(&format!("{name}-{twin}-{platform}"));
    std::fs::create_dir_all(folder.join("data")).expect("the folder is made");
    let program = ["../corpus", name, twin, "data"];
    let mut prepare = std::process::Command::new(scratch.path("corpus"));
    ok(prepare.current_dir(&folder).args(&program[1..]).arg("prepare"));
    let recover = format!("../corpus {name} {twin} POOL accepts");
    let mut command = strandline();
    command.current_dir(&folder).args(["check", "--json", "--files", "data", "--platform", platform]);
    let output = command.args(["--recover", &recover, "--"]).args(program).output().expect("it runs");
    let found = match output.status.code() {
        Some(0) => "nothing",
        Some(1) => "finding",
        other => {
            return Some(format!("{name} {twin} on {platform}: status {other:?}: {}", stderr(&output)));
        }
    };
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let images = answer["images"].as_u64().unwrap_or(0);
    let right = found == wanted && images > 1;
    (!right).then(|| {
        let findings = &answer["findings"];
        format!("{name} {twin} on {platform}, {why}: {images} images, {findings:#}")
    })
}

#[test]
fn twenty_right_programs_and_their_wrong_twins_get_their_verdicts() {
    let scratch = Scratch::new();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/corpus");
    let files = std::fs::read_dir(sources).expect("the corpus is there").flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "c"));
    let files: Vec<String> = files.map(|path| path.display().to_string()).collect();
    let rows = rows();
    assert_eq!((rows.len(), files.len()), (40, 21), "two rows for each program beside main.c");
    compile(scratch.dir(), "cc", &format!("-O1 -g -o corpus {}", files.join(" ")));
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut said = Vec::new();
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            said.extend(differs(&scratch, row, "ext4", row[2]));
            said.extend(differs(&scratch, row, "posix", row[3]));
        }
        said
    };
    let said = thread::scope(|scope| {
        let workers = [scope.spawn(worker), scope.spawn(worker)];
        workers.into_iter().flat_map(|worker| worker.join().expect("it ends")).collect::<Vec<_>>()
    });
    assert!(said.is_empty(), "{}", said.join("\n"));
}
