//! With `--values`, the bytes of each store are those that it stored: whoever replays them finds the program's memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::common::{Scratch, c_sources, compile, copy_files, dump, has, ok, stdout, strandline};
use trace::Reader;

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
            "{} bytes differ, the first at {first}: reported {:#x}, really {:#x}",
            differing.len(),
            self.bytes[first],
            real[first]
        ))
    }
}

/// Calls `store` with each store's address and bytes, in order.
fn each_store(trace: &Path, mut store: impl FnMut(u64, &[u8])) {
    let mut reader = Reader::open(trace).expect("the trace opens");
    let mut batches = reader.batches();
    while let Some(batch) = batches.next().expect("the trace is whole") {
        let mut values = batch.values;
        for (addr, len) in batch.events.iter().filter_map(|event| event.op.stored()) {
            store(addr, values.split_off(..len as usize).expect("a store's bytes"));
        }
        assert!(values.is_empty(), "more bytes than the stores have");
    }
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address")
}

fn text(value: &[u8]) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

const VALUES: &str = include_str!("../programs/values.c");
const LIBRARY: &str = include_str!("../programs/values_library.c");

/// Builds and records a program, replays its stores and holds the memory against the program's after each step.
fn replayed(source: &str, compiler: &str, flags: &str) {
    let scratch = Scratch::new();
    scratch.file("v.c", source);
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
    // What some store has to tell, even if it is soon overwritten.
    let mut awaited: Vec<(u64, &str)> = words
        .iter()
        .filter(|words| words[0] == "reported")
        .map(|words| (hexadecimal(words[1]), words[2]))
        .collect();
    let mut wrong = Vec::new();
    if flags.starts_with("--as-shipped") {
        // Of a store that is overwritten at once, an optimising compiler leaves nothing.
        awaited.clear();
    }
    each_store(&trace, |addr, value| {
        shadow.store(addr, value);
        awaited.retain(|&(at, bytes)| at != addr || text(value) != bytes);
        if addr == shadow.start {
            let (at, real) = steps.next().expect("a step's bytes");
            if let Some(difference) = shadow.difference(real) {
                wrong.push(format!("step {}: {difference}", at + 1));
                // One store's mistake is reported once.
                shadow.bytes.copy_from_slice(real);
            }
        }
    });
    assert!(steps.next().is_none(), "{compiler} {flags}: a step's number was not reported");
    wrong.extend(awaited.iter().map(|(addr, bytes)| format!("no store at {addr:#x} of {bytes}")));
    assert!(wrong.is_empty(), "{compiler} {flags}:\n{}", wrong.join("\n"));
}

#[test]
fn replaying_what_gcc_stores_gives_the_programs_memory() {
    for flags in ["-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -masm=intel"] {
        replayed(VALUES, "gcc", flags);
    }
}

#[test]
fn replaying_what_clang_stores_gives_the_programs_memory() {
    if has("clang") {
        for flags in ["-O0", "-O2", "-O3"] {
            replayed(VALUES, "clang", flags);
        }
    }
}

#[test]
fn replaying_what_the_library_and_the_kernel_store_gives_the_programs_memory() {
    for flags in ["-O0", "-O2", "-O3 -D_FORTIFY_SOURCE=2", "-Os", "-O2 -masm=intel"] {
        replayed(LIBRARY, "gcc", flags);
    }
    if has("clang") {
        for flags in ["-O0", "-O2", "-O2 -D_FORTIFY_SOURCE=2"] {
            replayed(LIBRARY, "clang", flags);
        }
    }
}

#[test]
fn replaying_what_code_stores_that_ships_gives_the_programs_memory() {
    for compiler in ["gcc", "clang"].into_iter().filter(|compiler| has(compiler)) {
        for flags in ["-O0", "-O1", "-O2", "-O3", "-Os", "-O3 -march=haswell", "-O3 -march=skylake-avx512"] {
            replayed(VALUES, compiler, &format!("--as-shipped {flags}"));
        }
        for flags in ["-O0", "-O2", "-O3 -D_FORTIFY_SOURCE=2"] {
            replayed(LIBRARY, compiler, &format!("--as-shipped {flags}"));
        }
    }
    replayed(VALUES, "gcc", "--as-shipped -O2 -masm=intel");
}

/// The first 16 MiB of a file, which are all that is in use.
fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(16 << 20).read_to_end(&mut bytes)).expect("the file is read");
    bytes.resize(16 << 20, 0);
    bytes
}

#[test]
fn replaying_what_lmdb_stores_gives_its_file() {
    for (compiler, level) in [
        ("gcc", "-O0"),
        ("gcc", "-O2"),
        ("clang", "-O2"),
        ("gcc", "--as-shipped -O2"),
        ("clang", "--as-shipped -O2"),
    ] {
        if !has(compiler) {
            continue;
        }
        let scratch = Scratch::new();
        copy_files(&c_sources("lmdb-master-sys", "lmdb/libraries/liblmdb"), scratch.dir());
        scratch.file("lmdb_load.c", include_str!("../programs/lmdb_load.c"));
        let flags = format!("--compiler={compiler} {level} -w -I. -o load lmdb_load.c mdb.c midl.c -pthread");
        compile(scratch.dir(), "cc", &flags);
        // LMDB makes a new file with `pwrite`; from then on, it stores into its map.
        let load = [scratch.path("load"), scratch.path("l.mdb")];
        ok(std::process::Command::new(&load[0]).arg(&load[1]).args(["0", "writemap"]));
        let before = beginning(&load[1]);
        let trace = scratch.path("t.slt");
        let mut command = strandline();
        command.args(["record", "--values", "--pmem", "*/l.mdb", "-o"]).arg(&trace).arg("--");
        ok(command.args(&load).args(["5000", "writemap"]));
        let maps: Vec<String> = dump(&trace).into_iter().filter(|line| line.contains(" map ")).collect();
        let map = maps.iter().find(|line| line.contains("l.mdb")).expect("the map is reported");
        let start = hexadecimal(map.split(' ').nth(2).expect("an address"));
        let mut shadow = Shadow { start, bytes: before };
        let mut stored = 0;
        each_store(&trace, |addr, value| {
            shadow.store(addr, value);
            stored += usize::from(addr.wrapping_sub(start) < 16 << 20);
        });
        assert!(stored > 5000, "{compiler} {level}: {stored} stores into the map");
        assert_eq!(shadow.difference(&beginning(&load[1])), None, "{compiler} {level}");
    }
}
