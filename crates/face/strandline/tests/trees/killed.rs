//! A process is killed, the next one opens the map, and then the power fails. What the first one had stored
//! and not flushed was in the caches until then: the second one reads it, and may not build on it before it
//! is durable.

use std::collections::{BTreeMap, BTreeSet};

use pmem::Os;
use space::conformance::Powered;
use space::sim::Schedule;
use space::{Env, Image, Observer, Space};
use strandline::check::{self, Check, Crash};
use strandline::crash::Platform;

use crate::desk::{Scenario, Step, Subject, pairs};

/// Kills of a scenario that are tried, and keys that the second process takes out.
const KILLS: usize = 24;
const REMOVES: usize = 10;

/// The moment of a kill.
struct Kill {
    durable: Vec<u8>,
    newest: Vec<u8>,
    /// Steps that had ended.
    steps: usize,
}

fn words(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    (0..).step_by(8).zip(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)))
}

/// Kills before each fence.
fn kills<M: Subject>(map: M, steps: &[Step]) -> Vec<Kill> {
    let space = Powered::new(M::BYTES);
    words(&map.space().to_bytes()).for_each(|(at, word)| space.store_u64(at, word));
    space.persist(0, M::BYTES);
    let env = Os::new(&space);
    drop(map.create(&env).expect("room for a map"));
    let first = space.cuts();
    let map = map.open(&env).expect("a map");
    for step in steps {
        let done = match *step {
            Step::Insert(key, value) => map.insert(key, value),
            Step::Remove(key) => map.remove(key),
        };
        done.expect("room");
        space.end_step();
    }
    drop(map);
    let (mut kills, mut durable) = (Vec::new(), None);
    for cut in space.into_cuts().into_iter().skip(first) {
        let oldest = durable.get_or_insert_with(|| cut.bytes.clone());
        if cut.newest {
            kills.push(Kill {
                durable: std::mem::take(oldest),
                newest: cut.bytes,
                steps: cut.steps as usize,
            });
            durable = None;
        }
    }
    kills
}

/// What goes wrong after a kill, if anything.
fn after<M: Subject>(map: M, steps: &[Step], kill: &Kill) -> Option<String> {
    let before = pairs(&map.open(&Os::new(Image::from_bytes(&kill.newest))).expect("it can be recovered"));
    let removed: Vec<u64> = before.keys().copied().take(REMOVES).collect();
    let run = check::record_on(Image::from_bytes(&kill.durable), Platform::ADR, &Schedule::walk(1), |env| {
        let space = env.space();
        for ((at, word), (_, durable)) in words(&kill.newest).zip(words(&kill.durable)) {
            if word != durable {
                space.store_u64(at, word);
            }
        }
        space.observer().region_begin(1);
        let map = map.open(env).expect("it can be recovered");
        space.observer().region_end(1);
        for (number, key) in (2..).zip(&removed) {
            space.observer().region_begin(number);
            map.remove(*key).expect("it is there");
            space.observer().region_end(number);
        }
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    // What had ended, and the key of the step that had not.
    let mut ended_steps = BTreeMap::new();
    steps[..kill.steps].iter().for_each(|step| step.apply(&mut ended_steps));
    let unfinished = steps.get(kill.steps).map(|step| match *step {
        Step::Insert(key, _) | Step::Remove(key) => key,
    });
    let judge = |found: BTreeMap<u64, u64>, crash: Crash<'_>| {
        let (begun, ended) = (crash.begun(), crash.ended());
        for key in before.keys().chain(found.keys()).copied().collect::<BTreeSet<u64>>() {
            let (was, is) = (before.get(&key), found.get(&key));
            let number = removed.iter().position(|removed| *removed == key).map(|at| at as u64 + 2);
            let right = match number {
                Some(number) if number <= ended => is.is_none(),
                Some(number) if number <= begun => is.is_none() || is == was,
                // Until it was recovered, what the first process had not finished may be as before or done.
                _ => is == was || ended == 0 && unfinished == Some(key) && is == ended_steps.get(&key),
            };
            if !right {
                return Err(format!(
                    "key {key:x} was {was:x?} and is {is:x?} after {ended} of the second process"
                ));
            }
        }
        Ok(())
    };
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = 12;
    check.checker.bounds.findings = 1;
    let outcome = check.run(|image, crash| {
        let env = Os::new(image);
        let map = map.open(&env).map_err(|error| error.to_string())?;
        judge(pairs(&map), crash)
    });
    (!outcome.findings.is_empty()).then(|| check.story(&outcome))
}

/// What goes wrong in a scenario of one thread, if anything.
pub fn killed<M: Subject>(map: M, scenario: &Scenario) -> Option<String> {
    let [steps] = &scenario[..] else { panic!("a scenario of one thread") };
    let kills = kills(map, steps);
    let each = kills.len().div_ceil(KILLS);
    kills.iter().step_by(each).find_map(|kill| after(map, steps, kill))
}

/// A map keeps what it promises.
pub fn holds_killed<M: Subject>(map: M, scenario: &Scenario) {
    if let Some(story) = killed(map, scenario) {
        panic!("{story}");
    }
}
