//! `strandline sweep`, killed in its midst.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Scratch, ok, stdout, strandline};

#[test]
fn a_killed_sweep_goes_on_where_it_stopped() {
    let scratch = Scratch::new();
    let file = scratch.dir().join("sweep.jsonl");
    let lines = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
    let command = || {
        let mut command = strandline();
        let arguments = "sweep --persistency x86 strandweaver redo ssp --workload rb-tree array-swap --threads 1,2 \
                         --vary cores.pipeline.store_queue=16,64 --ops 300 -o sweep.jsonl";
        command.current_dir(scratch.dir()).args(arguments.split_whitespace());
        command
    };
    // Killed as soon as there are so many lines; a sweep that is too quick to be killed is whole.
    for enough in [2, 5, 9] {
        let mut child = command().spawn().expect("it starts");
        let begin = Instant::now();
        while lines() < enough
            && child.try_wait().expect("a child").is_none()
            && begin.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().expect("ours");
        child.wait().expect("ours");
        // What a write that was cut off leaves.
        let text = std::fs::read_to_string(&file).expect("lines");
        std::fs::write(&file, &text[..text.len() - 30]).expect("written");
    }
    ok(&mut command());
    let again = stdout(&ok(&mut command()));
    assert!(again.starts_with("0 combinations run, 32 were there"), "{again}");
    let text = std::fs::read_to_string(&file).expect("lines");
    let whole: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let key = |line: &Value| {
        let mut line = line.clone();
        line.as_object_mut().expect("an object").remove("result").expect("a result");
        line.to_string()
    };
    let keys: BTreeSet<String> = whole.iter().map(key).collect();
    assert_eq!((whole.len(), keys.len()), (32, 32), "each combination once");
}

/// A grid in a file: the second time nothing is computed, and a killed sweep keeps what it had.
#[test]
fn a_grid_in_a_file_is_computed_once() {
    let scratch = Scratch::new();
    let grid = "workload = \"hash-scatter\"\noperations = 200\nmachine = [\"dram\", \"xpoint\"]\nseed = [1, 2]\n\
                [set]\nllc.size = [\"11MiB\", \"22MiB\", \"7B\"]\n";
    std::fs::write(scratch.dir().join("grid.toml"), grid).expect("written");
    let command = |words: &str| {
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(words.split_whitespace());
        command
    };
    let answer = |words: &str| -> Value {
        serde_json::from_str(&stdout(&ok(&mut command(words)))).expect("an object")
    };
    let results = || {
        let folders =
            std::fs::read_dir(scratch.dir().join(".strandline-sweep")).into_iter().flatten().flatten();
        let files =
            folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
        files.filter(|file| file.path().extension().is_some_and(|end| end == "json")).count()
    };
    let mut child = command("sweep grid.toml --jobs 1").spawn().expect("it starts");
    let begin = Instant::now();
    while results() == 0
        && child.try_wait().expect("a child").is_none()
        && begin.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("ours");
    child.wait().expect("ours");
    let first = answer("sweep grid.toml --json");
    assert!(first["known"].as_u64() > Some(0), "{first}");
    assert_eq!((&first["configurations"], &first["missing"]), (&Value::from(12), &Value::from(0)));
    let second = answer("sweep grid.toml --json -o again.parquet");
    assert_eq!((&second["known"], &second["computed"]), (&Value::from(12), &Value::from(0)));
    assert_eq!(second["errors"], 4);
    let table = |name: &str| std::fs::read(scratch.dir().join(name)).expect("a table");
    assert_eq!(table("sweep.parquet"), table("again.parquet"), "the same bytes");
    assert!(table("sweep.parquet").starts_with(b"PAR1"));
    let wrong = command("sweep nowhere.toml").output().expect("it runs");
    assert_eq!(wrong.status.code(), Some(2));
}

/// The options of a sweep write a table, too.
#[test]
fn options_make_a_table() {
    let scratch = Scratch::new();
    let mut command = strandline();
    let words = "sweep --persistency x86 ssp --workload array-swap --ops 50 --vary cores.pipeline.store_queue=32,64 \
                 -o designs.parquet";
    command.current_dir(scratch.dir()).args(words.split_whitespace());
    let said = stdout(&ok(&mut command));
    assert!(said.starts_with("4 combinations run, 0 were there"), "{said}");
}
