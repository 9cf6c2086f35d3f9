//! `BytesMap` is a map, whatever it is opened and damaged in between.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use index::bytes::Options;
use index::{BytesMap, Error, Whole};
use pmem::Os;
use proptest::prelude::*;
use space::{Env, Image, Space};

const BYTES: u64 = 1 << 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn created(env: &Os<Image>) -> BytesMap<&Os<Image>, Whole> {
    let whole = Whole::create(env.space(), 4 << 10).expect("room");
    BytesMap::create(env, whole, &Options::default()).expect("an empty space")
}

fn opened(env: &Os<Image>) -> Result<BytesMap<&Os<Image>, Whole>, Error> {
    BytesMap::open(env, Whole::open(env.space())?, &Options::default())
}

fn all(map: &BytesMap<&Os<Image>, Whole>, from: &[u8]) -> Result<Model, Error> {
    let (mut pairs, mut last) = (Model::new(), None);
    map.range(from, &mut |key, value| {
        assert!(last.as_deref() < Some(key), "in order");
        last = Some(key.to_vec());
        pairs.insert(key.to_vec(), value.to_vec());
        true
    })?;
    Ok(pairs)
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, Vec<u8>),
    Update(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..40u8).prop_map(|number| vec![b'k'; 1 + usize::from(number) % 30]),
        4 => (0..40u8).prop_map(|number| vec![number; 3]),
        1 => Just(Vec::new()),
        1 => proptest::collection::vec(any::<u8>(), 0..300),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..50),
        1 => (0..9000usize).prop_map(|len| vec![7; len]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (key(), value()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => (key(), value()).prop_map(|(key, value)| Step::Update(key, value)),
        3 => key().prop_map(Step::Remove),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn it_is_a_map(steps in proptest::collection::vec(step(), 1..150), from in key()) {
        let env = Os::new(Image::new(BYTES));
        let mut map = created(&env);
        let mut model = Model::new();
        for step in &steps {
            match step {
                Step::Insert(key, value) => {
                    let before = model.insert(key.clone(), value.clone());
                    prop_assert_eq!(map.insert(key, value).expect("room"), before);
                }
                Step::Update(key, value) => {
                    let before = model.get_mut(key).map(|there| std::mem::replace(there, value.clone()));
                    prop_assert_eq!(map.update(key, value).expect("room"), before);
                }
                Step::Remove(key) => {
                    prop_assert_eq!(map.remove(key).expect("whole"), model.remove(key));
                }
                Step::Reopen => {
                    drop(map);
                    map = opened(&env).expect("a map");
                }
            }
        }
        prop_assert_eq!(map.len(), model.len());
        prop_assert_eq!(&all(&map, &[]).expect("whole"), &model);
        let behind = model.clone().split_off(&from);
        prop_assert_eq!(all(&map, &from).expect("whole"), behind);
        let keys: Vec<&Vec<u8>> = model.keys().chain([&from]).collect();
        let values: Vec<Option<Vec<u8>>> = keys.iter().map(|key| model.get(*key).cloned()).collect();
        prop_assert_eq!(map.get_many(&keys).expect("whole"), values);
    }

    /// Overwritten by others: an error, a key that is not there, or the right value.
    #[test]
    fn damage_is_never_another_value(hits in proptest::collection::vec((0..6000u64, any::<u64>()), 1..4)) {
        let env = Os::new(Image::new(BYTES));
        let map = created(&env);
        let value = |key: u64| key.to_string().repeat(10).into_bytes();
        for key in 0..200u64 {
            map.insert(&key.to_be_bytes(), &value(key)).expect("room");
        }
        for (at, word) in hits {
            env.space().store_u64(at * 8, word);
        }
        for key in 0..200u64 {
            if let Ok(Some(found)) = map.get(&key.to_be_bytes()) {
                prop_assert_eq!(found, value(key));
            }
        }
        drop(map);
        if let Ok(map) = opened(&env) {
            for (key, found) in all(&map, &[]).expect("just read") {
                prop_assert_eq!(found, value(u64::from_be_bytes(key[..].try_into().expect("a key"))));
            }
            map.insert(b"more", b"room").expect("room");
        }
    }
}

#[test]
fn room_is_used_again_and_a_full_map_goes_on() {
    let env = Os::new(Image::new(256 << 10));
    let map = created(&env);
    for round in 0..300u64 {
        for key in 0..50u64 {
            map.insert(&key.to_be_bytes(), &[round as u8; 200]).expect("the same room as before");
        }
    }
    let mut added = 0u64;
    while map.insert(&(1000 + added).to_be_bytes(), &[1; 200]).is_ok() {
        added += 1;
        assert!(added < 2000);
    }
    assert!(added > 300, "{added}");
    assert!(matches!(map.insert(b"another", &[1; 200]), Err(Error::Full { .. })));
    for key in 0..added {
        assert!(map.remove(&(1000 + key).to_be_bytes()).expect("whole").is_some());
    }
    map.insert(b"another", &[1; 200]).expect("there is room again");
    drop(map);
    assert_eq!(opened(&env).expect("a map").len(), 51);
}

#[test]
fn pairs_are_loaded_in_one_go() {
    let env = Os::new(Image::new(BYTES));
    let map = created(&env);
    let pairs: Vec<(Vec<u8>, Vec<u8>)> =
        (0..500u32).map(|at| (at.to_be_bytes().to_vec(), vec![at as u8; at as usize % 40])).collect();
    map.load(pairs.iter().map(|(key, value)| (&key[..], &value[..]))).expect("room");
    assert!(map.load([(&b"a"[..], &b"b"[..])].into_iter()).is_err(), "not empty");
    drop(map);
    assert_eq!(all(&opened(&env).expect("a map"), &[]).expect("whole"), pairs.into_iter().collect());
}

#[test]
fn threads_change_keys_of_their_own_while_others_read_them() {
    let env = Os::new(Image::new(4 << 20));
    let map = created(&env);
    let read = AtomicU64::new(0);
    let value =
        |key: u64, round: u64| format!("{key} {round} ").repeat(1 + (key + round) as usize % 9).into_bytes();
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (map, read) = (&map, &read);
            scope.spawn(move || {
                for round in 0..200 {
                    for key in (thread..40).step_by(2) {
                        map.insert(&key.to_be_bytes(), &value(key, round)).expect("room");
                        if (key + round) % 7 == 0 {
                            map.remove(&key.to_be_bytes()).expect("whole");
                        }
                        let other = (key + 1) % 40;
                        if let Some(found) = map.get(&other.to_be_bytes()).expect("whole") {
                            let text = String::from_utf8(found).expect("text");
                            let begin = format!("{other} ");
                            assert!(text.starts_with(&begin) && text.ends_with(' '), "{text}");
                            read.fetch_add(1, Relaxed);
                        }
                    }
                }
            });
        }
    });
    assert!(read.load(Relaxed) > 1000);
    let last = all(&map, &[]).expect("whole");
    drop(map);
    assert_eq!(all(&opened(&env).expect("a map"), &[]).expect("whole"), last);
}

