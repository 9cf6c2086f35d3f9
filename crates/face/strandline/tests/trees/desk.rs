//! Scenarios of maps, and what a crash may leave of them.

use std::collections::{BTreeMap, HashSet};

use index::{Error, Map};
use pmem::Os;
use space::sim::{Accesses, Schedule};
use space::{Env, Image, Observer, Scratch, Space};
use strandline::check::{self, Check, Crash, Run};
use strandline::crash::{Outcome, Platform};

/// A map as the checker's threads see it.
pub type Opened<'a> = Box<dyn Map<u64, u64> + 'a>;

/// How a map is made and opened.
pub trait Subject: Copy + Sync {
    /// Bytes of the space.
    const BYTES: u64 = 16 << 10;
    /// Whether pairs come in the order of their keys.
    const SORTED: bool = true;

    /// The space before there is a map.
    fn space(self) -> Image {
        Image::new(Self::BYTES)
    }

    fn create<E: Env>(self, env: &E) -> Result<Opened<'_>, Error>;

    fn open<E: Env>(self, env: &E) -> Result<Opened<'_>, Error>;
}

/// What a thread does to a key.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Insert(u64, u64),
    Remove(u64),
}

use Step::{Insert, Remove};

impl Step {
    pub fn apply(self, model: &mut BTreeMap<u64, u64>) {
        match self {
            Insert(key, value) => _ = model.insert(key, value),
            Remove(key) => _ = model.remove(&key),
        }
    }
}

/// The steps of each thread; the keys of a thread are its own: its number modulo the number of threads.
pub type Scenario = Vec<Vec<Step>>;

/// Inserts in an order that splits leaves, updates that follow each other, removes of what was updated,
/// leaves that become empty and slots that are used again. Low bytes of keys and values differ.
pub fn mixed(threads: u64, steps: u64, keys: u64, seed: u64) -> Scenario {
    let of = |thread: u64| {
        let mut state = seed * 8 + thread + 1;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let step = |at: u64| {
            let key = (1 + random(keys)) * 0x101 * threads + thread;
            match random(5) {
                // More and more in the first half, less and less in the second.
                0..3 if at < steps / 2 => Insert(key, (at + 1) * 0x1_0101),
                3 => Insert(key, (at + 1) * 0x1_0101),
                _ => Remove(key),
            }
        };
        (0..steps).map(step).collect()
    };
    (0..threads).map(of).collect()
}

/// Fills leaves, then takes all keys of some of them out and puts others in their place.
pub fn emptied(keys: u64) -> Scenario {
    let key = |number: u64| number * 0x101;
    let mut steps: Vec<Step> = (0..keys).map(|number| Insert(key(number), number + 1)).collect();
    steps.extend((0..3).map(|number| Insert(key(number), number + 100)));
    steps.extend((keys / 3..keys).map(|number| Remove(key(number))));
    steps.extend((keys / 3..keys / 2).map(|number| Insert(key(number) + 1, number)));
    vec![steps]
}

/// Runs a scenario on a new map. What stands before it in the space is durable.
pub fn record<M: Subject>(map: M, scenario: &Scenario, seed: u64) -> Run {
    let schedule = Schedule::walk(seed).at_accesses(Accesses::OneIn(6));
    let image = map.space();
    {
        let env = Os::new(&image);
        drop(map.create(&env).expect("room for a map"));
    }
    let run = check::record_on(image, Platform::ADR, &schedule, |env| {
        let map = map.open(env).expect("a map");
        let threads = scenario.len() as u32;
        let body = |thread: u32| {
            for (at, step) in (0u64..).zip(&scenario[thread as usize]) {
                let region = u64::from(thread) << 32 | at;
                env.space().observer().region_begin(region);
                let done = match *step {
                    Insert(key, value) => map.insert(key, value),
                    Remove(key) => map.remove(key),
                };
                done.expect("room");
                env.space().observer().region_end(region);
            }
        };
        if threads == 1 { body(0) } else { env.threads(threads, body) }
    });
    run.unwrap_or_else(|error| panic!("{error}"))
}

