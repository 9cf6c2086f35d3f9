//! Misses of the modelled cache against cachegrind's, of the same program and the same cache: they are equal.

use std::process::Command;

use serde_json::Value;

use crate::common::{Scratch, ok, stderr, stdout, strandline};

/// Walks, lookups and stores without a C library, so that every access is the program's own, and the same under each tool.
const WALK: &str = "
typedef unsigned long word;
static word table[1 << 15], list[1 << 12];
static void leave(word status) {
    __asm__ volatile(\"syscall\" : : \"a\"(231), \"D\"(status) : \"rcx\", \"r11\", \"memory\");
}
void _start(void) {
    volatile word *cells = table, *next = list;
    word state = 1, sum = 0;
    for (int i = 0; i < 1 << 15; i += 4) cells[i] = i;
    for (int i = 0; i < 1 << 12; i++) next[i] = (i * 1021 + 7) % (1 << 12);
    for (int i = 0; i < 40000; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        cells[(state >> 33) % (1 << 15)] += i;
    }
    for (int column = 0; column < 64; column += 8)
        for (int row = 0; row < 512; row++) sum += cells[row * 64 + column];
    for (word at = 0, i = 0; i < 20000; i++) sum += at = next[at];
    leave(sum & 0);
}
";

#[test]
#[cfg(target_arch = "x86_64")]
fn misses_are_those_of_cachegrind() {
    let scratch = Scratch::new();
    let source = scratch.file("walk.c", WALK);
    let flags = "-O1 -nostdlib -static -fno-stack-protector -fno-pic -no-pie -o";
    ok(Command::new("cc").args(flags.split(' ')).arg(scratch.path("walk")).arg(source));
    let dram = include_str!("../../../../model/machine/presets/dram.toml");
    for (bytes, ways) in [(32u64 << 10, 8u64), (16 << 10, 4), (64 << 10, 16)] {
        // Cachegrind's levels replace the line used longest ago, and the second one takes nothing out of the first.
        let l1 = format!("size = \"{}KiB\"\nways = {ways}\n", bytes >> 10);
        let text = dram
            .replace("size = \"32KiB\"\nways = 8\n", &l1)
            .replace("replacement = \"tree-plru\"", "replacement = \"lru\"")
            .replace("size = \"1MiB\"", "size = \"64MiB\"");
        assert!(text.contains(&l1) && text.contains("64MiB"), "the preset has another layout now");
        let machine = scratch.file("machine.toml", &text);
        let grind = Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=yes", "--I1=32768,8,64", "--LL=8388608,16,64"])
            .args([format!("--D1={bytes},{ways},64"), "--cachegrind-out-file=/dev/null".to_owned()])
            .arg(scratch.path("walk"))
            .output()
            .expect("valgrind starts; ./test says which packages it takes");
        let text = stderr(&grind);
        let line = text.lines().find(|line| line.contains("D1  misses:")).unwrap_or_else(|| panic!("{text}"));
        let theirs = line.split("misses:").nth(1).and_then(|rest| rest.split('(').next()).expect("a number");
        let theirs: u64 = theirs.trim().replace(',', "").parse().expect("a number");
        let log = scratch.path("lackey.txt");
        ok(Command::new("valgrind")
            .args(["--tool=lackey", "--trace-mem=yes"])
            .arg(format!("--log-file={}", log.display()))
            .arg(scratch.path("walk")));
        let trace = scratch.path("walk.slt");
        ok(strandline().args(["trace", "import", "-o"]).arg(&trace).arg(&log));
        let mut profile = strandline();
        profile.current_dir(scratch.dir()).args(["profile", "--json", "--machine"]).arg(machine);
        let report: Value =
            serde_json::from_str(&stdout(&ok(profile.arg("--trace").arg(&trace)))).expect("JSON");
        assert_eq!(report["machine"]["caches"][0]["misses"], theirs, "{bytes} B in {ways} ways");
    }
}
