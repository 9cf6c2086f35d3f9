//! Stores of which words were overwritten by others: an error, or what was there; never a panic, never an
//! endless search, and never the value of another key.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use kv::{Durable, Engine, Error, Options, Placement, Store};
use pmem::Os;
use proptest::prelude::*;
use space::{Env, Image, Space};

type InMemory = Store<Os<Image>, Arc<Os<Image>>>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const LEN: u64 = 8192 + 160 * 1024;

fn options(engine: Engine, index: Placement) -> Options {
    let durable = Some(Durable::AtOnce);
    Options { engine, index, durable, chunk: 1 << 10, lanes: 2, shards: 4, ..Options::default() }
}

/// Values that say whose they are.
fn value(key: &[u8], round: usize) -> Vec<u8> {
    key.iter().copied().cycle().take(16 + 40 * (round % 5)).collect()
}

/// A store with something of everything, closed in order or not.
fn made(options: &Options, closed: bool) -> (Vec<u64>, Model) {
    let env = Arc::new(Os::new(Image::new(LEN)));
    let store = InMemory::create_on(env.clone(), options).expect("an empty space");
    let mut model = Model::new();
    for round in 0..6usize {
        for number in 0..40u8 {
            let key = vec![number; 1 + usize::from(number) % 9];
            if (usize::from(number) + round).is_multiple_of(7) {
                store.delete(&key).expect("room");
                model.remove(&key);
            } else {
                store.put(&key, &value(&key, round)).expect("room");
                model.insert(key.clone(), value(&key, round));
            }
        }
    }
    store.put(b"long", &value(b"long", 1).repeat(60)).expect("room");
    model.insert(b"long".to_vec(), value(b"long", 1).repeat(60));
    if closed {
        store.close().expect("no disk that could fail");
    } else {
        store.sync().expect("no disk that could fail");
        drop(store);
    }
    ((0..LEN).step_by(8).map(|at| env.space().load_u64(at)).collect(), model)
}

/// Whether a value is one that its key had.
fn belongs(key: &[u8], found: &[u8]) -> bool {
    (0..5).any(|round| value(key, round) == found)
}

/// Everything that can be done with it.
fn use_it(words: &[u64], options: &Options) -> Result<(), Error> {
    let image = Image::new(LEN);
    for (at, word) in (0..).step_by(8).zip(words) {
        image.store_u64(at, *word);
    }
    let store = InMemory::open_on(Arc::new(Os::new(image)), options)?;
    let mut first = Ok(());
    let mut note = |result: Result<(), Error>| {
        if first.is_ok() {
            first = result;
        }
    };
    let keys = (0..40u8).map(|number| vec![number; 1 + usize::from(number) % 9]);
    for key in keys.clone() {
        note(store.get(&key).map(|found| {
            assert!(found.is_none_or(|found| belongs(&key, &found)), "{key:?}");
        }));
    }
    let all = (Bound::Unbounded, Bound::Unbounded);
    note(store.scan(all, |_, _| true));
    for (round, key) in keys.enumerate() {
        note(match round % 3 {
            0 => store.put(&key, &value(&key, round)).map(|_| ()),
            1 => store.delete(&key).map(|_| ()),
            _ => store.get(&key).map(|_| ()),
        });
    }
    note(store.collect().map(|_| ()));
    note(store.scan_back(all, |_, _| true));
    note(store.close());
    first
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn damage_is_an_error_or_nothing(
        kind in 0..4usize,
        closed in any::<bool>(),
        hits in proptest::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u64>()), 1..4),
    ) {
        let (engine, index) = [
            (Engine::Log, Placement::Volatile),
            (Engine::Log, Placement::Persistent),
            (Engine::Slab, Placement::Volatile),
            (Engine::Slab, Placement::Persistent),
        ][kind];
        let options = options(engine, index);
        let (mut words, _) = made(&options, closed);
        let used: Vec<usize> = (0..words.len()).filter(|at| words[*at] != 0).collect();
        for (place, how, word) in &hits {
            let at = used[place.index(used.len())];
            words[at] = match how {
                0 => words[at] ^ 1 << (word % 64),
                1 => 0,
                // Another word of the store: most like what would be there.
                2 => words[used[*word as usize % used.len()]],
                _ => *word,
            };
        }
        _ = use_it(&words, &options);
    }
}

/// Undamaged, all of that succeeds: else the test above would show nothing.
#[test]
fn whole_stores_have_no_error() {
    for engine in [Engine::Log, Engine::Slab] {
        for index in [Placement::Volatile, Placement::Persistent] {
            let options = options(engine, index);
            for closed in [false, true] {
                let (words, model) = made(&options, closed);
                assert!(model.len() > 30);
                use_it(&words, &options).unwrap_or_else(|error| panic!("{options:?}: {error}"));
            }
        }
    }
}