/// What is wrong with the map that a crash leaves.
fn judge<M: Subject>(map: M, scenario: &Scenario, image: &Scratch, crash: Crash<'_>) -> Result<(), String> {
    let env = Os::new(image);
    let map = map.open(&env).map_err(|error| error.to_string())?;
    let ended: HashSet<u64> = crash.ended_regions().collect();
    let mut found = vec![BTreeMap::new(); scenario.len()];
    let mut last = None;
    let mut sorted = true;
    map.each(&mut |key, value| {
        sorted &= !M::SORTED || last.is_none_or(|last| last < key);
        last = Some(key);
        sorted &= found[key as usize % scenario.len()].insert(key, value).is_none();
        sorted
    });
    if !sorted {
        return Err(format!("keys up to {last:x?} are not in order, or one is there twice"));
    }
    for (thread, found) in found.iter().enumerate() {
        let steps = &scenario[thread];
        let region = |at: usize| (thread as u64) << 32 | at as u64;
        let done = (0..steps.len()).take_while(|at| ended.contains(&region(*at))).count();
        let mut model = BTreeMap::new();
        steps[..done].iter().for_each(|step| step.apply(&mut model));
        let before = model.clone();
        if let Some(step) = steps.get(done) {
            step.apply(&mut model);
        }
        if *found != before && *found != model {
            let differs =
                |(key, value): (&u64, &u64)| before.get(key) != Some(value) && model.get(key) != Some(value);
            let wrong = found.iter().find(|pair| differs(*pair));
            let lost = before.iter().find(|(key, _)| !found.contains_key(key) && model.contains_key(key));
            return Err(format!("thread {thread}, {done} steps ended: wrong {wrong:x?}, lost {lost:x?}"));
        }
        if let Some((key, value)) = found.iter().find(|(key, value)| map.get(**key) != Some(**value)) {
            return Err(format!("key {key:x} is not found, its value {value:x} is there"));
        }
    }
    // It is a map to work with, too: as many keys as fill a leaf or two, and out again.
    for key in 1..12 {
        let key = key * 0x7_0007;
        map.insert(key, !key).map_err(|error| error.to_string())?;
        if map.get(key) != Some(!key) || map.remove(key) != Ok(Some(!key)) {
            return Err(format!("key {key:x} gets lost after recovery"));
        }
    }
    Ok(())
}

/// Checks the crashes of a scenario.
pub fn explore<M: Subject>(map: M, scenario: &Scenario, seed: u64, per_cut: u64) -> (Run, Outcome) {
    let run = record(map, scenario, seed);
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = per_cut;
    check.checker.bounds.findings = 1;
    let outcome = check.run(|image, crash| judge(map, scenario, image, crash));
    (run, outcome)
}

/// A map keeps what it promises.
pub fn holds<M: Subject>(map: M, scenario: &Scenario, seed: u64) -> u64 {
    let (run, outcome) = explore(map, scenario, seed, 24);
    assert!(outcome.findings.is_empty(), "{}", Check::new(&run).story(&outcome));
    assert!(outcome.images > 60, "only {} images", outcome.images);
    outcome.images
}

/// A mistake of a map shows in one of the scenarios.
pub fn caught<M: Subject>(what: &str, map: M, scenarios: &[Scenario]) {
    let mut images = 0;
    for (seed, scenario) in (1..).zip(scenarios) {
        let (_, outcome) = explore(map, scenario, seed, 400);
        images += outcome.images;
        if !outcome.findings.is_empty() {
            return;
        }
    }
    panic!("{what} was not found in {images} images");
}

/// All pairs of a map.
pub fn pairs(map: &Opened<'_>) -> BTreeMap<u64, u64> {
    let mut pairs = BTreeMap::new();
    map.each(&mut |key, value| {
        pairs.insert(key, value);
        true
    });
    pairs
}

/// What recovery found stays so, if it is cut short by another crash, or if one follows it: images of a
/// crash are opened and used by a second process, which crashes, too.
pub fn holds_again<M: Subject>(map: M, scenario: &Scenario, seed: u64) {
    const KEY: u64 = 0xF_F00F;
    let run = record(map, scenario, seed);
    let images = std::cell::RefCell::new(HashSet::new());
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = 4;
    check.run(|image, crash| {
        images.borrow_mut().insert(image.to_bytes());
        judge(map, scenario, image, crash)
    });
    let mut images: Vec<Vec<u8>> = images.into_inner().into_iter().collect();
    images.sort_unstable();
    let step = images.len().div_ceil(30);
    for bytes in images.into_iter().step_by(step) {
        let env = Os::new(Image::from_bytes(&bytes));
        let before = pairs(&map.open(&env).expect("it can be recovered"));
        let schedule = Schedule::walk(seed);
        let again = check::record_on(Image::from_bytes(&bytes), Platform::ADR, &schedule, |env| {
            let map = map.open(env).expect("it can be recovered");
            env.space().observer().region_begin(1);
            map.insert(KEY, 1).expect("room");
            env.space().observer().region_end(1);
        });
        let again = again.unwrap_or_else(|error| panic!("{error}"));
        let mut check = Check::new(&again);
        check.checker.bounds.per_cut = 24;
        let outcome = check.run(|image, crash| {
            let env = Os::new(image);
            let mut found = pairs(&map.open(&env).map_err(|error| error.to_string())?);
            let inserted = found.remove(&KEY).is_some();
            let fits = found == before && (inserted || crash.ended() == 0);
            fits.then_some(()).ok_or_else(|| format!("found {found:x?}, before {before:x?}"))
        });
        assert!(outcome.findings.is_empty(), "{}", Check::new(&again).story(&outcome));
    }
}
