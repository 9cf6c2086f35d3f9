//! Scenarios of a map, recorded on simulated threads, and the judge of what a crash leaves of them.

use std::collections::{BTreeMap, BTreeSet};

use crash::{Bounds, Change, Checker, Contents, MarkKind, Oracle, Outcome, Place, Platform, Read, Recorder};
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, Observer, Recorded, Recording, Scratch, Space, Touched};

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A change of one key; `None` takes it out.
pub type Step = (&'static str, Option<Vec<u8>>);

/// What a thread does, in this order. Threads have different keys.
pub struct Scenario {
    pub bytes: u64,
    pub threads: Vec<Vec<Step>>,
    pub images: u64,
}

/// A structure that keeps pairs.
pub trait Subject: Sync {
    /// The open structure.
    type Open<'e, E: Env + 'e>: Sync;

    /// Makes an empty one.
    fn make<'e, E: Env>(&self, env: &'e E) -> Self::Open<'e, E>;

    /// Changes a key, durably once it returns.
    fn change<E: Env>(&self, open: &Self::Open<'_, E>, key: &[u8], value: Option<&[u8]>);

    /// Opens what a crash left, and reads all of it.
    fn pairs(&self, image: &Scratch) -> Result<Pairs, String>;
}

impl Scenario {
    /// The number that the run gives to a step.
    fn number(thread: usize, step: usize) -> u64 {
        1 + 1000 * thread as u64 + step as u64
    }

    /// Does the steps, and holds every image against what was acknowledged.
    pub fn check<M: Subject>(&self, subject: &M, seed: u64) -> Outcome {
        let recording = Recording { values: true, ..Recording::persistent("structures", "pool") };
        let space = Recorded::new(Image::new(self.bytes), Recorder::new(Platform::ADR), &recording)
            .expect("the sink takes a recording");
        let schedule = Schedule::walk(seed).at_accesses(Accesses::OneIn(4));
        let ran = run(space, &schedule, |env| {
            let open = subject.make(env);
            let body = |thread: usize| {
                for (number, (key, value)) in self.threads[thread].iter().enumerate() {
                    let number = Scenario::number(thread, number);
                    env.space().observer().region_begin(number);
                    subject.change(&open, key.as_bytes(), value.as_deref());
                    env.space().observer().region_end(number);
                }
            };
            match self.threads.len() {
                1 => body(0),
                count => env.threads(count as u32, |thread| body(thread as usize)),
            }
        });
        ran.result.unwrap_or_else(|failure| panic!("{failure}"));
        let (_, recorder) = ran.space.finish().expect("the sink takes all events");
        let history = recorder.into_history();
        let contents = Contents::default();
        let mut checker = Checker::new(&history, &contents);
        checker.bounds = Bounds { per_cut: self.images, findings: 1, ..Bounds::default() };
        checker.run(&mut Judge::new(self, subject))
    }

    /// Nothing is lost, whatever the schedule.
    pub fn holds<M: Subject>(&self, subject: &M, seeds: u64) {
        for seed in 1..=seeds {
            let outcome = self.check(subject, seed);
            assert!(outcome.findings.is_empty(), "seed {seed}: {:#?}", outcome.findings);
            assert!(outcome.images > 20, "{outcome:?}");
        }
    }

    /// Some schedule shows that something is.
    pub fn breaks<M: Subject>(&self, subject: &M, seeds: u64) {
        let found = (1..=seeds).any(|seed| !self.check(subject, seed).findings.is_empty());
        assert!(found, "nothing was found");
    }
}

struct Judge<'s, M> {
    scenario: &'s Scenario,
    subject: &'s M,
    image: Scratch,
    words: Vec<(u64, u64)>,
    read: Vec<Read>,
}

impl<'s, M: Subject> Judge<'s, M> {
    fn new(scenario: &'s Scenario, subject: &'s M) -> Self {
        Judge { scenario, subject, image: Scratch::new(scenario.bytes), words: Vec::new(), read: Vec::new() }
    }

    fn judge(&self, begun: &BTreeSet<u64>, ended: &BTreeSet<u64>) -> Result<(), String> {
        let found = match self.subject.pairs(&self.image) {
            Ok(found) => found,
            Err(_) if begun.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut known = BTreeSet::new();
        for (thread, steps) in self.scenario.threads.iter().enumerate() {
            for (key, _) in steps {
                let key = key.as_bytes();
                known.insert(key.to_vec());
                // The value after each step that may be the last one that counts.
                let mut may = vec![None];
                for (number, (changed, value)) in steps.iter().enumerate() {
                    let number = Scenario::number(thread, number);
                    if changed.as_bytes() == key && begun.contains(&number) {
                        if ended.contains(&number) {
                            may.clear();
                        }
                        may.push(value.clone());
                    }
                }
                let is = found.get(key).cloned();
                if !may.contains(&is) {
                    return Err(format!("{:?} is {is:?} and may be {may:?}", String::from_utf8_lossy(key)));
                }
            }
        }
        match found.keys().find(|key| !known.contains(*key)) {
            Some(key) => Err(format!("{key:?} was never put")),
            None => Ok(()),
        }
    }
}

impl<M: Subject> Oracle for Judge<'_, M> {
    fn examine(&mut self, image: &crash::Image<'_>) -> Result<(), String> {
        self.words.clear();
        self.words.extend(image.changes.iter().map(|&Change { place, word }| (place.offset(), word)));
        self.image.apply(&self.words);
        let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for mark in image.marks() {
            match mark.kind {
                MarkKind::Begin(number) => _ = begun.insert(number),
                MarkKind::End(number) => _ = ended.insert(number),
                _ => {}
            }
        }
        let result = self.judge(&begun, &ended);
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
