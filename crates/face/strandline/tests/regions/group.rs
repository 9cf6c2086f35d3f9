//! Regions that are committed before they are durable: a crash leaves a prefix of the commit order, and every
//! region whose ticket was due.
//!
//! An observer hears of a region's end once its ticket is due, so the regions that had ended at a crash are
//! those that must be there.

use std::sync::{Mutex, PoisonError};

use region::{
    Atomicity, Error, Geometry, Group, Layout, MicroBuffer, Options, Pool, Redo, Shadow, Ssp, Ticket, Undo,
    flaw,
};
use space::sim::Schedule;
use space::{Env, Image};
use strandline::check::{self, Check, Run};
use strandline::crash::{Outcome, Platform};

use crate::desk::*;
use crate::frail::Frail;

/// What the pool lies on. A page cache may write any page at any time, which leaves no image that ADR does
/// not leave; an engine writes places back later there.
#[derive(Clone, Copy, Debug)]
enum Memory {
    Adr,
    Eadr,
    File,
}

const MEMORIES: [Memory; 3] = [Memory::Adr, Memory::Eadr, Memory::File];

/// A committed region: its place in commit order, and whose notes it changed; a transfer if nobody's.
type Commit = (u64, Option<usize>);

/// The regions of a scenario.
#[derive(Default)]
struct Commits(Mutex<Vec<Commit>>);

impl Commits {
    fn push(&self, place: impl FnOnce(usize) -> u64, thread: Option<usize>) {
        let mut commits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = place(commits.len());
        commits.push((place, thread));
    }

    fn in_order(self) -> Vec<Option<usize>> {
        let mut commits = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        commits.sort_by_key(|(place, _)| *place);
        commits.into_iter().map(|(_, thread)| thread).collect()
    }
}

/// Makes a region durable, or asks whether it is, or leaves it.
fn follow<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, turn: usize, ticket: Ticket) {
    match turn % 4 {
        0 => {
            pool.wait(ticket).expect("the memory works");
            assert!(pool.is_due(ticket));
        }
        1 => _ = pool.consolidate().expect("the memory works"),
        _ => _ = pool.is_due(ticket),
    }
}

/// Regions of two threads, each committed under a lock, which gives the order.
fn under_a_lock<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, commits: &Commits) {
    let transfers = pool.env().mutex(0);
    pool.env().threads(THREADS as u32, |thread| {
        let thread = thread as usize;
        for (turn, one) in STEPS.into_iter().enumerate() {
            let mut number = pool.env().lock(&transfers);
            let next = |count| count as u64;
            if pool.region_async(|tx| step_in(tx, thread, one)).is_ok() {
                commits.push(next, Some(thread));
            }
            let ((), ticket) = pool.region_async(|tx| transfer_in(tx, *number)).expect("there is room");
            commits.push(next, None);
            *number += 1;
            drop(number);
            follow(pool, turn + thread, ticket);
        }
    });
}

/// Regions of two threads that commit when they like; tickets give the order.
fn side_by_side<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, commits: &Commits) {
    pool.env().threads(THREADS as u32, |thread| {
        for (turn, one) in STEPS.into_iter().enumerate() {
            if let Ok(((), ticket)) = pool.region_async(|tx| step_in(tx, thread as usize, one)) {
                commits.push(|_| ticket.number(), Some(thread as usize));
                follow(pool, turn + thread as usize, ticket);
            }
        }
    });
}

