//! Pools in files: made, opened, cut short, damaged, opened twice, and looked at by `strandline pool`.

use crate::common::fields::compare;
use crate::common::{Scratch, ok, stdout, strandline};
use region::{Atomicity, Layout, Ptr, Redo, Undo, Unprotected};
use strandline::pool::{self, Domain, Pool};

struct Chain;
region::persistent! { Chain:
    struct Root { first: Ptr<Link, Chain>, count: u64 }
    struct Link { value: u64, next: Ptr<Link, Chain> }
}
impl Layout for Chain {
    const NAME: &'static str = "chain, 1";
    type Root = Root;
}

struct Other;
impl Layout for Other {
    const NAME: &'static str = "other";
    type Root = u64;
}

fn push<A: Atomicity>(pool: &Pool<Chain, A>, value: u64) {
    let pushed = pool.region(|tx| {
        let root = tx.get(tx.root());
        let first = tx.alloc(Link { value, next: root.first })?;
        tx.set(tx.root(), Root { first, count: root.count + 1 })
    });
    pushed.expect("there is room");
}

fn values<A: Atomicity>(pool: &Pool<Chain, A>) -> Vec<u64> {
    let root = pool.get(pool.root());
    let mut values = Vec::new();
    let mut at = root.first;
    while let Some(link) = at.get() {
        values.push(pool.get(link).value);
        at = pool.get(link).next;
    }
    assert_eq!(values.len() as u64, root.count);
    assert_eq!(pool.blocks().len() as u64, root.count + 1, "nothing is leaked");
    values.reverse();
    values
}

#[test]
fn what_is_written_is_there_next_time() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    let pool = pool::create::<Chain, Redo>(&path, 4 << 20).expect("there is room");
    (0..1000).for_each(|value| push(&pool, value));
    drop(pool);
    let (pool, recovered) = pool::open::<Chain, Redo>(&path).expect("it is whole");
    assert!(recovered.replayed > 0, "logs are not emptied at the end of a program");
    assert_eq!(values(&pool), (0..1000).collect::<Vec<_>>());
    drop(pool);
    let (_, recovered) = pool::open::<Chain, Redo>(&path).expect("it is whole");
    assert!(recovered.was_clean());

    let said = stdout(&ok(strandline().args(["pool", "info"]).arg(&path)));
    assert!(said.contains("layout \"chain, 1\"") && said.contains("1001 blocks"), "{said}");
    let said = stdout(&ok(strandline().args(["pool", "check"]).arg(&path)));
    assert!(said.contains("whole; nothing to recover"), "{said}");
    let blocks = stdout(&ok(strandline().args(["pool", "dump"]).arg(&path)));
    assert_eq!(blocks.lines().count(), 1001);
}

struct Shelf;
impl Layout for Shelf {
    const NAME: &'static str = "shelf, 1";
    type Root = u64;
}

/// Allocates blocks of 16 KiB until one fails or there are so many more; how many there were, and why there are no more.
fn fill(pool: &Pool<Shelf>, most: usize) -> (usize, Option<region::Error>) {
    let mut failed = None;
    let blocks = (0..most).take_while(|_| {
        failed = pool.region(|tx| tx.alloc([1u64; 2048])).err();
        failed.is_none()
    });
    (blocks.count(), failed)
}

#[test]
fn a_pool_grows_with_its_file() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    let bytes = || std::fs::metadata(&path).expect("it is there").len();
    let pool = pool::create::<Shelf, Redo>(&path, 1 << 20).expect("there is room");
    let (before, failed) = fill(&pool, 1000);
    assert!(matches!(failed, Some(region::Error::Full { .. })), "{failed:?}");
    pool::grow(&pool, 3 << 20).expect("there is room on the disk");
    assert_eq!(bytes(), 3 << 20);
    let (more, failed) = fill(&pool, 1000);
    assert!(matches!(failed, Some(region::Error::Full { .. })), "{failed:?}");
    assert!(more > before, "{before} blocks in 1 MiB, and {more} in 2 MiB more");
    drop(pool);
    let pool = pool::growing(pool::open::<Shelf, Redo>(&path).expect("it is whole").0);
    assert_eq!(fill(&pool, 200), (200, None), "it grows by itself");
    let length = pool.header().bytes;
    assert_eq!(bytes(), length);
    drop(pool);
    let (pool, _) = pool::open::<Shelf, Redo>(&path).expect("it is whole");
    assert_eq!((pool.header().bytes, pool.blocks().len()), (length, 1 + before + more + 200));
}

