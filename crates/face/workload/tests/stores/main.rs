//! Key-value engines keep what they acknowledged in every legal crash image, and the checker finds what their
//! broken twins lose.

mod commands;
mod killed;
mod scene;

use kv::{Durable, Engine, Flaw, Options, Placement};
use scene::{Scenario, Step, batch, delete, put};

fn options(engine: Engine, durable: Durable) -> Options {
    Options {
        engine,
        durable: Some(durable),
        chunk: 1 << 10,
        lanes: 2,
        shards: 2,
        queue: 0,
        ..Options::default()
    }
}

/// With the index in the file.
fn indexed(engine: Engine) -> Options {
    Options { index: Placement::Persistent, ..options(engine, Durable::AtOnce) }
}

fn with(engine: Engine, flaw: Flaw) -> Options {
    Options { flaw: Some(flaw), ..options(engine, Durable::AtOnce) }
}

const ENGINES: [Engine; 2] = [Engine::Log, Engine::Slab];

/// Versions of a few keys, deletes, long values, garbage that is collected.
fn alone() -> Scenario {
    let mut steps = vec![put("a", 1, 60), put("b", 2, 10), delete("a"), put("a", 3, 200), put("c", 4, 1500)];
    for round in 0..4 {
        steps.extend([put("a", 10 + round, 150), put("b", 20 + round, 250), put("d", 30 + round, 90)]);
        steps.push(Step::Collect);
    }
    steps.extend([delete("c"), delete("b"), put("c", 5, 40), delete("d"), Step::Collect, put("b", 6, 100)]);
    Scenario { before: Vec::new(), threads: vec![steps] }
}

/// Two threads with keys of their own and one that they share.
fn company() -> Scenario {
    let before = vec![put("k", 1, 100), put("x", 2, 100), put("l", 3, 60)];
    let first =
        vec![put("k", 11, 100), put("a", 12, 300), put("a", 13, 200), put("l", 14, 60), Step::Collect];
    let second = vec![put("x", 21, 100), delete("k"), delete("x"), put("b", 23, 300), put("b", 24, 250)];
    Scenario { before, threads: vec![first, second] }
}

/// Batches over new, old and deleted keys.
fn batches() -> Scenario {
    let steps = vec![
        put("a", 1, 30),
        put("b", 2, 30),
        batch(&[("a", Some((3, 40))), ("b", None), ("c", Some((4, 100)))]),
        put("b", 5, 200),
        batch(&[("a", None), ("b", Some((6, 30))), ("d", Some((7, 30)))]),
        Step::Collect,
        batch(&[("c", None), ("d", None), ("a", Some((8, 600)))]),
        put("d", 9, 20),
    ];
    Scenario { before: Vec::new(), threads: vec![steps] }
}

/// Closed in order and opened again, with changes before, behind and in between, or none.
fn closed() -> Scenario {
    let steps = vec![
        put("a", 1, 150),
        put("b", 2, 250),
        delete("a"),
        put("c", 3, 1500),
        put("d", 4, 30),
        Step::Reopen,
        put("b", 5, 200),
        delete("d"),
        Step::Reopen,
        Step::Reopen,
        batch(&[("a", Some((6, 40))), ("c", None)]),
        put("e", 7, 150),
        put("e", 8, 140),
        Step::Collect,
        Step::Reopen,
        delete("e"),
        put("d", 9, 90),
    ];
    Scenario { before: Vec::new(), threads: vec![steps] }
}

#[test]
fn a_store_keeps_what_it_acknowledged() {
    for engine in ENGINES {
        alone().holds(&options(engine, Durable::AtOnce), 1);
        alone().holds(&indexed(engine), 1);
    }
}

#[test]
fn threads_do_not_lose_each_others_changes() {
    for engine in ENGINES {
        company().holds(&options(engine, Durable::AtOnce), 4);
        company().holds(&indexed(engine), 4);
    }
}

#[test]
fn batches_are_whole_or_not_there() {
    for engine in ENGINES {
        batches().holds(&options(engine, Durable::AtOnce), 1);
        batches().holds(&indexed(engine), 1);
    }
}

#[test]
fn what_was_waited_for_is_there() {
    for engine in ENGINES {
        for scenario in [alone(), batches(), company()] {
            scenario.with_syncs(3).holds(&options(engine, Durable::WhenWaited), 2);
        }
    }
}

#[test]
fn what_closing_leaves_holds_for_one_opening() {
    for engine in ENGINES {
        closed().holds(&options(engine, Durable::AtOnce), 1);
        closed().holds(&options(engine, Durable::WhenWaited), 1);
        closed().holds(&indexed(engine), 1);
    }
}

#[test]
fn mistakes_are_caught() {
    for engine in ENGINES {
        closed().breaks(&with(engine, Flaw::ClosedWhileOpen), 1);
        closed().breaks(&with(engine, Flaw::ClosedEarly), 1);
        alone().breaks(&with(engine, Flaw::NotFenced), 1);
        alone().breaks(&with(engine, Flaw::ShortChecksum), 1);
        alone().breaks(&Options { flaw: Some(Flaw::IndexFirst), ..indexed(engine) }, 1);
    }
    alone().breaks(&with(Engine::Log, Flaw::FreedBeforeCopied), 1);
    alone().breaks(&with(Engine::Slab, Flaw::ClearedTooEarly), 1);
    company().breaks(&with(Engine::Slab, Flaw::SlotReusedEarly), 16);
}
