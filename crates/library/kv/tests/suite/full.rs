//! A store that is full has room again once something was deleted, also where that lies in logs that threads
//! still append to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kv::{Durable, Engine, Error, Options, Placement, Store};
use pmem::Os;
use space::Image;

type InMemory = Store<Os<Image>, Arc<Os<Image>>>;

const THREADS: u32 = 3;
const CHUNK: u64 = 1 << 20;

fn key(thread: u32, number: u32) -> [u8; 8] {
    (u64::from(thread) << 32 | u64::from(number)).to_le_bytes()
}

fn value(thread: u32, number: u32) -> Vec<u8> {
    vec![(7 * thread + number) as u8; 900]
}

/// Puts keys from `first` on until the store is full; how many.
fn fill(store: &InMemory, thread: u32, first: u32) -> u32 {
    for count in 0..100_000 {
        match store.put(&key(thread, first + count), &value(thread, first + count)) {
            Ok(_) => {}
            Err(Error::Full { .. }) => return count,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("more than there is room for");
}

/// `chunks`: how many there are. With three logs, that of garbage collection and a reserve of two, eight are
/// few.
fn what_was_deleted_is_room(options: &Options, chunks: u64) {
    let env = Arc::new(Os::new(Image::new(8192 + chunks * CHUNK)));
    let store = InMemory::create_on(env, options).expect("an empty space");
    let filled: Vec<u32> = std::thread::scope(|scope| {
        let store = &store;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || fill(store, thread, 0))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let all: u32 = filled.iter().sum();
    for round in 0..2 {
        let (deleted, added) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let begun = 1_000_000 * (round + 1);
        std::thread::scope(|scope| {
            for (thread, &filled) in (0..THREADS).zip(&filled) {
                let (store, deleted) = (&store, &deleted);
                scope.spawn(move || {
                    // In another order than they were put.
                    for number in (0..filled).rev().filter(|number| number % 2 == round) {
                        let gone = store.delete(&key(thread, number)).expect("deletes have room");
                        deleted.fetch_add(usize::from(gone.is_some()), Relaxed);
                    }
                });
            }
        });
        let before: Vec<u32> = (0..THREADS).map(|thread| fill(&store, thread, begun)).collect();
        added.fetch_add(before.iter().sum::<u32>() as usize, Relaxed);
        let (deleted, added) = (deleted.load(Relaxed), added.load(Relaxed));
        // Garbage collection has a chunk by now, and tombstones have a part of one.
        let lost = 3 * CHUNK as usize / 2 / 950;
        assert!(added + lost >= deleted, "{options:?}, {all} keys: {deleted} deleted, room for {added}");
        assert!(deleted > 0, "{options:?}");
        for (thread, &filled) in (0..THREADS).zip(&filled) {
            for number in 0..filled {
                let expected = (number % 2 > round).then(|| value(thread, number));
                assert_eq!(store.get(&key(thread, number)).expect("whole"), expected, "{options:?}");
            }
            for number in 0..before[thread as usize] {
                let number = begun + number;
                let found = store.get(&key(thread, number)).expect("whole");
                assert_eq!(found, Some(value(thread, number)), "{options:?}");
                store.delete(&key(thread, number)).expect("deletes have room");
            }
        }
    }
}

#[test]
fn there_is_room_after_deletes() {
    for (engine, durable, index) in [
        (Engine::Log, Durable::AtOnce, Placement::Volatile),
        (Engine::Log, Durable::WhenWaited, Placement::Volatile),
        (Engine::Log, Durable::AtOnce, Placement::Persistent),
        (Engine::Slab, Durable::AtOnce, Placement::Volatile),
        (Engine::Slab, Durable::WhenWaited, Placement::Volatile),
    ] {
        let common = Options { chunk: CHUNK, lanes: THREADS, shards: 16, ..Options::default() };
        let options = Options { engine, durable: Some(durable), index, ..common };
        for chunks in [8, 14] {
            what_was_deleted_is_room(&options, chunks);
        }
    }
}
