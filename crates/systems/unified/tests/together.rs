//! CPU and accelerator at the same time: approaches 1 to 3, hot and cold.

mod common;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{backends, seed};
use unified::micro::{Options, STUDIES, filled, run};
use unified::{
    Approach, Batch, BatchOptions, Change, CoExecution, HotCold, Mix, NONE, Policy, Shape, Skew, Table,
    change_both,
};

#[test]
fn all_approaches_find_every_key_at_its_place() {
    let shape = Shape::for_keys(20_000).expect("fits");
    for device in backends() {
        let table = Table::new(device.clone(), shape).expect("room");
        let keys = filled(&table, 20_000).expect("works");
        let copy = Table::new(backends()[0].clone(), shape).expect("room");
        copy.copy_from(&table).expect("works");
        for approach in [Approach::One, Approach::Two, Approach::Three] {
            let run = CoExecution {
                approach,
                workers: 3,
                submitters: 1,
                batch: 5000,
                ahead: 13,
                duration: Duration::from_millis(150),
                seed: 1,
            };
            match run.run(&table, Some(&copy), &keys) {
                Ok(rates) => {
                    assert_eq!(rates.wrong, 0, "{approach:?} {:?} {rates:?}", device.info());
                    assert!(rates.cpu > 0.0 && rates.accelerator > 0.0 && rates.batch_us > 0.0, "{rates:?}");
                }
                Err(error) => {
                    assert!(!device.info().concurrent && approach != Approach::Three, "{error}");
                }
            }
        }
    }
}

#[test]
fn copies_stay_equal_under_threads_that_change_both() {
    let shape = Shape { buckets: 128, block: 16, signature_bits: 32 };
    let device = backends()[0].clone();
    let (one, two) =
        (Table::new(device.clone(), shape).expect("room"), Table::new(device, shape).expect("room"));
    let stripes: Vec<Mutex<()>> = (0..4).map(|_| Mutex::new(())).collect();
    let seed = seed("copies", 6);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (one, two, stripes) = (one.cpu().expect("mapped"), two.cpu().expect("mapped"), &stripes);
            scope.spawn(move || {
                let mut random = Mix::seeded(seed + thread);
                for round in 0..5000 {
                    let key = shape.hash(random.below(900));
                    let change =
                        if random.below(4) == 0 { Change::Delete(NONE) } else { Change::Insert(round) };
                    change_both(&one, &two, stripes, key, change).expect("a location");
                }
            });
        }
    });
    assert_eq!(one.bytes().expect("readable"), two.bytes().expect("readable"));
    assert!(one.bytes().expect("readable").iter().any(|&word| word != 0));
}

#[test]
fn hot_keys_move_to_the_cpu_and_follow_the_load() {
    let seed = seed("hot", 9);
    for device in backends() {
        let cpu = Arc::new(Batch::new(BatchOptions { threads: 1, ..Default::default() }));
        let policy = Policy { capacity: 64, window: 2000, sample: 2, factor: 1.5, moves: 64 };
        let cold = Shape::for_keys(4000).expect("fits");
        let mut both = HotCold::new(cpu, device.clone(), cold, policy).expect("room");
        let mut model: HashMap<u64, u32> = (0..3000).map(|key| (key, key as u32 * 7)).collect();
        let pairs: Vec<(u64, u32)> = model.iter().map(|(&key, &location)| (key, location)).collect();
        both.insert(&pairs).expect("room");
        assert_eq!(both.skew(), Skew::Unknown);
        let mut random = Mix::seeded(seed);
        for phase in 0..3u64 {
            let draw = |random: &mut Mix| {
                // Nine of ten lookups are of 50 keys, which change from phase to phase; some keys do not
                // exist.
                if random.below(10) > 0 { phase * 1000 + random.below(50) } else { random.below(3100) }
            };
            for round in 0..24 {
                if round == 12 {
                    both.restart_counts();
                }
                let keys: Vec<u64> = (0..1000).map(|_| draw(&mut random)).collect();
                let found = both.lookup(&keys).expect("works");
                for (key, location) in keys.iter().zip(found) {
                    assert_eq!(
                        location,
                        model.get(key).copied().unwrap_or(NONE),
                        "key {key} on {:?}",
                        device.info().backend
                    );
                }
                let updated = random.below(3000);
                model.insert(updated, round);
                both.insert(&[(updated, round)]).expect("room");
            }
            let (hot, cold) = both.served();
            assert!(hot > 4 * cold, "phase {phase}: {hot} of {} on {}", hot + cold, device.info().device);
            assert_eq!(both.skew(), Skew::Skewed);
        }
    }
}

