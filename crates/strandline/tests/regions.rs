//! Pools under the crash checker: whatever a crash leaves, recovery finds all of a region or nothing, nothing leaks, and an engine with a
//! mistake is caught.

use std::cell::RefCell;

use region::{Atomicity, Error, Geometry, Layout, Options, Pool, Ptr, Redo, Undo, Unprotected, flaw};
use space::sim::Schedule;
use space::{Env, Image, Recorded, Recording, Scratch};
use strandline::check::{self, Check, Crash, Run, Scene};
use strandline::crash::{Outcome, Platform};

/// Accounts, and lists of notes, one for each thread.
struct Desk;
region::persistent! { Desk:
    struct Root { accounts: [u64; ACCOUNTS], notes: [Ptr<Note, Desk>; THREADS] }
    struct Note { text: u64, next: Ptr<Note, Desk> }
}
impl Layout for Desk {
    const NAME: &'static str = "desk";
    type Root = Root;
}

const ACCOUNTS: usize = 4;
const THREADS: usize = 2;
/// Logs of eight lines: they are full every few regions.
const SMALL: Options = with_logs(2, 512);
const BYTES: u64 = 16384 + 4 * 4096;

const fn with_logs(logs: u32, log_bytes: u32) -> Options {
    Options { geometry: Some(Geometry { logs, log_bytes, chunk_bytes: 4096 }) }
}

type Desks<'e, E, A> = Pool<&'e E, Desk, A>;

/// What a thread's part of the desk holds.
type Notes = Vec<u64>;

/// One region's change of a thread's notes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u64),
    Pop,
    /// Takes one away and puts two there.
    Replace(u64, u64),
    /// Gives up in the middle.
    GiveUp(u64),
}

const STEPS: [Step; 9] = [
    Step::Push(1),
    Step::Push(2),
    Step::GiveUp(9),
    Step::Replace(3, 4),
    Step::Pop,
    Step::Push(5),
    Step::Pop,
    Step::Replace(6, 7),
    Step::Pop,
];

fn step<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, thread: usize, step: Step) -> Result<(), Error> {
    pool.region(|tx| {
        let head =
            tx.root().part(std::mem::offset_of!(Root, notes), |root: &Root| &root.notes).element(thread);
        let first = tx.get(head);
        match step {
            Step::Push(text) | Step::GiveUp(text) => {
                let note = tx.alloc(Note { text, next: first })?;
                tx.set(head, note)?;
            }
            Step::Pop => {
                let note = tx.get(first);
                tx.set(head, note.next)?;
                tx.free(first)?;
            }
            Step::Replace(low, high) => {
                let note = tx.get(first);
                tx.free(first)?;
                let low = tx.alloc(Note { text: low, next: note.next })?;
                let high = tx.alloc(Note { text: high, next: low })?;
                tx.set(head, high)?;
            }
        }
        if let Step::GiveUp(_) = step { Err(Error::Aborted("enough".to_owned())) } else { Ok(()) }
    })
}

/// What the notes are after each region that was not given up.
fn states() -> Vec<Notes> {
    let mut states = vec![Notes::new()];
    for step in STEPS {
        let mut notes = states.last().expect("there is one").clone();
        match step {
            Step::Push(text) => notes.push(text),
            Step::Pop => _ = notes.pop(),
            Step::Replace(low, high) => {
                notes.pop();
                notes.extend([low, high]);
            }
            Step::GiveUp(_) => continue,
        }
        states.push(notes);
    }
    states
}

/// Moves money: after `number` transfers, account `number % 4` has the last one.
fn transfer<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, number: usize) -> Result<(), Error> {
    pool.region(|tx| {
        let accounts = tx.root().part(std::mem::offset_of!(Root, accounts), |root: &Root| &root.accounts);
        let (from, to) = (accounts.element(number % ACCOUNTS), accounts.element((number + 1) % ACCOUNTS));
        tx.set(from, tx.get(from).wrapping_sub(7))?;
        tx.set(to, tx.get(to).wrapping_add(7))
    })
}

/// What the accounts are after so many transfers.
fn accounts(transfers: usize) -> [u64; ACCOUNTS] {
    let mut accounts = [0u64; ACCOUNTS];
    for number in 0..transfers {
        accounts[number % ACCOUNTS] = accounts[number % ACCOUNTS].wrapping_sub(7);
        accounts[(number + 1) % ACCOUNTS] = accounts[(number + 1) % ACCOUNTS].wrapping_add(7);
    }
    accounts
}

/// Transfers, and how far each thread's notes have come: all the states that look like what is there.
type Positions = (Vec<usize>, [Vec<usize>; THREADS]);

