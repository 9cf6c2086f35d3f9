//! The hash table in units: one 8-byte store to a random line of a 64 MiB file in memory, flushed and fenced.
//!
//! `cargo bench -p index --bench hash` measures a million pairs; `cargo test -p index` runs the same on a
//! few. One thread is measured by its processor time, several by the wall. The unit is measured right
//! before and after each figure.

use std::hint::black_box;

use index::hash::{HashTable, Options};
use index::{Map, Whole};
use space::Env;

mod common;

use common::{Bench, Memory, shuffled};

fn main() {
    let bench = Bench::of_arguments();
    let count = bench.count;
    println!("{:<28}{:>10}{:>10}", format!("{count} pairs"), "units", "ns");
    for _ in 0..bench.turns {
        one_thread(&bench, count);
        two_threads(&bench, count);
    }
}

type Table<'e> = HashTable<&'e Memory, Whole, u64, u64>;

fn new(env: &Memory) -> Table<'_> {
    let whole = Whole::create(env.space(), 1 << 20).expect("there is room");
    HashTable::create(env, whole, &Options::default()).expect("there is room")
}

fn one_thread(bench: &Bench, count: u64) {
    let env = bench.memory(96 * count + (4 << 20));
    let table = new(&env);
    let keys = shuffled(count, 1);
    bench.cpu("insert", count, || {
        for key in &keys {
            table.insert(*key, !key).expect("there is room");
        }
    });
    let order = shuffled(count, 1 << 20);
    let keys: Vec<u64> = order.iter().map(|at| keys[*at as usize]).collect();
    bench.cpu("get", count, || {
        for key in &keys {
            assert_eq!(table.get(*key), Some(!key));
        }
    });
    let mut values = vec![None; 64];
    bench.cpu("get, 64 at once", count, || {
        for keys in keys.chunks(64) {
            table.get_many(keys, &mut values[..keys.len()]);
            assert!(keys.iter().zip(&values).all(|(key, value)| *value == Some(!key)));
        }
    });
    bench.cpu("get, absent", count, || {
        for key in &keys {
            assert_eq!(table.get(key.wrapping_add(count)), None);
        }
    });
    bench.cpu("update", count, || {
        for key in &keys {
            black_box(table.insert(*key, *key).expect("there is room"));
        }
    });
    drop(table);
    let whole = Whole::open(env.space()).expect("it is whole");
    let mut table = None;
    bench.cpu("open, per pair", count, || table = HashTable::open(&env, whole).ok());
    let table: Table<'_> = table.expect("it is whole");
    bench.cpu("load, per pair", count, || table.load_all(1));
    bench.cpu("remove", count, || {
        for key in &keys {
            assert_eq!(table.remove(*key), Ok(Some(*key)));
        }
    });
}

fn two_threads(bench: &Bench, count: u64) {
    let env = bench.memory(96 * count + (4 << 20));
    let table = new(&env);
    let keys = shuffled(count, 2);
    let parts: Vec<&[u64]> = keys.chunks(keys.len().div_ceil(2)).collect();
    bench.wall(&env, "insert, two threads", count, |thread| {
        for key in parts[thread as usize] {
            table.insert(*key, !key).expect("there is room");
        }
    });
    bench.wall(&env, "get, two threads", count, |thread| {
        for key in parts[1 - thread as usize] {
            assert_eq!(table.get(*key), Some(!key));
        }
    });
}
