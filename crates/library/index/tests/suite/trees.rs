//! The published trees.

use std::collections::BTreeMap;

use index::tree::{
    FastFair, FastFairSp, Flaw, Options, PersistentUnsorted, Plain, Tree, UnsortedLeaf, Variant, Wal,
};
use index::{Error, Fixed, Map, Whole};
use pmem::Os;
use space::sim::{Accesses, Schedule};
use space::{Env, Image, Sim, Space};

use crate::model::{Random, agree, loads, shared, work};

const SMALL: Options =
    Options { node: 384, latches: 7, logs: 2, batch: 5, group_flush: false, flaw: Flaw::None };

fn create<'a, E: Env, K: Fixed, V: Fixed, D: Variant>(
    env: &'a E,
    options: &Options,
) -> Tree<&'a E, K, V, Whole, D> {
    let whole = Whole::create(env.space(), 48 << 10).expect("room");
    Tree::create(env, whole, options).expect("room for a node")
}

fn works<D: Variant, K: Fixed, V: Fixed>(options: &Options, keys: u64, durable: bool) {
    let env = Os::new(Image::new(4 << 20));
    let mut random = Random(keys);
    let mut model = BTreeMap::new();
    let mut map: Tree<_, K, V, _, D> = create(&env, options);
    agree(&map, &model, 3);
    for _ in 0..4 {
        work(&map, &mut model, &mut random, (2500, keys));
        agree(&map, &model, keys);
        if durable {
            drop(map);
            map = Tree::open(&env, Whole::open(env.space()).expect("extents"), options).expect("a tree");
            agree(&map, &model, keys);
        }
    }
}

fn is_a_map<D: Variant>(durable: bool) {
    works::<D, u64, u64>(&SMALL, 40, durable);
    works::<D, u64, u64>(&SMALL, 4000, durable);
    works::<D, [u64; 2], [u64; 2]>(&Options::default(), 3000, durable);
    works::<D, [u64; 2], u64>(&Options { node: 1024, group_flush: true, ..SMALL }, 3000, durable);
    for count in [1, 5, 3000] {
        let env = Os::new(Image::new(2 << 20));
        let map: Tree<_, u64, u64, _, D> = create(&env, &SMALL);
        let mut model = loads(&map, count);
        agree(&map, &model, 3 * count);
        work(&map, &mut model, &mut Random(count), (1000, 3 * count));
        agree(&map, &model, 3 * count);
        drop(map);
        let again = Tree::<_, u64, u64, _, D>::open(&env, Whole::open(env.space()).expect("extents"), &SMALL);
        match again {
            Ok(map) => agree(&map, &model, 3 * count),
            Err(error) => assert!(!durable && matches!(error, Error::Options(_)), "{error}"),
        }
    }
    for seed in 0..8 {
        let env = Sim::new(Image::new(1 << 20), &Schedule::walk(seed).at_accesses(Accesses::OneIn(8)));
        shared(&env, &create::<_, u64, u64, D>(&env, &SMALL), seed);
        let env = Os::new(Image::new(1 << 20));
        shared(&env, &create::<_, u64, u64, D>(&env, &SMALL), seed);
    }
    let env = Os::new(Image::new(64 << 10));
    let map: Tree<_, u64, u64, _, D> = create(&env, &SMALL);
    let full = (0..100_000).find_map(|key| map.insert(key * 7919 % 100_003, key).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
}

#[test]
fn plain() {
    is_a_map::<Plain>(false);
}

#[test]
fn unsorted_leaf() {
    is_a_map::<UnsortedLeaf>(false);
}

#[test]
fn wal() {
    is_a_map::<Wal>(true);
}

#[test]
fn fast_fair() {
    is_a_map::<FastFair>(true);
}

#[test]
fn persistent_unsorted() {
    is_a_map::<PersistentUnsorted>(true);
}

#[test]
fn fast_fair_sp() {
    is_a_map::<FastFairSp>(true);
}

/// Damaged words are errors, or are not noticed; never a hang or an access outside.
fn damaged<D: Variant>() {
    let env = Os::new(Image::new(128 << 10));
    let map: Tree<_, u64, u64, _, D> = create(&env, &SMALL);
    for key in 0..400 {
        map.insert(key * 7, key).expect("room");
    }
    drop(map);
    let whole = env.into_space().to_bytes();
    let mut random = Random(9);
    for _ in 0..300 {
        let image = Image::from_bytes(&whole);
        for _ in 0..=random.below(3) {
            let head = 384 * random.below(80) + 512 + 8 * random.below(6);
            let at = if random.below(2) == 0 { head } else { 8 * random.below(4000) };
            let word = match random.below(4) {
                0 => 0,
                1 => random.next(),
                2 => random.below(1 << 8) * 128,
                _ => image.load_u64(at) ^ 1 << random.below(64),
            };
            image.store_u64(at, word);
        }
        let env = Os::new(image);
        let Ok(extents) = Whole::open(env.space()) else { continue };
        if let Ok(map) = Tree::<_, u64, u64, _, D>::open(&env, extents, &SMALL) {
            map.each(&mut |_, _| true);
            for key in 0..400 {
                map.get(key * 7);
            }
        }
    }
}

#[test]
fn damaged_trees_are_errors() {
    damaged::<Wal>();
    damaged::<FastFair>();
    damaged::<PersistentUnsorted>();
    damaged::<FastFairSp>();
}