/// What recovery found; nothing if there is no pool. The error is what is wrong.
fn recovered<A>(image: &Scratch) -> Result<Option<Positions>, String>
where
    A: Atomicity,
{
    let env = pmem::Os::new(image);
    let pool = match Pool::<_, Desk, A>::open(&env) {
        Ok((pool, _)) => pool,
        Err(Error::NotAPool { .. }) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let root = pool.get(pool.root());
    let mut blocks = vec![pool.root().offset()];
    let states = states();
    let mut threads: [Vec<usize>; THREADS] = Default::default();
    for (thread, positions) in threads.iter_mut().enumerate() {
        let mut notes = Notes::new();
        let mut at = root.notes[thread];
        while let Some(note) = at.get() {
            blocks.push(note.offset());
            notes.push(pool.get(note).text);
            if notes.len() > 10 {
                return Err("notes without an end".to_owned());
            }
            at = pool.get(note).next;
        }
        notes.reverse();
        *positions = (0..states.len()).filter(|&state| states[state] == notes).collect();
        if positions.is_empty() {
            return Err(format!("thread {thread} never had the notes {notes:?}"));
        }
    }
    let transfers: Vec<usize> = (0..=32).filter(|&transfers| accounts(transfers) == root.accounts).collect();
    if transfers.is_empty() {
        return Err(format!("the accounts never were {:?}", root.accounts));
    }
    blocks.sort_unstable();
    let allocated: Vec<u64> = pool.blocks().into_iter().map(|(offset, _)| offset).collect();
    if allocated != blocks {
        return Err(format!("allocated are {allocated:x?}, reachable {blocks:x?}"));
    }
    // It can be worked with, too.
    transfer(&pool, 0).map_err(|error| error.to_string())?;
    Ok(Some((transfers, threads)))
}

fn record<A: Atomicity>(options: &Options, schedule: &Schedule, work: impl Fn(&Desks<'_, Scene, A>)) -> Run {
    let run = check::record(BYTES, Platform::Adr, schedule, |env| {
        let pool = Desks::<Scene, A>::create(env, options).expect("a pool can be made");
        work(&pool);
    });
    run.unwrap_or_else(|error| panic!("{error}"))
}

/// Notes by one thread: each crash point allows one or two states.
fn check_notes<S, A>() -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let run = record::<S>(&SMALL, &Schedule::walk(1), |pool| {
        for one in STEPS {
            assert_eq!(step(pool, 0, one).is_err(), matches!(one, Step::GiveUp(_)));
        }
    });
    let outcome = Check::new(&run).run(|image, crash| {
        let ended = count_ended(&crash);
        match recovered::<A>(image)? {
            None if ended == 0 && crash.begun() == 0 => Ok(()),
            None => Err(format!("{ended} regions ended in a pool that is not there")),
            Some((_, [notes, _])) if notes.iter().any(|state| (ended..=ended + 1).contains(state)) => Ok(()),
            Some((_, [notes, _])) => {
                Err(format!("{ended} regions had ended, and the notes are those after {notes:?}"))
            }
        }
    });
    (run, outcome)
}

/// Regions that had ended. One that was given up has no end.
fn count_ended(crash: &Crash<'_>) -> usize {
    crash.ended_regions().count()
}

fn check_transfers<S, A>(transfers: usize) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let run = record::<S>(&SMALL, &Schedule::walk(1), |pool| {
        (0..transfers).for_each(|number| transfer(pool, number).expect("there is room"));
    });
    let outcome = Check::new(&run).run(|image, crash| {
        let ended = count_ended(&crash);
        match recovered::<A>(image)? {
            None if crash.begun() == 0 => Ok(()),
            None => Err("the pool is not there".to_owned()),
            Some((found, _)) if found.iter().any(|count| (ended..=ended + 1).contains(count)) => Ok(()),
            Some((found, _)) => Err(format!("{ended} transfers had ended, found are {found:?}")),
        }
    });
    (run, outcome)
}

fn clean(run: &Run, outcome: &Outcome) {
    assert!(outcome.findings.is_empty(), "{}", Check::new(run).story(outcome));
    assert!(outcome.images > 100, "{outcome:?}");
}

fn keeps_regions_whole<A: Atomicity>() {
    let (run, outcome) = check_notes::<A, A>();
    clean(&run, &outcome);
    let (run, outcome) = check_transfers::<A, A>(20);
    clean(&run, &outcome);
}

#[test]
fn redo_keeps_regions_whole_and_blocks_accounted_for() {
    keeps_regions_whole::<Redo>();
}

#[test]
fn undo_keeps_regions_whole_and_blocks_accounted_for() {
    keeps_regions_whole::<Undo>();
}