#[test]
fn a_pool_that_is_read_stays_as_it_is() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    let pool = pool::create::<Chain, Redo>(&path, 1 << 20).expect("there is room");
    (0..10).for_each(|value| push(&pool, value));
    let kept = pool::open_read_only::<Chain, Redo>(&path).map(|_| ()).expect_err("somebody writes to it");
    assert!(kept.to_string().contains("pool"), "{kept}");
    drop(pool);
    let before = std::fs::read(&path).expect("it is there");
    let (first, recovered) = pool::open_read_only::<Chain, Redo>(&path).expect("nobody writes");
    let (second, _) = pool::open_read_only::<Chain, Redo>(&path).expect("readers share");
    assert!(recovered.replayed > 0, "the logs are not empty");
    assert_eq!(values(&first), values(&second));
    assert_eq!(
        first.region(|tx| tx.set(tx.root(), Root { first: Ptr::NULL, count: 0 })),
        Err(region::Error::ReadOnly)
    );
    assert_eq!(first.grow(1 << 21), Err(region::Error::ReadOnly));
    drop((first, second));
    assert_eq!(std::fs::read(&path).expect("it is there"), before, "the file is as it was");
    let (pool, _) = pool::open::<Chain, Redo>(&path).expect("nobody reads any more");
    assert_eq!(values(&pool), (0..10).collect::<Vec<_>>());
}

fn can_be_kept_in_files<A: Atomicity>() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    let pool = pool::create::<Chain, A>(&path, 1 << 20).expect("there is room");
    (0..50).for_each(|value| push(&pool, value));
    drop(pool);
    let said = stdout(&ok(strandline().args(["pool", "info"]).arg(&path)));
    assert!(said.contains(&format!("engine {}", A::NAME)) && said.contains("51 blocks"), "{said}");
    let other = match A::NAME {
        "redo" => pool::open::<Chain, Undo>(&path).map(drop),
        _ => pool::open::<Chain, Redo>(&path).map(drop),
    };
    let other = other.expect_err("another engine").to_string();
    let wanted = if A::NAME == "redo" { "\"undo\"" } else { "\"redo\"" };
    assert!(other.contains(&format!("{:?}", A::NAME)) && other.contains(wanted), "{other}");
    ok(strandline().args(["pool", "recover"]).arg(&path));
    let (pool, recovered) = pool::open::<Chain, A>(&path).expect("it is whole");
    assert!(recovered.was_clean(), "{recovered:?}");
    assert_eq!(values(&pool), (0..50).collect::<Vec<_>>());
}

#[test]
fn other_engines_are_known_to_the_command_line() {
    region::for_each_engine!(A => can_be_kept_in_files::<A>());
}

#[test]
fn mistakes_are_reported_with_their_file() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    let pool = pool::create::<Chain, Redo>(&path, 1 << 20).expect("there is room");
    let text = |error: pool::Error| error.to_string();
    let again = pool::open::<Chain, Redo>(&path).map(|_| ()).expect_err("it is open already");
    assert!(text(again).contains("pool"), "the file is named");
    drop(pool);
    let other = pool::open::<Other, Redo>(&path).map(|_| ()).expect_err("another layout");
    let other = text(other);
    assert!(other.contains("chain, 1") && other.contains("\"other\"") && other.contains("pool"), "{other}");
    let exists = pool::create::<Chain, Redo>(&path, 1 << 20).map(|_| ()).expect_err("it exists");
    assert!(text(exists).contains("pool"));
    std::fs::write(scratch.path("text"), "x".repeat(1 << 16)).expect("room");
    let foreign = pool::open::<Chain, Redo>(&scratch.path("text")).map(|_| ()).expect_err("no pool");
    assert!(text(foreign).contains("no pool"));
    let small = pool::create::<Chain, Redo>(&scratch.path("small"), 4096).map(|_| ()).expect_err("too small");
    assert!(text(small).contains("too small"));
    assert!(!scratch.path("small").exists(), "nothing is left of it");
    let file = std::fs::File::options().write(true).open(&path).expect("it is there");
    file.set_len(1 << 19).expect("it can be cut");
    let short = text(pool::open::<Chain, Redo>(&path).map(|_| ()).expect_err("it was cut"));
    assert!(short.contains("offset 0x20") && short.contains("1048576"), "{short}");
    // Not even a length that a space has.
    file.set_len((1 << 19) - 3).expect("it can be cut");
    for short in
        [pool::open::<Chain, Redo>(&path).map(|_| ()), pool::open_read_only::<Chain, Redo>(&path).map(|_| ())]
    {
        let short = text(short.expect_err("it was cut"));
        assert!(short.contains("pool: the pool has 1048576") && short.contains("524285"), "{short}");
    }
}