type Scenario<E, A> = fn(&Desks<'_, E, A>, &Commits);
type Memoried = space::Sim<Frail<space::Recorded<Image, strandline::crash::Recorder>>>;

/// Runs a scenario, and looks at what a crash leaves of it: the regions up to one of them, among them all
/// that had ended.
fn check_prefix<S: Atomicity, A: Atomicity>(
    scenario: Scenario<Memoried, S>,
    memory: Memory,
    seed: u64,
) -> (Run, Outcome) {
    let commits = Commits::default();
    let platform = if matches!(memory, Memory::Eadr) { Platform::EADR } else { Platform::ADR };
    let wrap = |space| match memory {
        Memory::File => Frail::of_file(space),
        Memory::Adr | Memory::Eadr => Frail::new(space),
    };
    let (image, schedule) = (Image::new(BYTES), Schedule::walk(seed));
    let run = check::record_through(image, platform, &schedule, wrap, Frail::into_inner, |env| {
        let pool = Desks::<_, S>::create(env, &SMALL).expect("a pool can be made");
        scenario(&pool, &commits);
    });
    let run = run.unwrap_or_else(|error| panic!("{}: {error}", S::NAME));
    let order = commits.in_order();
    let outcome = Check::new(&run).run(|image, crash| {
        let (ended, most) = (count_ended(&crash), order.len().min(crash.begun() as usize));
        match recovered::<A>(image)? {
            None if crash.begun() == 0 => Ok(()),
            None => Err("the pool is not there".to_owned()),
            Some((transfers, notes)) => {
                let is_left = |count: &usize| {
                    let of = |thread| order[..*count].iter().filter(|one| **one == thread).count();
                    let whole = |thread: usize| notes[thread].contains(&of(Some(thread)));
                    transfers.contains(&of(None)) && (0..THREADS).all(whole)
                };
                let text = || format!("{ended} regions were due; found are {transfers:?}, {notes:?}");
                (ended..=most).any(|count| is_left(&count)).then_some(()).ok_or_else(text)
            }
        }
    });
    (run, outcome)
}

fn leaves_a_prefix<A: Atomicity>(memory: Memory, seeds: u64) {
    for seed in 0..seeds {
        let (run, outcome) = check_prefix::<A, A>(under_a_lock, memory, seed);
        clean(&run, &outcome);
    }
}

#[test]
fn regions_that_wait_leave_a_prefix() {
    leaves_a_prefix::<Redo>(Memory::Adr, 1);
    leaves_a_prefix::<Undo>(Memory::Adr, 1);
    leaves_a_prefix::<MicroBuffer>(Memory::Adr, 1);
    leaves_a_prefix::<Shadow>(Memory::Adr, 1);
    leaves_a_prefix::<Ssp>(Memory::Adr, 1);
}

#[test]
fn groups_leave_a_prefix() {
    for memory in MEMORIES {
        leaves_a_prefix::<Group>(memory, 3);
        for seed in 0..3 {
            let (run, outcome) = check_prefix::<Group, Group>(side_by_side, memory, seed);
            clean(&run, &outcome);
        }
    }
}

#[test]
fn groups_that_are_not_durable_when_they_should_be_are_caught() {
    fn caught<F: flaw::Flaw>(what: &str) {
        let found = |seed| {
            let memory = MEMORIES[seed as usize % MEMORIES.len()];
            !check_prefix::<Group<F>, Group>(side_by_side, memory, seed).1.findings.is_empty()
        };
        assert!((0..12).any(found), "{what} was not found");
    }
    caught::<flaw::AppliedEarly>("a batch that is applied before its record is durable");
    caught::<flaw::DueEarly>("a ticket that is due before the fence");
    caught::<flaw::LogNotFenced>("a batch that is not fenced");
}

struct Rows;
region::persistent! { Rows:
    struct Row { few: u64, many: [u64; MANY] }
}
impl Layout for Rows {
    const NAME: &'static str = "rows";
    type Root = Row;
}
/// More than a log holds, if each is written by itself.
const MANY: usize = 60;

/// A short region, and a long one behind it.
fn check_long<S: Atomicity, A: Atomicity>() -> (Run, Outcome) {
    let geometry = Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 4096 });
    let run = check::record(32 << 10, Platform::ADR, &Schedule::walk(1), |env| {
        let pool = Pool::<_, Rows, S>::create(env, &Options { geometry, bytes: None }).expect("it fits");
        let few = Row::few(pool.root());
        let many = Row::many(pool.root());
        for value in 1..=4 {
            pool.region_async(|tx| tx.set(few, value)).expect("there is room");
            let long = |tx: &mut region::Tx<'_, _, Rows, S>| {
                (0..MANY).rev().try_for_each(|at| tx.set(many.element(at), value))
            };
            pool.region_async(long).expect("there is room");
        }
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let outcome = Check::new(&run).run(|image, crash| {
        let env = pmem::Os::new(image);
        let Row { few, many } = match Pool::<_, Rows, A>::open(&env) {
            Ok((pool, _)) => pool.get(pool.root()),
            Err(Error::NotAPool { .. }) if crash.begun() == 0 => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let left = few + many[0];
        let whole = many == [many[0]; MANY] && few - few.min(many[0]) <= 1 && few >= many[0];
        let fits = whole && (count_ended(&crash) as u64..=crash.begun()).contains(&left);
        fits.then_some(()).ok_or_else(|| format!("{few} and {many:?}"))
    });
    (run, outcome)
}

#[test]
fn long_regions_keep_their_place_in_the_order() {
    let (run, outcome) = check_long::<Group, Group>();
    clean(&run, &outcome);
    let (_, outcome) = check_long::<Group<flaw::Overtakes>, Group>();
    assert!(!outcome.findings.is_empty(), "{} images", outcome.images);
}

/// Reads see what is committed, wherever it is.
#[test]
fn what_is_committed_is_read_before_it_is_durable() {
    let run = space::sim::run(Image::new(BYTES), &Schedule::walk(1), |env| {
        let pool = Desks::<_, Group>::create(env, &SMALL).expect("a pool can be made");
        for number in 0..20 {
            let ((), ticket) = pool.region_async(|tx| transfer_in(tx, number)).expect("there is room");
            assert_eq!(pool.get(pool.root()).accounts, accounts(number + 1));
            let (seen, _) =
                pool.region_async(|tx| Ok(tx.get(tx.root()).accounts)).expect("nothing is written");
            assert_eq!(seen, accounts(number + 1));
            if number % 7 == 6 {
                assert!(!pool.is_due(ticket));
                pool.wait(ticket).expect("the memory works");
                assert!(pool.is_due(ticket));
            }
        }
        pool.sync().expect("the memory works");
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
}
