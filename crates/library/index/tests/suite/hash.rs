//! The hash table against a model, by one thread and by several, and what is refused.

use std::collections::BTreeMap;

use index::hash::{HashTable, Options};
use index::{Error, Fixed, Map, Whole};
use pmem::Os;
use proptest::prelude::*;
use space::sim::{Accesses, Schedule};
use space::{Env, Image, Sim, Space};

type Table<'e, E, K, V> = HashTable<&'e E, Whole, K, V>;

const SMALL: Options = Options { buckets: 2, seed: None };

fn create<'e, E: Env, K: Fixed, V: Fixed>(env: &'e E, first: u64, options: &Options) -> Table<'e, E, K, V> {
    let whole = Whole::create(env.space(), first).expect("there is room");
    HashTable::create(env, whole, options).expect("there is room")
}

fn open<E: Env, K: Fixed, V: Fixed>(env: &E) -> Table<'_, E, K, V> {
    let whole = Whole::open(env.space()).expect("it is whole");
    HashTable::open(env, whole).expect("it is whole")
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64, u64),
    Update(u64, u64),
    Replace(u64, u64, u64),
    Remove(u64),
    Get(u64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0u64..60;
    let value = 0u64..4;
    let step = prop_oneof![
        8 => (key.clone(), value.clone()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => (key.clone(), value.clone()).prop_map(|(key, value)| Step::Update(key, value)),
        2 => (key.clone(), value.clone(), value).prop_map(|(key, old, new)| Step::Replace(key, old, new)),
        4 => key.clone().prop_map(Step::Remove),
        4 => key.prop_map(Step::Get),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..300)
}

fn pairs<E: Env, K: Fixed, V: Fixed>(table: &Table<'_, E, K, V>) -> BTreeMap<K, V> {
    let mut pairs = BTreeMap::new();
    table.each(&mut |key, value| {
        assert_eq!(pairs.insert(key, value), None, "{key:?} twice");
        true
    });
    pairs
}

fn agrees<K: Fixed, V: Fixed>(steps: &[Step], key: impl Fn(u64) -> K, value: impl Fn(u64) -> V) {
    let env = Os::new(Image::new(1 << 17));
    let mut table: Table<'_, _, K, V> = create(&env, 4096, &SMALL);
    let mut model = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Insert(k, v) => {
                let old = table.insert(key(k), value(v)).expect("there is room");
                assert_eq!(old, model.insert(key(k), value(v)));
            }
            Step::Update(k, v) => {
                let old = table.update(key(k), value(v)).expect("there is room");
                assert_eq!(old, model.get(&key(k)).copied());
                model.entry(key(k)).and_modify(|found| *found = value(v));
            }
            Step::Replace(k, old, new) => {
                let done = table.replace(key(k), value(old), value(new)).expect("there is room");
                assert_eq!(done, model.get(&key(k)) == Some(&value(old)));
                if done {
                    model.insert(key(k), value(new));
                }
            }
            Step::Remove(k) => {
                assert_eq!(table.remove(key(k)).expect("no room is needed"), model.remove(&key(k)))
            }
            Step::Get(k) => assert_eq!(table.get(key(k)), model.get(&key(k)).copied()),
            Step::Reopen => {
                drop(table);
                table = open(&env);
            }
        }
    }
    assert_eq!(pairs(&table), model);
    let keys: Vec<K> = (0..64).map(key).collect();
    let mut values = vec![None; 64];
    table.get_many(&keys, &mut values);
    assert!(keys.iter().zip(&values).all(|(key, value)| model.get(key) == value.as_ref()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_is_a_map(steps in steps()) {
        agrees(&steps, |key| key, |value| value << 60 | value);
        agrees(&steps, |key| [key / 8, key % 8], |value| [value, !value]);
        agrees(&steps, |key| key << 56, |value| [value << 8, value]);
    }
}

#[test]
fn it_grows_by_extents_until_the_space_is_full() {
    let env = Os::new(Image::new(1 << 20));
    let table: Table<'_, _, u64, u64> = create(&env, 2048, &Options { buckets: 4, seed: None });
    let mut count = 0;
    let full = loop {
        match table.insert(count, !count) {
            Ok(old) => assert_eq!(old, None),
            Err(error) => break error,
        }
        count += 1;
    };
    assert!(matches!(full, Error::Full { .. }), "{full}");
    // Space for 43,690 pairs; buckets fill evenly enough to use more than half of it.
    assert!(count > 20_000, "{count}");
    let holds = |table: &Table<'_, _, u64, u64>| {
        assert!((0..count).all(|key| table.get(key) == Some(!key)));
        assert_eq!(table.get(count), None);
        assert_eq!(pairs(table).len() as u64, count);
    };
    holds(&table);
    drop(table);
    let table = open(&env);
    table.load_all(2);
    holds(&table);
    assert_eq!(table.remove(7), Ok(Some(!7)));
    assert_eq!(table.insert(7, 8), Ok(None), "its slot is free");
}