/// The key that is hashed to this: the mixing is a bijection.
fn key_of(hash: u32, signature: u32) -> u64 {
    let inverse = |odd: u64| {
        (0..6).fold(odd, |known, _| known.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(known))))
    };
    let unshift = |mixed: u64, by: u32| (0..64 / by).fold(mixed, |known, _| mixed ^ known >> by);
    let mut key = u64::from(signature) << 32 | u64::from(hash);
    key = unshift(key, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
    key = unshift(key, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
    unshift(key, 30).wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// Keys that are one key to the hot table, and are not to the cold one; and two that are one to both.
#[test]
fn colliding_keys_keep_their_own_locations_when_they_move() {
    let policy = Policy { capacity: 64, window: 500, sample: 1, factor: 1.5, moves: 64 };
    for device in backends() {
        let cpu = Arc::new(Batch::new(BatchOptions { threads: 1, ..Default::default() }));
        let cold = Shape::for_keys(4000).expect("fits");
        let mut both = HotCold::new(cpu, device, cold, policy).expect("room");
        let twins: Vec<u64> = (0..20).map(|number| key_of(number << 5, 1 << 20 | 3)).collect();
        assert!(twins.iter().all(|&key| cold.hash(key).signature() == 1 << 20 | 3));
        let others: Vec<u64> = (0..300).collect();
        let all: Vec<u64> = twins.iter().chain(&others).copied().collect();
        let mut model: HashMap<u64, u32> = all.iter().copied().zip(100..).collect();
        let pairs: Vec<(u64, u32)> = all.iter().map(|key| (*key, model[key])).collect();
        assert!(both.insert(&pairs).expect("room").iter().all(|answer| answer.former == NONE));
        let mut random = Mix::seeded(seed("twins", 3));
        let mut late = None;
        for round in 0..60 {
            // Twins are hot, then cold, then hot.
            let hot = if round / 20 % 2 == 0 { &twins } else { &others };
            let keys: Vec<u64> = (0..200)
                // One twin is hotter than the others: there is room for one of them.
                .map(|_| match random.below(8) {
                    0 => all[random.below(320) as usize],
                    1..4 => hot[0],
                    _ => hot[random.below(20) as usize],
                })
                .collect();
            for (key, location) in keys.iter().zip(both.lookup(&keys).expect("works")) {
                assert_eq!(location, model[key], "round {round} key {key:x}");
            }
            if round == 15 {
                // The twin of a hot key in both tables: the cold one has it while the other is away.
                let (hot, cold) = (both.served(), key_of(1 << 20, 1 << 20 | 3));
                let answer = both.insert(&[(cold, 7)]).expect("room")[0];
                late = (answer.former == NONE).then_some(cold);
                model.insert(cold, 7);
                assert!(hot.0 > 0);
            }
            if let Some(key) = late {
                assert_eq!(both.lookup(&[key]).expect("works"), [7], "round {round}");
                assert_eq!(
                    both.lookup(&twins).expect("works"),
                    twins.iter().map(|key| model[key]).collect::<Vec<_>>()
                );
            }
        }
        assert!(late.is_some(), "the first twin was not hot: this test says nothing");
        assert!(both.insert(&[(1, NONE)]).is_err());
        assert_eq!(both.lookup(&[1]).expect("works"), [model[&1]]);
    }
}

#[test]
fn a_uniform_load_is_seen_and_does_not_churn() {
    let cpu = backends()[0].clone();
    let policy = Policy { capacity: 64, window: 2000, sample: 1, factor: 4.0, moves: 16 };
    let mut both =
        HotCold::new(cpu.clone(), cpu, Shape::for_keys(4000).expect("fits"), policy).expect("room");
    both.insert(&(0..500).map(|key| (key, key as u32)).collect::<Vec<_>>()).expect("room");
    let mut random = Mix::seeded(seed("uniform", 2));
    for _ in 0..60 {
        let keys: Vec<u64> = (0..1000).map(|_| random.below(500)).collect();
        both.lookup(&keys).expect("works");
    }
    assert_eq!(both.skew(), Skew::Uniform);
    assert!(both.moved() < 200, "{}", both.moved());
    let none = Policy { capacity: 0, ..policy };
    let cpu = backends()[0].clone();
    assert!(HotCold::new(cpu.clone(), cpu, Shape::for_keys(9).expect("fits"), none).is_err());
}

#[test]
fn microbenchmarks_measure_every_device() {
    let options = Options { bytes: 1 << 20, repeats: 1, batch_max: 1000, seed: 1 };
    for device in backends() {
        for (study, _) in STUDIES {
            match run(&device, study, options) {
                Ok(points) => assert!(points.iter().all(|point| point.value >= 0.0) && !points.is_empty()),
                Err(error) => {
                    assert!(study == "gpu-mapped" && error.to_string().contains("can't reach"), "{error}")
                }
            }
        }
        assert!(run(&device, "gpu-nothing", options).is_err());
    }
}
