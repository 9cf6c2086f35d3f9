//! The table against a HashMap, and CPU and devices against each other.

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{backends, seed};
use unified::{
    Accelerator, Answer, Batch, BatchOptions, Change, Hashed, Job, Kernel, Mix, NONE, Outcome, Shape, Table,
};

/// A small table that overflows.
const SMALL: Shape = Shape { buckets: 64, block: 16, signature_bits: 32 };

/// What a table has to hold: locations by signature and by the pair of buckets.
#[derive(Default)]
struct Model(HashMap<(u32, u32), u32>);

fn identity(shape: Shape, key: Hashed) -> (u32, u32) {
    let first = shape.first(key);
    (first.min(shape.other(first, key.signature())), key.signature())
}

impl Model {
    /// Applies a change; `answer` decides what can't be known, that there was no room.
    fn apply(&mut self, shape: Shape, (key, change): (Hashed, Change), answer: Answer) {
        let id = identity(shape, key);
        let held = self.0.get(&id).copied();
        let expected = match change {
            Change::Insert(location) if held.is_some() => {
                self.0.insert(id, location);
                (Outcome::Replaced, held)
            }
            Change::Insert(_) if answer.outcome == Outcome::Full => (Outcome::Full, None),
            Change::Insert(location) => {
                self.0.insert(id, location);
                (Outcome::Inserted, None)
            }
            Change::Delete(location) if held.is_some_and(|held| location == NONE || held == location) => {
                self.0.remove(&id);
                (Outcome::Deleted, held)
            }
            Change::Delete(_) => (Outcome::Missing, None),
        };
        assert_eq!((answer.outcome, answer.former), (expected.0, expected.1.unwrap_or(NONE)), "{change:?}");
    }
}

fn random_change(random: &mut Mix, keys: u64, shape: Shape) -> (Hashed, Change) {
    let key = shape.hash(random.below(keys));
    let change = match random.below(10) {
        0..=6 => Change::Insert(random.next_u64() as u32 & 0xffff),
        7 => Change::Delete(random.next_u64() as u32 & 0xffff),
        _ => Change::Delete(NONE),
    };
    (key, change)
}

#[test]
fn every_backend_and_the_cpu_do_as_a_map_does_and_leave_the_same_bytes() {
    let seed = seed("table", 11);
    let host: Arc<dyn Accelerator> = Arc::new(Batch::new(BatchOptions { threads: 1, ..Default::default() }));
    for device in backends() {
        let mut random = Mix::seeded(seed);
        let table = Table::new(device.clone(), SMALL).expect("room");
        let on_cpu = Table::new(host.clone(), SMALL).expect("room");
        let cpu = on_cpu.cpu().expect("the software accelerator is mapped");
        let mut model = Model::default();
        let mut full = 0;
        for size in [1, 7, 64, 500, 300, 900, 0, 33] {
            let changes: Vec<_> = (0..size).map(|_| random_change(&mut random, 700, SMALL)).collect();
            let answers = table.change(&changes).expect("the device works");
            for (&change, &answer) in changes.iter().zip(&answers) {
                model.apply(SMALL, change, answer);
                let by_cpu = cpu.change(change.0, change.1).expect("a location");
                assert_eq!(by_cpu, answer, "{} {change:?}", device.info().device);
                full += u32::from(answer.outcome == Outcome::Full);
            }
            assert_eq!(table.bytes().expect("readable"), on_cpu.bytes().expect("readable"));
            let keys: Vec<Hashed> = (0..900).map(|key| SMALL.hash(key)).collect();
            let found = table.search(&keys).expect("the device works");
            let mut batch = vec![0; keys.len()];
            cpu.search_batch(&keys, &mut batch, 13);
            assert_eq!(found, batch);
            for (key, found) in keys.iter().zip(found) {
                let held = model.0.get(&identity(SMALL, *key)).copied();
                assert_eq!(found, held.unwrap_or(NONE));
            }
        }
        assert!(full > 0, "the table must overflow for this test to say something");
        println!("{}: {} entries, {full} without room", device.info().device, model.0.len());
    }
}

