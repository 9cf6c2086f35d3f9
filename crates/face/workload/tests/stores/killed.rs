//! A process is killed, the next one opens the store, and then the power fails. What the first one had stored
//! and not flushed was in the caches until then: the second one finds it, and may not lose it afterwards.

use std::collections::BTreeSet;

use crash::{Bounds, Checker, Contents, MarkKind, Oracle, Platform, Recorder};
use kv::{Durable, Engine, Flaw, Options, Store};
use pmem::Os;
use space::conformance::Powered;
use space::sim::{Schedule, run};
use space::{Env, Image, Observer, Recorded, Recording, Scratch, Space};

use crate::scene::{BYTES, Pairs, pairs};
use crate::{indexed, options};

/// Kills of a run that are tried.
const KILLS: usize = 24;

/// The moment of a kill.
struct Kill {
    durable: Vec<u8>,
    newest: Vec<u8>,
    /// Changes that had ended.
    steps: usize,
}

/// A change: the key, and the number of its value or that it goes.
type Step = (&'static str, Option<u8>);

/// Keys that come, change, go and come back, with values of all lengths.
fn steps() -> Vec<Step> {
    let mut steps = vec![("a", Some(1)), ("b", Some(2)), ("c", Some(3))];
    for round in 0..4 {
        steps.extend([
            ("a", Some(10 + round)),
            ("b", None),
            ("c", Some(20 + round)),
            ("b", Some(30 + round)),
        ]);
        steps.extend([("d", Some(40 + round)), ("d", Some(50 + round)), ("a", None)]);
    }
    steps
}

fn value(number: u8) -> Vec<u8> {
    (0..20 + usize::from(number) * 7 % 190).map(|at| at as u8 ^ number).collect()
}

fn change<E: Env>(store: &Store<E, &E>, (key, number): Step) {
    match number {
        Some(number) => _ = store.put(key.as_bytes(), &value(number)).expect("room"),
        None => _ = store.delete(key.as_bytes()).expect("room"),
    }
}

fn apply(pairs: &mut Pairs, (key, number): Step) {
    match number {
        Some(number) => _ = pairs.insert(key.into(), value(number)),
        None => _ = pairs.remove(key.as_bytes()),
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    (0..).step_by(8).zip(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)))
}

/// Kills before each fence.
fn kills(options: &Options) -> Vec<Kill> {
    let space = Powered::new(BYTES);
    let first = {
        let env = Os::new(&space);
        let store = Store::create_on(&env, options).expect("room");
        let first = space.cuts();
        for step in steps() {
            change(&store, step);
            space.end_step();
        }
        first
    };
    let (mut kills, mut durable) = (Vec::new(), None);
    for cut in space.into_cuts().into_iter().skip(first) {
        let oldest = durable.get_or_insert_with(|| cut.bytes.clone());
        if cut.newest {
            let durable = std::mem::take(oldest);
            kills.push(Kill { durable, newest: cut.bytes, steps: cut.steps as usize });
        }
        durable = durable.filter(|_| !cut.newest);
    }
    kills
}

