//! Scenarios of a store, recorded on simulated threads, and the judge of what a crash leaves of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crash::{Bounds, Change, Checker, Contents, MarkKind, Oracle, Outcome, Place, Platform, Read, Recorder};
use kv::{Batch, Options, Placement, Store};
use pmem::Os;
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, Observer, Recorded, Recording, Scratch, Space, Touched};

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
type Write = (&'static str, Option<Vec<u8>>);

pub const BYTES: u64 = 8192 + 80 * 1024;
/// Images per cut.
const IMAGES: u64 = 96;
/// One of so many images is recovered with a crash meanwhile.
const TWICE: u64 = 64;

/// What a thread does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Changes keys, together.
    Write(Vec<Write>),
    Collect,
    Sync,
    /// Closes the store and opens it, its index in another number of parts. Only where there is one thread.
    Reopen,
}

fn value(number: u64, len: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.extend((8..len).map(|at| (at as u64 * 31 + number) as u8));
    value
}

pub fn put(key: &'static str, number: u64, len: usize) -> Step {
    Step::Write(vec![(key, Some(value(number, len)))])
}

pub fn delete(key: &'static str) -> Step {
    Step::Write(vec![(key, None)])
}

pub fn batch(changes: &[(&'static str, Option<(u64, usize)>)]) -> Step {
    Step::Write(
        changes.iter().map(|(key, new)| (*key, new.map(|(number, len)| value(number, len)))).collect(),
    )
}

/// Steps before there are threads, and of each thread.
pub struct Scenario {
    pub before: Vec<Step>,
    pub threads: Vec<Vec<Step>>,
}

fn number(thread: usize, step: usize) -> u64 {
    1 + 1000 * thread as u64 + step as u64
}

/// What one thread does that has the store for itself.
fn act_alone<'e, E: Env>(
    env: &'e E,
    mut store: Store<E, &'e E>,
    options: &Options,
    thread: usize,
    steps: &[Step],
) -> Store<E, &'e E> {
    let mut options = options.clone();
    for (at, step) in steps.iter().enumerate() {
        if let Step::Reopen = step {
            env.space().observer().region_begin(number(thread, at));
            store.close().expect("no disk that could fail");
            if options.index == Placement::Volatile {
                options.shards = 2 + 2 * (at as u32 % 2);
            }
            store = Store::open_on(env, &options).expect("it was closed");
            assert_eq!(store.stats().recovered_records, 0, "nothing is read after an orderly close");
            env.space().observer().region_end(number(thread, at));
        } else {
            act(env, &store, thread, at, step);
        }
    }
    store
}

fn act<E: Env>(env: &E, store: &Store<E, &E>, thread: usize, at: usize, step: &Step) {
    env.space().observer().region_begin(number(thread, at));
    match step {
        Step::Reopen => panic!("others have the store, too"),
        Step::Collect => _ = store.collect().expect("room"),
        Step::Sync => store.sync().expect("it does not fail"),
        Step::Write(changes) => match &changes[..] {
            [(key, Some(value))] => _ = store.put(key.as_bytes(), value).expect("room"),
            [(key, None)] => _ = store.delete(key.as_bytes()).expect("room"),
            _ => {
                let mut batch = Batch::new();
                for (key, value) in changes {
                    match value {
                        Some(value) => batch.put(key.as_bytes(), value),
                        None => batch.delete(key.as_bytes()),
                    };
                }
                store.write(&batch).expect("room");
            }
        },
    }
    env.space().observer().region_end(number(thread, at));
}

/// Opens what a crash left and reads all of it, in the store's order.
pub fn pairs<E: Env>(env: &E, options: &Options) -> Result<Pairs, String> {
    let store = Store::open_on(env, options).map_err(|error| error.to_string())?;
    let mut pairs = Pairs::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    let scanned = store.scan(all, |key, value| pairs.insert(key.to_vec(), value.to_vec()).is_none());
    scanned.map_err(|error| error.to_string())?;
    Ok(pairs)
}

/// That what was recovered is a store to work with.
fn works<E: Env>(env: &E, options: &Options, pairs: &Pairs) -> Result<(), String> {
    let store = Store::open_on(env, options).map_err(|error| error.to_string())?;
    for round in 0..3 {
        store.put(b"later", &value(round, 200)).map_err(|error| error.to_string())?;
        store.collect().map_err(|error| error.to_string())?;
    }
    for (key, value) in pairs {
        if store.get(key).map_err(|error| error.to_string())?.as_ref() != Some(value) {
            return Err(format!("{key:?} is lost after recovery"));
        }
    }
    Ok(())
}

impl Scenario {
    /// With a sync after every so many steps.
    pub fn with_syncs(mut self, every: usize) -> Scenario {
        for steps in self.threads.iter_mut().chain([&mut self.before]) {
            *steps = steps.chunks(every).flat_map(|some| some.iter().cloned().chain([Step::Sync])).collect();
        }
        self
    }

