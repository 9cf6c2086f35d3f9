//! `strandline bench` as a user meets it.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::fields::compare;
use crate::common::{Scratch, ok, stderr, stdout, strandline};

fn bench(arguments: &str) -> Command {
    let mut command = strandline();
    command.arg("bench").args(arguments.split_whitespace());
    command
}

fn json(arguments: &str) -> Value {
    serde_json::from_str(&stdout(&ok(&mut bench(&format!("{arguments} --json"))))).expect("JSON")
}

fn rows(json: &Value) -> &Vec<Value> {
    json["rows"].as_array().expect("rows")
}

#[test]
fn maps_are_compared_and_say_how_durable_they_are() {
    let json = json("index --ops 2000 --threads 1,2");
    assert_eq!((&json["subject"], &json["path"]), (&"index".into(), &"/dev/shm".into()));
    assert!(json["unit_ns"].as_f64().expect("a number") > 1.0);
    for threads in [1, 2] {
        let of = |variant: &str| {
            let found = rows(&json).iter().find(|row| row["variant"] == variant && row["threads"] == threads);
            found.unwrap_or_else(|| panic!("no {variant} with {threads} threads in {json:#}"))
        };
        assert_eq!(of("btree")["durability_text"], "each insert durable: flush+fence");
        assert_eq!((&of("btree")["role"], &of("std-btree")["role"]), (&"ours".into(), &"baseline".into()));
        assert_eq!(of("std-btree")["durability"], "not");
        for row in rows(&json) {
            let (inserts, gets) = (row["inserts_per_second"].as_f64(), row["gets_per_second"].as_f64());
            assert!(inserts.is_some_and(|rate| rate > 0.0) && gets.is_some_and(|rate| rate > 0.0), "{row}");
            assert_eq!(row["phases"][0]["operations"], 2000);
            assert_eq!(row["phases"][1]["found"], 2000, "every key is found");
            assert!(row["phases"][0]["latency"]["p99"].as_u64().is_some_and(|ns| ns > 0), "{row}");
        }
    }
}

#[test]
fn the_json_is_as_it_is_documented() {
    let all = json("kv --ops 500 --workload fill,a,e,f,mixed,read-many,delete --peers");
    let latencies = ["insert", "update", "read", "scan", "read-modify-write", "delete", "read-many"]
        .map(|kind| format!("latency_by_kind.{kind}"));
    let mut kinds: Vec<(&str, &str)> = latencies.iter().map(|path| (&**path, "latency")).collect();
    kinds.push(("phases[].latency", "latency"));
    compare(include_str!("../../../../../docs/bench-json.md"), &[all], &kinds, &[]);
}

#[test]
fn stores_take_any_keys_and_values_under_any_load() {
    let loads = "fill,a,b,c,d,e,f,kv-b,kv-e,range,put-30,mixed,read-many,update,delete";
    for sizes in ["--keys text --value 4KiB", "--keys 16 --value 8B", "--value 64KiB --threads 2"] {
        let json = json(&format!("kv --ops 300 --workload {loads} --distribution zipfian {sizes}"));
        assert!(rows(&json).len() >= 2, "{json:#}");
        for row in rows(&json) {
            assert_eq!(row["phases"].as_array().map(Vec::len), Some(15), "{sizes}: {row}");
        }
    }
}

#[test]
fn peers_take_part_or_say_what_to_install() {
    let json = json("index --ops 1000 --peers --workload fill,read,a");
    let skipped = json["skipped"].as_array().expect("a list");
    let peers = [
        "lmdb",
        "lmdb-nosync",
        "rocksdb",
        "leveldb",
        "pmemobj-hash",
        "pmemobj-hash-tx",
        "redb",
        "fjall-nosync",
    ];
    for name in peers {
        let row = rows(&json).iter().find(|row| row["variant"] == name);
        let skip = skipped.iter().find(|one| one["name"] == name);
        match (row, skip) {
            (Some(row), None) => {
                assert_eq!(row["role"], "peer");
                assert_eq!(row["phases"][1]["found"], 1000, "{row}");
                assert_eq!(row["durability"] == "not", name.ends_with("nosync"), "{row}");
            }
            (None, Some(skip)) => {
                let why = skip["why"].as_str().expect("a reason");
                assert!(why.contains("apt-get install lib") || why.contains("--features peers"), "{why}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn on_an_ordinary_file_writes_are_synced() {
    let scratch = Scratch::new();
    let path = scratch.dir().display();
    for subject in ["index --variant btree", "kv --variant log,slab"] {
        let json = json(&format!("{subject} --ops 60 --path {path}"));
        for row in rows(&json) {
            assert_eq!(row["durability_text"], "each insert durable: synced", "{row}");
        }
    }
    assert_eq!(std::fs::read_dir(scratch.dir()).expect("it is there").count(), 0, "nothing is left");
}

#[test]
fn an_open_loop_runs_at_the_rate() {
    let json = json("index --variant std-btree --ops 2000 --rate 20000");
    for phase in rows(&json)[0]["phases"].as_array().expect("phases") {
        let rate = phase["per_second"].as_f64().expect("a rate");
        // A machine that has no time may be slower; 2,000 random gaps may be a tenth shorter.
        assert!(rate < 23_000.0, "{rate}");
        assert_eq!(phase["latency"]["timed"], 2000, "all are timed");
    }
}

#[test]
fn text_and_page_say_the_same() {
    let scratch = Scratch::new();
    let page = scratch.path("bench.html");
    let arguments =
        format!("index --ops 1000 --threads 1,2 --workload fill,read,e --html {}", page.display());
    let text = stdout(&ok(&mut bench(&arguments)));
    for part in [
        "btree",
        "std-btree (baseline)",
        "fill/s",
        "ycsb-e/s",
        "CPU units",
        "p99.9",
        "not durable",
        "The page: ",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.matches("<svg").count() >= 12, "two plots of three workloads, in two widths");
    assert!(page.contains("strandline bench index --ops 1000"), "the page says how to make it again");
}

#[test]
fn what_is_not_known_or_not_possible_is_named() {
    for (arguments, part) in [
        ("index --workload nonsense", "no workload `nonsense`; there are ycsb-a"),
        ("kv --variant nonsense", "no variant `nonsense`; there are"),
        ("index --value 100B --ops 10", "8 bytes both, or of 16"),
        ("kv --value 7B", "8B to 64KiB"),
        ("kv --rate 0", "above 0"),
        ("kv --path /no/such/folder", "/no/such/folder"),
    ] {
        let output = bench(arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(part), "{arguments}: {}", stderr(&output));
    }
    let list = stdout(&ok(&mut bench("index --variant list")));
    assert!(list.contains("btree") && list.contains("lmdb") && list.contains("baseline"), "{list}");
    assert!(stdout(&ok(&mut bench("kv --workload list"))).contains("ycsb-f"));
}

#[test]
fn an_interrupt_leaves_no_files() {
    let scratch = Scratch::new();
    let mut child =
        bench(&format!("index --variant std-btree --ops 100000000 --path {}", scratch.dir().display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
    while std::fs::read_dir(scratch.dir()).expect("it is there").count() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number")).expect("a process");
    kill_process(pid, Signal::INT).expect("it is there");
    let output = child.wait().expect("it ends");
    assert_eq!(output.code(), Some(0), "it shows what it has");
    assert_eq!(std::fs::read_dir(scratch.dir()).expect("it is there").count(), 0);
}
