//! What the crash suite does to a pool, and what recovery must find of it.

use std::cell::Cell;

use region::{Atomicity, Error, Geometry, Layout, Options, Pool, Ptr, Tx};
use space::sim::Schedule;
use space::{Env, Image, Scratch, Space};
use strandline::check::{self, Check, Crash, Run, Scene};
use strandline::crash::{Outcome, Platform};

/// Accounts, and lists of notes, one for each thread.
pub(crate) struct Desk;
region::persistent! { Desk:
    pub(crate) struct Root { pub(crate) accounts: [u64; ACCOUNTS], pub(crate) notes: [Ptr<Note, Desk>; THREADS] }
    pub(crate) struct Note { text: u64, next: Ptr<Note, Desk> }
}
impl Layout for Desk {
    const NAME: &'static str = "desk";
    type Root = Root;
}

pub(crate) const ACCOUNTS: usize = 4;
pub(crate) const THREADS: usize = 2;
/// Logs of eight lines: they are full every few regions.
pub(crate) const SMALL: Options = with_logs(2, 512);
pub(crate) const BYTES: u64 = 16384 + 4 * 4096;

pub(crate) const fn with_logs(logs: u32, log_bytes: u32) -> Options {
    Options { geometry: Some(Geometry { logs, log_bytes, chunk_bytes: 4096 }), bytes: None }
}

/// Chunks in which the map of small blocks has more than one line.
pub(crate) const LONG_MAPS: Options = Options {
    geometry: Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 8192 }),
    bytes: Some(16384 + 4 * 8192),
};

pub(crate) type Desks<'e, E, A> = Pool<&'e E, Desk, A>;

/// What a thread's part of the desk holds.
pub(crate) type Notes = Vec<u64>;

/// One region's change of a thread's notes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Push(u64),
    Pop,
    /// Takes one away and puts two there.
    Replace(u64, u64),
    /// Gives up in the middle.
    GiveUp(u64),
}

pub(crate) const STEPS: [Step; 9] = [
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

/// A region of a pool of desks.
pub(crate) type DeskTx<'p, 'e, E, A> = Tx<'p, &'e E, Desk, A>;

pub(crate) fn step<E: Env, A: Atomicity>(
    pool: &Desks<'_, E, A>,
    thread: usize,
    step: Step,
) -> Result<(), Error> {
    pool.region(|tx| step_in(tx, thread, step))
}

/// The step's part of a region.
pub(crate) fn step_in<E: Env, A: Atomicity>(
    tx: &mut DeskTx<'_, '_, E, A>,
    thread: usize,
    step: Step,
) -> Result<(), Error> {
    let head = Root::notes(tx.root()).element(thread);
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
}

/// A step of the first thread, in which a note that is pushed is reserved and filled without a region. A
/// second one is reserved and given up.
pub(crate) fn step_reserved<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, one: Step) -> Result<(), Error> {
    let Step::Push(text) = one else { return step(pool, 0, one) };
    let head = Root::notes(pool.root()).element(0);
    let (mut note, mut other) = (pool.reserve::<Note>()?, pool.reserve::<Note>()?);
    note.set(Note { text, next: pool.get(head) });
    other.set(Note { text: 99, next: note.ptr() });
    drop(other);
    note.publish(head).map(drop)
}

/// What the notes are after each region that was not given up.
pub(crate) fn states() -> Vec<Notes> {
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
pub(crate) fn transfer<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, number: usize) -> Result<(), Error> {
    pool.region(|tx| transfer_in(tx, number))
}

/// The transfer's part of a region.
pub(crate) fn transfer_in<E: Env, A: Atomicity>(
    tx: &mut DeskTx<'_, '_, E, A>,
    number: usize,
) -> Result<(), Error> {
    let accounts = Root::accounts(tx.root());
    let (from, to) = (accounts.element(number % ACCOUNTS), accounts.element((number + 1) % ACCOUNTS));
    tx.set(from, tx.get(from).wrapping_sub(7))?;
    tx.set(to, tx.get(to).wrapping_add(7))
}

/// What the accounts are after so many transfers.
pub(crate) fn accounts(transfers: usize) -> [u64; ACCOUNTS] {
    let mut accounts = [0u64; ACCOUNTS];
    for number in 0..transfers {
        accounts[number % ACCOUNTS] = accounts[number % ACCOUNTS].wrapping_sub(7);
        accounts[(number + 1) % ACCOUNTS] = accounts[(number + 1) % ACCOUNTS].wrapping_add(7);
    }
    accounts
}

/// Transfers, and how far each thread's notes have come: all the states that look like what is there.
pub(crate) type Positions = (Vec<usize>, [Vec<usize>; THREADS]);

/// What recovery found; nothing if there is no pool. The error is what is wrong.
pub(crate) fn recovered<A>(image: &Scratch) -> Result<Option<Positions>, String>
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

