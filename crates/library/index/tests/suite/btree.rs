//! `BTree`.

use std::collections::BTreeMap;

use index::btree::Options;
use index::{BTree, Error, Fixed, Map, OrderedMap, Whole};
use pmem::Os;
use space::sim::{Accesses, Schedule};
use space::{Env, Image, Sim, Space};

use crate::model::{Random, agree, fixed, loads, shared, work};

type Tree<'a, S, K, V> = BTree<&'a Os<S>, K, V, Whole>;

const SMALL: Options =
    Options { node: 256, latches: 7, batch: 5, threads: 2, flaw: index::btree::Flaw::None };

fn create<'a, K: Fixed, V: Fixed>(env: &'a Os<Image>, options: &Options) -> Tree<'a, Image, K, V> {
    let whole = Whole::create(env.space(), 8 << 10).expect("room");
    BTree::create(env, whole, options).expect("room for a leaf")
}

fn open<'a, K: Fixed, V: Fixed>(env: &'a Os<Image>, options: &Options) -> Tree<'a, Image, K, V> {
    BTree::open(env, Whole::open(env.space()).expect("extents"), options).expect("a map")
}

fn works<K: Fixed, V: Fixed>(options: &Options, keys: u64) {
    let env = Os::new(Image::new(4 << 20));
    let mut random = Random(keys);
    let mut model = BTreeMap::new();
    let mut map = create::<K, V>(&env, options);
    agree(&map, &model, 3);
    for round in 0..8 {
        work(&map, &mut model, &mut random, (3000, keys));
        agree(&map, &model, keys);
        // Closed in order or not.
        if round % 2 == 0 {
            map.close().expect("a whole map");
        } else {
            drop(map);
        }
        map = open(&env, options);
        if round % 4 < 2 {
            agree(&map, &model, keys);
        }
    }
    for number in 0..keys {
        assert_eq!(map.remove(fixed(number)), Ok(model.remove(&fixed(number))));
    }
    agree(&map, &model, keys);
    map.close().expect("a whole map");
    let map = open::<K, V>(&env, options);
    work(&map, &mut model, &mut random, (500, keys));
    agree(&map, &model, keys);
}

#[test]
fn works_like_a_map() {
    for keys in [20, 500, 5000] {
        works::<u64, u64>(&SMALL, keys);
        works::<[u64; 2], [u64; 2]>(&SMALL, keys);
    }
    works::<u64, [u64; 2]>(&Options::default(), 3000);
    works::<[u64; 2], u64>(&Options { node: 1024, threads: 1, ..Options::default() }, 3000);
}

#[test]
fn ascending_and_descending_keys() {
    let env = Os::new(Image::new(4 << 20));
    let map = create::<u64, u64>(&env, &SMALL);
    let mut model = BTreeMap::new();
    for key in (0..5000).chain((5000..20_000).rev()) {
        assert_eq!(map.insert(key, !key), Ok(model.insert(key, !key)));
    }
    // A window that moves on: its leaves are used again.
    for key in 0..10_000 {
        assert_eq!(map.remove(key), Ok(model.remove(&key)));
        assert_eq!(map.insert(key + 20_000, key), Ok(model.insert(key + 20_000, key)));
    }
    agree(&map, &model, 30_000);
    for key in [0, 1, u64::MAX - 1, u64::MAX] {
        assert_eq!(map.insert(key, key), Ok(model.insert(key, key)));
        assert_eq!(map.get(key), Some(key));
    }
    drop(map);
    agree(&open::<u64, u64>(&env, &SMALL), &model, 30_000);
}

#[test]
fn loads_what_is_sorted() {
    for count in [0, 1, 9, 10, 11, 4000] {
        let env = Os::new(Image::new(2 << 20));
        let map = create::<u64, u64>(&env, &SMALL);
        let mut model = if count == 0 { BTreeMap::new() } else { loads(&map, count) };
        agree(&map, &model, 3 * count);
        work(&map, &mut model, &mut Random(count), (2000, 3 * count + 5));
        agree(&map, &model, 3 * count + 5);
        drop(map);
        agree(&open::<u64, u64>(&env, &SMALL), &model, 3 * count + 5);
    }
    let env = Os::new(Image::new(1 << 20));
    let map = create::<u64, u64>(&env, &SMALL);
    assert!(matches!(map.load_sorted(&mut [(5, 1), (5, 2)].into_iter()), Err(Error::Options(_))));
}

