//! `Sim`: it keeps the contracts, one schedule gives one stream, and what goes wrong is found and repeats.

use event::{Collected, Discard};
use space::sim::{Accesses, Run, Schedule, Sim, Strategy, run};
use space::{Env, Image, Recorded, Recording, Scratch, Space, conformance};

/// A recording of a fresh image into memory.
fn recorded(len: u64) -> Recorded<Image, Collected> {
    let recording = Recording { values: true, ..Recording::persistent("test", "space") };
    Recorded::new(Image::new(len), Collected::default(), &recording).expect("the sink takes everything")
}

fn strategies() -> [Strategy; 5] {
    [
        Strategy::Walk,
        Strategy::Pct { depth: 1, decisions: 500 },
        Strategy::Pct { depth: 3, decisions: 500 },
        Strategy::Turns,
        Strategy::Stay,
    ]
}

fn schedules() -> impl Iterator<Item = Schedule> {
    let accesses = [Accesses::Never, Accesses::OneIn(7), Accesses::Every];
    let with =
        move |strategy, seed| accesses.map(|accesses| Schedule::new(strategy, seed).at_accesses(accesses));
    strategies()
        .into_iter()
        .flat_map(move |strategy| [1, 2].into_iter().flat_map(move |seed| with(strategy, seed)))
}

#[test]
fn it_keeps_the_contract_of_an_environment() {
    for schedule in schedules() {
        conformance::environment(|| Sim::new(Image::new(64), &schedule));
    }
    let recording = Recording::persistent("test", "space");
    conformance::environment(|| {
        let space = Recorded::new(Image::new(64), Discard, &recording).expect("the sink takes everything");
        Sim::new(space, &Schedule::walk(3))
    });
    conformance::environment(|| Sim::new(Scratch::new(64), &Schedule::walk(3)));
}

#[test]
fn its_space_keeps_the_contract_of_a_space() {
    for test in conformance::tests() {
        test(Sim::new(Image::new(conformance::LEN), &Schedule::walk(1)).space());
    }
    for test in conformance::tests() {
        test(Sim::new(recorded(conformance::LEN), &Schedule::walk(1)).space());
    }
}

/// Threads that meet in every way there is.
fn scenario<S: Space>(env: &Sim<S>) -> u64 {
    let (sum, ready, table) = (env.mutex(0u64), env.condvar(), env.rw_lock(0u64));
    env.threads(4, |index| {
        for round in 0..10 {
            let at = 64 * u64::from(index);
            env.space().store_u64(at, env.random());
            env.space().persist(at, 8);
            let mut found = env.space().load_u64(512);
            while let Err(other) = env.space().cas_u64(512, found, found + 1) {
                found = other;
            }
            if index == 0 {
                *env.write(&table) += env.now_ns();
            } else {
                env.space().store_u64(520, *env.read(&table));
            }
            let mut sum = env.lock(&sum);
            *sum += 1;
            if *sum == 4 * (round + 1) {
                env.notify_all(&ready);
            }
            while *sum < 4 * (round + 1) {
                sum = env.wait(&ready, sum);
            }
        }
    });
    env.space().load_u64(520)
}

/// The stream of a run, printed.
fn stream(schedule: &Schedule) -> (String, Run<u64, ()>) {
    let Run { result, token, explicit, space } = run(recorded(4096), schedule, scenario);
    let (_, collected) = space.finish().expect("the sink takes everything");
    (format!("{collected:?}"), Run { result, token, explicit, space: () })
}

#[test]
fn one_schedule_gives_one_stream() {
    let mut streams = Vec::new();
    for schedule in schedules() {
        let (first, ran) = stream(&schedule);
        let (second, again) = stream(&schedule);
        assert!(first == second, "{schedule} gives two streams");
        assert_eq!((&ran.result, &ran.token), (&again.result, &again.token));
        assert!(ran.result.is_ok(), "{schedule}: {:?}", ran.result);
        streams.push(first);
    }
    streams.sort();
    streams.dedup();
    // All differ, but that `Stay` and priorities that never change have no use for decisions at accesses: two
    // of their three schedules of a seed are not new.
    assert_eq!(streams.len(), schedules().count() - 2 * 2 * 2, "schedules differ");
}

