//! A scenario that takes something from elsewhere than its environment is caught.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use event::Collected;
use space::sim::{Difference, Schedule, Sim, twice};
use space::{Env, Image, Observer, Recorded, Space};

type Kept = Sim<Recorded<Image, Collected>>;

fn honest(env: &Kept) -> u64 {
    let lock = env.mutex(());
    env.space().observer().phase("work");
    env.threads(3, |index| {
        for round in 0..20 {
            let _held = env.lock(&lock);
            env.space().store_u64(u64::from(index) * 8, env.random() ^ round);
            env.space().persist(0, 64);
        }
    });
    env.now_ns()
}

fn difference<R>(scenario: impl Fn(&Kept) -> R) -> Difference {
    twice(4096, &Schedule::walk(3), scenario).map(|_| ()).expect_err("it cheats")
}

#[test]
fn an_honest_scenario_is_the_same_twice() {
    let ran = twice(4096, &Schedule::walk(3), honest).expect("it is the same twice");
    assert!(ran.result.is_ok());
    assert_ne!(ran.space.load_u64(8), 0);
}

#[test]
fn one_that_fails_the_same_way_twice_is_honest() {
    let ran =
        twice(64, &Schedule::walk(3), |env| env.threads(2, |_| panic!("as asked"))).expect("the same twice");
    assert!(ran.result.is_err());
}

#[test]
fn the_order_of_a_hash_map() {
    let keys: HashMap<u64, u64> = (0..100).map(|key| (key, key)).collect();
    let scenario = |env: &Kept| {
        let copy: HashMap<u64, u64> = keys.clone().into_iter().collect();
        env.space().store_u64(0, 1);
        for &key in copy.keys() {
            env.space().load_u64(key * 8);
        }
    };
    let Difference::Event { number, first, second, schedule } = difference(scenario) else {
        panic!("the loads differ")
    };
    // Thread start, mapping, store; the first loads may happen to be alike.
    assert!((3..20).contains(&number), "{number}");
    assert!(
        first.starts_with("Load") && first != second && first.contains("sim_twice.rs:"),
        "{first}, {second}"
    );
    assert_eq!(schedule, "sim1-walk-s3-a16");
}

#[test]
fn an_address_as_a_value() {
    let kept = std::sync::Mutex::new(Vec::new());
    let text = difference(|env| {
        // Both live until the end, so that they differ.
        let boxed = Box::new(0u8);
        env.space().store_u64(0, std::ptr::from_ref(&*boxed).addr() as u64);
        kept.lock().expect("no panic").push(boxed);
    })
    .to_string();
    assert!(text.contains("event 2 of two runs") && text.contains("storing ["), "{text}");
}

#[test]
fn a_place_a_name_and_an_early_end() {
    let runs = AtomicU64::new(0);
    let odd = || runs.fetch_add(1, Relaxed) % 2 == 1;
    let here = |env: &Kept| env.space().load_u64(0);
    let there = |env: &Kept| env.space().load_u64(0);
    let place = difference(|env| if odd() { here(env) } else { there(env) }).to_string();
    assert!(place.contains("event 2 of two runs"), "{place}");
    let name =
        difference(|env| env.space().observer().phase(if odd() { "one" } else { "other" })).to_string();
    assert!(name.contains("named other") && name.contains("named one"), "{name}");
    let end = difference(|env| (0..if odd() { 1 } else { 2 }).for_each(|_| env.space().fence())).to_string();
    assert!(end.contains("then ThreadEnd"), "{end}");
}

#[test]
fn what_makes_no_event() {
    let runs = AtomicU64::new(0);
    let decisions = difference(|env| {
        let late = runs.fetch_add(1, Relaxed) == 1;
        env.threads(2, |_| {
            if late {
                _ = env.now_ns()
            }
        });
    });
    assert!(matches!(decisions, Difference::Decisions { .. } | Difference::Event { .. }), "{decisions}");
    let runs = AtomicU64::new(0);
    let ends = difference(|_| assert_ne!(runs.fetch_add(1, Relaxed), 1, "the second time"));
    assert!(matches!(ends, Difference::Ends { .. }), "{ends}");
}