/// Where the first word of each record is, by its key.
fn records(env: &Os<Image>, keys: u64) -> Vec<u64> {
    let words: Vec<u64> = (0..BYTES / 8).map(|at| env.space().load_u64(8 * at)).collect();
    let of = |key: u64| words.windows(2).position(|pair| pair == [8 << 32 | 8, key.to_be()]);
    (0..keys).map(|key| 8 * of(key).expect("a record") as u64 - 16).collect()
}

/// In a map that was closed no record is torn; in one that was not, as many as there were writers at a time.
#[test]
fn damage_shows_when_a_map_is_opened() {
    for (closed, damaged, opens) in [(true, 0, true), (true, 1, false), (false, 1, true), (false, 2, false)] {
        let env = Os::new(Image::new(BYTES));
        let map = created(&env);
        (0..9u64).for_each(|key| _ = map.insert(&key.to_be_bytes(), &[7; 8]).expect("room"));
        if closed {
            map.close();
        } else {
            drop(map);
        }
        let records = records(&env, 9);
        for at in &records[..damaged] {
            env.space().store_u64(at + 32, 8);
        }
        let what = (closed, damaged);
        match opened(&env) {
            Ok(map) => {
                assert!(opens, "{what:?}");
                assert_eq!((map.len(), map.unfinished()), (9 - damaged, damaged as u64), "{what:?}");
                // It is erased, and no longer counts.
                drop(map);
                assert_eq!(opened(&env).expect("a map").unfinished(), 0, "{what:?}");
            }
            Err(error) => {
                assert!(!opens, "{what:?}: {error}");
                let first = records[..damaged].iter().min().copied().expect("one");
                assert!(matches!(error, Error::Damaged { offset, .. } if offset == first), "{error}");
            }
        }
    }
}

/// Nothing of a load that failed is there, now or later.
#[test]
fn a_load_that_fails_leaves_an_empty_map() {
    let env = Os::new(Image::new(64 << 10));
    let map = created(&env);
    let key = |number: u64| number.to_be_bytes();
    let twice = [0, 1, 2, 1].map(key);
    assert!(map.load(twice.iter().map(|key| (&key[..], &b"loaded"[..]))).is_err());
    assert!(map.is_empty());
    let many: Vec<[u8; 8]> = (0..10_000).map(key).collect();
    let full = map.load(many.iter().map(|key| (&key[..], &[1; 40][..])));
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert!(map.is_empty());
    map.insert(&key(1), b"later").expect("the room of what was loaded");
    drop(map);
    let found = all(&opened(&env).expect("a map"), &[]).expect("whole");
    assert_eq!(found, Model::from([(key(1).to_vec(), b"later".to_vec())]));
}
