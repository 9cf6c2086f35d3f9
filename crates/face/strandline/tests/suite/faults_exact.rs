//! `strandline faults` on programs whose faults are known by kind and site: counts are exact, however many
//! there are; and on programs whose memory is sparse, kept, or shared with children.

use std::process::Command;

use serde_json::Value;

use crate::common::{Scratch, ok, stderr, stdout, strandline};

/// What a program in C is found to do; nothing where counts are not exact here, or pages are of 2 MiB.
fn exact(text: &str) -> Option<Value> {
    ending(text, "exit status: 0")
}

/// As [`exact`], of a program that ends so.
fn ending(text: &str, ended: &str) -> Option<Value> {
    let scratch = Scratch::new();
    scratch.file("app.c", text);
    let mut command = Command::new("gcc");
    command.current_dir(scratch.dir()).args(["-O1", "-g", "-w", "-fno-omit-frame-pointer"]);
    ok(command.args(["-fno-builtin", "-fno-inline", "-o", "app", "app.c"]));
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["faults", "--json", "--", "./app"]);
    let output = command.output().expect("it runs");
    let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert!(
        json["ended"].as_str().is_some_and(|how| how.contains(ended)),
        "{}: {}",
        json["ended"],
        stderr(&output)
    );
    if json["faults"]["recorded"] != true || json["machine"]["huge_pages"] == "always" {
        eprintln!("skipped: {}", json["warnings"]);
        return None;
    }
    assert_eq!(json["faults"]["exact"], true, "{:#}", json["faults"]);
    Some(json)
}

fn site<'a>(json: &'a Value, name: &str) -> &'a Value {
    let named =
        |site: &&Value| site["name"].as_str().is_some_and(|text| text.contains(&format!("{name} at ")));
    let sites = json["sites"].as_array().expect("sites");
    sites.iter().find(named).unwrap_or_else(|| panic!("{name}: {json:#}"))
}

fn kind(site: &Value, kind: &str) -> u64 {
    site["kinds"][kind].as_u64().expect("a count")
}

fn advised(site: &Value, remedy: &str) -> bool {
    let all = site["remedies"].as_array().expect("remedies");
    all.iter().any(|one| one["remedy"] == remedy && one["advised"] == true)
}

const HEAD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { M = 1 << 20, PAGE = 4096 };
#define mapped(bytes) mmap(NULL, bytes, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
"#;

#[test]
fn a_program_that_is_killed_or_leaves_at_once_has_its_sites() {
    for (how, ended) in [("raise(SIGSEGV)", "SIGSEGV"), ("_exit(0)", "exit status: 0")] {
        let text = r#"
#include <signal.h>
static char *heap(void) { char *all = malloc(8 * M); memset(all, 1, 8 * M); return all; }
int main(void) { int first = heap()[5]; HOW; return first; }
"#;
        let Some(json) = ending(&format!("{HEAD}{}", text.replace("HOW", how)), ended) else { return };
        let mut sites = json["sites"].as_array().expect("sites").iter();
        assert!(sites.any(|site| kind(site, "write") == 2049), "{how}: {:#}", json["sites"]);
    }
}

#[test]
fn each_fault_of_many_is_counted() {
    let Some(json) = exact(&format!(
        "{HEAD}{}",
        r#"
static char *stores(void) { char *all = mapped(64 * M); memset(all, 1, 64 * M); return all; }
static char *heap(void) { char *all = malloc(48 * M); memset(all, 1, 48 * M); return all; }
static long loads(void) {
    char *all = mapped(32 * M);
    long sum = 0;
    for (long i = 0; i < 32 * M; i += PAGE) sum += all[i];
    for (long i = 0; i < 32 * M; i += 2 * PAGE) all[i] = 1;
    return sum;
}
static long every_fourth(void) {
    char *all = calloc(8, M);
    for (long i = 0; i < 8 * M; i += 4 * PAGE) all[i] = 1;
    return all[5];
}
static long grown(void) {
    char *all = malloc(4 * M);
    memset(all, 1, 4 * M);
    all = realloc(all, 12 * M);
    memset(all, 2, 12 * M);
    return all[9];
}
static long of_kernel(void) {
    char *all = mapped(8 * M);
    FILE *zeros = fopen("/dev/zero", "r");
    setvbuf(zeros, NULL, _IONBF, 0);
    return fread(all, 1, 8 * M, zeros);
}
int main(void) {
    char *all = stores();
    long sum = heap()[7] + loads() + every_fourth() + grown() + of_kernel();
    if (fork() == 0) {
        for (long i = 0; i < 2000; i++) all[i * PAGE] = 2;
        _exit(0);
    }
    wait(NULL);
    return printf("%ld\n", sum) < 0;
}
"#
    )) else {
        return;
    };
    let of = |name: &str, wanted: &str| kind(site(&json, name), wanted);
    assert_eq!((of("stores", "write"), of("stores", "copy")), (16_384, 2000));
    // The allocator's own bytes are before the block, which so has a part of a page more.
    assert_eq!((of("heap", "write"), of("heap", "copy")), (12_289, 0));
    assert_eq!((of("loads", "read"), of("loads", "upgrade"), of("loads", "write")), (8192, 4096, 0));
    assert_eq!(of("every_fourth", "write"), 512);
    // Of `malloc`, and of `realloc`: what that moves has its faults before.
    let sites = json["sites"].as_array().expect("sites").iter();
    let grown = sites.filter(|site| site["name"].as_str().is_some_and(|name| name.contains("grown at ")));
    let mut grown: Vec<u64> = grown.map(|site| kind(site, "write")).collect();
    grown.sort_unstable();
    assert_eq!(grown, [1025, 2048]);
    assert_eq!(of("of_kernel", "write"), 2048, "the kernel stores for the program");
    let all = json["faults"]["reported"].as_u64().expect("a count");
    let counted = json["faults"]["minor"].as_u64().expect("a count");
    assert!(all <= counted + 20 && all + 300 > counted, "{}", json["faults"]);
}