/// What a table says of an engine.
///
/// # Panics
/// If it says nothing: an engine that is new has no line yet.
pub(crate) fn per_engine<A: Atomicity, T: Copy>(table: &[(&str, T)]) -> T {
    let line = table.iter().find(|(name, _)| *name == A::NAME);
    line.unwrap_or_else(|| panic!("this table needs a line for the engine {}", A::NAME)).1
}

thread_local! {
    static NT_IS_SOONER: Cell<bool> = const { Cell::new(false) };
}

/// Does the work on a processor where a line is durable sooner if it is flushed, and on one where past the
/// cache.
pub(crate) fn on_both_processors(work: impl Fn()) {
    [false, true].into_iter().for_each(|sooner| on_processor(sooner, &work));
}

/// Does the work on a processor of which [`space::Space::nt_is_sooner`] is this.
pub(crate) fn on_processor<T>(nt_is_sooner: bool, work: impl FnOnce() -> T) -> T {
    NT_IS_SOONER.set(nt_is_sooner);
    let done = work();
    NT_IS_SOONER.set(false);
    done
}

/// The image as that processor has it.
pub(crate) fn of_processor(image: Image) -> Image {
    if NT_IS_SOONER.get() { image.where_nt_is_sooner() } else { image }
}

/// Records what is done to a new pool.
pub(crate) fn record<A: Atomicity>(
    options: &Options,
    schedule: &Schedule,
    work: impl Fn(&Desks<'_, Scene, A>),
) -> Run {
    let image = of_processor(Image::new(options.bytes.unwrap_or(BYTES)));
    let run = check::record_on(image, Platform::ADR, schedule, |env| {
        assert_eq!(env.space().nt_is_sooner(), NT_IS_SOONER.get());
        let pool = Desks::<Scene, A>::create(env, options).expect("a pool can be made");
        work(&pool);
    });
    run.unwrap_or_else(|error| panic!("{error}"))
}

/// Notes by one thread: each crash point allows one or two states.
pub(crate) fn check_notes<S, A>(options: &Options) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    check_steps::<S, A>(options, |pool, one| step(pool, 0, one))
}

/// The same, where `take` takes each step.
pub(crate) fn check_steps<S, A>(
    options: &Options,
    take: impl Fn(&Desks<'_, Scene, S>, Step) -> Result<(), Error>,
) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let run = record::<S>(options, &Schedule::walk(1), |pool| {
        for one in STEPS {
            assert_eq!(take(pool, one).is_err(), matches!(one, Step::GiveUp(_)));
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
pub(crate) fn count_ended(crash: &Crash<'_>) -> usize {
    crash.ended_regions().count()
}

pub(crate) fn check_transfers<S, A>(transfers: usize) -> (Run, Outcome)
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

/// Regions of one word each.
pub(crate) fn check_words<S, A>(regions: u64) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let run = record::<S>(&SMALL, &Schedule::walk(1), |pool| {
        let accounts = Root::accounts(pool.root());
        for value in 1..=regions {
            pool.region(|tx| tx.set(accounts.element(0), value)).expect("there is room");
        }
    });
    let outcome = Check::new(&run).run(|image, crash| {
        let env = pmem::Os::new(image);
        let ended = count_ended(&crash) as u64;
        match Pool::<_, Desk, A>::open(&env) {
            Ok((pool, _)) => {
                let found = pool.get(pool.root()).accounts[0];
                let text = || format!("{ended} regions had ended, found is {found}");
                (ended..=ended + 1).contains(&found).then_some(()).ok_or_else(text)
            }
            Err(Error::NotAPool { .. }) if crash.begun() == 0 => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    (run, outcome)
}

pub(crate) fn clean(run: &Run, outcome: &Outcome) {
    assert!(outcome.findings.is_empty(), "{}", Check::new(run).story(outcome));
    assert!(outcome.images > 100, "{outcome:?}");
}

/// Notes by each thread, and transfers by both under a lock.
pub(crate) fn check_threads<S, A>(options: &Options, seed: u64) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    check_threads_beside::<S, A>(options, seed, None)
}

/// The same beside a thread that does this.
pub(crate) fn check_threads_beside<S, A>(
    options: &Options,
    seed: u64,
    beside: Option<fn(&Desks<'_, Scene, S>)>,
) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let run = record::<S>(options, &Schedule::walk(seed), |pool| {
        let transfers = pool.env().mutex(0);
        pool.env().threads(THREADS as u32 + u32::from(beside.is_some()), |thread| {
            if thread == THREADS as u32 {
                return beside.into_iter().for_each(|work| work(pool));
            }
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

/// Sets all accounts.
pub(crate) fn set_accounts<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>, value: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let accounts = Root::accounts(tx.root());
        tx.set(accounts, [value; ACCOUNTS])
    })
}
