//! What a simulated run does when something is wrong with the program: it ends, says what, and does so again.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use event::{Collected, Op};
use space::sim::{Accesses, Divergence, Exception, Failure, Run, Schedule, Sim, Strategy, run};
use space::{Env, Image, Recorded, Recording, Space};

/// The line above [`crossed`].
const CROSSED: u32 = line!();
/// Two threads, two locks, two orders.
fn crossed<S: Space>(env: &Sim<S>) {
    let (a, b) = (env.mutex(()), env.mutex(()));
    env.threads(2, |index| {
        let (first, second) = if index == 0 { (&a, &b) } else { (&b, &a) };
        let _first = env.lock(first);
        let _second = env.lock(second);
    });
}

fn first_failing(
    scenario: impl Fn(&Sim<Image>),
    schedules: impl Iterator<Item = Schedule>,
) -> Run<(), Image> {
    let mut runs = schedules.map(|schedule| run(Image::new(64), &schedule, &scenario));
    runs.find(|run| run.result.is_err()).expect("one of the schedules fails")
}

#[test]
fn a_deadlock_says_who_waits_for_what_and_repeats() {
    let failing = first_failing(crossed, (0..100).map(Schedule::walk));
    let Err(failure @ Failure::Deadlock(waiting)) = &failing.result else { panic!("{:?}", failing.result) };
    assert_eq!(waiting.iter().map(|waiting| waiting.thread).collect::<Vec<_>>(), [0, 1, 2]);
    let text = failure.to_string();
    let line = |below: u32| format!("crates/base/space/tests/suite/sim_failures.rs:{}", CROSSED + below);
    let (made, started, first, second) = (line(3), line(4), line(6), line(7));
    for part in [
        format!("thread 0 at {started} waits for the end of thread "),
        format!("thread 1 at {second} waits for mutex 1 (made at {made}), held by thread 2 since {first}"),
        format!("thread 2 at {second} waits for mutex 0 (made at {made}), held by thread 1 since {first}"),
    ] {
        assert!(text.contains(&part), "{part} is not in {text}");
    }
    for token in [&failing.token, &failing.explicit] {
        let replayed = run(Image::new(64), &token.to_string().parse().expect("a token"), crossed);
        assert_eq!(replayed.result, failing.result, "{token}");
        assert_eq!(replayed.token.exceptions(), token.exceptions());
    }
}

#[test]
fn one_switch_is_enough_for_a_deadlock_and_all_single_switches_can_be_tried() {
    let stay = Schedule::new(Strategy::Stay, 0).at_accesses(Accesses::Never);
    assert_eq!(run(Image::new(64), &stay, crossed).result, Ok(()));
    let switches = (0..20).flat_map(|decision| (0..3).map(move |thread| Exception { decision, thread }));
    let deadlocks = switches.filter(|&switch| {
        let schedule = stay.clone().with_exceptions(vec![switch]);
        let ran = run(Image::new(64), &schedule, crossed);
        let deadlock = matches!(ran.result, Err(Failure::Deadlock(_)));
        if deadlock {
            assert_eq!(ran.explicit.exceptions(), [switch]);
        }
        deadlock
    });
    // When the first thread has one lock and goes for the other, the second one has to go on.
    assert!(deadlocks.count() >= 1);
}

#[test]
fn a_thread_that_waits_for_itself_is_a_deadlock() {
    let ran = run(Image::new(64), &Schedule::walk(1), |env| {
        let lock = env.rw_lock(());
        let _read = env.read(&lock);
        let _write = env.write(&lock);
    });
    let failure = ran.result.expect_err("it waits for itself").to_string();
    assert!(
        failure.contains("waits for readers-writer lock 0") && failure.contains("held by thread 0"),
        "{failure}"
    );
}

#[test]
fn a_lost_notification_is_a_deadlock() {
    let scenario = |env: &Sim<Image>| {
        let (ready, changed) = (AtomicBool::new(false), env.condvar());
        let lock = env.mutex(());
        env.threads(2, |index| {
            if index == 0 {
                // Looked at without the lock: the notification may come between this and the wait.
                if !ready.load(Relaxed) {
                    drop(env.wait(&changed, env.lock(&lock)));
                }
            } else {
                ready.store(true, Relaxed);
                env.notify_one(&changed);
            }
        });
    };
    let failing = first_failing(scenario, (0..100).map(Schedule::walk));
    let text = failing.result.expect_err("it failed").to_string();
    assert!(text.contains("waits for a notification of condition variable 0 (made at"), "{text}");
}