/// What is no pool is known by how it begins, however long it is.
#[test]
fn a_file_that_memory_does_not_hold_is_looked_at() {
    let scratch = Scratch::new();
    let path = scratch.path("long");
    let file = std::fs::File::create_new(&path).expect("a new file");
    for len in [0, 5, (1 << 40) + 1] {
        if file.set_len(len).is_err() {
            eprintln!("skipped: no file of {len} bytes here");
            continue;
        }
        let output = strandline().args(["pool", "check"]).arg(&path).output().expect("it runs");
        let found = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{len}: {}", crate::common::stderr(&output));
        assert!(found.contains("no pool") && found.contains("long"), "{len}: {found}");
    }
}

/// Whatever verb finds that a file is no pool that it knows says which file it is.
#[test]
fn every_verb_names_the_file() {
    let scratch = Scratch::new();
    let text = scratch.file("text", "no pool at all");
    for verb in ["info", "check", "dump", "recover"] {
        let output = strandline().args(["pool", verb]).arg(&text).output().expect("it runs");
        let all = stdout(&output) + &crate::common::stderr(&output);
        let said = format!("{}: no pool", text.display());
        assert!(!output.status.success() && all.contains(&said), "{verb}: {all}");
    }
}

#[test]
fn check_finds_damage_and_writes_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    let pool = pool::create::<Chain, Redo>(&path, 1 << 20).expect("there is room");
    push(&pool, 1);
    drop(pool);
    let whole = std::fs::read(&path).expect("it is there");
    let status = |expected: i32| {
        let before = std::fs::read(&path).expect("it is there");
        let output = strandline().args(["pool", "check"]).arg(&path).output().expect("it runs");
        assert_eq!(output.status.code(), Some(expected), "{}", stdout(&output));
        assert_eq!(std::fs::read(&path).expect("it is there"), before, "nothing is written");
        stdout(&output)
    };
    assert!(status(0).contains("again"));
    let damage = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        std::fs::write(&path, bytes).expect("room");
    };
    damage(100);
    assert!(status(1).contains("0x0"));
    damage(8193);
    assert!(status(1).contains("0x2000"));
    // Something behind it, with which it can't be opened.
    std::fs::write(&path, [&whole[..], b"more"].concat()).expect("room");
    assert!(status(1).contains("1048580 bytes"));
    ok(strandline().args(["pool", "check", "--help"]));
    std::fs::write(&path, &whole).expect("room");
    ok(strandline().args(["pool", "recover", "--dry-run"]).arg(&path));
    assert_eq!(std::fs::read(&path).expect("it is there"), whole);
    ok(strandline().args(["pool", "recover"]).arg(&path));
    assert!(status(0).contains("nothing to recover"));
}

/// Nothing says what a crash tore, so it is not said that there is nothing.
#[test]
fn a_pool_without_protection_is_reported_so() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    let pool = pool::create::<Chain, Unprotected>(&path, 1 << 20).expect("there is room");
    (0..10).for_each(|value| push(&pool, value));
    drop(pool);
    for verb in ["check", "info", "recover"] {
        let said = stdout(&ok(strandline().args(["pool", verb]).arg(&path)));
        assert!(said.contains("nothing to recover: with engine none"), "{verb}: {said}");
    }
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes[60] ^= 1;
    std::fs::write(&path, bytes).expect("room");
    let said = stdout(&ok(strandline().args(["pool", "info"]).arg(&path)));
    assert!(said.contains("engine none") && said.contains("copy of the header anew"), "{said}");
    assert!(!said.contains("does 0 ended regions again"), "{said}");
}

/// A block of a size of which there is no other, to which a word leads from the root object only as long as `linked`.
fn with_a_stray_block(path: &std::path::Path, linked: bool) {
    let pool = pool::create::<Chain, Redo>(path, 1 << 20).expect("there is room");
    (0..10).for_each(|value| push(&pool, value));
    let done = pool.region(|tx| {
        let stray = tx.alloc([0u64; 100])?;
        let root = tx.get(tx.root());
        // By a pointer that stands where a number stands otherwise.
        let count: Ptr<Ptr<[u64; 100], Chain>, Chain> = tx.alloc(if linked { stray } else { Ptr::NULL })?;
        let next = tx.alloc(Link { value: 0, next: root.first })?;
        tx.set(tx.root(), Root { first: next, count: count.offset() })
    });
    done.expect("there is room");
}

