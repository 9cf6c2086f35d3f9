//! What maps cost: random inserts, each durable, then lookups, single and batched.
//!
//! `cargo bench -p index` prints ratios to one 8-byte store to a random line of a 64 MiB mapping, flushed and
//! fenced, measured beside each figure, because the machine's speed changes; `cargo test -p index` runs the
//! same on small sizes. Time is CPU time for one thread and wall time for several. The file is in memory.

use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use index::btree::{BTree, Options};
use index::{Map, OrderedMap, Whole};
use pmem::{Mapped, Os};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::time::{ClockId, clock_gettime};
use space::{Env, Space};

/// Lookups of a batch.
const BATCH: usize = 64;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let pairs = if full { 1 << 20 } else { 1 << 10 };
    println!("{pairs} pairs of 8-byte keys and values; ratios to a random persistent store");
    println!("{:<24}{:>8}{:>8}{:>8}{:>8}{:>9}", "map", "threads", "insert", "get", "batched", "unit/ns");
    for node in [768, 1024, 1536] {
        for threads in [1, 2] {
            let name = format!("btree, {node} B");
            row(&name, pairs, threads, |env| {
                let whole = Whole::create(env.space(), 1 << 20).expect("room");
                BTree::create(env, whole, &Options { node, ..Options::default() }).expect("room")
            });
        }
    }
    opening(pairs);
}

/// A space of that many bytes in memory.
fn space(bytes: u64) -> Mapped {
    let file = File::from(memfd_create("maps", MemfdFlags::CLOEXEC).expect("a file in memory"));
    file.set_len(bytes).expect("room for the file");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let space = Mapped::open(&path).expect("the file can be mapped");
    for page in (0..bytes).step_by(4096) {
        space.store_u64(page, 0);
    }
    space
}

/// Seconds of CPU time of this thread.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB)
}

/// Nanoseconds of one random store, flush and fence.
fn unit(space: &Mapped) -> f64 {
    let count = 1 << 16;
    let lines = space.len() / 64;
    let start = cpu();
    for number in 0..count {
        let line = mixed(number) % lines * 64;
        space.store_u64(line, number);
        space.persist(line, 8);
    }
    (cpu() - start) * 1e9 / count as f64
}

/// Nanoseconds of an operation: CPU time of one thread, wall time of several.
fn timed<E: Env>(env: &E, threads: u32, operations: u64, body: impl Fn(u64, u64) + Sync) -> f64 {
    let share = operations / u64::from(threads);
    if threads == 1 {
        let start = cpu();
        body(0, share);
        return (cpu() - start) * 1e9 / operations as f64;
    }
    let start = Instant::now();
    env.threads(threads, |thread| body(u64::from(thread) * share, share * (u64::from(thread) + 1)));
    start.elapsed().as_secs_f64() * 1e9 / operations as f64
}

fn row<M: Map<u64, u64>>(name: &str, pairs: u64, threads: u32, make: impl Fn(Arc<Os<Mapped>>) -> M) {
    let probe = space(64 << 20);
    let best = |figures: &mut dyn Iterator<Item = f64>| figures.fold(f64::MAX, f64::min);
    let mut rows = [const { Vec::new() }; 4];
    for _ in 0..3 {
        let env = Arc::new(Os::new(space((pairs * 128).max(4 << 20))));
        let map = make(env.clone());
        let env = &*env;
        let before = unit(&probe);
        let insert = timed(env, threads, pairs, |from, to| {
            for number in from..to {
                map.insert(mixed(number), number).expect("room");
            }
        });
        let middle = unit(&probe);
        let get = timed(env, threads, pairs, |from, to| {
            let mut sum = 0;
            for number in from..to {
                sum += map.get(mixed(mixed(number) % pairs)).expect("a pair");
            }
            black_box(sum);
        });
        let batched = timed(env, threads, pairs, |from, to| {
            let mut values = [None; BATCH];
            for first in (from..to).step_by(BATCH) {
                let keys: [u64; BATCH] = std::array::from_fn(|at| mixed(mixed(first + at as u64) % pairs));
                map.get_many(&keys, &mut values);
                assert!(black_box(&values).iter().all(Option::is_some));
            }
        });
        let after = unit(&probe);
        let units = [insert / ((before + middle) / 2.0), get / after, batched / after, after];
        rows.iter_mut().zip(units).for_each(|(row, figure)| row.push(figure));
    }
    let [insert, get, batched, unit] = rows.map(|row| best(&mut row.into_iter()));
    println!("{name:<24}{threads:>8}{insert:>8.2}{get:>8.2}{batched:>8.2}{unit:>9.0}");
}

/// What it takes to open a map.
fn opening(pairs: u64) {
    let env = Os::new(space((pairs * 128).max(4 << 20)));
    let options = Options::default();
    let whole = Whole::create(env.space(), 1 << 20).expect("room");
    let map = BTree::create(&env, whole, &options).expect("room");
    map.load_sorted(&mut (0..pairs).map(|key| (key, key))).expect("room");
    drop(map);
    for (what, closes) in [("after a crash", true), ("after a close", true), ("after a close", false)] {
        let start = Instant::now();
        let map = BTree::<_, u64, u64, _>::open(&env, Whole::open(env.space()).expect("extents"), &options);
        let map = map.expect("a map");
        assert_eq!(map.get(pairs / 2), Some(pairs / 2));
        println!("open {what}: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
        if closes {
            map.close().expect("a whole map");
        }
    }
}
