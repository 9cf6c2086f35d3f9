//! A store does what a map does, whatever its engine, and still after it was opened again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use kv::{Batch, Durable, Engine, KeyValue, Options, Placement, Store};
use pmem::Os;
use proptest::prelude::*;
use space::Image;

type InMemory = Store<Os<Image>, Arc<Os<Image>>>;

/// Options with small chunks, so that many are filled.
fn small(engine: Engine, durable: Durable, index: Placement) -> Options {
    let common = Options { chunk: 1 << 10, lanes: 2, shards: 4, ..Options::default() };
    Options { engine, durable: Some(durable), index, ..common }
}

/// All engines, with all that they can be combined with.
fn kinds() -> impl Iterator<Item = Options> {
    [Engine::Log, Engine::Slab].into_iter().flat_map(|engine| {
        [
            small(engine, Durable::AtOnce, Placement::Volatile),
            small(engine, Durable::WhenWaited, Placement::Volatile),
            small(engine, Durable::AtOnce, Placement::Persistent),
        ]
    })
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, usize),
    Delete(u8),
    Batch(Vec<(u8, Option<usize>)>),
    Reopen,
    Sync,
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..24u8, 0..200usize).prop_map(|(key, len)| Step::Put(key, len)),
        1 => (0..24u8, 200..3000usize).prop_map(|(key, len)| Step::Put(key, len)),
        4 => (0..24u8).prop_map(Step::Delete),
        1 => proptest::collection::vec((0..24u8, proptest::option::of(0..60usize)), 1..5)
            .prop_map(Step::Batch),
        1 => Just(Step::Reopen),
        1 => Just(Step::Sync),
        2 => Just(Step::Collect),
    ]
}

fn key(number: u8) -> Vec<u8> {
    vec![b'a' + number % 7; 1 + usize::from(number)]
}

fn value(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + number) as u8).collect()
}

