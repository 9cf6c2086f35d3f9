//! Pools on a real DAX file system, in an emulated machine whose power fails: a program in C commits regions and says so, and what it said is there when the pool
//! is opened again, after `kill -9` and after the machine's end. That it learns what it lies on is tested on ext4 with DAX, on the same memory without, in
//! memory, on the memory as a DAX device, and on virtio-pmem, which mounts with DAX and makes nothing durable by flushes.
//!
//! `./test --long` runs it, with what `crates/library/pmem/tests/dax` needs. Emulation has no caches: that a flush is missing it can't show.
#![cfg(target_arch = "x86_64")]

#[path = "../../../../library/pmem/tests/dax/archive.rs"]
mod archive;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../../library/pmem/tests/dax/machine.rs"]
mod machine;

use std::path::Path;
use std::process::Command;

use common::{Scratch, capi, has, ok};
use machine::{Boot, Kernel, Machine, Memory};

/// A region has ended so often before the power fails.
const POWER_UNTIL: &str = "reported 300\r\n";

/// The last region that the machine said had ended.
fn last_reported(said: &str) -> u64 {
    let numbers = said.lines().filter_map(|line| line.trim().strip_prefix("reported ")?.parse().ok());
    // The last line may be half of a number, which is a lower one.
    numbers.max().unwrap_or(0)
}

/// Two lives of a machine.
fn keeps_what_was_reported(machine: &Machine, programs: &[(&str, &Path)], memory: Memory, passes: usize) {
    let (found, durability, again) = match memory {
        Memory::Reserved => (include_str!("memmap.sh"), "dax", 4),
        Memory::VirtioPmem => (include_str!("virtio.sh"), "synced", 2),
        Memory::TwoNodes | Memory::Plain => unreachable!("it has no persistent memory"),
    };
    let passed = |said: &str, passes: usize| {
        let passed = said.lines().filter(|line| line.trim() == "GUEST: passed").count();
        assert!(
            passed == passes && !said.contains("GUEST: failed"),
            "{memory:?}: {passed} of {passes} passed:\n{said}"
        );
    };
    let script =
        |rest: &str| format!("durability={durability}\n{found}\n{}\n{rest}", include_str!("want.sh"));
    let first = script(include_str!("first.sh"));
    let said = machine.run(&Boot { power_until: Some(POWER_UNTIL), ..Boot::new(memory, &first, programs) });
    passed(&said, passes);
    let reported = last_reported(&said);
    assert!((300..2000).contains(&reported), "{memory:?}: {reported}:\n{said}");
    let second = script(&format!("reported={reported}\n{}", include_str!("second.sh")));
    let said = machine.run(&Boot { goes_on: true, ..Boot::new(memory, &second, programs) });
    passed(&said, again);
}

#[test]
#[ignore = "boots emulated machines, which takes minutes"]
fn what_was_reported_is_there_after_the_power_failed() {
    let machine = match Machine::prepare(Kernel::Stable) {
        Ok(machine) => machine,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return;
        }
    };
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let power = scratch.path("power");
    let source = scratch.file("power.c", include_str!("../programs/pool_power.c"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-std=c11", "-o"]).arg(&power);
    ok(gcc.arg(&source).args(capi::link()));
    let programs =
        [("/opt/power", power.as_path()), ("/opt/strandline", Path::new(env!("CARGO_BIN_EXE_strandline")))];
    keeps_what_was_reported(&machine, &programs, Memory::Reserved, 6);
    keeps_what_was_reported(&machine, &programs, Memory::VirtioPmem, 2);
}

/// `wear run --nodes` moves hot pages to the other node and loses nothing.
#[test]
#[ignore = "boots an emulated machine, which takes a minute"]
fn worn_pages_move_between_two_nodes() {
    let machine = match Machine::prepare(Kernel::Newest) {
        Ok(machine) => machine,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return;
        }
    };
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.file("writes.c", include_str!("writes.c"));
    let writes = scratch.path("writes");
    ok(Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-o"])
        .arg(&writes)
        .arg(&source));
    let programs =
        [("/opt/writes", writes.as_path()), ("/opt/strandline", Path::new(env!("CARGO_BIN_EXE_strandline")))];
    let said = machine.run(&Boot::new(Memory::TwoNodes, include_str!("nodes.sh"), &programs));
    assert!(said.contains("all words are as they were written"), "{said}");
    let number = |field: &str| -> f64 {
        let after =
            said.split_once(&format!("\"{field}\": ")).unwrap_or_else(|| panic!("no {field}:\n{said}")).1;
        let digits: String = after.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        digits.parse().unwrap_or_else(|_| panic!("{field}: {after:.40}"))
    };
    assert!(number("out") >= 6.0, "the hottest pages go to DRAM:\n{said}");
    assert!(said.contains("6 of the 6 hottest pages lie on node 0"), "the kernel moved them:\n{said}");
    assert!(number("far") > 0.0, "writes meet DRAM afterwards:\n{said}");
    assert!(said.contains("\"stopped\": null"), "{said}");
}

/// `plan --apply` and `sl_tier` put memory onto the other node. The machine has no caches and both nodes are alike: that it takes place is
/// all that can be seen.
#[test]
#[ignore = "boots an emulated machine, which takes a minute (--long)"]
fn plans_are_carried_out_on_two_nodes() {
    let machine = match Machine::prepare(Kernel::Newest) {
        Ok(machine) => machine,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return;
        }
    };
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let tiers = scratch.path("tiers");
    let source = scratch.file("tiers.c", include_str!("tiers.c"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-o"]).arg(&tiers);
    ok(gcc.arg(&source).args(capi::link()));
    let programs =
        [("/opt/tiers", tiers.as_path()), ("/opt/strandline", Path::new(env!("CARGO_BIN_EXE_strandline")))];
    let said = machine.run(&Boot::new(Memory::TwoNodes, include_str!("tiers.sh"), &programs));
    assert!(said.contains("sl_tier: 0, 4096 of 4096 pages on node 1"), "{said}");
    let lines: Vec<&str> =
        said.lines().map(str::trim).filter(|line| line.starts_with("cold lies on node 1")).collect();
    assert!(lines.contains(&"cold lies on node 1: 0 of 16384 pages"), "the first run is as ever:\n{said}");
    let moved = lines.iter().any(|line| {
        let pages = line.split_whitespace().nth(5).and_then(|pages| pages.parse::<u32>().ok());
        pages.is_some_and(|pages| pages > 15_000)
    });
    assert!(moved, "the second run is as planned:\n{said}");
    assert!(said.contains("\"refused\": 0"), "the kernel took the policy:\n{said}");
}
