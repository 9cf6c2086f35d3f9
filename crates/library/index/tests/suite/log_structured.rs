//! `LogTree`.

use std::collections::BTreeMap;

use index::log_structured::{Flaw, LogTree, Options};
use index::{Error, Fixed, Map, OrderedMap, Whole};
use pmem::Os;
use space::sim::{Accesses, Schedule};
use space::{Env, Image, Sim, Space};

use crate::model::{Random, agree, fixed, loads, work};

type Tree<'a, E, K, V> = LogTree<&'a E, K, V, Whole>;

const SMALL: Options = Options {
    logs: 3,
    node: 192,
    chunk: 1024,
    cached: 3,
    garbage: 3 << 10,
    inline: true,
    threads: 2,
    flaw: Flaw::None,
};

fn create<'a, E: Env, K: Fixed, V: Fixed>(env: &'a E, options: &Options) -> Tree<'a, E, K, V> {
    let whole = Whole::create(env.space(), 8 << 10).expect("room");
    LogTree::create(env, whole, options).expect("room for a leaf")
}

fn open<'a, E: Env, K: Fixed, V: Fixed>(env: &'a E, options: &Options) -> Tree<'a, E, K, V> {
    LogTree::open(env, Whole::open(env.space()).expect("extents"), options).expect("a tree")
}

fn works<K: Fixed, V: Fixed>(options: &Options, keys: u64) {
    let env = Os::new(Image::new(4 << 20));
    let mut random = Random(keys);
    let mut model = BTreeMap::new();
    let mut tree: Tree<'_, _, K, V> = create(&env, options);
    agree(&tree, &model, 3);
    for _ in 0..6 {
        work(&tree, &mut model, &mut random, (3000, keys));
        agree(&tree, &model, keys);
        drop(tree);
        tree = open(&env, options);
        agree(&tree, &model, keys);
    }
    for number in 0..keys {
        assert_eq!(tree.remove(fixed(number)), Ok(model.remove(&fixed(number))));
    }
    agree(&tree, &model, keys);
}

#[test]
fn it_is_a_map() {
    for keys in [20, 500, 5000] {
        works::<u64, u64>(&SMALL, keys);
    }
    works::<[u64; 2], u64>(&Options { node: 256, ..SMALL }, 500);
    works::<u64, [u64; 2]>(&Options { node: 256, cached: 8, ..SMALL }, 500);
    works::<[u64; 2], [u64; 2]>(&Options { node: 256, cached: 1, logs: 1, ..SMALL }, 500);
    works::<u64, u64>(&Options::default(), 5000);
}

#[test]
fn it_can_be_loaded() {
    let env = Os::new(Image::new(4 << 20));
    let tree: Tree<'_, _, u64, u64> = create(&env, &SMALL);
    let model = loads(&tree, 3000);
    agree(&tree, &model, 9000);
}

/// Garbage does not grow beyond the threshold, whoever collects; and all that is live stays.
#[test]
fn garbage_is_collected() {
    for (inline, logs) in [(true, 1), (true, 4), (false, 4)] {
        let env = Os::new(Image::new(1 << 20));
        let options = Options { inline, logs, chunk: 2048, garbage: 16 << 10, ..SMALL };
        let tree: Tree<'_, _, u64, u64> = create(&env, &options);
        for round in 0..60u64 {
            for key in 0..200 {
                tree.insert(key, key << 8 | round).expect("room");
            }
            if !inline {
                tree.collect(2).expect("room for copies");
            }
            let (used, garbage) = tree.usage();
            // A log may be above the threshold by the chunk that it writes and one that it can't give up yet.
            assert!(garbage <= logs as u64 * ((16 << 10) + 3 * 2048), "{garbage} of {used}, {logs} logs");
        }
        assert!((0..200).all(|key| tree.get(key) == Some(key << 8 | 59)));
        drop(tree);
        let tree: Tree<'_, _, u64, u64> = open(&env, &options);
        assert!((0..200).all(|key| tree.get(key) == Some(key << 8 | 59)));
    }
}

/// A space that is full of live pairs says so, and keeps them; what is garbage makes room before.
#[test]
fn a_full_space_keeps_what_it_has() {
    let env = Os::new(Image::new(96 << 10));
    let options = Options { garbage: 1 << 30, ..SMALL };
    let tree: Tree<'_, _, u64, u64> = create(&env, &options);
    for round in 0..40u64 {
        (0..100).for_each(|key| _ = tree.insert(key, round << 8 | 1).expect("garbage makes room"));
    }
    let mut count = 100;
    let error = loop {
        match tree.insert(count, count) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert!(count > 1000, "{count}");
    let holds = |tree: &Tree<'_, _, u64, u64>| {
        assert!((100..count).all(|key| tree.get(key) == Some(key)) && tree.get(count).is_none());
        assert!((0..100).all(|key| tree.get(key) == Some(39 << 8 | 1)));
    };
    holds(&tree);
    drop(tree);
    holds(&open(&env, &options));
}