#[test]
fn leaks_are_reported_as_far_as_they_show() {
    let scratch = Scratch::new();
    for (name, linked) in [("whole", true), ("leaking", false)] {
        let path = scratch.path(name);
        with_a_stray_block(&path, linked);
        let said = stdout(&ok(strandline().args(["pool", "check"]).arg(&path)));
        assert_eq!(said.contains("possibly leaked: 1 block of 1.00 KiB"), !linked, "{said}");
        assert_eq!(said.contains("a word leads to each block"), linked, "{said}");
        let said = stdout(&ok(strandline().args(["pool", "info"]).arg(&path)));
        assert_eq!(said.contains("possibly leaked: 1 block"), !linked, "{said}");
        let said = stdout(&ok(strandline().args(["pool", "info", "--json"]).arg(&path)));
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let reported: Vec<u64> = said["possibly_leaked"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|block| block["bytes"].as_u64())
            .collect();
        assert_eq!(reported, if linked { vec![] } else { vec![1024] }, "{said:#}");
    }
}

/// What is said of a file is what becomes of it when it is open to write, wherever it lies.
#[test]
fn what_becomes_of_flushed_data_is_reported() {
    for folder in [env!("CARGO_TARGET_TMPDIR"), "/dev/shm"].map(tempfile::tempdir_in) {
        let Ok(folder) = folder else {
            eprintln!("skipped: no /dev/shm to make a file in memory");
            continue;
        };
        let path = folder.path().join("pool");
        let pool = pool::create::<Chain, Redo>(&path, 1 << 20).expect("there is room");
        let durability = pool::durability(&pool);
        drop(pool);
        let name = durability.name();
        assert_eq!(json("info", &path).0["durability"], name);
        assert_eq!(json("check", &path).0["durability"], name);
        let words = match durability.domain {
            Domain::Dax => "reach the persistent device",
            Domain::Sync => "each region waits for a sync",
            Domain::Volatile => "survives the process, but not power loss",
            other => panic!("a mapping reports no {other}"),
        };
        let said = stdout(&ok(strandline().args(["pool", "info"]).arg(&path)));
        assert!(said.contains(&format!("durability  {name}: ")) && said.contains(words), "{said}");
    }
}

/// What `pool VERB --json` prints, and its exit status.
fn json(verb: &str, path: &std::path::Path) -> (serde_json::Value, Option<i32>) {
    let output = strandline().args(["pool", verb, "--json"]).arg(path).output().expect("it runs");
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), output.status.code())
}

#[test]
fn json_is_what_its_document_says() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    with_a_stray_block(&path, false);
    let (info, _) = json("info", &path);
    let (checked, status) = json("check", &path);
    assert_eq!((&info, status), (&checked, Some(0)));
    compare(include_str!("../../../../../docs/pool-json.md"), &[info], &[], &[]);
    let answer = |value: &serde_json::Value| (value["whole"].as_bool(), value["error"].is_null());
    assert_eq!(answer(&checked), (Some(true), true));

    let damage = |at: usize| {
        let mut bytes = std::fs::read(&path).expect("it is there");
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).expect("room");
        json("check", &path)
    };
    let (copy, status) = damage(60);
    assert_eq!((answer(&copy), status), ((Some(false), true), Some(1)));
    assert_eq!(copy["recovery"]["damaged_header_copies"], serde_json::json!([0]));
    let (gone, status) = damage(4096 + 60);
    assert_eq!((answer(&gone), status), ((Some(false), false), Some(1)));
    assert_eq!(gone.as_object().map(serde_json::Map::len), Some(4), "{gone:#}");
    let said = gone["error"].as_str().unwrap_or_default();
    assert!(said.contains("0x78") && said.contains("backup"), "{said}");
    for (verb, path) in [("info", path), ("check", scratch.path("none"))] {
        assert_eq!(json(verb, &path), (serde_json::Value::Null, Some(2)), "{verb}");
    }
}

#[test]
fn a_region_waits_for_the_disk_once() {
    let scratch = Scratch::new();
    let path = scratch.path("pool");
    let pool = pool::create::<Chain, Redo>(&path, 8 << 20).expect("there is room");
    let before = pool::syncs(&pool);
    (0..2000).for_each(|value| push(&pool, value));
    let syncs = pool::syncs(&pool) - before;
    // None where the temporary folder is in memory.
    assert_eq!(syncs > 0, pool::durability(&pool).domain == Domain::Sync);
    assert!(syncs == 0 || (2000..=2100).contains(&syncs), "{syncs}");
}