/// What is not protected is not kept whole, and that is found.
#[test]
fn without_protection_regions_are_torn() {
    let (_, outcome) = check_transfers::<Unprotected, Unprotected>(4);
    assert!(!outcome.findings.is_empty(), "{} images", outcome.images);
}

/// Notes by each thread, and transfers by both under a lock.
fn check_threads<S, A>(options: &Options, seed: u64) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let run = record::<S>(options, &Schedule::walk(seed), |pool| {
        let transfers = pool.env().mutex(0);
        pool.env().threads(THREADS as u32, |thread| {
            for one in STEPS {
                _ = step(pool, thread as usize, one);
                let mut transfers = pool.env().lock(&transfers);
                transfer(pool, *transfers).expect("there is room");
                *transfers += 1;
            }
        });
    });
    let outcome = Check::new(&run).run(|image, crash| {
        let ended = count_ended(&crash);
        match recovered::<A>(image)? {
            None if crash.begun() == 0 => Ok(()),
            None => Err("the pool is not there".to_owned()),
            Some((found, [a, b])) => {
                let regions = a.iter().flat_map(|a| b.iter().map(move |b| a + b));
                let regions = regions.flat_map(|notes| found.iter().map(move |found| notes + found));
                let fits = regions.into_iter().any(|regions| (ended..=ended + THREADS).contains(&regions));
                let text = || format!("{ended} regions had ended; found are {found:?}, {a:?} and {b:?}");
                fits.then_some(()).ok_or_else(text)
            }
        }
    });
    (run, outcome)
}

#[test]
fn threads_do_not_disturb_each_other() {
    for seed in 0..6 {
        let (run, outcome) = check_threads::<Redo, Redo>(&SMALL, seed);
        clean(&run, &outcome);
        let (run, outcome) = check_threads::<Undo, Undo>(&SMALL, seed);
        clean(&run, &outcome);
    }
}

/// More regions than undo logs: they wait for each other.
#[test]
fn threads_share_a_log() {
    for seed in 0..3 {
        let (run, outcome) = check_threads::<Undo, Undo>(&with_logs(1, 512), seed);
        clean(&run, &outcome);
    }
}

/// Recovery may be cut short by another crash.
fn recovery_may_crash<A: Atomicity>() {
    let run = record::<A>(&SMALL, &Schedule::walk(1), |pool| {
        (0..7).for_each(|number| transfer(pool, number).expect("there is room"));
        STEPS[..2].iter().for_each(|&one| step(pool, 0, one).expect("there is room"));
    });
    // Images that recovery has much to do on, from all of the run.
    let images: RefCell<Vec<(Vec<u8>, usize)>> = RefCell::default();
    let seen = RefCell::new(0u64);
    Check::new(&run).run(|image, crash| {
        *seen.borrow_mut() += 1;
        if seen.borrow().is_multiple_of(5) && crash.begun() > 0 {
            images.borrow_mut().push((image.to_bytes(), count_ended(&crash)));
        }
        // The search varies what recovery reads.
        recovered::<A>(image).map(|_| ())
    });
    let images = images.into_inner();
    assert!(images.len() >= 20, "{}", images.len());
    for (bytes, ended) in images {
        let again = check::record_on(Image::from_bytes(&bytes), Platform::Adr, &Schedule::walk(1), |env| {
            Desks::<Scene, A>::open(env).expect("it can be recovered");
        });
        let again = again.unwrap_or_else(|error| panic!("{error}"));
        let outcome = Check::new(&again).run(|image, _| {
            let (found, [notes, _]) = recovered::<A>(image)?.ok_or("the pool is gone")?;
            let after =
                |count: usize| found.contains(&count.min(7)) && notes.contains(&count.saturating_sub(7));
            (after(ended) || after(ended + 1))
                .then_some(())
                .ok_or_else(|| format!("{ended} had ended, found {found:?}, {notes:?}"))
        });
        assert!(outcome.findings.is_empty(), "{}", Check::new(&again).story(&outcome));
    }
}

#[test]
fn recovery_itself_may_crash() {
    recovery_may_crash::<Redo>();
    recovery_may_crash::<Undo>();
}

/// Every mistake is found, without being told where.
fn caught<S, A>(name: &str)
where
    S: Atomicity,
    A: Atomicity,
{
    let (run, outcome) = check_transfers::<S, A>(20);
    assert!(!outcome.findings.is_empty(), "{name} was not found in {} images", outcome.images);
    let story = Check::new(&run).story(&outcome);
    assert!(story.contains("was not durable"), "{name}: {story}");
}

