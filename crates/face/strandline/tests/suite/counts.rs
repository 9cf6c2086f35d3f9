//! What is recorded is what the program did: held against hand counts and against Valgrind's lackey.

use crate::common::{Scratch, compile, dump, has, number, ok, record, strandline};

const ARRAY: &str = r"
#include <stdlib.h>
int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000;
    volatile long *a = malloc(n * sizeof *a);
    for (long i = 0; i < n; i++) a[i] = i;
    long sum = 0;
    for (long i = 0; i < n; i++) sum += a[i];
    free((void *)a);
    return sum == n * (n - 1) / 2 ? 0 : 1;
}
";

#[test]
fn a_loop_is_counted_exactly_at_every_optimisation_level() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            continue;
        }
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            let scratch = Scratch::new();
            scratch.file("a.c", ARRAY);
            compile(scratch.dir(), "cc", &format!("--compiler={compiler} {level} -o a a.c"));
            let base = record(&scratch, &[], &["./a", "1000"]);
            let more = record(&scratch, &[], &["./a", "3000"]);
            for (key, expected) in
                [("loads", 2000), ("stores", 2000), ("load_bytes", 16_000), ("store_bytes", 16_000)]
            {
                let difference = number(&more, key) - number(&base, key);
                assert_eq!(difference, expected, "{compiler} {level}: {key}\n{base:#}\n{more:#}");
            }
            // Nothing but the loops touches memory: argv, perhaps.
            assert!(number(&base, "stores") == 1000, "{compiler} {level}: {base:#}");
            assert!(number(&base, "loads") <= 1002, "{compiler} {level}: {base:#}");
            assert_eq!(number(&base, "allocs"), 1, "{compiler} {level}: {base:#}");
            assert_eq!(number(&base, "frees"), 1, "{compiler} {level}: {base:#}");
        }
    }
}

/// Control that goes everywhere: jump tables, computed jumps, exceptions with cleanups, `longjmp`.
const WAYS: &str = r##"
#include <csetjmp>
#include <cstdlib>
static volatile long a[64], jumps, caught, i;
static jmp_buf back;
struct Guard { long at; ~Guard() { a[at & 63] += 1; } };
__attribute__((noinline)) static void thrower(long i) {
    asm volatile("# " USES);
    Guard guard{i};
    if (i % 3 == 0) throw i;
    a[1] = i;
}
__attribute__((noinline)) static void jump() {
    asm volatile("# " USES);
    jumps += 1;
    longjmp(back, 1);
}
__attribute__((noinline)) static long compute(long i) {
    asm volatile("# " USES);
    static void *const places[] = {&&one, &&two, &&three};
    long sum = 0;
    goto *places[i % 3];
one: sum += a[3];
two: for (long k = i & 7; k > 0; k--) { a[k] += sum; sum ^= a[k + 8]; }
three: return sum + a[4];
}
__attribute__((noinline)) static long choose(long i) {
    asm volatile("# " USES);
    switch (i % 9) {
    case 0: return a[10];
    case 1: a[11] = i; // fall through
    case 2: return a[12] + compute(i);
    case 3: a[13] += a[14]; return 1;
    case 4: for (long k = 0; k < 5; k++) a[k] = a[k + 20]; return 2;
    case 5: a[15] = 0; break;
    case 7: return compute(i) - a[16];
    }
    a[17] = a[18];
    return 3;
}
int main(int argc, char **argv) {
    asm volatile("# " USES);
    const long n = argc > 1 ? atol(argv[1]) : 2999;
    for (i = 0; i < n; i++) {
        try {
            Guard guard{i};
            a[5] = choose(i);
            thrower(i);
        } catch (long e) {
            a[6] = e;
            caught += 1;
        }
        if (i % 16 == 0 && setjmp(back) == 0) jump();
        a[7] = i;
    }
    return caught == (n + 2) / 3 && jumps == (n + 15) / 16 ? 0 : 1;
}
"##;

/// Whether a register keeps the buffer position must not change what is recorded. In functions that mention it, if only in
/// a comment, it does not.
#[test]
fn no_way_of_control_loses_or_invents_an_access() {
    for compiler in ["g++", "clang++"] {
        if !has(compiler) {
            continue;
        }
        let scratch = Scratch::new();
        scratch.file("w.cc", WAYS);
        for level in ["-O0", "-O1", "-O2", "-Os"] {
            let info = |uses: &str| {
                let define = format!("--compiler={compiler} {level} -DUSES=\"{uses}\" -o w w.cc");
                compile(scratch.dir(), "c++", &define);
                record(&scratch, &[], &["./w"])
            };
            let (kept, read) = (info("nothing"), info("r11"));
            assert!(number(&kept, "stores") > 10_000, "{compiler} {level}: {kept:#}");
            for key in ["loads", "stores", "load_bytes", "store_bytes"] {
                assert_eq!(number(&kept, key), number(&read, key), "{compiler} {level}: {key}");
            }
        }
    }
}

#[test]
fn counting_agrees_with_recording() {
    let scratch = Scratch::new();
    scratch.file("a.c", ARRAY);
    compile(scratch.dir(), "cc", "-O2 -o a a.c");
    let recorded = record(&scratch, &[], &["./a", "50000"]);
    let output = ok(strandline()
        .current_dir(scratch.dir())
        .args(["record", "--count", "--json", "--", "./a", "50000"]));
    let counted: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for key in ["loads", "stores"] {
        assert_eq!(number(&counted, key), number(&recorded, key), "{key}");
    }
}