#[test]
fn priorities_find_what_needs_a_depth() {
    // The reader must be stopped between its two loads, and the writer must run to its end there.
    let torn = |env: &Sim<Image>| {
        env.threads(2, |index| {
            if index == 0 {
                let before = env.space().load_u64(0);
                assert_eq!(before, env.space().load_u64(8), "torn");
            } else {
                env.space().store_u64(0, 1);
                env.space().store_u64(8, 1);
            }
        });
    };
    let schedules = |depth| {
        let strategy = Strategy::Pct { depth, decisions: 10 };
        (0..200).map(move |seed| Schedule::new(strategy, seed).at_accesses(Accesses::Every))
    };
    let found = |depth| schedules(depth).filter(|it| run(Image::new(64), it, torn).result.is_err()).count();
    assert_eq!(found(1), 0, "without a change one thread runs after the other");
    // The chance is at least 1 in 2 threads x 10 decisions.
    assert!(found(2) >= 10, "{}", found(2));
}

#[test]
fn a_run_without_end_is_ended() {
    let schedule = Schedule::walk(1).at_most(5000);
    let ran = run(Image::new(64), &schedule, |env| while env.space().load_u64(0) == 0 {});
    let Err(Failure::Endless { events: 5000, thread: 0, at }) = &ran.result else {
        panic!("{:?}", ran.result)
    };
    assert!(at.contains("sim_failures.rs"), "{at}");
    let locks = run(Image::new(64), &schedule, |env| {
        let lock = env.mutex(());
        env.threads(2, |_| {
            loop {
                drop(env.lock(&lock));
            }
        });
    });
    assert!(matches!(locks.result, Err(Failure::Endless { events: 5000, .. })), "{:?}", locks.result);
    let short = run(Image::new(64), &schedule, |env| (0..4000).for_each(|_| _ = env.space().load_u64(0)));
    assert_eq!(short.result, Ok(()));
}

#[test]
fn a_panic_of_a_thread_is_the_result() {
    let ran = run(Image::new(64), &Schedule::walk(1), |env| {
        env.threads(3, |index| assert_ne!(index, 1, "thread {index} was asked to"));
    });
    let Err(Failure::Panicked(message)) = &ran.result else { panic!("{:?}", ran.result) };
    assert!(message.contains("thread 1 was asked to"), "{message}");
}

#[test]
fn every_thread_unwinds_and_tells_its_end() {
    let recorded = || {
        let recording = Recording::persistent("test", "space");
        Recorded::new(Image::new(64), Collected::default(), &recording).expect("the sink takes everything")
    };
    // Threads within threads, and a destructor that takes a lock which a thread that gives up later still
    // holds.
    struct Takes<'a, E: Env>(&'a E, &'a E::Mutex<u32>);
    impl<E: Env> Drop for Takes<'_, E> {
        fn drop(&mut self) {
            *self.0.lock(self.1) += 1;
        }
    }
    let ended = std::sync::atomic::AtomicU32::new(0);
    let scenario = |env: &Sim<Recorded<Image, Collected>>| {
        let (gate, opened, counted) = (env.mutex(()), env.condvar(), env.mutex(0));
        env.threads(2, |outer| {
            let _takes = Takes(env, &counted);
            env.threads(2, |inner| {
                let _ended = scopeguard(|| _ = ended.fetch_add(1, Relaxed));
                let _takes = (outer == 1).then(|| Takes(env, &counted));
                let held = (outer == 0 && inner == 0).then(|| env.lock(&counted));
                drop(env.wait(&opened, env.lock(&gate)));
                drop(held);
            });
        });
    };
    for seed in 0..20 {
        ended.store(0, Relaxed);
        let ran = run(recorded(), &Schedule::walk(seed), scenario);
        assert!(matches!(ran.result, Err(Failure::Deadlock(_))), "{:?}", ran.result);
        assert_eq!(ended.load(Relaxed), 4, "all destructors ran");
        let (_, collected) = ran.space.finish().expect("the sink takes everything");
        let count =
            |wanted: fn(&Op) -> bool| collected.events.iter().filter(|(_, event)| wanted(&event.op)).count();
        assert_eq!(count(|op| matches!(op, Op::ThreadStart { .. })), 7);
        assert_eq!(count(|op| matches!(op, Op::ThreadEnd { .. })), 7);
        assert_eq!(count(|op| matches!(op, Op::Lock { .. })), count(|op| matches!(op, Op::Unlock { .. })));
        let again = run(recorded(), &Schedule::walk(seed), scenario);
        let (_, again) = again.space.finish().expect("the sink takes everything");
        assert_eq!(collected.events, again.events, "a failing run repeats, too");
    }
}

