//! Processes that are killed while they write to a pool, or while they recover it: what they reported is there, nothing else is, and nothing leaks.

#[path = "../common/mod.rs"]
mod common;
mod recovering;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::Scratch;
use region::{Atomicity, Layout, Ptr, Redo};
use strandline::pool::{self, Pool};

/// Numbers that rise by one, the newest first. The lowest are taken away, so that blocks are used again.
struct Chain;
region::persistent! { Chain:
    struct Root { first: Ptr<Link, Chain>, next: u64 }
    struct Link { value: u64, next: Ptr<Link, Chain> }
}
impl Layout for Chain {
    const NAME: &'static str = "chain, 1";
    type Root = Root;
}

/// Links that a chain has, at most.
const LINKS: u64 = 40;

/// Appends a number; a chain that is long enough is cut to its newest link.
fn push<A: Atomicity>(pool: &Pool<Chain, A>) -> u64 {
    let pushed = pool.region(|tx| {
        let Root { first, next } = tx.get(tx.root());
        let mut behind = first;
        if next % LINKS == 0 {
            while let Some(link) = behind.get() {
                behind = tx.get(link).next;
                tx.free(link)?;
            }
        }
        let first = tx.alloc(Link { value: next, next: behind })?;
        tx.set(tx.root(), Root { first, next: next + 1 })?;
        Ok(next)
    });
    pushed.expect("there is room")
}

/// How many numbers were appended.
fn count<A: Atomicity>(pool: &Pool<Chain, A>) -> u64 {
    let Root { first, next } = pool.get(pool.root());
    let mut values = Vec::new();
    let mut at = first;
    while let Some(link) = at.get() {
        let Link { value, next } = pool.get(link);
        values.push(value);
        at = next;
    }
    let expected: Vec<u64> = (next.saturating_sub(1) / LINKS * LINKS..next).rev().collect();
    assert_eq!(values, expected);
    assert_eq!(pool.blocks().len(), 1 + values.len(), "nothing is leaked");
    next
}

/// Names the pool to a child.
const CHILD: &str = "STRANDLINE_TEST_POOL";

/// Kills `kills` processes that write to one pool; `test` is the name of the calling test.
fn killed<A: Atomicity>(test: &str, folder: &Path, kills: u64) {
    if let Some(path) = std::env::var_os(CHILD) {
        let (pool, _) = pool::open::<Chain, A>(Path::new(&path)).expect("it is whole");
        loop {
            // Past the test harness, which would keep it.
            let done = push(&pool);
            _ = writeln!(std::io::stderr(), "done {done}");
        }
    }
    let path = folder.join(format!("strandline-killed-{}-{}", A::NAME, std::process::id()));
    drop(pool::create::<Chain, A>(&path, 1 << 20).expect("there is room"));
    let (mut seed, mut before) = (1u64, 0);
    for _ in 0..kills {
        let mut child = Command::new(std::env::current_exe().expect("this test has a file"))
            .args(["--exact", test, "--nocapture", "--include-ignored"])
            .env(CHILD, &path)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut reported = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let mut lines: Vec<String> = Vec::new();
        if seed >> 62 == 0 {
            // Perhaps within its recovery, or before it.
            thread::sleep(Duration::from_micros((seed >> 40) % 8000));
        } else {
            lines.extend(
                reported.by_ref().take((seed >> 33) as usize % 100).map(|line| line.expect("it is text")),
            );
        }
        child.kill().expect("it runs");
        child.wait().expect("it ran");
        lines.extend(reported.map_while(Result::ok));
        let mut numbers = lines.iter().filter_map(|line| line.strip_prefix("done ")?.parse::<u64>().ok());
        let reported = numbers.next_back().map_or(before, |value| value + 1);
        let (pool, _) = pool::open::<Chain, A>(&path).expect("it can be recovered");
        let found = count(&pool);
        assert!(
            (reported..=reported + 1).contains(&found),
            "{reported} were reported, {found} are there; last reported: {:?}",
            lines.last()
        );
        before = found;
    }
    assert!(before >= kills, "{before} numbers by {kills} processes: most had no time to write");
    std::fs::remove_file(&path).expect("it is ours");
}

#[test]
fn a_killed_process_loses_nothing() {
    killed::<Redo>("a_killed_process_loses_nothing", Scratch::new().dir(), 25);
}

/// Each engine; a child does what its own one asks for.
#[test]
#[ignore = "takes minutes"]
fn each_engine_is_killed_a_thousand_times() {
    let (test, folder) = ("each_engine_is_killed_a_thousand_times", Path::new("/dev/shm"));
    let path = std::env::var(CHILD).ok();
    region::for_each_engine!(sound A => match &path {
        None => killed::<A>(test, folder, 1000),
        Some(path) if path.contains(&format!("-{}-", A::NAME)) => killed::<A>(test, folder, 0),
        Some(_) => {}
    });
}