/// Relaxed accesses are reported as those of runs are, others as records of their own.
const ATOMICS: &str = r"
static int a;
static long b;
int main(void) {
    for (int i = 0; i < 100; i++) {
        __atomic_store_n(&a, i, __ATOMIC_RELAXED);
        __atomic_load_n(&a, __ATOMIC_RELAXED);
        __atomic_store_n(&b, i, __ATOMIC_RELEASE);
        __atomic_load_n(&b, __ATOMIC_ACQUIRE);
        __atomic_fetch_add(&b, 1, __ATOMIC_RELAXED);
    }
    return 0;
}
";

#[test]
fn atomic_accesses_come_in_program_order_whatever_their_order_is() {
    let scratch = Scratch::new();
    scratch.file("a.c", ATOMICS);
    compile(scratch.dir(), "cc", "-O2 -o a a.c");
    let recorded = record(&scratch, &[], &["./a"]);
    assert_eq!((number(&recorded, "loads"), number(&recorded, "stores")), (300, 300), "{recorded:#}");
    // Without the thread, and what comes behind an address or its length.
    let lines = dump(&scratch.path("t.slt"));
    let lines =
        lines.iter().map(|line| line.split_whitespace().skip(1).take(3).collect::<Vec<_>>().join(" "));
    let reported: Vec<String> = lines.skip_while(|line| !line.starts_with("store")).take(900).collect();
    let [a, b] = [0, 2].map(|line: usize| reported[line].split(' ').nth(1).expect("an address"));
    let expected = [
        format!("store {a} 4"),
        format!("load {a} 4"),
        format!("release {b} release"),
        format!("store {b} 8"),
        format!("load {b} 8"),
        format!("acquire {b} acquire"),
        format!("load {b} 8"),
        format!("store {b} 8"),
    ];
    assert!(
        reported.len() == 900 && reported.chunks(9).all(|turn| turn.starts_with(&expected)),
        "{reported:#?}"
    );
    let output =
        ok(strandline().current_dir(scratch.dir()).args(["record", "--count", "--json", "--", "./a"]));
    let counted: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((number(&counted, "loads"), number(&counted, "stores")), (300, 300), "{counted:#}");
}

#[test]
fn the_memory_functions_are_ranges_of_their_caller() {
    let scratch = Scratch::new();
    scratch.file(
        "m.c",
        r#"
#include <stdlib.h>
#include <string.h>
struct big { char bytes[300]; };
__attribute__((noinline)) void fill(char *to, size_t n) { memset(to, 1, n); }
__attribute__((noinline)) void move(char *to, const char *from, size_t n) { memcpy(to, from, n); }
__attribute__((noinline)) void assign(struct big *to, const struct big *from) { *to = *from; }
int main(void) {
    char *a = malloc(5000), *b = malloc(5000);
    fill(a, 5000);
    for (int i = 0; i < 10; i++) move(b, a, 1000 + i);
    assign((struct big *)b, (struct big *)a);
    return memcmp(a, b, 300) + (int)strlen("") ;
}
"#,
    );
    for level in ["-O0", "-O2"] {
        compile(scratch.dir(), "cc", &format!("{level} -o m m.c"));
        let info = record(&scratch, &[], &["./m"]);
        let moved: u64 = (0..10).map(|i| 1000 + i).sum();
        assert_eq!(number(&info, "store_bytes"), 5000 + moved + 300, "{level}: {info:#}");
        let loaded = number(&info, "load_bytes");
        assert!((moved + 300 + 600..=moved + 300 + 601).contains(&loaded), "{level}: {info:#}");
    }
}

/// Lackey sees all of the process, we see what was compiled; so compare what another 2000 rounds add.
#[test]
fn lackey_counts_the_same() {
    if !has("valgrind") {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("a.c", ARRAY);
    compile(scratch.dir(), "cc", "-O1 -o ours a.c");
    ok(std::process::Command::new("gcc").current_dir(scratch.dir()).args(["-O1", "-o", "plain", "a.c"]));
    let lackey = |rounds: &str| {
        let log = scratch.path("lackey.txt");
        let trace = scratch.path("lackey.slt");
        ok(std::process::Command::new("valgrind")
            .current_dir(scratch.dir())
            .args(["--tool=lackey", "--trace-mem=yes"])
            .arg(format!("--log-file={}", log.display()))
            .args(["./plain", rounds]));
        ok(strandline().args(["trace", "import", "-o"]).arg(&trace).arg(&log));
        crate::common::info(&trace)
    };
    let (few, many) = (lackey("1000"), lackey("3000"));
    let (ours_few, ours_many) =
        (record(&scratch, &[], &["./ours", "1000"]), record(&scratch, &[], &["./ours", "3000"]));
    for key in ["loads", "stores", "load_bytes", "store_bytes"] {
        assert_eq!(
            number(&many, key) - number(&few, key),
            number(&ours_many, key) - number(&ours_few, key),
            "{key}"
        );
    }
    assert!(number(&few, "instructions") > 1000);
}