    fn check(&self, options: &Options, seed: u64) -> Outcome {
        let recording = Recording { values: true, ..Recording::persistent("stores", "pool") };
        let space = Recorded::new(Image::new(BYTES), Recorder::new(Platform::ADR), &recording)
            .expect("the sink takes a recording");
        let schedule = Schedule::walk(seed).at_accesses(Accesses::OneIn(4));
        let ran = run(space, &schedule, |env| {
            let store = Store::create_on(env, options).expect("room");
            let store = act_alone(env, store, options, 0, &self.before);
            match &self.threads[..] {
                [alone] => _ = act_alone(env, store, options, 1, alone),
                all => env.threads(all.len() as u32, |thread| {
                    for (at, step) in all[thread as usize].iter().enumerate() {
                        act(env, &store, 1 + thread as usize, at, step);
                    }
                }),
            }
        });
        ran.result.unwrap_or_else(|failure| panic!("{options:?} {}: {failure}", ran.token));
        let (_, recorder) = ran.space.finish().expect("the sink takes all events");
        let history = recorder.into_history();
        let contents = Contents::default();
        let mut checker = Checker::new(&history, &contents);
        checker.bounds = Bounds { per_cut: IMAGES, findings: 1, ..Bounds::default() };
        let outcome = checker.run(&mut Judge::new(self, options));
        for finding in &outcome.findings {
            for line in finding.story(&history) {
                println!("{line}");
            }
        }
        outcome
    }

    /// Nothing is lost, whatever the schedule.
    pub fn holds(&self, options: &Options, seeds: u64) {
        for seed in 1..=seeds {
            let outcome = self.check(options, seed);
            let found: Vec<_> = outcome.findings.iter().map(|finding| &finding.message).collect();
            assert!(found.is_empty(), "{options:?}, seed {seed}: {found:#?}");
            assert!(outcome.images > 100, "{} images", outcome.images);
        }
    }

    /// Some schedule shows that something is.
    pub fn breaks(&self, options: &Options, seeds: u64) {
        let found = (1..=seeds).any(|seed| !self.check(options, seed).findings.is_empty());
        assert!(found, "nothing was found of {:?} in {:?}", options.flaw, options.engine);
    }

    fn all(&self) -> Vec<(usize, &[Step])> {
        let threads = self.threads.iter().enumerate().map(|(at, steps)| (at + 1, &steps[..]));
        [(0, &self.before[..])].into_iter().chain(threads).collect()
    }
}

struct Judge<'s> {
    scenario: &'s Scenario,
    options: &'s Options,
    image: Scratch,
    words: Vec<(u64, u64)>,
    read: Vec<Read>,
    count: u64,
}

/// Steps that had begun, and that were durable.
struct Known {
    begun: BTreeSet<u64>,
    durable: BTreeSet<u64>,
}

impl<'s> Judge<'s> {
    fn new(scenario: &'s Scenario, options: &'s Options) -> Self {
        Judge { scenario, options, image: Scratch::new(BYTES), words: Vec::new(), read: Vec::new(), count: 0 }
    }

    /// What was acknowledged: what had ended, or where that takes a sync, what had ended before one.
    fn known(&self, image: &crash::Image<'_>) -> Known {
        let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for mark in image.marks() {
            match mark.kind {
                MarkKind::Begin(number) => _ = begun.insert(number),
                MarkKind::End(number) => _ = ended.insert(number),
                _ => {}
            }
        }
        let mut durable = ended.clone();
        if self.options.durable == Some(kv::Durable::WhenWaited) {
            durable.clear();
            for (thread, steps) in self.scenario.all() {
                let last = (0..steps.len()).rev().find(|at| {
                    matches!(steps[*at], Step::Sync | Step::Reopen) && ended.contains(&number(thread, *at))
                });
                durable.extend((0..last.unwrap_or(0)).map(|at| number(thread, at)));
            }
        }
        Known { begun, durable }
    }

    fn judge(&self, known: &Known) -> Result<(), String> {
        let env = Os::new(&self.image);
        let found = match pairs(&env, self.options) {
            Ok(found) => found,
            Err(_) if known.begun.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        };
        self.right(known, &found)?;
        works(&env, self.options, &found)
    }

    /// Whether these pairs may be what a crash leaves.
    fn right(&self, known: &Known, found: &Pairs) -> Result<(), String> {
        let mut keys = BTreeSet::new();
        for (_, steps) in self.scenario.all() {
            for step in steps {
                if let Step::Write(changes) = step {
                    keys.extend(changes.iter().map(|(key, _)| *key));
                }
            }
        }
        for key in &keys {
            let may = self.may_be(known, key);
            let is = found.get(key.as_bytes()).cloned();
            if !may.contains(&is) {
                let short = |value: &Option<Vec<u8>>| value.as_ref().map(|value| value[0]);
                let may: Vec<_> = may.iter().map(short).collect();
                return Err(format!("{key} is {:?} and may be {may:?}", short(&is)));
            }
        }
        if let Some(key) = found.keys().find(|key| !keys.iter().any(|known| known.as_bytes() == **key)) {
            return Err(format!("{key:?} was never put"));
        }
        self.batches_whole(known, found)
    }