#[test]
fn what_is_not_this_tree_is_refused() {
    let env = Os::new(Image::new(1 << 16));
    let whole = || Whole::open(env.space()).expect("it is whole");
    drop(create::<_, u64, u64>(&env, &SMALL));
    let other = LogTree::<_, u64, [u64; 2], _>::open(&env, whole(), &SMALL).map(drop);
    assert!(matches!(other, Err(Error::Mismatch { what: "lengths of keys and values", .. })), "{other:?}");
    let again = LogTree::<_, u64, u64, _>::create(&env, whole(), &SMALL).map(drop);
    assert!(matches!(again, Err(Error::Mismatch { expected: 0, .. })), "{again:?}");
    let new = Os::new(Image::new(1 << 16));
    let _ = Whole::create(new.space(), 8 << 10).expect("room");
    for odd in [
        Options { logs: 0, ..SMALL },
        Options { logs: 1025, ..SMALL },
        Options { node: 48, ..SMALL },
        Options { node: 4096, ..SMALL },
        Options { chunk: 1000, ..SMALL },
        Options { cached: 0, ..SMALL },
        Options { cached: 9, ..SMALL },
    ] {
        let whole = Whole::open(new.space()).expect("it is whole");
        let odd = LogTree::<_, u64, u64, _>::create(&new, whole, &odd).map(drop);
        assert!(matches!(odd, Err(Error::Options(_))), "{odd:?}");
    }
}

/// Any word of a closed tree may be damaged: open says so, or what it opens can be used.
#[test]
fn damage_is_borne() {
    let env = Os::new(Image::new(1 << 16));
    let tree: Tree<'_, _, u64, u64> = create(&env, &SMALL);
    (0..300).for_each(|key| _ = tree.insert(key * 7 % 300, key).expect("room"));
    drop(tree);
    let whole = env.into_space().to_bytes();
    let mut refused = 0;
    for at in (256..512).step_by(8).chain((512..whole.len() as u64).step_by(72)) {
        for damage in [1, 1 << 33, 1 << 40, u64::MAX] {
            let env = Os::new(Image::from_bytes(&whole));
            env.space().store_u64(at, env.space().load_u64(at) ^ damage);
            let extents = Whole::open(env.space()).expect("its head is whole");
            match LogTree::<_, u64, u64, _>::open(&env, extents, &SMALL) {
                Ok(tree) => {
                    tree.each(&mut |_, _| true);
                    (0..40).for_each(|key| _ = tree.insert(key, key));
                    (0..310).for_each(|key| _ = tree.remove(key));
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

/// Threads that change keys of their own and read all: a value of a key is one that its thread wrote.
fn threads_in_turn(seed: u64) {
    const THREADS: u32 = 3;
    const KEYS: u64 = 12;
    let schedule = Schedule::walk(seed).at_accesses(Accesses::OneIn(3));
    let run = space::sim::run(Image::new(1 << 16), &schedule, |env: &Sim<Image>| {
        let tree: Tree<'_, _, u64, u64> = create(env, &SMALL);
        env.threads(THREADS, |thread| {
            let mut model = BTreeMap::new();
            for step in 0..60u64 {
                let key = u64::from(thread) + u64::from(THREADS) * (step * 7 % KEYS);
                let value = key << 32 | step;
                if step % 5 == 4 {
                    assert_eq!(tree.remove(key).expect("room"), model.remove(&key));
                } else {
                    assert_eq!(tree.insert(key, value).expect("room"), model.insert(key, value));
                }
                assert_eq!(tree.get(key), model.get(&key).copied());
                let others = step * 5 % (KEYS * u64::from(THREADS));
                assert!(tree.get(others).is_none_or(|value| value >> 32 == others));
            }
        });
        let mut count = 0;
        tree.each(&mut |_, _| {
            count += 1;
            true
        });
        count
    });
    assert!(run.result.is_ok_and(|count| count > 0), "schedule {}", run.token);
}

#[test]
fn threads_see_each_others_pairs() {
    (0..12).for_each(threads_in_turn);
}

#[test]
fn real_threads_see_each_others_pairs() {
    let env = Os::new(Image::new(4 << 20));
    let options = Options { garbage: 8 << 10, chunk: 2048, ..SMALL };
    let tree: Tree<'_, _, u64, [u64; 2]> = create(&env, &options);
    env.threads(4, |thread| {
        for step in 0..4000u64 {
            let key = step % 500 * 4 + u64::from(thread);
            tree.insert(key, [key, step]).expect("room");
            for key in [key, step, step * 3 % 2000] {
                assert!(tree.get(key).is_none_or(|value| value[0] == key));
            }
            assert_eq!(tree.get(key), Some([key, step]));
            if step % 3 == 0 {
                assert_eq!(tree.remove(key), Ok(Some([key, step])));
            }
        }
    });
    let mut last = None;
    tree.range(0, &mut |key, value| {
        assert!(last < Some(key) && value[0] == key);
        last = Some(key);
        true
    });
}