/// Runs `act` when it is dropped.
fn scopeguard(act: impl Fn()) -> impl Drop {
    struct Guard<F: Fn()>(F);
    impl<F: Fn()> Drop for Guard<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Guard(act)
}

#[test]
#[should_panic(expected = "the schedule was sim1-walk-s7-a16-c")]
fn outside_of_run_a_deadlock_is_a_panic_of_the_first_thread() {
    let env = Sim::new(Image::new(64), &Schedule::walk(7));
    let lock = env.mutex(());
    env.threads(2, |_| std::mem::forget(env.lock(&lock)));
}

/// So many rounds of a lock and two accesses on each of three threads.
fn rounds(env: &Sim<Image>, rounds: u64, extra: impl Fn(u64) + Sync) {
    let lock = env.mutex(());
    env.threads(3, |_| {
        for round in 0..rounds {
            let _held = env.lock(&lock);
            env.space().store_u64(0, round);
            extra(round);
        }
    });
}

#[test]
fn a_token_of_another_program_says_where_they_part() {
    let token = run(Image::new(64), &Schedule::walk(4), |env| rounds(env, 50, |_| ())).token;
    let replay = |count, at: u64, accesses| {
        run(Image::new(64), &token, |env| {
            rounds(env, count, |round| {
                (0..accesses).for_each(|_| {
                    if round >= at {
                        env.space().load_u64(8);
                    }
                })
            });
        })
        .result
    };
    assert_eq!(replay(50, 0, 0), Ok(()));
    let Err(Failure::Diverged(Divergence::Shorter { made, decisions })) = replay(49, 0, 0) else {
        panic!("a program that ends early fits")
    };
    assert!(made < decisions && made > decisions / 2);
    for (count, at, accesses) in [(50, 0, 1), (50, 20, 1), (50, 49, 1), (49, 0, 0), (60, 0, 0)] {
        let failure = replay(count, at, accesses).expect_err("it is another program");
        assert!(matches!(failure, Failure::Diverged(_)), "{failure}");
        assert!(failure.to_string().contains("does not fit the program"), "{failure}");
    }
    // The later it is another program, the more of the token fits.
    let same = |at| match replay(50, at, 1) {
        Err(Failure::Diverged(Divergence::Decisions { same, different, .. })) => (same, different),
        other => panic!("{other:?}"),
    };
    assert!(same(0).0 < same(5).0 && same(5).0 < same(20).0 && same(20).0 < same(20).1);
}

#[test]
fn an_exception_for_a_thread_that_cant_go_on_is_refused() {
    let schedule =
        Schedule::new(Strategy::Stay, 0).with_exceptions(vec![Exception { decision: 1, thread: 7 }]);
    let Err(Failure::Diverged(divergence)) =
        run(Image::new(64), &schedule, |env| rounds(env, 3, |_| ())).result
    else {
        panic!("there is no thread 7")
    };
    let Divergence::NotACandidate { decision: 1, wanted: 7, candidates, at } = &divergence else {
        panic!("{divergence}")
    };
    assert!(
        candidates.len() > 1 && !candidates.contains(&7) && at.contains("sim_failures.rs"),
        "{divergence}"
    );
}

#[test]
fn an_exception_that_is_never_reached_is_refused() {
    let schedule =
        Schedule::new(Strategy::Stay, 0).with_exceptions(vec![Exception { decision: 1 << 40, thread: 0 }]);
    let ran = run(Image::new(64), &schedule, |env| rounds(env, 3, |_| ()));
    assert!(matches!(ran.result, Err(Failure::Diverged(Divergence::Unreached { .. }))), "{:?}", ran.result);
}
