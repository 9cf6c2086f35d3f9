//! `strandline unified` and its comparisons as a user meets them. Nothing here needs a GPU.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Scratch, ok, stderr, stdout, strandline};
use serde_json::Value;

fn run(arguments: &str) -> Command {
    let mut command = strandline();
    command.args(arguments.split_whitespace());
    command
}

fn json(arguments: &str) -> Value {
    serde_json::from_str(&stdout(&ok(&mut run(arguments)))).expect("JSON")
}

#[test]
fn info_names_every_backend() {
    let found = json("unified info --json");
    assert_eq!(found["schema"], 1);
    let names = |list: &str| -> Vec<String> {
        let all = found[list].as_array().expect("a list");
        all.iter().map(|one| one["backend"].as_str().expect("a name").to_owned()).collect()
    };
    let (mut all, absent) = (names("devices"), names("absent"));
    assert!(all.contains(&"batch".to_owned()));
    all.extend(absent);
    all.sort();
    assert_eq!(all, ["batch", "cuda", "vulkan", "wgpu"]);
    assert!(stdout(&ok(&mut run("unified info"))).contains("software accelerator"));
}

#[test]
fn the_comparison_gives_right_results_with_every_part() {
    let found = json(
        "bench unified --json --on batch --keys 5000 --batch 1000 --rows 5000 --milliseconds 5 --batch-threads 2",
    );
    let figures = found["results"]["figures"].as_array().expect("figures");
    for part in ["prefetch", "batches", "together", "sort", "query"] {
        assert!(figures.iter().any(|figure| figure["part"] == part), "{part}");
    }
    assert!(figures.iter().all(|figure| figure["right"] == true && figure["value"].as_f64() > Some(0.0)));
    assert_eq!(found["results"]["device"]["backend"], "batch");
}

#[test]
fn a_device_is_measured() {
    let found = json("measure --on batch --region 1MiB --repeat 1 --json");
    let points = found["measurements"].as_array().expect("points");
    assert!(points.iter().any(|point| point["study"] == "gpu-launch"));
    assert!(stdout(&ok(&mut run("measure list"))).contains("gpu-batch"));
}

#[test]
fn litmus_tests_of_the_cpu_with_itself_show_no_surprise() {
    let found = json("unified litmus --on batch --rounds 2 --json");
    assert!(found["tests"].as_array().expect("tests").iter().all(|test| test["surprising"] == 0));
    let scratch = Scratch::new();
    let file = scratch.path("broken.toml");
    std::fs::write(&file, "name = 3").expect("a file");
    let failed = strandline().args(["unified", "litmus", "--on", "batch"]).arg(&file).output().expect("runs");
    assert_eq!(failed.status.code(), Some(2));
    assert!(stderr(&failed).contains("broken.toml"), "{}", stderr(&failed));
}

#[test]
fn bad_input_is_named() {
    for (arguments, expected) in [
        ("bench unified --batch 0", "1 to 134217728"),
        ("bench unified --batch 4294967296", "1 to 134217728"),
        ("bench unified --keys 99999999999", "402653184"),
        ("bench unified --on tpu", "gpu, batch, vulkan"),
        ("measure --on batch --threads 2", "--threads changes nothing"),
        ("measure --on batch gpu-nothing", "gpu-copy"),
    ] {
        let failed = run(arguments).output().expect("runs");
        assert_eq!(failed.status.code(), Some(2), "{arguments}");
        assert!(stderr(&failed).contains(expected), "{arguments}: {}", stderr(&failed));
    }
    // No Vulkan loader finds a driver here.
    let failed =
        run("unified litmus --on vulkan").env("VK_ICD_FILENAMES", "/nonexistent").output().expect("runs");
    assert_eq!(failed.status.code(), Some(2));
    assert!(stderr(&failed).contains("--on batch"), "{}", stderr(&failed));
}

/// The device's process ends in the middle of a batch: nothing stays behind that the next one would stumble over.
#[test]
fn a_process_that_is_killed_in_a_batch_leaves_nothing() {
    let scratch = Scratch::new();
    let work = |batch: &str| {
        let mut command = run(&format!("bench unified --on {batch} --only batches --keys 1000000 --json"));
        command.current_dir(scratch.dir());
        command
    };
    for backend in ["batch", "vulkan"] {
        if backend == "vulkan" && !run("unified litmus --on vulkan").output().expect("runs").status.success()
        {
            println!("skipped: no Vulkan device");
            continue;
        }
        let mut child = work(backend).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(700));
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert_eq!(std::fs::read_dir(scratch.dir()).expect("a folder").count(), 0);
    }
    let answer = json("unified litmus --on batch --json");
    assert!(answer["tests"].as_array().is_some_and(|tests| !tests.is_empty()), "{answer}");
}
