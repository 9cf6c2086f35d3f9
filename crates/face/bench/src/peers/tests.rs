//! The harness with a store of its own, which needs no library.

use std::fs;

use workload::load::{Mix, Planner, Tally};

use super::{child, compile};
use crate::error::Error;
use crate::record::KeyKind;
use crate::runner::Runner;
use crate::terms::Setup;

/// A table that is searched from a hash on. In mode `loses` it forgets one of a hundred.
const TABLE: &str = r#"
#include "harness.h"
#include <stdlib.h>
#include <string.h>
struct slot { unsigned char key[24]; uint64_t word; int used; };
enum { SLOTS = 1 << 16 };
static struct slot *slots;
static struct slot *find(const void *key)
{
    uint64_t hash = 0;
    for (size_t at = 0; at < options.key_bytes; at++)
        hash = hash * 31 + ((const unsigned char *)key)[at];
    for (;; hash++) {
        struct slot *slot = &slots[hash % SLOTS];
        if (!slot->used || !memcmp(slot->key, key, options.key_bytes))
            return slot;
    }
}
void store_open(void) { slots = calloc(SLOTS, sizeof *slots); }
void store_close(void) { free(slots); }
void store_put(int thread, const void *key, const void *value)
{
    static int count;
    struct slot *slot = find(key);
    (void)thread;
    if (!strcmp(options.mode, "loses") && ++count % 100 == 0)
        return;
    if (!strcmp(options.mode, "fails"))
        fail("put", "the disk is full");
    memcpy(slot->key, key, options.key_bytes);
    memcpy(&slot->word, value, 8);
    slot->used = 1;
}
int store_get(int thread, const void *key, uint64_t *word)
{
    struct slot *slot = find(key);
    (void)thread;
    *word = slot->word;
    return slot->used == 1;
}
uint64_t store_scan(int thread, const void *key, uint32_t count) { (void)thread, (void)key; return count; }
int store_delete(int thread, const void *key)
{
    struct slot *slot = find(key);
    int there = slot->used == 1;
    (void)thread;
    slot->used = there ? 2 : slot->used;
    return there;
}
"#;

fn setup(folder: &tempfile::TempDir, key: KeyKind, value: usize) -> Setup {
    let folder = folder.path().to_owned();
    Setup { folder, memory: true, key, value, records: 10_000, threads: 1, many: 16 }
}

fn run(mode: &str, key: KeyKind, value: usize) -> Result<Tally, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let Ok(program) = compile::program(folder.path(), "table", TABLE, &[]) else {
        panic!("the harness does not compile")
    };
    let mut tally = Tally::default();
    let mut load = |runner: &mut dyn Runner| {
        let mut planner = Planner::new(1, 1);
        for name in ["fill", "ycsb-a", "ycsb-d", "ycsb-e", "ycsb-f", "mixed", "read-many"] {
            let mix = Mix::find(name).expect("it is known");
            let mut phase = planner.phase(&mix, None, 3000, None);
            while let Some(slice) = planner.next(&mut phase, 1000) {
                runner.run(&slice, &mut tally)?;
            }
        }
        Ok(())
    };
    let setup = setup(&folder, key, value);
    child::compete(&program, "table", mode, &setup, &mut load)?;
    assert_eq!(fs::read_dir(&setup.folder).expect("it is there").count(), 4, "only the program is left");
    Ok(tally)
}

#[test]
fn a_peer_runs_the_same_operations() {
    for (key, value) in [(KeyKind::Word, 8), (KeyKind::Pair, 100), (KeyKind::Text, 5000)] {
        let tally = run("right", key, value).expect("nothing is lost");
        assert_eq!(tally.operations, 21_000);
        // Reads of six workloads, and about 50 records for each of the scans.
        assert!(tally.found > 100_000, "{}", tally.found);
        let timed: u64 = tally.latencies.values().map(hdrhistogram::Histogram::len).sum();
        assert_eq!(timed, 21 * 1000_u64.div_ceil(16));
    }
}

#[test]
fn what_a_peer_loses_or_says_is_reported() {
    let said = |mode| run(mode, KeyKind::Word, 8).expect_err("it fails").to_string();
    assert_eq!(said("loses"), "table: read: a record that was put in is not there");
    assert_eq!(said("fails"), "table: put: the disk is full");
}

#[test]
fn a_library_that_is_missing_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = |source: &str, library: &[&str]| compile::program(folder.path(), "x", source, library);
    let header = "#include <no_such_peer.h>\n";
    assert!(matches!(missing(header, &[]), Err(compile::Missing::Library)));
    assert!(matches!(missing(TABLE, &["-lno_such_peer"]), Err(compile::Missing::Library)));
    assert!(matches!(missing("int x = ;", &[]), Err(compile::Missing::Failed(why)) if why.contains("error")));
}