#[test]
fn flaws_are_caught() {
    caught::<Redo<flaw::LogNotFlushed>, Redo>("a log that is not flushed");
    caught::<Redo<flaw::LogNotFenced>, Redo>("a log that is not fenced");
    caught::<Redo<flaw::AppliedEarly>, Redo>("places that are stored to too early");
    caught::<Redo<flaw::PlacesNotFlushed>, Redo>("places that are not flushed");
    caught::<Redo<flaw::NotedEarly>, Redo>("a mark that is set too early");
    // Where one thread works, what is left of its log is done again in order, and that hides it.
    let found =
        (0..20).any(|seed| !check_threads::<Redo<flaw::NotNoted>, Redo>(&SMALL, seed).1.findings.is_empty());
    assert!(found, "a log that is reused too soon was not found");
}

#[test]
fn flaws_of_undo_are_caught() {
    caught::<Undo<flaw::LogNotFlushed>, Undo>("a log that is not flushed");
    caught::<Undo<flaw::LogNotFenced>, Undo>("a log that is not fenced before the store");
    caught::<Undo<flaw::PlacesNotFlushed>, Undo>("places that are not flushed");
    caught::<Undo<flaw::NotedEarly>, Undo>("an end that is noted too early");
    // Four words, and a log of three and an end.
    let run = record::<Undo<flaw::ReusedEarly>>(&with_logs(2, 256), &Schedule::walk(1), |pool| {
        (1..4).for_each(|value| set_accounts(pool, value).expect("the log goes round"));
    });
    let outcome = Check::new(&run).run(|image, _| {
        let env = pmem::Os::new(image);
        match Pool::<_, Desk, Undo>::open(&env) {
            Ok((pool, _)) => {
                let accounts = pool.get(pool.root()).accounts;
                let whole = accounts.iter().all(|account| *account == accounts[0]);
                whole.then_some(()).ok_or_else(|| format!("{accounts:?}"))
            }
            Err(Error::NotAPool { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    assert!(!outcome.findings.is_empty(), "a log that is reused too soon was not found");
}

/// Sets all accounts.
fn set_accounts<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, value: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let accounts = tx.root().part(std::mem::offset_of!(Root, accounts), |root: &Root| &root.accounts);
        tx.set(accounts, [value; ACCOUNTS])
    })
}

/// A region that does not fit into its log leaves nothing, even if it goes on after it was told; the next one finds the log free.
#[test]
fn a_region_that_is_too_long_is_taken_back() {
    let env = pmem::Os::new(Image::new(BYTES));
    let pool = Desks::<_, Undo>::create(&env, &with_logs(1, 256)).expect("a pool can be made");
    let too_long = Error::TooLong { words: 4, holds: 3 };
    assert_eq!(set_accounts(&pool, 5), Err(too_long.clone()));
    let stubborn = pool.region(|tx| {
        let accounts = tx.root().part(std::mem::offset_of!(Root, accounts), |root: &Root| &root.accounts);
        for at in 0..ACCOUNTS {
            _ = tx.set(accounts.element(at), 5);
        }
        Ok(())
    });
    assert_eq!(stubborn, Err(too_long));
    assert_eq!(pool.get(pool.root()).accounts, accounts(0));
    transfer(&pool, 0).expect("two words fit");
    assert_eq!(pool.get(pool.root()).accounts, accounts(1));
}

/// Fences of some regions that set so many words.
fn fences<A: Atomicity>(regions: u64, words: usize) -> u64 {
    let counts = event::Counts::default();
    let space = Recorded::new(Image::new(1 << 20), counts, &Recording::persistent("regions", "pool"))
        .expect("counts take it");
    let env = pmem::Os::new(space);
    {
        let pool = Desks::<_, A>::create(&env, &Options::default()).expect("a pool can be made");
        for value in 0..regions {
            let done = pool.region(|tx| {
                let accounts =
                    tx.root().part(std::mem::offset_of!(Root, accounts), |root: &Root| &root.accounts);
                (0..words).try_for_each(|at| tx.set(accounts.element(at), value))
            });
            done.expect("there is room");
        }
    }
    let (_, counts) = env.into_space().finish().expect("counts do not fail");
    counts.fences
}

/// What a region waits for: by redo its record, by undo each word's line, its words, and its end.
#[test]
fn fences_of_a_region() {
    for words in 1..=ACCOUNTS {
        assert_eq!(fences::<Redo>(5, words) - fences::<Redo>(0, words), 5, "redo, {words} words");
        let expected = 5 * (words as u64 + 2);
        assert_eq!(fences::<Undo>(5, words) - fences::<Undo>(0, words), expected, "undo, {words} words");
        assert_eq!(
            fences::<Unprotected>(5, words) - fences::<Unprotected>(0, words),
            5,
            "none, {words} words"
        );
    }
}