fn compare(store: &InMemory, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for number in 0..24 {
        assert_eq!(store.get(&key(number)).expect("whole").as_ref(), model.get(&key(number)));
    }
    let mut seen = Vec::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    store
        .scan(all, |key, value| {
            seen.push((key.to_vec(), value.to_vec()));
            true
        })
        .expect("whole");
    assert!(seen.iter().map(|(key, value)| (key, value)).eq(model), "{seen:?}");
    let (middle, mut back) = (key(12), Vec::new());
    store
        .scan_back((Bound::Unbounded, Bound::Excluded(&middle)), |key, value| {
            back.push((key.to_vec(), value.to_vec()));
            true
        })
        .expect("whole");
    assert!(back.iter().map(|(key, value)| (key, value)).eq(model.range(..middle).rev()), "{back:?}");
    assert_eq!(store.stats().keys, model.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_store_is_a_map(steps in proptest::collection::vec(step(), 1..120)) {
        for options in kinds() {
            let env = Arc::new(Os::new(Image::new(8192 + 256 * options.chunk)));
            let mut store = InMemory::create_on(env.clone(), &options).expect("an empty space");
            let mut model = BTreeMap::new();
            for (number, step) in steps.iter().enumerate() {
                match step {
                    Step::Put(at, len) => {
                        store.put(&key(*at), &value(number, *len)).expect("room");
                        model.insert(key(*at), value(number, *len));
                    }
                    Step::Delete(at) => {
                        let there = store.delete(&key(*at)).expect("room").is_some();
                        prop_assert_eq!(there, model.remove(&key(*at)).is_some());
                    }
                    Step::Batch(changes) => {
                        let mut batch = Batch::new();
                        for (at, len) in changes {
                            match len {
                                Some(len) => {
                                    batch.put(&key(*at), &value(number, *len));
                                    model.insert(key(*at), value(number, *len));
                                }
                                None => {
                                    batch.delete(&key(*at));
                                    model.remove(&key(*at));
                                }
                            }
                        }
                        store.write(&batch).expect("room");
                    }
                    Step::Reopen => {
                        if number % 2 == 0 {
                            Store::close(store).expect("no disk that could fail");
                        } else {
                            drop(store);
                        }
                        store = InMemory::open_on(env.clone(), &options).expect("a store");
                    }
                    Step::Sync => store.sync().expect("no disk that could fail"),
                    Step::Collect => _ = store.collect().expect("room"),
                }
            }
            compare(&store, &model);
            drop(store);
            compare(&InMemory::open_on(env, &options).expect("a store"), &model);
        }
    }
}

/// A long record has chunks of its own, which no collection of logs looks at: its tombstone has to stay until
/// it is cleared.
#[test]
fn a_long_record_does_not_come_back() {
    for durable in [Durable::AtOnce, Durable::WhenWaited] {
        let options = Options { shards: 256, ..small(Engine::Log, durable, Placement::Volatile) };
        let env = Arc::new(Os::new(Image::new(8192 + 256 * options.chunk)));
        let store = InMemory::create_on(env.clone(), &options).expect("an empty space");
        for number in 0..8 {
            store.put(&key(number), &value(1, 2000)).expect("room");
            store.sync().expect("no disk that could fail");
            store.delete(&key(number)).expect("room").expect("it was there");
        }
        // The keys' parts of the index are left alone from here on.
        for round in 0..200 {
            store.put(&key(8 + (round % 4) as u8), &value(round, 100)).expect("room");
            store.collect().expect("room");
        }
        drop(store);
        let store = InMemory::open_on(env, &options).expect("a store");
        for number in 0..8 {
            assert_eq!(store.get(&key(number)).expect("whole"), None, "{durable:?}");
        }
    }
}

/// A store that is rewritten many times over stays as small as what is in it, and a full one goes on.
#[test]
fn room_is_used_again() {
    for options in kinds() {
        // An index has a part of the file.
        let chunks = if options.index == Placement::Persistent { 100 } else { 40 };
        let env = Arc::new(Os::new(Image::new(8192 + chunks * options.chunk)));
        let store = InMemory::create_on(env.clone(), &options).expect("an empty space");
        for round in 0..200usize {
            for at in 0..24 {
                let put = store.put(&key(at), &value(round, 64 + 40 * (round % 3)));
                put.unwrap_or_else(|error| panic!("{options:?} {round}: {error}; {:?}", store.stats()));
            }
            for at in (0..24).step_by(3) {
                store.delete(&key(at)).expect("room").expect("it was there");
            }
        }
        // Until it is full.
        let mut added: u32 = 0;
        while store.put(&added.to_le_bytes(), &[7; 100]).is_ok() {
            added += 1;
            assert!(added < 1000, "more than there is room for");
        }
        assert!(added > 60, "{options:?}: full with {added}");
        for number in 0..added {
            assert!(store.get(&number.to_le_bytes()).expect("whole").is_some());
            store.delete(&number.to_le_bytes()).expect("deletes make room").expect("it is there");
        }
        store.put(b"again", b"room").expect("there is room again");
        drop(store);
        let store: Box<dyn KeyValue> = Box::new(InMemory::open_on(env, &options).expect("a store"));
        assert_eq!(store.get(b"again").expect("whole").as_deref(), Some(&b"room"[..]));
        assert_eq!(store.get(&3u32.to_le_bytes()).expect("whole"), None);
        assert_eq!(store.get(&key(1)).expect("whole"), Some(value(199, 64 + 40)));
        assert_eq!(store.get(&key(3)).expect("whole"), None);
    }
}

/// A snapshot sees one moment, while everything is overwritten and deleted.
#[test]
fn a_snapshot_is_one_moment() {
    for options in kinds() {
        let env = Arc::new(Os::new(Image::new(8192 + 400 * options.chunk)));
        let store: Box<dyn KeyValue> = Box::new(InMemory::create_on(env, &options).expect("an empty space"));
        for at in 0..24 {
            store.put(&key(at), &value(0, 50)).expect("room");
        }
        let snapshot = store.snapshot().expect("whole");
        for round in 1..40 {
            for at in 0..24 {
                store.put(&key(at), &value(round, 50)).expect("room");
            }
            store.delete(&key((round % 24) as u8)).expect("room");
            store.collect().expect("room");
        }
        let mut count = 0;
        let visit = &mut |_: &[u8], found: &[u8]| {
            count += 1;
            assert_eq!(found, value(0, 50));
            true
        };
        snapshot.scan((Bound::Unbounded, Bound::Unbounded), visit).expect("whole");
        assert_eq!((count, snapshot.len()), (24, 24));
    }
}