#[test]
fn a_full_space_changes_nothing() {
    let env = Os::new(Image::new(64 << 10));
    let map = create::<u64, u64>(&env, &SMALL);
    let mut model = BTreeMap::new();
    let mut random = Random(1);
    let full = loop {
        let key = random.below(1 << 30);
        match map.insert(key, key) {
            Ok(before) => assert_eq!(before, model.insert(key, key)),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full { .. }), "{full}");
    assert!(model.len() > 1000);
    agree(&map, &model, 0);
    for key in model.keys().copied().take(1000).collect::<Vec<_>>() {
        assert_eq!(map.remove(key), Ok(model.remove(&key)));
        assert_eq!(map.insert(key + 1, 3), Ok(model.insert(key + 1, 3)));
    }
    agree(&map, &model, 0);
    map.close().expect("a map can be closed without room for a summary");
    agree(&open::<u64, u64>(&env, &SMALL), &model, 0);
}

/// Threads on keys of their own, and one that reads all: each of them sees what it did, and the reader
/// pairs that were there.
#[test]
fn threads() {
    for seed in 0..30 {
        let schedule = Schedule::walk(seed).at_accesses(Accesses::OneIn(8));
        let env = Sim::new(Image::new(1 << 20), &schedule);
        let whole = Whole::create(env.space(), 8 << 10).expect("room");
        let map = BTree::<_, u64, u64, _>::create(&env, whole, &SMALL).expect("room");
        shared(&env, &map, seed);
        drop(map);
        let map = BTree::open(&env, Whole::open(env.space()).expect("extents"), &SMALL).expect("a map");
        map.each(&mut |key: u64, value: u64| key % 3 == value % 3);
    }
    let env = Os::new(Image::new(4 << 20));
    for seed in 0..10 {
        let env = Os::new(Image::new(1 << 20));
        shared(&env, &create::<u64, u64>(&env, &SMALL), seed);
    }
    drop(env);
}

/// Damaged words are errors, never a hang; what is not noticed is at least a map.
#[test]
fn damaged_maps_are_errors() {
    let env = Os::new(Image::new(256 << 10));
    let map = create::<u64, u64>(&env, &SMALL);
    for key in 0..600 {
        map.insert(key * 7, key).expect("room");
    }
    drop(map);
    let whole = env.into_space().to_bytes();
    let mut random = Random(9);
    let mut noticed = 0;
    for _ in 0..400 {
        let image = Image::from_bytes(&whole);
        for _ in 0..=random.below(3) {
            let used = (whole.len() as u64 / 8).min(4000);
            // Heads of leaves, or anything.
            let head = 256 * random.below(used / 32) + 8 * random.below(2);
            let at = if random.below(2) == 0 { head } else { 8 * random.below(used) };
            let word = match random.below(4) {
                0 => 0,
                1 => random.next(),
                2 => random.below(1 << 10) * 256,
                _ => image.load_u64(at) ^ 1 << random.below(64),
            };
            image.store_u64(at, word);
        }
        let env = Os::new(image);
        let Ok(extents) = Whole::open(env.space()) else { continue };
        match BTree::<_, u64, u64, _>::open(&env, extents, &SMALL) {
            Err(_) => noticed += 1,
            Ok(map) => {
                let mut count = 0;
                map.each(&mut |_, _| {
                    count += 1;
                    true
                });
                assert!(count <= 700);
            }
        }
    }
    assert!(noticed > 50, "only {noticed} were noticed");
    let env = Os::new(Image::from_bytes(&whole));
    let extents = Whole::open(env.space()).expect("extents");
    let other = BTree::<_, u64, [u64; 2], _>::open(&env, extents, &SMALL);
    assert!(matches!(other.err(), Some(Error::Mismatch { .. })));
}