/// Keys as somebody would choose them who wants the table to fail, several changes of each in one batch.
#[test]
fn chosen_keys_do_as_a_map_does_on_every_backend() {
    let ends = [0, 1, 2, 15, 16, u32::MAX - 1, u32::MAX];
    let of = |hash: fn(u32) -> u32, signature: fn(u32) -> u32| -> Vec<Hashed> {
        (0..200).map(|number| Hashed::new(hash(number), signature(number))).collect()
    };
    let sets = [
        // One signature in all buckets; one bucket, which is both candidates; two buckets; ends of all
        // ranges.
        of(|number| number, |_| 7),
        of(|_| 5, |number| (number + 1) << 4),
        of(|_| u32::MAX, |number| number << 4 | 9),
        ends.into_iter().flat_map(|hash| ends.map(|signature| Hashed::new(hash, signature))).collect(),
    ];
    let host: Arc<dyn Accelerator> = Arc::new(Batch::new(BatchOptions { threads: 1, ..Default::default() }));
    for device in backends() {
        for keys in &sets {
            let table = Table::new(device.clone(), SMALL).expect("room");
            let on_cpu = Table::new(host.clone(), SMALL).expect("room");
            let cpu = on_cpu.cpu().expect("mapped");
            let mut model = Model::default();
            for round in 0..3u32 {
                let absent = keys.iter().map(|&key| (key, Change::Delete(NONE)));
                let changes: Vec<_> = absent
                    .chain(keys.iter().flat_map(|&key| {
                        [
                            Change::Insert(0),
                            Change::Insert(u32::MAX - 1),
                            Change::Delete(0),
                            Change::Delete(u32::MAX - 1),
                            Change::Insert(round),
                            Change::Insert(round),
                        ]
                        .map(|change| (key, change))
                    }))
                    .collect();
                for (&change, answer) in changes.iter().zip(table.change(&changes).expect("works")) {
                    model.apply(SMALL, change, answer);
                    assert_eq!(cpu.change(change.0, change.1).expect("a location"), answer, "{change:?}");
                }
                assert!(table.bytes().expect("readable") == on_cpu.bytes().expect("readable"));
                let mut by_cpu = vec![0; keys.len()];
                cpu.search_batch(keys, &mut by_cpu, usize::MAX);
                let found = table.search(keys).expect("works");
                assert_eq!(found, by_cpu);
                for (&key, found) in keys.iter().zip(found) {
                    assert_eq!(found, model.0.get(&identity(SMALL, key)).copied().unwrap_or(NONE), "{key:?}");
                }
            }
        }
    }
}

#[test]
fn many_changes_of_one_block_are_all_made() {
    // More steps of loops than some drivers allow an invocation.
    let shape = Shape { buckets: 1024, block: 1024, signature_bits: 32 };
    let changes: Vec<_> = (0..7000u64).map(|key| (shape.hash(key), Change::Insert(key as u32))).collect();
    let mut all = Vec::new();
    for device in backends() {
        let table = Table::new(device, shape).expect("room");
        let answers = table.change(&changes).expect("works");
        assert!(answers.iter().all(|answer| answer.former == NONE));
        all.push((answers, table.bytes().expect("readable")));
    }
    for other in &all[1..] {
        assert!(other == &all[0], "not the same bytes");
    }
}

#[test]
fn short_signatures_collide_and_are_still_one_entry() {
    let shape = Shape { signature_bits: 4, ..SMALL };
    let seed = seed("short", 5);
    for device in backends() {
        let mut random = Mix::seeded(seed);
        let table = Table::new(device, shape).expect("room");
        let mut model = Model::default();
        let changes: Vec<_> = (0..2000).map(|_| random_change(&mut random, 4000, shape)).collect();
        for (change, answer) in changes.iter().zip(table.change(&changes).expect("works")) {
            model.apply(shape, *change, answer);
        }
    }
}

#[test]
fn five_evictions_fill_a_table_to_nine_tenths() {
    let shape = Shape { buckets: 4096, block: 1024, signature_bits: 32 };
    let table = Table::new(backends()[0].clone(), shape).expect("room");
    let keys = shape.slots() * 9 / 10;
    let changes: Vec<_> = (0..keys).map(|key| (shape.hash(key), Change::Insert(key as u32))).collect();
    let answers = table.change(&changes).expect("works");
    let full = answers.iter().filter(|answer| answer.outcome == Outcome::Full).count();
    assert!(full as u64 * 1000 <= keys, "{full} of {keys} found no room");
}