#[test]
fn what_is_not_this_table_is_refused() {
    let env = Os::new(Image::new(1 << 16));
    let whole = || Whole::open(env.space()).expect("it is whole");
    let table: Table<'_, _, u64, u64> = create(&env, 4096, &SMALL);
    table.insert(1, 2).expect("there is room");
    drop(table);
    let other = HashTable::<_, _, u64, [u64; 2]>::open(&env, whole()).map(drop);
    assert!(matches!(other, Err(Error::Mismatch { what: "lengths of keys and values", .. })), "{other:?}");
    let again = HashTable::<_, _, u64, u64>::create(&env, whole(), &SMALL).map(drop);
    assert!(matches!(again, Err(Error::Mismatch { expected: 0, .. })), "{again:?}");
    for buckets in [0, 1, 3, 1 << 17] {
        let odd =
            HashTable::<_, _, u64, u64>::create(&env, whole(), &Options { buckets, seed: None }).map(drop);
        assert!(matches!(odd, Err(Error::Options(_))), "{odd:?}");
    }
    let small = Os::new(Image::new(4096));
    let extents = Whole::create(small.space(), 512).expect("there is room");
    let none = HashTable::<_, _, u64, u64>::create(&small, extents, &Options::default()).map(drop);
    assert!(matches!(none, Err(Error::Full { .. })), "{none:?}");
}

/// Any word of the table's own may be damaged: open says so, or what it opens can be used.
#[test]
fn damage_is_borne() {
    let env = Os::new(Image::new(1 << 15));
    let table: Table<'_, _, u64, u64> = create(&env, 4096, &SMALL);
    (0..150).for_each(|key| _ = table.insert(key, key).expect("there is room"));
    drop(table);
    let whole = env.into_space().to_bytes();
    let mut refused = 0;
    for at in (256..1024).step_by(8).chain((1024..whole.len() as u64).step_by(512)) {
        for damage in [1, 1 << 17, 1 << 57, u64::MAX] {
            let env = Os::new(Image::from_bytes(&whole));
            env.space().store_u64(at, env.space().load_u64(at) ^ damage);
            let extents = Whole::open(env.space()).expect("its head is whole");
            match HashTable::<_, _, u64, u64>::open(&env, extents) {
                Ok(table) => {
                    table.each(&mut |_, _| true);
                    (0..160).for_each(|key| _ = table.remove(key));
                    (0..20).for_each(|key| _ = table.insert(key, key));
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
    let schedule = Schedule::walk(seed).at_accesses(Accesses::Every);
    let run = space::sim::run(Image::new(1 << 16), &schedule, |env: &Sim<Image>| {
        let table: Table<'_, _, u64, u64> = create(env, 2048, &SMALL);
        env.threads(THREADS, |thread| {
            let mut model = BTreeMap::new();
            for step in 0..60u64 {
                let key = u64::from(thread) + u64::from(THREADS) * (step * 7 % KEYS);
                let value = key << 32 | step;
                if step % 5 == 4 {
                    assert_eq!(table.remove(key).expect("no room is needed"), model.remove(&key));
                } else {
                    assert_eq!(table.insert(key, value).expect("there is room"), model.insert(key, value));
                }
                assert_eq!(table.get(key), model.get(&key).copied());
                let others = step * 5 % (KEYS * u64::from(THREADS));
                assert!(table.get(others).is_none_or(|value| value >> 32 == others));
                if step % 20 == 0 {
                    pairs(&table);
                }
            }
        });
        pairs(&table).len()
    });
    assert!(run.result.is_ok_and(|pairs| pairs > 0), "schedule {}", run.token);
}

#[test]
fn threads_see_each_others_pairs() {
    (0..12).for_each(threads_in_turn);
}

#[test]
fn real_threads_see_each_others_pairs() {
    let env = Os::new(Image::new(1 << 21));
    let table: Table<'_, _, u64, [u64; 2]> = create(&env, 4096, &Options { buckets: 4, seed: None });
    env.threads(4, |thread| {
        let mut seen = 0;
        for step in 0..6000u64 {
            let key = step * 4 + u64::from(thread);
            table.insert(key, [step, !step]).expect("there is room");
            for key in [key, step, step * 3] {
                if let Some(value) = table.get(key) {
                    assert_eq!(value, [key / 4, !(key / 4)]);
                    seen += 1;
                }
            }
            if step % 3 == 0 {
                assert_eq!(table.remove(key), Ok(Some([step, !step])));
            }
        }
        assert!(seen >= 6000);
    });
    assert_eq!(pairs(&table).len(), 4 * 4000);
}

#[test]
fn updates_survive() {
    let env = Os::new(Image::new(4 << 20));
    let table: Table<'_, _, u64, u64> = create(&env, 1 << 16, &SMALL);
    let count = 60_000;
    for round in 0..3 {
        (0..count).for_each(|key| _ = table.insert(key, key + round).expect("there is room"));
        assert!((0..count).all(|key| table.get(key) == Some(key + round)));
    }
    drop(table);
    let table: Table<'_, _, u64, u64> = open(&env);
    assert!((0..count).all(|key| table.get(key) == Some(key + 2)));
}
