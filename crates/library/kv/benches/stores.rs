//! What stores cost: random inserts of 100-byte values, each durable, then lookups, updates and a reopening.
//!
//! `cargo bench -p kv`, with `-- --pairs N` for more than a million, prints ratios to one 8-byte store to a
//! random line of a 64 MiB mapping, flushed and fenced, measured beside each figure, because the machine's
//! speed changes; `cargo test -p kv` runs the same on small sizes. Time is CPU time for one thread and wall
//! time for several. The file is in memory.

use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use kv::{Engine, Options, Store};
use pmem::{Mapped, Os};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::time::{ClockId, clock_gettime};
use space::{Env, Space};

type InMemory = Store<Os<Mapped>, Arc<Os<Mapped>>>;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let asked = std::env::args().skip_while(|argument| argument != "--pairs").nth(1);
    let asked = asked.map(|pairs| pairs.parse().expect("--pairs takes a number"));
    let pairs = asked.unwrap_or(if full { 1 << 20 } else { 1 << 10 });
    println!("{pairs} pairs of 8-byte keys and 100-byte values; ratios to a random persistent store");
    println!(
        "{:<10}{:>8}{:>8}{:>8}{:>8}{:>9}{:>12}{:>6}{:>10}{:>9}",
        "engine",
        "threads",
        "insert",
        "get",
        "update",
        "unit/ns",
        "recovery/ms",
        "GB/s",
        "close/ms",
        "open/ms"
    );
    for engine in [Engine::Slab, Engine::Log] {
        for threads in [1, 2] {
            row(engine, pairs, threads);
        }
    }
}

/// A space of that many bytes in memory.
fn space(bytes: u64) -> Mapped {
    let file = File::from(memfd_create("stores", MemfdFlags::CLOEXEC).expect("a file in memory"));
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
fn timed<E: Env>(env: &E, threads: u32, operations: u64, body: impl Fn(u64) + Sync) -> f64 {
    let share = operations / u64::from(threads);
    let run = |thread: u32| (u64::from(thread) * share..(u64::from(thread) + 1) * share).for_each(&body);
    if threads == 1 {
        let start = cpu();
        run(0);
        return (cpu() - start) * 1e9 / operations as f64;
    }
    let start = Instant::now();
    env.threads(threads, run);
    start.elapsed().as_secs_f64() * 1e9 / operations as f64
}

fn row(engine: Engine, pairs: u64, threads: u32) {
    let probe = space(64 << 20);
    let mut rows = [const { Vec::new() }; 7];
    for _ in 0..3 {
        let env = Arc::new(Os::new(space((pairs * 400).max(64 << 20))));
        let options = Options { engine, ..Options::default() };
        let store = InMemory::create_on(env.clone(), &options).expect("room");
        let before = unit(&probe);
        let insert = timed(&*env, threads, pairs, |number| {
            store.put(&mixed(number).to_le_bytes(), &[number as u8; 100]).expect("room");
        });
        let middle = unit(&probe);
        let get = timed(&*env, threads, pairs, |number| {
            let key = mixed(mixed(number) % pairs).to_le_bytes();
            let found = store.get_with(&key, |value| black_box(value)[50]).expect("whole");
            assert!(found.is_some());
        });
        let after = unit(&probe);
        let update = timed(&*env, threads, pairs, |number| {
            let key = mixed(mixed(number) % pairs).to_le_bytes();
            store.put(&key, &[number as u8; 100]).expect("room");
        });
        let last = unit(&probe);
        drop(store);
        let start = Instant::now();
        let store = InMemory::open_on(env.clone(), &options).expect("a store");
        let recovery = start.elapsed().as_secs_f64() * 1e3;
        assert_eq!(store.stats().keys, pairs);
        let start = Instant::now();
        store.close().expect("no disk that could fail");
        let close = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let store = InMemory::open_on(env, &options).expect("a store");
        let open = start.elapsed().as_secs_f64() * 1e3;
        assert_eq!((store.stats().keys, store.stats().recovered_records), (pairs, 0));
        let units = [
            2.0 * insert / (before + middle),
            get / after,
            2.0 * update / (after + last),
            after,
            recovery,
            close,
            open,
        ];
        rows.iter_mut().zip(units).for_each(|(row, figure)| row.push(figure));
    }
    let [insert, get, update, unit, recovery, close, open] =
        rows.map(|row| row.into_iter().fold(f64::MAX, f64::min));
    let name = format!("{engine:?}");
    // Keys and values, of each record one or two versions.
    let rate = 108.0 * pairs as f64 / recovery / 1e6;
    print!(
        "{name:<10}{threads:>8}{insert:>8.2}{get:>8.2}{update:>8.2}{unit:>9.0}{recovery:>12.0}{rate:>6.2}"
    );
    println!("{close:>10.1}{open:>9.2}");
}