/// The kernel copies from a program's pages into a file with faults disabled first, and has each of them twice.
#[test]
fn what_the_kernel_tries_in_vain_counts_once() {
    let Some(json) = exact(&format!(
        "{HEAD}{}",
        r#"
#include <fcntl.h>
int main(void) {
    int file = open("data", O_RDWR | O_CREAT, 0600);
    if (pwrite(file, mapped(16 * M), 16 * M, 0) != 16 * M) return 1;
    return pread(file, mapped(16 * M), 16 * M, 0) != 16 * M;
}
"#
    )) else {
        return;
    };
    let all = json["faults"]["reported"].as_u64().expect("a count");
    let counted = json["faults"]["minor"].as_u64().expect("a count");
    assert!(all <= counted + 20 && all + 300 > counted, "{}", json["faults"]);
    assert!(kind(&json["faults"], "write") >= 4096 && kind(&json["faults"], "read") >= 4096);
}

#[test]
fn a_sparse_table_is_not_populated() {
    let Some(json) = exact(&format!(
        "{HEAD}{}",
        r#"
struct slot { unsigned long key, value; };
static struct slot *table(void) { return (struct slot *)mapped(1024l * M); }
int main(void) {
    struct slot *all = table();
    unsigned long state = 1, mask = 1024ul * M / sizeof *all - 1, found = 0;
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        unsigned long at = state >> 33 & mask;
        while (all[at].key && all[at].key != state) at = (at + 1) & mask;
        all[at].key = state;
        found += ++all[at].value;
    }
    return printf("%lu\n", found) < 0;
}
"#
    )) else {
        return;
    };
    let table = site(&json, "table");
    assert!(["populate", "prefault", "huge"].iter().all(|remedy| !advised(table, remedy)), "{table:#}");
    assert!(kind(table, "read") > 15_000 && kind(table, "upgrade") == kind(table, "read"), "{table:#}");
}

#[test]
fn arenas_that_are_used_again_have_their_faults_once() {
    let Some(json) = exact(&format!(
        "{HEAD}{}",
        r#"
static char *arena(void) { return malloc(24 * M); }
int main(void) {
    char *ring[4];
    long sum = 0;
    for (int i = 0; i < 4; i++) ring[i] = arena();
    for (int i = 0; i < 24; i++) {
        memset(ring[i % 4], i, 24 * M);
        sum += ring[i % 4][i];
    }
    return printf("%ld\n", sum) < 0;
}
"#
    )) else {
        return;
    };
    let arena = site(&json, "arena");
    assert_eq!((kind(arena, "write"), arena["blocks"].as_u64()), (4 * (24 * 256 + 1), Some(4)));
    assert!(!advised(arena, "keep"), "nothing is freed: {arena:#}");
    assert!(arena["density"].as_f64().is_some_and(|density| density > 0.99), "{arena:#}");
}

#[test]
fn copies_of_a_server_that_forks_are_its_tables() {
    let Some(json) = exact(&format!(
        "{HEAD}{}",
        r#"
static char *table(void) { char *all = malloc(32 * M); memset(all, 1, 32 * M); return all; }
int main(void) {
    char *all = table();
    for (int request = 0; request < 8; request++) {
        if (fork() == 0) {
            for (long i = 0; i < 512; i++) all[(request * 512 + i) * PAGE] = request;
            _exit(0);
        }
        wait(NULL);
    }
    return printf("%d\n", all[9]) < 0;
}
"#
    )) else {
        return;
    };
    let table = site(&json, "table");
    assert_eq!((kind(table, "write"), kind(table, "copy"), kind(table, "upgrade")), (8193, 4096, 0));
    // What remedies save are first stores: no gain may count the copies.
    let first = table["seconds"].as_f64().expect("a time");
    let gains = table["remedies"].as_array().expect("remedies").iter();
    assert!(gains.filter_map(|one| one["seconds"].as_f64()).all(|gain| gain < 0.8 * first), "{table:#}");
}