    /// The states in which a key may be.
    fn may_be(&self, known: &Known, key: &str) -> Vec<Option<Vec<u8>>> {
        let mut may = Vec::new();
        let mut first = vec![None];
        let mut replaced = false;
        for (thread, steps) in self.scenario.all() {
            let mut own = Vec::new();
            for (at, step) in steps.iter().enumerate() {
                let Step::Write(changes) = step else { continue };
                let Some((_, value)) = changes.iter().find(|(changed, _)| *changed == key) else { continue };
                if !known.begun.contains(&number(thread, at)) {
                    continue;
                }
                if known.durable.contains(&number(thread, at)) {
                    own.clear();
                    if thread == 0 { first.clear() } else { replaced = true }
                }
                own.push(value.clone());
            }
            if thread == 0 { first.extend(own) } else { may.extend(own) }
        }
        if !replaced {
            may.extend(first);
        }
        may
    }

    /// A batch that nothing later touched is there or not.
    fn batches_whole(&self, known: &Known, found: &Pairs) -> Result<(), String> {
        for (thread, steps) in self.scenario.all() {
            let writes = |step: &Step, key: &str| match step {
                Step::Write(changes) => changes.iter().any(|(changed, _)| *changed == key),
                _ => false,
            };
            for (at, step) in steps.iter().enumerate() {
                let Step::Write(changes) = step else { continue };
                let later = (at + 1..steps.len()).any(|later| {
                    known.begun.contains(&number(thread, later))
                        && changes.iter().any(|(key, _)| writes(&steps[later], key))
                });
                if later || self.scenario.threads.len() > 1 {
                    continue;
                }
                let there = |value: &Option<Vec<u8>>, key: &str| found.get(key.as_bytes()) == value.as_ref();
                let new = changes.iter().filter(|(_, value)| value.is_some());
                let counts: BTreeSet<bool> = new.map(|(key, value)| there(value, key)).collect();
                let gone = changes.iter().filter(|(_, value)| value.is_none());
                let gone = gone.filter(|(key, _)| found.contains_key(key.as_bytes())).count();
                if counts.len() > 1 || (counts.contains(&true) && gone > 0) {
                    return Err(format!("half of step {at} is there"));
                }
            }
        }
        Ok(())
    }

    /// Recovers with a crash in between, and once more.
    fn judge_twice(&self, known: &Known) -> Result<(), String> {
        let bytes = self.image.to_bytes();
        let recording = Recording { values: true, ..Recording::persistent("stores", "pool") };
        let space = Recorded::new(Image::from_bytes(&bytes), Recorder::new(Platform::ADR), &recording)
            .map_err(|error| error.to_string())?;
        let ran = run(space, &Schedule::walk(1), |env| pairs(env, self.options).map(drop));
        ran.result
            .map_err(|failure| failure.to_string())?
            .or_else(|error| if known.begun.is_empty() { Ok(()) } else { Err(error) })?;
        let (_, recorder) = ran.space.finish().map_err(|error| error.to_string())?;
        let history = recorder.into_history();
        let mut contents = Contents::default();
        contents.insert("pool", bytes.clone());
        let mut checker = Checker::new(&history, &contents);
        checker.bounds = Bounds { per_cut: 16, findings: 1, ..Bounds::default() };
        let mut again = Again { judge: self, known, image: Scratch::from_bytes(&bytes) };
        let outcome = checker.run(&mut again);
        match outcome.findings.first() {
            Some(finding) => Err(format!("after a crash of recovery: {}", finding.message)),
            None => Ok(()),
        }
    }
}

impl Oracle for Judge<'_> {
    fn examine(&mut self, image: &crash::Image<'_>) -> Result<(), String> {
        self.words.clear();
        self.words.extend(image.changes.iter().map(|&Change { place, word }| (place.offset(), word)));
        self.image.apply(&self.words);
        let known = self.known(image);
        self.count += 1;
        let result = if self.count.is_multiple_of(TWICE) { self.judge_twice(&known) } else { Ok(()) };
        let result = result.and_then(|()| self.judge(&known));
        self.read.clear();
        let read = |touched: Touched| Read { line: Place::new(0, touched.line), words: touched.words };
        self.read.extend(self.image.touched().map(read));
        self.image.rollback();
        result
    }

    fn read(&self) -> Option<&[Read]> {
        Some(&self.read)
    }
}

/// The judge of a recovery that crashed.
struct Again<'j, 's> {
    judge: &'j Judge<'s>,
    known: &'j Known,
    image: Scratch,
}

impl Oracle for Again<'_, '_> {
    fn examine(&mut self, image: &crash::Image<'_>) -> Result<(), String> {
        let words: Vec<_> = image.changes.iter().map(|change| (change.place.offset(), change.word)).collect();
        self.image.apply(&words);
        let found = pairs(&Os::new(&self.image), self.judge.options);
        self.image.rollback();
        match found {
            Ok(found) => self.judge.right(self.known, &found),
            Err(_) if self.known.begun.is_empty() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
