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
