//! Programs that none of us wrote, built by their own build systems: LMDB and SQLite.

use std::path::Path;

use crate::common::{Scratch, c_sources, cc, copy_files, dump, number, ok, record, stdout, strandline};

/// LMDB's sources with its own Makefile, and our loader beside them.
fn lmdb(dir: &Path) {
    copy_files(&c_sources("lmdb-master-sys", "lmdb/libraries/liblmdb"), dir);
    std::fs::copy(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/lmdb_load.c"),
        dir.join("lmdb_load.c"),
    )
    .expect("the loader is copied");
}

#[test]
fn lmdb_builds_with_its_makefile_and_is_recorded() {
    let scratch = Scratch::new();
    lmdb(scratch.dir());
    // Static and shared library, tools and tests, as its Makefile makes them.
    ok(std::process::Command::new("make")
        .current_dir(scratch.dir())
        .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
        .args(["-j2", &format!("CC={}", cc("cc"))]));
    crate::common::compile(scratch.dir(), "cc", "-O2 -I. -o lmdb_load lmdb_load.c liblmdb.a -pthread");
    let info = record(&scratch, &["--pmem", "*.mdb"], &["./lmdb_load", "l.mdb", "20000", "writemap"]);
    // Per insert: a descent, a node of 108 bytes, its slot. Far more events than inserts, no fewer stored bytes
    // than keys and values.
    assert!(number(&info, "events") > 20_000 * 100, "{info:#}");
    assert!(number(&info, "store_bytes") > 20_000 * 108, "{info:#}");
    let lines = dump(&scratch.path("t.slt"));
    assert!(
        lines.iter().any(|l| l.contains("mdb_node_add (mdb.c:")),
        "no store of mdb_node_add has its line"
    );
    assert!(
        lines.iter().any(|l| l.contains(" map ") && l.contains("l.mdb")),
        "the map file is not persistent"
    );
    // Its pages are written over and over while the caches have them: nothing to send away early.
    let said = stdout(&ok(strandline()
        .args(["advise", "prestores", "--json", "--target", "xpoint"])
        .arg(scratch.path("t.slt"))));
    let advice: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let places = advice["advice"]["phases"][0]["places"].as_array().expect("the phase is judged");
    assert!(!places.is_empty() && places.iter().all(|place| place["choice"] == "nothing"), "{places:#?}");
}

#[test]
fn lmdb_loads_a_million_keys_under_count() {
    let scratch = Scratch::new();
    lmdb(scratch.dir());
    crate::common::compile(scratch.dir(), "cc", "-O2 -I. -o lmdb_load lmdb_load.c mdb.c midl.c -pthread");
    let output = ok(strandline().current_dir(scratch.dir()).args([
        "record",
        "--count",
        "--json",
        "--",
        "./lmdb_load",
        "l.mdb",
        "1000000",
    ]));
    // Standard output is for the JSON.
    assert!(crate::common::stderr(&output).contains("1000000 entries"), "{}", crate::common::stderr(&output));
}

#[test]
fn sqlite_inserts_indexes_and_queries_the_same() {
    let scratch = Scratch::new();
    let source = c_sources("libsqlite3-sys", "sqlite3");
    let loader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sqlite_load.c");
    let arguments =
        format!("-O1 -I{} -o sq {loader} {}/sqlite3.c -lm -pthread", source.display(), source.display());
    crate::common::compile(scratch.dir(), "cc", &arguments);
    let plain = ok(std::process::Command::new(scratch.path("sq")).arg(scratch.path("a.db")).arg("100000"));
    let trace = scratch.path("t.slt");
    let recorded = ok(strandline()
        .arg("record")
        .arg("-o")
        .arg(&trace)
        .arg("--sample")
        .arg("1/10")
        .arg("--")
        .arg(scratch.path("sq"))
        .arg(scratch.path("b.db"))
        .arg("100000"));
    assert!(stdout(&recorded).contains(stdout(&plain).trim()), "{}", stdout(&recorded));
    let info = crate::common::info(&trace);
    let part = |key: &str| info["sampling"][key].as_u64().expect("a number");
    assert_eq!(part("period"), 10 * part("recorded"), "{info:#}");
    assert!(number(&info, "events") > 1_000_000, "{info:#}");
}

#[test]
fn cpp_threads_and_templates_are_recorded() {
    let scratch = Scratch::new();
    scratch.file(
        "t.cc",
        r"
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
template <typename T> struct Box { T value; T get() const { return value; } };
int main() {
    std::map<int, std::unique_ptr<Box<std::string>>> boxes;
    std::mutex lock;
    std::atomic<long> done{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 100; i++) {
                std::lock_guard<std::mutex> guard(lock);
                boxes[t * 100 + i] = std::make_unique<Box<std::string>>(Box<std::string>{std::string(40, 'x')});
            }
            done.fetch_add(1, std::memory_order_acq_rel);
        });
    for (auto &thread : threads) thread.join();
    try {
        throw std::runtime_error(boxes[7]->get());
    } catch (const std::exception &e) {
        return done == 4 && std::string(e.what()).size() == 40 && boxes.size() == 400 ? 0 : 1;
    }
}
",
    );
    for compiler in ["g++", "clang++"] {
        if !crate::common::has(compiler) {
            continue;
        }
        for level in ["-O0", "-O2"] {
            crate::common::compile(
                scratch.dir(),
                "c++",
                &format!("--compiler={compiler} {level} -pthread -o t t.cc"),
            );
            let info = record(&scratch, &[], &["./t"]);
            assert_eq!(number(&info, "threads"), 5, "{compiler} {level}: {info:#}");
            assert!(number(&info, "allocs") >= 1200, "{compiler} {level}: {info:#}");
            let lines = dump(&scratch.path("t.slt"));
            let count = |op: &str| lines.iter().filter(|l| l.split_whitespace().nth(1) == Some(op)).count();
            assert_eq!(count("lock"), 400, "{compiler} {level}");
            assert_eq!(count("join"), 4, "{compiler} {level}");
            assert!(count("release") >= 4, "{compiler} {level}");
        }
    }
}
