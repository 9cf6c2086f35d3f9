//! `strandline sweep`, killed in its midst.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Scratch, ok, stdout, strandline};

/// Results that a folder keeps.
fn results(scratch: &Scratch) -> usize {
    let folders = std::fs::read_dir(scratch.dir().join(".strandline-sweep")).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.filter(|file| file.path().extension().is_some_and(|end| end == "json")).count()
}

#[test]
fn a_killed_sweep_goes_on_where_it_stopped() {
    let scratch = Scratch::new();
    let command = || {
        let mut command = strandline();
        let arguments = "sweep --persistency x86 strandweaver redo ssp --workload rb-tree array-swap --threads 1,2 \
                         --vary cores.pipeline.store_queue=16,64 --ops 300 -o sweep.jsonl";
        command.current_dir(scratch.dir()).args(arguments.split_whitespace());
        command
    };
    // Killed as soon as there are so many results; a sweep that is too quick to be killed is whole.
    for enough in [2, 5, 9] {
        let mut child = command().spawn().expect("it starts");
        let begin = Instant::now();
        while results(&scratch) < enough
            && child.try_wait().expect("a child").is_none()
            && begin.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
    ok(&mut command());
    let again = stdout(&ok(&mut command()));
    assert!(again.starts_with("0 combinations run, 32 were there"), "{again}");
    let text = std::fs::read_to_string(scratch.dir().join("sweep.jsonl")).expect("lines");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let varied = ["persistency", "workload", "threads", "cores.pipeline.store_queue"];
    let keys: BTreeSet<String> =
        lines.iter().map(|line| varied.map(|name| line[name].to_string()).join(" ")).collect();
    assert_eq!((lines.len(), keys.len()), (32, 32), "each combination once");
    assert!(lines.iter().all(|line| line["elapsed_ns"].as_f64() > Some(0.0)), "{text}");
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
    let mut child = command("sweep grid.toml --jobs 1").spawn().expect("it starts");
    let begin = Instant::now();
    while results(&scratch) == 0
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
