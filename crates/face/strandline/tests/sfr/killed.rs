//! A process is killed, the next one opens the pool, and then the power fails. What the first one had stored
//! and not flushed was in the caches until then: the second one decides by it what is committed, and may not
//! lose it afterwards.

use std::collections::BTreeSet;

use pmem::Os;
use sfr::{Design, Flaw, Kind, Pool};
use space::conformance::Powered;
use space::sim::Schedule;
use space::{Env, Image, Observer, Space};
use strandline::check::{self, Check};
use strandline::crash::Platform;

use crate::desk::{BYTES, made, options};

/// Kills that are tried in a run.
const KILLS: usize = 30;
/// Regions of the first process.
const REGIONS: u64 = 14;

/// The moment of a kill.
struct Kill {
    durable: Vec<u8>,
    newest: Vec<u8>,
}

fn words(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    (0..).step_by(8).zip(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)))
}

/// Region `number` of a process: a chain grows, words change with it, every third block goes.
fn region<E: Env>(pool: &Pool<'_, E>, number: u64) {
    let (lock, root) = (pool.lock(), pool.root());
    let mut thread = pool.thread().expect("a log");
    let mut section = thread.enter(&lock);
    for word in 0..number % 4 * 20 {
        section.store_u64(root + 64 + word % 3 * 8, number);
    }
    let block = section.alloc(if number.is_multiple_of(5) { 5000 } else { 24 }).expect("room");
    let first = section.load_u64(root);
    section.store_u64(block, first);
    section.store_u64(block + 8, number);
    section.store_u64(root, block);
    if number % 3 == 2 {
        let next = section.load_u64(first);
        section.store_u64(block, next);
        section.free(first).expect("a block");
    }
    section.store_u64(root + 8, number);
    drop(section);
    thread.atomic(root + 128, 8, Kind::ReadModifyWrite, |space| space.store_u64(root + 128, number));
    drop(thread);
    if number.is_multiple_of(4) {
        pool.prune();
    }
}

/// What a program sees: the last number, the swapped word, and the numbers in the chain.
fn seen<E: Env>(pool: &Pool<'_, E>) -> Result<(u64, u64, Vec<u64>), String> {
    let (space, root) = (pool.env().space(), pool.root());
    let thread = pool.thread().map_err(|error| error.to_string())?;
    let (mut at, mut numbers) = (space.load_u64(root), Vec::new());
    while at != 0 {
        thread.usable(at).map_err(|error| format!("a block of the chain: {error}"))?;
        numbers.push(space.load_u64(at + 8));
        at = space.load_u64(at);
        if numbers.len() as u64 > 2 * REGIONS {
            return Err("the chain is a ring".to_owned());
        }
    }
    Ok((space.load_u64(root + 8), space.load_u64(root + 128), numbers))
}

/// What the chain of a pool is after so many regions.
fn chain(last: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = Vec::new();
    for number in 1..=last {
        if number % 3 == 2 {
            numbers.remove(0);
        }
        numbers.insert(0, number);
    }
    numbers
}

/// Kills before each fence of the first process.
fn kills(design: Design) -> Vec<Kill> {
    let space = Powered::new(BYTES);
    words(&made(design).to_bytes()).for_each(|(at, word)| space.store_u64(at, word));
    space.persist(0, BYTES);
    let first = space.cuts();
    {
        let env = Os::new(&space);
        let (pool, _) = Pool::open(&env, &options(design, None)).expect("a pool");
        (1..=REGIONS).for_each(|number| region(&pool, number));
    }
    let (mut kills, mut durable) = (Vec::new(), None);
    for cut in space.into_cuts().into_iter().skip(first) {
        let oldest = durable.get_or_insert_with(|| cut.bytes.clone());
        if cut.newest {
            kills.push(Kill { durable: std::mem::take(oldest), newest: cut.bytes });
            durable = None;
        }
    }
    kills
}

/// What goes wrong after a kill, if anything.
fn after(design: Design, flaw: Option<Flaw>, kill: &Kill) -> Option<String> {
    let before = {
        let env = Os::new(Image::from_bytes(&kill.newest));
        let (pool, _) = Pool::open(&env, &options(design, None)).expect("it can be recovered");
        let before = seen(&pool).expect("it is whole");
        assert_eq!(before.2, chain(before.0), "what the kill left");
        before
    };
    let run = check::record_on(Image::from_bytes(&kill.durable), Platform::ADR, &Schedule::walk(1), |env| {
        let space = env.space();
        for ((at, word), (_, durable)) in words(&kill.newest).zip(words(&kill.durable)) {
            if word != durable {
                space.store_u64(at, word);
            }
        }
        space.observer().region_begin(1);
        let (pool, _) = Pool::open(env, &options(design, flaw)).expect("it can be recovered");
        space.observer().region_end(1);
        for number in before.0 + 1..before.0 + 4 {
            region(&pool, number);
        }
        let mut thread = pool.thread().expect("a log");
        space.observer().region_begin(2);
        thread.sync();
        space.observer().region_end(2);
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = 16;
    check.checker.bounds.findings = 1;
    let outcome = check.run(|image, crash| {
        let env = Os::new(image);
        let (pool, _) = Pool::open(&env, &options(design, None)).map_err(|error| error.to_string())?;
        let (last, swapped, numbers) = seen(&pool)?;
        let ended: BTreeSet<u64> = crash.ended_regions().collect();
        let least = if ended.contains(&2) { before.0 + 3 } else { before.0 };
        // The first process may have been killed before a swap, and the second one does not make up for it.
        if numbers != chain(last) || swapped > last || last > swapped + 2 {
            return Err(format!("last {last}, swapped {swapped}, chain {numbers:?}"));
        }
        if ended.contains(&1) && last < least {
            return Err(format!("last {last}, was {} when it was opened", before.0));
        }
        Ok(())
    });
    (!outcome.findings.is_empty()).then(|| check.story(&outcome))
}

fn killed(design: Design, flaw: Option<Flaw>) -> Option<String> {
    let kills = kills(design);
    let each = kills.len().div_ceil(KILLS);
    kills.iter().step_by(each).find_map(|kill| after(design, flaw, kill))
}

#[test]
fn what_the_next_process_saw_is_not_lost_with_the_power() {
    for design in [Design::Coupled, Design::Decoupled, Design::Strand] {
        if let Some(story) = killed(design, None) {
            panic!("{design}: {story}");
        }
    }
}

#[test]
fn heads_in_the_caches_that_recovery_trusts_are_caught() {
    let designs = [Design::Coupled, Design::Decoupled, Design::Strand];
    assert!(designs.iter().any(|design| killed(*design, Some(Flaw::RecoveredEarly)).is_some()));
}
