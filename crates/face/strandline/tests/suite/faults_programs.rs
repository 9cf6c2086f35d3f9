//! Twenty programs under `faults --try`: predicted and measured gain of each remedy, side by side.
//!
//! `cargo test --release -p strandline --test suite -- --ignored --nocapture twenty_programs` prints the table of the lab
//! notes. Times are not judged: only that every program is run, estimated and, where something is predicted, tried.

use std::process::Command;

use serde_json::Value;

use crate::common::{Scratch, ok, stderr, stdout, strandline};

const KERNELS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
enum { M = 1 << 20 };
static unsigned long random_state = 1;
static unsigned long next(void) {
    random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
    return random_state >> 33;
}
static long fill(void) { char *a = malloc(192 * M); memset(a, 1, 192 * M); return a[77]; }
static long zeroed(void) { long *a = calloc(16 * M, 8), s = 0; for (int i = 0; i < 16 * M; i += 8) s += a[i] += i; return s; }
static long frames(void) { long s = 0; for (int i = 0; i < 40; i++) { char *a = malloc(8 * M); memset(a, i, 8 * M); s += a[i]; free(a); } return s; }
static long grow(void) { long *a = NULL, n = 0, room = 1; for (; n < 8 * M; n++) { if (n + 1 > room || !a) a = realloc(a, (room *= 2) * 8); a[n] = n; } return a[n / 2]; }
static long sparse(void) { char *a = mmap(0, 2048ul * M, 3, 0x4022, -1, 0); long s = 0; for (int i = 0; i < 20000; i++) s += a[next() % (2048ul * M)]++; return s; }
static long hash(void) { long *a = calloc(8 * M, 8), s = 0; for (int i = 0; i < 2 * M; i++) s += a[next() % (8 * M)]++; return s; }
static long list(void) { struct node { struct node *next; long v[5]; } *head = NULL; for (int i = 0; i < 2 * M; i++) { struct node *n = malloc(sizeof *n); n->next = head; n->v[0] = i; head = n; } long s = 0; for (; head; head = head->next) s += head->v[0]; return s; }
static long stencil(void) { int n = 2048; double *a = malloc(n * n * 8), *b = malloc(n * n * 8); for (int i = 0; i < n * n; i++) a[i] = i; for (int t = 0; t < 3; t++) { for (int i = n; i < n * n - n; i++) b[i] = a[i - n] + a[i + n] + a[i - 1] + a[i + 1]; double *c = a; a = b; b = c; } return a[n * n / 2]; }
static long prices(void) { int n = 3 * M; double *a = malloc(n * 8), *b = malloc(n * 8), s = 0; for (int i = 0; i < n; i++) { a[i] = i % 100 + 1; b[i] = 1 / a[i] + a[i] * a[i]; } for (int i = 0; i < n; i++) s += b[i]; return s; }
static int compare(const void *a, const void *b) { return (*(int *)a > *(int *)b) - (*(int *)a < *(int *)b); }
static long sorted(void) { int n = 2 * M, *a = malloc(n * 4); for (int i = 0; i < n; i++) a[i] = next(); qsort(a, n, 4, compare); return a[n / 2]; }
static long reads(void) { char *a = mmap(0, 256 * M, 3, 0x22, -1, 0); long s = 0; for (int t = 0; t < 3; t++) for (int i = 0; i < 256 * M; i += 4096) s += a[i]; return s; }
static long buffers(void) { long s = 0; for (int i = 0; i < 4000; i++) { char *a = malloc(256 << 10); memset(a, i, 256 << 10); s += a[9]; free(a); } return s; }
static long matrix(void) { int n = 384; double *a = malloc(n * n * 8), *b = malloc(n * n * 8), *c = calloc(n * n, 8); for (int i = 0; i < n * n; i++) a[i] = b[i] = i; for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j]; return c[5]; }
int main(int count, char **words) {
    struct { const char *name; long (*run)(void); } all[] = { { "fill", fill }, { "zeroed", zeroed }, { "frames", frames }, { "grow", grow }, { "sparse", sparse }, { "hash", hash }, { "list", list }, { "stencil", stencil }, { "prices", prices }, { "sorted", sorted }, { "reads", reads }, { "buffers", buffers }, { "matrix", matrix } };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) if (!strcmp(all[i].name, words[1])) return printf("%ld\n", all[i].run()) < 0;
    return 2;
}
"#;

const NAMES: [&str; 13] = [
    "fill", "zeroed", "frames", "grow", "sparse", "hash", "list", "stencil", "prices", "sorted", "reads",
    "buffers", "matrix",
];

fn programs() -> Vec<Vec<String>> {
    let kernels = NAMES.iter().map(|name| vec!["./kernels".to_owned(), (*name).to_owned()]);
    let others = [
        "gzip -kc text",
        "bzip2 -kc text",
        "xz -1 -kc text",
        "sort text",
        "awk {a[NR]=$0}END{print(length(a))} text",
        "perl -e @a=(1..1000000);print(scalar(@a))",
        "python3 -c print(len(list(range(1500000))))",
    ];
    kernels.chain(others.map(|line| line.split(' ').map(str::to_owned).collect())).collect()
}

#[test]
#[ignore = "--long: twenty programs, each some dozen times"]
fn twenty_programs() {
    let scratch = Scratch::new();
    scratch.file("kernels.c", KERNELS);
    let mut command = Command::new("gcc");
    ok(command.current_dir(scratch.dir()).args([
        "-O2",
        "-g",
        "-w",
        "-fno-builtin-malloc",
        "-fno-builtin-calloc",
        "-o",
        "kernels",
        "kernels.c",
    ]));
    let text: String =
        (0..150_000u64).map(|i| format!("{} line of text {}\n", i * 2_654_435_761 % 999_983, i)).collect();
    scratch.file("text", &text);
    let rounds = std::env::var("STRANDLINE_ROUNDS").unwrap_or_else(|_| "3".to_owned());
    println!(
        "| program | faults | share | remedy | predicted | measured | +- | kept |\n|---|---|---|---|---|---|---|---|"
    );
    let (mut within, mut all) = (0, 0);
    for program in programs() {
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["faults", "--try", "--rounds", &rounds, "--json", "--"]);
        let output = command.args(&program).output().expect("it runs");
        assert!(output.status.success(), "{program:?}: {}", stderr(&output));
        let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        assert_eq!(json["ended"], "exit status: 0", "{program:?}");
        let percent = |value: &Value| 100.0 * value.as_f64().unwrap_or(0.0);
        let name = program.join(" ");
        let head =
            format!("| {name} | {} | {:.1} %", json["faults"]["minor"], percent(&json["faults"]["share"]));
        let trials = json["trials"].as_array().expect("a list");
        if trials.is_empty() {
            println!("{head} | none | | | | |");
        }
        let mut near = true;
        for trial in trials {
            let (predicted, gained) = (percent(&trial["predicted"]), percent(&trial["gained"]));
            near &= (predicted - gained).abs() <= 3.0;
            println!(
                "{head} | {} | {predicted:.1} % | {gained:.1} % | {:.1} | {} |",
                trial["remedies"][0][1].as_str().unwrap_or_default(),
                percent(&trial["noise"]),
                trial["kept"]
            );
        }
        all += 1;
        within += u32::from(near);
    }
    println!("all remedies predicted within 3 % of the run time: {within} of {all} programs");
}