#[test]
fn a_token_and_its_list_of_switches_give_the_same_stream() {
    for schedule in schedules() {
        let (first, ran) = stream(&schedule);
        for token in [&ran.token, &ran.explicit] {
            let parsed: Schedule = token.to_string().parse().expect("what was printed can be read");
            assert_eq!(parsed, *token);
            let (again, replayed) = stream(&parsed);
            assert_eq!(replayed.result, ran.result, "{token}");
            assert!(first == again, "{token} gives another stream");
        }
    }
}

#[test]
fn a_stream_has_the_order_of_the_run() {
    for seed in 0..20 {
        let schedule = Schedule::walk(seed).at_accesses(Accesses::Every);
        // Plain stores that race for four words: who is last shows in the image.
        let ran = run(recorded(64), &schedule, |env| {
            env.threads(3, |_| (0..10).for_each(|round| env.space().store_u64(round % 4 * 8, env.random())));
        });
        let (space, collected) = ran.space.finish().expect("the sink takes everything");
        let retold = Image::new(64);
        let mut values = collected.values.as_chunks::<8>().0.iter();
        for (addr, _) in collected.events.iter().filter_map(|(_, event)| event.op.stored()) {
            let value = values.next().expect("each store has its value");
            retold.store_u64(addr - Recorded::<Image, Collected>::BASE, u64::from_le_bytes(*value));
        }
        assert_eq!(retold.to_bytes(), space.to_bytes(), "seed {seed}");
    }
}

#[test]
fn chance_does_not_depend_on_the_order() {
    let drawn = |schedule: &Schedule| {
        let ran = run(Image::new(64), schedule, |env| {
            env.threads(3, |index| env.space().store_u64(8 * u64::from(index), env.random()));
        });
        ran.space.to_bytes()
    };
    let walk = Schedule::walk(5).at_accesses(Accesses::Every);
    assert_eq!(drawn(&walk), drawn(&Schedule::new(Strategy::Turns, 5)));
    assert_ne!(drawn(&walk), drawn(&Schedule::walk(6)));
}

#[test]
fn the_clock_counts_events() {
    let sim = Sim::new(Image::new(64), &Schedule::walk(1));
    let start = sim.now_ns();
    sim.space().load_u64(0);
    sim.space().store_u64(0, 1);
    assert_eq!(sim.now_ns() - start, 3 * Sim::<Image>::EVENT_NS);
}

/// Two threads: one tries again and again until the other, after 100 stores, has written a 1.
fn spin(schedule: &Schedule, events: u64, again: impl Fn(&Sim<Image>) -> bool + Sync) {
    let ran = run(Image::new(64), &schedule.clone().at_most(events), |env| {
        env.threads(2, |index| match index {
            0 => while again(env) {},
            _ => (0..=100).for_each(|round| env.space().store_u64(0, if round == 100 { 1 } else { 0 })),
        });
    });
    assert_eq!(ran.result, Ok(()), "{schedule}");
}

#[test]
fn whoever_spins_lets_the_others_work() {
    // More seeds, so that with priorities the one that spins is sometimes ahead.
    let priorities = |seed| Schedule::new(Strategy::Pct { depth: 1, decisions: 500 }, seed);
    let more = (3..10).map(|seed| priorities(seed).at_accesses(Accesses::Every));
    for schedule in schedules().chain(more) {
        // A swap that fails gives way at once.
        spin(&schedule, 1000, |env| env.space().cas_u64(0, 1, 2).is_err());
        // Loads give way when patience ends, and then not only for one step.
        spin(&schedule, 25_000, |env| env.space().load_u64(0) == 0);
    }
}

#[test]
fn two_simulations_in_turn_on_one_thread() {
    let (a, b) = (Sim::new(recorded(64), &Schedule::walk(1)), Sim::new(recorded(64), &Schedule::walk(1)));
    for _ in 0..3 {
        a.threads(2, |_| b.space().inner().store_u64(0, 1));
        b.threads(2, |_| a.space().inner().store_u64(0, 1));
    }
    assert_eq!(a.token(), b.token());
}

#[test]
#[should_panic(expected = "only threads that the environment started")]
fn a_thread_from_elsewhere_is_refused() {
    let sim = Sim::new(Image::new(64), &Schedule::walk(1));
    sim.threads(2, |_| {
        std::thread::scope(|scope| {
            let lost = scope.spawn(|| sim.now_ns()).join();
            std::panic::resume_unwind(lost.expect_err("it is not one of ours"));
        });
    });
}
