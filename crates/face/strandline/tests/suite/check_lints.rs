//! Lints of stores, flushes and fences: by `strandline check` without a recovery command, beside its findings with one, and in the
//! report of `strandline profile --check`.

use std::collections::BTreeSet;

use crate::common::fields::{documented, paths};
use crate::common::{Scratch, browse, compile, has, has_flushes, ok, stdout, strandline};
use serde_json::Value;

/// Says of each value that it is there; `valid` is flushed and not fenced, `count` not flushed, and a line flushed twice.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct pool { uint64_t value; char a[56]; uint64_t valid; char b[56]; uint64_t count; };
__attribute__((noinline)) static void right(volatile struct pool *p) {
    p->value = 1;
    _mm_clwb((void *)&p->value);
    _mm_sfence();
    p->valid = 1;
    _mm_clwb((void *)&p->valid);
    _mm_sfence();
}
__attribute__((noinline)) static void wrong(volatile struct pool *p) {
    p->value = 2;
    _mm_clwb((void *)&p->value);
    _mm_sfence();
    _mm_clwb((void *)&p->value);
    _mm_sfence();
    p->count = 3;
    p->valid = 2;
    _mm_clwb((void *)&p->valid);
}
int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "--recover")) return 0;
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096)) return 2;
    struct pool *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return 2;
    right(p);
    if (argc > 2) wrong(p);
    return 0;
}
"#;

/// The program, or nothing where it cannot run.
fn program() -> Option<Scratch> {
    if !has("gcc") || !has_flushes() {
        return None;
    }
    let scratch = Scratch::new();
    scratch.file("app.c", PROGRAM);
    compile(scratch.dir(), "cc", "-O1 -g -mclwb -o app app.c");
    Some(scratch)
}

/// `strandline check` with these options; exit status, printed text and `check.json`.
fn check(scratch: &Scratch, options: &[&str], program: &[&str]) -> (Option<i32>, String, Value) {
    let pool = scratch.path("pool").display().to_string();
    std::fs::remove_file(&pool).ok();
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--out", "found", "--pmem", &pool])
        .args(options)
        .args(["--", "./app", &pool])
        .args(program)
        .output()
        .expect("strandline starts");
    let json = std::fs::read(scratch.path("found/check.json")).expect("check.json is there");
    let json = serde_json::from_slice(&json).expect("it is JSON");
    (output.status.code(), stdout(&output), json)
}

fn kinds(json: &Value) -> Vec<(&str, u64)> {
    let lints = json["lints"].as_array().expect("lints");
    let one = |lint: &'_ Value| -> (&'static str, u64) {
        let known = ["flushed-pointer", "never-flushed", "not-fenced", "redundant-flush", "redundant-fence"];
        let name = known.into_iter().find(|name| lint["lint"] == *name);
        (name.unwrap_or_else(|| panic!("{lint:#}")), lint["code"]["line"].as_u64().expect("a line"))
    };
    lints.iter().map(one).collect()
}

