//! The guide's applications on real memory: a memtable in persistent memory against a log in front of one in
//! ordinary memory (RocksDB), embedded writes against copied pages (NOVA), and a hash table (PMemKV).
//!
//! `cargo bench -p index --bench applications` prints ratios to one 8-byte store to a random line of a 64 MiB
//! mapping, flushed and fenced; `cargo test -p index` runs the same on small sizes. Time is CPU time. The
//! memory is a file in memory: what it shows is what the software costs. `strandline reproduce` has the same
//! structures on modelled persistent memory (`xpoint-11` to `xpoint-14`, `xpoint-21`, `xpoint-26`).

mod common;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use common::{Bench, shuffled};
use index::hash::{HashTable, Options, Sound};
use index::memtable::{Links, ListOptions, LogOptions, Logged, SkipList};
use index::paged::{Paged, PagedOptions};
use index::{Map, Whole};
use space::Env;

/// Bytes of the file system's part of a file.
const FILE: u64 = 1 << 20;

fn main() {
    let bench = Bench::of_arguments();
    println!("{:<28}{:>10}{:>10}{:>10}", "file in memory", "ratio", "ns", "unit/ns");
    for _ in 0..bench.turns {
        memtables(&bench);
        files(&bench);
        table(&bench);
    }
    skipped();
}

fn key(number: u64) -> [u8; 20] {
    let mut key = [7; 20];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).to_be_bytes());
    key
}

/// A SET of 20-byte keys and 100-byte values in random order, durable, half a memtable being there.
fn memtables(bench: &Bench) {
    let pairs = bench.count / 5;
    let bytes = 2 * pairs * 256 + (8 << 20);
    let list = |links| {
        let env = bench.memory(bytes);
        let extents = Whole::create(env.space(), bytes - (1 << 20)).expect("room");
        (env, extents, ListOptions { links, ..ListOptions::default() })
    };
    let puts = |what: &str, put: &dyn Fn(u64)| {
        (0..pairs).for_each(put);
        bench.cpu(what, pairs, || (pairs..2 * pairs).for_each(put));
    };

    let (env, extents, options) = list(Links::All);
    let persistent = SkipList::create(&env, extents, options).expect("room");
    puts("set, persistent memtable", &|number| persistent.put(&key(number), &[1; 100]).expect("room"));

    let (log, (env, extents, _)) = (bench.memory(bytes), list(Links::None));
    let root = Whole::create(log.space(), bytes - (1 << 20)).expect("room");
    let logged = Logged::create(&log, &root, (&env, extents), LogOptions::default()).expect("room");
    puts("set, FLEX log", &|number| logged.put(&key(number), &[1; 100]).expect("room"));

    let (env, extents, options) = list(Links::None);
    let volatile = SkipList::create(&env, extents, options).expect("room");
    let path = Path::new("/dev/shm").join(format!("strandline-applications-{}", std::process::id()));
    let file = File::create_new(&path).expect("a new file");
    std::fs::remove_file(&path).expect("it is there");
    puts("set, file log", &|number| {
        let record = [&key(number)[..], &[1; 100]].concat();
        (&file).write_all(&record).and_then(|()| file.sync_data()).expect("room");
        volatile.put(&key(number), &[1; 100]).expect("room");
    });
}

/// Overwrites at random places of files of 4 KiB pages.
fn files(bench: &Bench) {
    let writes = bench.count / 5;
    for (name, embed) in [("embedded", 1024), ("copied", 0)] {
        let count = 16;
        let bytes = 4 * u64::from(count) * FILE;
        let env = bench.memory(bytes + (1 << 20));
        let extents = Whole::create(env.space(), bytes).expect("room");
        let options = PagedOptions { files: count, embed, ..PagedOptions::default() };
        let volume = Paged::create(&env, &extents, options).expect("room");
        for file in 0..count {
            (0..FILE).step_by(4096).for_each(|at| volume.write(file, at, &[1; 4096]).expect("room"));
        }
        let places = shuffled(writes, 5);
        let place = |number: &u64, len: u64| {
            let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            ((at % u64::from(count)) as u32, at / u64::from(count) % (FILE / len) * len)
        };
        for len in [64, 256] {
            let bytes = vec![2; len as usize];
            bench.cpu(&format!("overwrite {len} B, {name}"), writes, || {
                for number in &places {
                    let (file, at) = place(number, len);
                    volume.write(file, at, &bytes).expect("room");
                }
            });
        }
        let mut page = vec![0; 4096];
        bench.cpu(&format!("read 4 KiB, {name}"), writes, || {
            for number in &places {
                let (file, at) = place(number, 4096);
                assert_eq!(volume.read(file, at, &mut page), 4096);
            }
        });
    }
}

/// The hash table that a PMemKV of ours would rest on.
fn table(bench: &Bench) {
    let pairs = bench.count;
    let env = bench.memory(pairs * 128 + (4 << 20));
    let extents = Whole::create(env.space(), 1 << 20).expect("room");
    let table = HashTable::<_, _, u64, u64, Sound>::create(&env, extents, &Options::default()).expect("room");
    (0..pairs).for_each(|key| _ = table.insert(key, key).expect("room"));
    let keys = shuffled(pairs, 9);
    let change = |key: &u64| {
        let value = table.get(*key).expect("it is there");
        table.insert(*key, value + 1).expect("room");
    };
    bench.cpu("table, get and put", pairs, || keys.iter().for_each(change));
    bench.wall(&env, "the same, two threads", pairs, |thread| {
        keys.iter().filter(|key| **key % 2 == u64::from(thread)).for_each(change);
    });
}

/// What this machine can't show.
fn skipped() {
    println!(
        "skipped: writers bound to DIMMs: which DIMM a page of a file in memory lies in is not ours to \
         choose; it takes persistent DIMMs without interleaving"
    );
    let nodes = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let names = nodes.filter_map(|node| node.file_name().into_string().ok());
    match names.filter(|name| name.trim_start_matches("node").parse::<u32>().is_ok()).count() {
        0 | 1 => println!("skipped: far memory: this machine has one node"),
        nodes => println!("{nodes} nodes; far memory: the same under numactl --cpunodebind=0 --membind=1"),
    }
}
