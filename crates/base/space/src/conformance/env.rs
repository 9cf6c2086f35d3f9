//! The contract of [`Env`] as code.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::{Env, Space};

/// Runs every test of the suite. `make` makes an environment around a fresh space of at least 64 bytes.
pub fn environment<E: Env>(make: impl Fn() -> E) {
    locks_exclude(&make());
    latches_exclude(&make());
    threads_keep_their_numbers(&make());
    writers_exclude_readers(&make());
    every_thread_runs_once_and_may_start_others(&make());
    a_panic_waits_for_the_others(&make());
    a_lock_outlives_a_panic(&make());
    a_queue_hands_everything_over(&make());
    a_barrier_lets_all_go(&make());
    nobody_waits_for_a_notification_that_nobody_needs(&make());
    swaps_lose_nothing(&make());
    clock_and_randomness(&make());
    the_space_comes_back(make());
}

fn locks_exclude<E: Env>(env: &E) {
    let (sum, shared) = (env.mutex(0u64), env.rw_lock(0u64));
    env.threads(4, |_| {
        for _ in 0..200 {
            // What is read must still be there when it is written.
            let mut sum = env.lock(&sum);
            let before = *sum;
            env.space().load_u64(0);
            *sum = before + 1;
            drop(sum);
            *env.write(&shared) += 1;
        }
    });
    assert_eq!((*env.lock(&sum), *env.read(&shared)), (800, 800));
}

fn latches_exclude<E: Env>(env: &E) {
    let sum = env.latch(0u64);
    env.threads(4, |_| {
        for _ in 0..200 {
            let mut sum = env.hold(&sum);
            let before = *sum;
            env.space().load_u64(0);
            *sum = before + 1;
        }
    });
    assert_eq!(*env.hold(&sum), 800);
}

fn threads_keep_their_numbers<E: Env>(env: &E) {
    let numbers = env.mutex(vec![env.thread_number()]);
    env.threads(3, |_| {
        let number = env.thread_number();
        env.space().load_u64(0);
        assert_eq!(env.thread_number(), number);
        env.lock(&numbers).push(number);
    });
    let mut numbers = env.lock(&numbers);
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "each has its own: {:?}", *numbers);
}

fn writers_exclude_readers<E: Env>(env: &E) {
    let lock = env.rw_lock(());
    env.threads(4, |index| {
        for round in 0..100 {
            if index == 0 {
                let _held = env.write(&lock);
                env.space().store_u64(0, round);
                env.space().store_u64(8, round);
            } else {
                let _held = env.read(&lock);
                assert_eq!(env.space().load_u64(0), env.space().load_u64(8), "half of what the writer wrote");
            }
        }
    });
}

fn every_thread_runs_once_and_may_start_others<E: Env>(env: &E) {
    let ran = [const { AtomicU32::new(0) }; 9];
    env.threads(3, |index| {
        ran[index as usize].fetch_add(1, Relaxed);
        env.threads(2, |inner| _ = ran[(3 + 2 * index + inner) as usize].fetch_add(1, Relaxed));
    });
    assert!(ran.iter().all(|ran| ran.load(Relaxed) == 1), "{ran:?}");
    env.threads(0, |_| panic!("no thread was asked for"));
}

fn a_panic_waits_for_the_others<E: Env>(env: &E) {
    let ended = AtomicU32::new(0);
    let run = || {
        env.threads(4, |index| {
            env.space().load_u64(0);
            assert_ne!(index, 1, "as asked");
            ended.fetch_add(1, Relaxed);
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "the panic of a thread is the caller's");
    assert_eq!(ended.load(Relaxed), 3);
}

fn a_lock_outlives_a_panic<E: Env>(env: &E) {
    let (mutex, lock) = (env.mutex(1), env.rw_lock(2));
    let holding = || {
        let (_mutex, _lock) = (env.lock(&mutex), env.write(&lock));
        panic!("as asked");
    };
    assert!(catch_unwind(AssertUnwindSafe(holding)).is_err());
    assert_eq!((*env.lock(&mutex), *env.read(&lock)), (1, 2));
}

fn a_queue_hands_everything_over<E: Env>(env: &E) {
    const EACH: u64 = 50;
    let (queue, taken) = (env.mutex(VecDeque::new()), env.mutex(Vec::new()));
    let (not_empty, not_full) = (env.condvar(), env.condvar());
    env.threads(4, |index| {
        for number in 0..EACH {
            let mut held = env.lock(&queue);
            if index < 2 {
                while held.len() == 3 {
                    held = env.wait(&not_full, held);
                }
                held.push_back(u64::from(index) * EACH + number);
                env.notify_one(&not_empty);
            } else {
                let value = loop {
                    match held.pop_front() {
                        Some(value) => break value,
                        None => held = env.wait(&not_empty, held),
                    }
                };
                env.notify_one(&not_full);
                drop(held);
                env.lock(&taken).push(value);
            }
        }
    });
    let mut taken = env.lock(&taken);
    taken.sort_unstable();
    assert_eq!(*taken, (0..2 * EACH).collect::<Vec<_>>());
}

fn a_barrier_lets_all_go<E: Env>(env: &E) {
    let (arrived, all_there) = (env.mutex(0), env.condvar());
    env.threads(5, |_| {
        for round in 1..=10 {
            let mut held = env.lock(&arrived);
            *held += 1;
            if *held == 5 * round {
                env.notify_all(&all_there);
            }
            while *held < 5 * round {
                held = env.wait(&all_there, held);
            }
        }
    });
    assert_eq!(*env.lock(&arrived), 50);
}

fn nobody_waits_for_a_notification_that_nobody_needs<E: Env>(env: &E) {
    let condvar = env.condvar();
    env.notify_one(&condvar);
    env.notify_all(&condvar);
}

fn swaps_lose_nothing<E: Env>(env: &E) {
    env.threads(4, |_| {
        for _ in 0..100 {
            let mut found = env.space().load_u64(0);
            while let Err(other) = env.space().cas_u64(0, found, found + 1) {
                found = other;
            }
        }
    });
    assert_eq!(env.space().load_u64(0), 400);
}

fn clock_and_randomness<E: Env>(env: &E) {
    let first = env.now_ns();
    assert!(env.now_ns() >= first, "the clock went back");
    assert_ne!(env.random(), env.random());
}

fn the_space_comes_back<E: Env>(env: E) {
    env.space().store_u64(8, 7);
    assert_eq!(env.into_space().load_u64(8), 7);
}
