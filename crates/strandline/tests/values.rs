//! With `--values`, the bytes of each store are those that it stored: whoever replays them finds the program's memory.

mod common;

use std::path::Path;

use common::{Scratch, compile, has, ok, stdout, strandline};
use event::trace::Reader;

/// The program's arena, as its stores make it.
struct Shadow {
    start: u64,
    bytes: Vec<u8>,
}

impl Shadow {
    /// Applies what of a store lies in the arena.
    fn store(&mut self, addr: u64, value: &[u8]) {
        for (byte, addr) in value.iter().zip(addr..) {
            if let Some(place) = addr.checked_sub(self.start).and_then(|at| self.bytes.get_mut(at as usize)) {
                *place = *byte;
            }
        }
    }

    /// Where the first byte differs, with the numbers of differing bytes and both bytes.
    fn difference(&self, real: &[u8]) -> Option<String> {
        let differing: Vec<usize> = (0..real.len()).filter(|&at| self.bytes[at] != real[at]).collect();
        let first = *differing.first()?;
        Some(format!(
            "{} bytes differ, the first at {first}: told {:#x}, really {:#x}",
            differing.len(),
            self.bytes[first],
            real[first]
        ))
    }
}

/// Each store of a trace with its bytes, in order.
fn stores(trace: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut reader = Reader::open(trace).expect("the trace opens");
    let mut batches = reader.batches();
    let mut found = Vec::new();
    while let Some(batch) = batches.next().expect("the trace is whole") {
        let mut values = batch.values;
        for (addr, len) in batch.events.iter().filter_map(|event| event.op.stored()) {
            let (value, rest) = values.split_at(len as usize);
            found.push((addr, value.to_vec()));
            values = rest;
        }
        assert!(values.is_empty(), "more bytes than the stores have");
    }
    found
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address")
}

/// Builds and records `values.c`, replays its stores and holds the memory against the program's after each step.
fn replayed(compiler: &str, flags: &str) {
    let scratch = Scratch::new();
    scratch.file("v.c", include_str!("programs/values.c"));
    compile(scratch.dir(), "cc", &format!("--compiler={compiler} {flags} -o v v.c"));
    let (trace, steps) = (scratch.path("v.slt"), scratch.path("steps"));
    let mut command = strandline();
    command.args(["record", "--values", "-o"]).arg(&trace).arg("--").arg(scratch.path("v")).arg(&steps);
    let output = stdout(&ok(&mut command));
    let words: Vec<Vec<&str>> = output.lines().map(|line| line.split(' ').collect()).collect();
    let arena = words.iter().find(|words| words[0] == "arena").expect("the arena's address");
    let len: usize = arena[2].parse().expect("a length");
    let mut shadow = Shadow { start: hexadecimal(arena[1]), bytes: vec![0; len] };
    let steps = std::fs::read(steps).expect("the steps are read");
    let mut steps = steps.chunks_exact(len).enumerate();
    let stores = stores(&trace);
    let mut wrong = Vec::new();
    for (addr, value) in &stores {
        shadow.store(*addr, value);
        if *addr == shadow.start {
            let (at, real) = steps.next().expect("a step's bytes");
            if let Some(difference) = shadow.difference(real) {
                wrong.push(format!("step {}: {difference}", at + 1));
                // One store's mistake is told once.
                shadow.bytes.copy_from_slice(real);
            }
        }
    }
    assert!(steps.next().is_none(), "{compiler} {flags}: a step's number was not told");
    for words in words.iter().filter(|words| words[0] == "told") {
        let (addr, bytes) = (hexadecimal(words[1]), words[2]);
        let text = |value: &[u8]| value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if !stores.iter().any(|(at, value)| *at == addr && text(value) == bytes) {
            wrong.push(format!("no store at {addr:#x} of {bytes}"));
        }
    }
    assert!(wrong.is_empty(), "{compiler} {flags}:\n{}", wrong.join("\n"));
}

#[test]
fn replaying_what_gcc_stores_gives_the_programs_memory() {
    for flags in ["-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -masm=intel"] {
        replayed("gcc", flags);
    }
}

#[test]
fn replaying_what_clang_stores_gives_the_programs_memory() {
    if has("clang") {
        for flags in ["-O0", "-O2", "-O3"] {
            replayed("clang", flags);
        }
    }
}