#[test]
fn cpu_threads_and_batches_lose_no_update() {
    let shape = Shape { buckets: 512, block: 64, signature_bits: 32 };
    for device in backends().into_iter().filter(|device| device.info().concurrent) {
        let table = Table::new(device.clone(), shape).expect("room");
        let cpu = table.cpu().expect("mapped");
        // Keys below `steady` never change; each thread and the device own a range each.
        let steady: Vec<Hashed> = (0..600).map(|key| shape.hash(key)).collect();
        for (number, &key) in steady.iter().enumerate() {
            let answer = cpu.change(key, Change::Insert(number as u32)).expect("a location");
            assert_ne!(answer.outcome, Outcome::Full);
        }
        let done = AtomicBool::new(false);
        let seen = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let own = 10_000 * (thread + 1);
                        for round in 0..30u32 {
                            for key in own..own + 300 {
                                cpu.change(shape.hash(key), Change::Insert(round)).expect("a location");
                            }
                            for key in (own..own + 300).step_by(3) {
                                cpu.change(shape.hash(key), Change::Delete(NONE)).expect("any location");
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for (number, &key) in steady.iter().enumerate() {
                        assert_eq!(cpu.search(key), number as u32, "a steady key is never missed");
                    }
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
            for round in 0..10u32 {
                let changes: Vec<_> =
                    (50_000..50_400).map(|key| (shape.hash(key), Change::Insert(round))).collect();
                table.change(&changes).expect("works");
            }
            writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
            done.store(true, Ordering::Relaxed);
        });
        assert!(seen.load(Ordering::Relaxed) > 0);
        for thread in 1..3u64 {
            for key in thread * 10_000..thread * 10_000 + 300 {
                let expected = if (key - thread * 10_000) % 3 == 0 { NONE } else { 29 };
                assert_eq!(cpu.search(shape.hash(key)), expected, "{} key {key}", device.info().device);
            }
        }
        let batch: Vec<Hashed> = (50_000..50_400).map(|key| shape.hash(key)).collect();
        assert!(table.search(&batch).expect("works").iter().all(|&location| location == 9));
    }
}

#[test]
fn what_can_not_be_served_changes_nothing() {
    for device in backends() {
        let table = Table::new(device.clone(), SMALL).expect("room");
        assert!(table.search(&[]).expect("nothing to do").is_empty());
        assert!(table.change(&[]).expect("nothing to do").is_empty());
        let before = table.bytes().expect("readable");
        let wrong = [(SMALL.hash(1), Change::Insert(3)), (SMALL.hash(2), Change::Insert(NONE))];
        let error = table.change(&wrong).expect_err("no location").to_string();
        assert!(error.contains("4294967294"), "{error}");
        assert_eq!(table.bytes().expect("readable"), before);
        // A length that no allocation has room for: the check comes before the requests are looked at.
        let many = vec![SMALL.hash(1); (1 << 27) + 1];
        let error = table.search(&many).map(drop).expect_err("refused").to_string();
        assert!(error.contains("several batches"), "{error}");
        let uneven = Shape { buckets: 48, ..SMALL };
        assert!(Table::new(device.clone(), uneven).is_err());
        assert!(device.allocate(usize::MAX / 8).is_err());
        assert!(device.allocate(usize::MAX / 4).is_err());
        assert!(table.region().write(SMALL.words(), &[1]).is_err());
    }
    // The CPU refuses what a batch refuses.
    let table = Table::new(backends()[0].clone(), SMALL).expect("room");
    let cpu = table.cpu().expect("mapped");
    let error = cpu.change(SMALL.hash(1), Change::Insert(NONE)).expect_err("no location").to_string();
    assert!(error.contains("4294967294"), "{error}");
    assert!(table.bytes().expect("readable").iter().all(|&word| word == 0));
    let poor = Batch::new(BatchOptions { memory_bytes: 1000, ..Default::default() });
    let error = Table::new(Arc::new(poor), SMALL).map(drop).expect_err("refused").to_string();
    assert!(error.contains("1000") && error.contains("4096"), "{error}");
}

#[test]
fn a_region_of_another_device_is_refused_and_harms_nobody() {
    let all = backends();
    for one in &all {
        for other in all.iter().filter(|other| !Arc::ptr_eq(one, other)) {
            let foreign = other.allocate(64).expect("room");
            let job =
                Job { kernel: Kernel::Write, regions: &[&foreign], parameters: &[1, 1, 7], invocations: 1 };
            let error = one.run(job).expect_err("refused").to_string();
            assert!(error.contains("another device's"), "{error}");
            let mut word = [0];
            foreign.read(0, &mut word).expect("readable");
            assert_eq!(word, [0]);
            let own = one.allocate(64).expect("room");
            one.run(Job { regions: &[&own], ..job }).expect("the device works on");
            own.read(0, &mut word).expect("readable");
            assert_eq!(word, [7]);
        }
    }
}
