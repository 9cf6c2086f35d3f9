//! Records scenes, and judges what a crash leaves of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pmem::Os;
use sfr::{Design, Flaw, Options, Pool};
use space::sim::{Accesses, Schedule, Strategy};
use space::{Env, Image, Scratch, Space};
use strandline::check::{self, Check, Crash, Run};
use strandline::crash::{Outcome, Platform};

use crate::scene::{self, Done, Journal, Scene, Shared};

pub const BYTES: u64 = 256 << 10;

pub fn options(design: Design, flaw: Option<Flaw>) -> Options {
    Options { flaw, strict: true, ..Options::new(design) }
}

/// A pool with a root block, durable.
pub fn made(design: Design) -> Image {
    let image = Image::new(BYTES);
    let env = Os::new(&image);
    let options = Options { root: scene::ROOT, ..options(design, None) };
    Pool::create(&env, &options).expect("room").close();
    image
}

/// Runs a scene.
pub fn record(scene: &Scene, flaw: Option<Flaw>) -> (Run, Journal) {
    let strategy = match scene.priorities {
        true => Strategy::Pct { depth: 4, decisions: 600 },
        false => Strategy::Walk,
    };
    let schedule = Schedule::new(strategy, scene.seed).at_accesses(Accesses::OneIn(4));
    let journal = Shared::default();
    // Few ends at once: prunings stop in the middle of what hangs together.
    let options = Options { at_once: 1 + scene.seed as usize % 3, ..options(scene.design, flaw) };
    let run = check::record_on(made(scene.design), Platform::ADR, &schedule, |env| {
        let (pool, _) = Pool::open(env, &options).expect("a pool");
        scene::play(scene, env, &pool, &journal);
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    (run, journal.into_inner().expect("nobody panicked"))
}

/// What is there, and what should be.
pub fn judge(
    scene: &Scene,
    journal: &Journal,
    flaw: Option<Flaw>,
    image: &Scratch,
    crash: Crash<'_>,
) -> Result<(), String> {
    let env = Os::new(image);
    let (pool, _) = Pool::open(&env, &options(scene.design, flaw)).map_err(|error| error.to_string())?;
    let ended: BTreeSet<u64> = crash.ended_regions().collect();
    frontier(scene, journal, &pool, &ended)?;
    works(&pool)
}

/// The pool is as at a frontier of what was done.
fn frontier<E: Env>(
    scene: &Scene,
    journal: &Journal,
    pool: &Pool<'_, E>,
    ended: &BTreeSet<u64>,
) -> Result<(), String> {
    let space = pool.env().space();
    let root = pool.root();
    let records: Vec<u64> = (0..scene.threads).map(|me| space.load_u64(scene::record(root, me))).collect();
    // How many swaps of each word are there, by the value that the word has.
    let mut swaps: HashMap<u64, usize> = HashMap::new();
    for word in 0..scene::SWAPPED {
        let offset = scene::swapped(root, word);
        let value = space.load_u64(offset);
        let values: Vec<u64> = journal
            .done
            .iter()
            .filter_map(|done| done.swap)
            .filter(|swap| swap.0 == offset)
            .map(|swap| swap.1)
            .collect();
        let count = match values.iter().rposition(|&is| is == value) {
            Some(place) => place + 1,
            None if value == 0 => 0,
            None => return Err(format!("a swapped word is {value:#x}, which nobody stored")),
        };
        swaps.insert(offset, count);
    }
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let mut is_there = |done: &Done| match done.swap {
        Some((offset, _)) => {
            let nth = seen.entry(offset).or_default();
            *nth += 1;
            *nth <= swaps[&offset]
        }
        None => done.number <= records[done.thread as usize],
    };
    let there: Vec<bool> = journal.done.iter().map(&mut is_there).collect();
    closed(scene, journal, &there)?;
    waited_for(journal, &there, ended)?;
    contents(journal, &there, pool, &records)
}

/// What was waited for is there.
fn waited_for(journal: &Journal, there: &[bool], ended: &BTreeSet<u64>) -> Result<(), String> {
    for &(number, me, count) in &journal.waited {
        let done = (0..there.len()).filter(|&place| journal.done[place].thread == me).take(count);
        let lost = done.into_iter().find(|&place| !there[place]);
        if let Some(lost) = lost.filter(|_| ended.contains(&number)) {
            return Err(format!("wait {number:#x} ended and {:?} is lost", journal.done[lost]));
        }
    }
    Ok(())
}

/// The bytes are what those that are there stored, in their order, and the blocks what they allocated and freed.
fn contents<E: Env>(
    journal: &Journal,
    there: &[bool],
    pool: &Pool<'_, E>,
    records: &[u64],
) -> Result<(), String> {
    let (space, root) = (pool.env().space(), pool.root());
    let mut should: BTreeMap<u64, u8> = BTreeMap::new();
    let mut blocks: BTreeMap<u64, bool> = BTreeMap::new();
    for (done, _) in journal.done.iter().zip(there).filter(|(_, there)| **there) {
        for (offset, bytes) in &done.stores {
            should.extend((*offset..).zip(bytes.iter().copied()));
        }
        if let Some((offset, value)) = done.swap {
            should.extend((offset..).zip(value.to_le_bytes()));
        }
        blocks.extend(done.allocated.map(|block| (block, true)));
        blocks.extend(done.freed.map(|block| (block, false)));
        // Its memory may be another block's or a log's by now.
        should.retain(|offset, _| !done.freed.is_some_and(|block| (block..block + 16).contains(offset)));
    }
    for (&offset, &byte) in &should {
        let mut is = [0];
        space.load(offset, &mut is);
        if is[0] != byte {
            return Err(format!(
                "byte {offset:#x} is {:#x}, should be {byte:#x}; records {records:?}",
                is[0]
            ));
        }
    }
    // What no included SFR stored to is as it was made.
    for offset in (root..root + scene::ROOT).filter(|offset| !should.contains_key(offset)) {
        let mut is = [0];
        space.load(offset, &mut is);
        if is[0] != 0 {
            return Err(format!("byte {offset:#x} is {:#x}, nobody that counts stored it", is[0]));
        }
    }
    let thread = pool.thread().map_err(|error| error.to_string())?;
    for (block, allocated) in blocks {
        if thread.usable(block).is_ok() != allocated {
            return Err(format!("block {block:#x}: allocated should be {allocated}"));
        }
    }
    Ok(())
}

/// Whatever is there has its predecessors there.
fn closed(scene: &Scene, journal: &Journal, there: &[bool]) -> Result<(), String> {
    let mut missing: HashMap<u64, &Done> = HashMap::new();
    for (place, done) in journal.done.iter().enumerate() {
        if !there[place] {
            missing.entry(done.thread).or_insert(done);
            continue;
        }
        if let Some(before) = missing.get(&done.thread) {
            return Err(format!("{done:?} is there without {before:?} of its thread"));
        }
        if let Some(&before) = done.after.iter().find(|&&before| !there[before]) {
            return Err(format!("{done:?} is there without {:?}, which it saw", journal.done[before]));
        }
        let next = journal.done[place + 1..].iter().position(|next| next.thread == done.thread);
        let next = next.map(|next| place + 1 + next);
        if scene.design == Design::Atlas && !done.closes && !next.is_some_and(|next| there[next]) {
            return Err(format!("{done:?} is there without the rest of its critical section"));
        }
    }
    Ok(())
}

/// A recovered pool is one to work with.
fn works<E: Env>(pool: &Pool<'_, E>) -> Result<(), String> {
    let lock = pool.lock();
    let mut thread = pool.thread().map_err(|error| error.to_string())?;
    let mut section = thread.enter(&lock);
    let block = section.alloc(100).map_err(|error| error.to_string())?;
    section.store(block, &[7; 100]);
    section.free(block).map_err(|error| error.to_string())?;
    drop(section);
    thread.sync();
    Ok(())
}

pub fn explore(scene: &Scene, flaw: Option<Flaw>, per_cut: u64) -> (Run, Outcome) {
    let (run, journal) = record(scene, flaw);
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = per_cut;
    check.checker.bounds.findings = 1;
    let outcome = check.run(|image, crash| judge(scene, &journal, flaw, image, crash));
    (run, outcome)
}

/// Nothing is found.
pub fn holds(scene: &Scene) {
    let (run, outcome) = explore(scene, None, 12);
    assert!(outcome.findings.is_empty(), "{scene:?}\n{}", Check::new(&run).story(&outcome));
    assert!(outcome.images > 60, "only {} images", outcome.images);
}

/// Some of the runs shows the fault.
pub fn caught(flaw: Flaw, scene: &Scene, seeds: u64) {
    let mut images = 0;
    for seed in 1..=seeds {
        let scene = Scene { seed, ..scene.clone() };
        let (_, outcome) = explore(&scene, Some(flaw), 30);
        images += outcome.images;
        if !outcome.findings.is_empty() {
            return;
        }
    }
    panic!("{flaw:?} was not found in {images} images");
}