#[test]
fn what_is_wrong_is_reported_with_its_lines_and_what_is_right_is_not() {
    let Some(scratch) = program() else { return };
    let (code, printed, json) = check(&scratch, &["--html"], &["wrong"]);
    assert_eq!(code, Some(1), "{printed}");
    let line = |text: &str| PROGRAM.lines().position(|line| line.contains(text)).expect("a line") as u64 + 1;
    // The second flush of a clean line; the fence behind it has that flush to order.
    let twice = line("p->count = 3") - 2;
    let expected = [
        ("never-flushed", line("p->count = 3")),
        ("not-fenced", line("p->valid = 2")),
        ("redundant-flush", twice),
    ];
    assert_eq!(kinds(&json), expected, "{printed}");
    assert!(printed.contains("p->count = 3;") && printed.contains("2 of them can lose data"), "{printed}");
    assert_eq!((&json["findings"], &json["images"]), (&Value::Null, &Value::Null));
    let page = std::fs::read_to_string(scratch.path("found/check.html")).expect("check.html is there");
    assert!(page.contains(r#"<span class="says">never flushed</span>"#), "{page}");
    if let Some(dom) = browse(&scratch, &scratch.path("found/check.html")) {
        assert_eq!(dom.matches("<article").count(), 3);
    }
    let (code, printed, json) = check(&scratch, &[], &[]);
    assert_eq!((code, kinds(&json)), (Some(0), Vec::new()), "{printed}");
}

#[test]
fn with_a_recovery_command_it_decides() {
    let Some(scratch) = program() else { return };
    let (code, printed, json) = check(&scratch, &["--recover", "./app --recover POOL"], &["wrong"]);
    assert_eq!((code, kinds(&json).len()), (Some(0), 3), "{printed}");
    assert!(printed.contains("nothing found") && printed.contains("never flushed"), "{printed}");
}

#[test]
fn the_profile_has_them_too() {
    let Some(scratch) = program() else { return };
    let pool = scratch.path("pool").display().to_string();
    let profile = |options: &[&str]| {
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["profile", "--pmem", &pool]).args(options);
        stdout(&ok(command.args(["--", "./app", &pool, "wrong"])))
    };
    let printed = profile(&["--check"]);
    assert!(printed.contains("is never flushed") && printed.contains("2 of them can lose data"), "{printed}");
    let page =
        std::fs::read_to_string(scratch.path("strandline-report/report.html")).expect("report.html is there");
    assert!(
        page.contains("section id=\"crashes\"") && page.contains("p-&gt;count = 3;"),
        "the page has no lints"
    );
    let json: Value = serde_json::from_str(&profile(&["--check", "--json"])).expect("JSON");
    assert_eq!(json["crash_lints"].as_array().map(Vec::len), Some(3));
    let json: Value = serde_json::from_str(&profile(&["--json"])).expect("JSON");
    assert_eq!(json["crash_lints"], Value::Null);
}

/// `pm_persist(&node, …)` flushes the variable and nothing of the node: one finding and one lint, which names
/// the caller. With the pass and without, where the variable is in the frame of the caller and where the
/// function is compiled into it.
#[test]
fn a_flush_of_a_pointer_is_one_cause() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let scratch = Scratch::new();
    let source = include_str!("../programs/persist_pointer.c");
    scratch.file("app.c", source);
    let line = |text: &str| source.lines().position(|line| line.contains(text)).expect("a line") as u64 + 1;
    for mode in ["-O0", "-O2", "--as-shipped -O0", "--as-shipped -O2"] {
        for persist in ["node", "&node"] {
            compile(scratch.dir(), "cc", &format!("{mode} -g -mclwb -DPERSIST={persist} -o app app.c"));
            let (code, printed, json) = check(&scratch, &["--recover", "./app POOL recover"], &[]);
            let findings = json["findings"].as_array().expect("findings");
            if persist == "node" {
                assert_eq!(
                    (code, findings.len(), kinds(&json)),
                    (Some(0), 0, Vec::new()),
                    "{mode}: {printed}"
                );
                continue;
            }
            assert_eq!((code, findings.len()), (Some(1), 1), "{mode}: {printed}");
            let missing = findings[0]["missing"].as_array().expect("what is missing");
            assert!(!missing.is_empty(), "{mode}: {printed}");
            for missing in missing {
                let why = &missing["why"];
                assert_eq!(
                    (&why["kind"], &why["flush"]["function"]),
                    (&"pointer-flushed".into(), &"pm_persist".into())
                );
            }
            assert_eq!(kinds(&json), [("flushed-pointer", line("_mm_clwb"))], "{mode}: {printed}");
            let lint = &json["lints"][0];
            let caller = &lint["code"]["callers"][0];
            assert_eq!((&caller["function"], &caller["line"]), (&"insert".into(), &line("PERSIST,").into()));
            // It is about all stores to the node.
            let missed: Vec<_> =
                lint["missed"].as_array().expect("code").iter().map(|code| &code["line"]).collect();
            let stores = ["node->key = key", "node->value = key", "node->check = node", "node->next = pool"];
            assert_eq!(
                missed,
                stores.map(|store| Value::from(line(store))).iter().collect::<Vec<_>>(),
                "{mode}"
            );
            assert_eq!(lint["count"], 4);
        }
    }
}

#[test]
fn every_field_of_check_json_is_documented() {
    let Some(scratch) = program() else { return };
    let mut written = BTreeSet::new();
    // What says 2 must say 3, too.
    let refuse = r#"if grep -q "$(printf '\002')" POOL; then grep -q "$(printf '\003')" POOL; fi"#;
    for options in [&["--recover", refuse][..], &[][..]] {
        let (code, printed, json) = check(&scratch, options, &["wrong"]);
        assert_eq!(code, Some(1), "{printed}");
        paths(&json, "", &mut written);
    }
    let document = include_str!("../../../../../docs/check-json.md");
    let documented = documented(document);
    // Codes and places are described in one sentence.
    let whole = |path: &&String| {
        let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
        let as_elsewhere = ["callers[]", "missed[]"].iter().any(|end| parent.ends_with(end));
        path.starts_with("lints") && !as_elsewhere
            || !["store", "flush", "fence", "place", "next_fence", "callers[]"]
                .iter()
                .any(|end| parent.ends_with(end))
    };
    let missing: Vec<_> = written.iter().filter(whole).filter(|path| !documented.contains(*path)).collect();
    assert!(missing.is_empty(), "not in the document: {missing:#?}");
    for field in ["findings[].token", "findings[].missing[].why.kind", "lints[].flush.line"] {
        assert!(written.contains(field), "{field} is not in the JSON");
    }
}