/// What goes wrong after a kill, if anything.
fn after(options: &Options, kill: &Kill) -> Option<String> {
    let sound = Options { flaw: None, ..options.clone() };
    let before = pairs(&Os::new(Image::from_bytes(&kill.newest)), &sound).expect("it can be recovered");
    let mut done = Pairs::new();
    steps()[..kill.steps].iter().for_each(|step| apply(&mut done, *step));
    let unfinished = steps().get(kill.steps).map(|(key, _)| key.as_bytes().to_vec());
    let recording = Recording { values: true, ..Recording::persistent("stores", "pool") };
    let recorder = Recorder::new(Platform::ADR);
    let space =
        Recorded::new(Image::from_bytes(&kill.durable), recorder, &recording).expect("it takes a recording");
    let ran = run(space, &Schedule::walk(1), |env| {
        let space = env.space();
        for ((at, word), (_, durable)) in words(&kill.newest).zip(words(&kill.durable)) {
            if word != durable {
                space.store_u64(at, word);
            }
        }
        space.observer().region_begin(1);
        let store = Store::open_on(env, options).expect("it can be recovered");
        space.observer().region_end(1);
        space.observer().region_begin(2);
        change(&store, ("e", Some(99)));
        space.observer().region_end(2);
    });
    ran.result.unwrap_or_else(|failure| panic!("{options:?} {}: {failure}", ran.token));
    let (_, recorder) = ran.space.finish().expect("the sink takes all events");
    let history = recorder.into_history();
    let mut contents = Contents::default();
    contents.insert("pool", kill.durable.clone());
    let mut checker = Checker::new(&history, &contents);
    checker.bounds = Bounds { per_cut: 24, findings: 1, ..Bounds::default() };
    let image = Scratch::from_bytes(&kill.durable);
    let outcome = checker.run(&mut Judge { options: &sound, image, before, done, unfinished });
    let finding = outcome.findings.first()?;
    let lines: Vec<String> = finding.story(&history).iter().map(ToString::to_string).collect();
    Some(format!("{}\n{}", finding.message, lines.join("\n")))
}

/// Knows what the second process found.
struct Judge<'o> {
    options: &'o Options,
    image: Scratch,
    before: Pairs,
    /// What the first process had done.
    done: Pairs,
    /// The key that it was about to change.
    unfinished: Option<Vec<u8>>,
}

impl Judge<'_> {
    fn right(&self, ended: &BTreeSet<u64>) -> Result<(), String> {
        let mut found = pairs(&Os::new(&self.image), self.options)?;
        let added = found.remove(&b"e"[..]).is_some();
        if ended.contains(&2) && !added {
            return Err("what the second process put is lost".to_owned());
        }
        for key in self.before.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let (was, is) = (self.before.get(key), found.get(key));
            let early = ended.is_empty() && self.unfinished.as_ref() == Some(key) && is == self.done.get(key);
            if is != was && !early {
                let short = |value: Option<&Vec<u8>>| value.map(|value| value[0]);
                return Err(format!("{key:?} was {:?} and is {:?} after {ended:?}", short(was), short(is)));
            }
        }
        Ok(())
    }
}

impl Oracle for Judge<'_> {
    fn examine(&mut self, image: &crash::Image<'_>) -> Result<(), String> {
        let words: Vec<_> = image.changes.iter().map(|change| (change.place.offset(), change.word)).collect();
        self.image.apply(&words);
        let ended = image.marks().filter_map(|mark| match mark.kind {
            MarkKind::End(number) => Some(number),
            _ => None,
        });
        let ended: BTreeSet<u64> = ended.collect();
        let result = self.right(&ended);
        self.image.rollback();
        result
    }
}

fn killed(options: &Options) -> Option<String> {
    let kills = kills(options);
    let each = kills.len().div_ceil(KILLS);
    kills.iter().step_by(each).find_map(|kill| after(options, kill))
}

fn kinds() -> Vec<Options> {
    let mut kinds = Vec::new();
    for engine in [Engine::Log, Engine::Slab] {
        kinds.push(options(engine, Durable::AtOnce));
        kinds.push(indexed(engine));
    }
    kinds
}

#[test]
fn what_the_next_process_found_is_not_lost_with_the_power() {
    for options in kinds() {
        if let Some(story) = killed(&options) {
            panic!("{options:?}: {story}");
        }
    }
}

#[test]
fn records_in_the_caches_that_recovery_trusts_are_caught() {
    for engine in [Engine::Log, Engine::Slab] {
        let options = Options { flaw: Some(Flaw::RecoveredEarly), ..options(engine, Durable::AtOnce) };
        assert!(killed(&options).is_some(), "{engine:?}");
    }
}
