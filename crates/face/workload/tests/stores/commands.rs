//! Redis's commands on a store: in every legal crash image each command is there as a whole or not at all,
//! and all that were acknowledged are.

use std::ops::Bound;
use std::sync::Arc;

use crash::{Bounds, Change as Word, Checker, Contents, MarkKind, Oracle, Outcome, Platform, Recorder};
use keyspace::{Change, Core, InMemory, Keyspace, Records, Session, Settings, Trouble};
use kv::{Batch, Durable, Engine, Flaw, Options, Store, Ticket};
use pmem::Os;
use space::{Env, Image, Observer, Recorded, Recording, Scratch, Space};

const BYTES: u64 = 8192 + 256 * 1024;
/// The time of all commands, in milliseconds.
const NOW: u64 = 1_800_000_000_000;

/// Commands that change several records each.
const COMMANDS: &[&str] = &[
    "SET a 1",
    "MSET a 2 b three c 4",
    "INCRBY a 40",
    "HSET h x 1 y 2 z 3",
    "RPUSH l 1 2 3 4",
    "LPOP l 2",
    "SADD s p q r",
    "ZADD z 1 one 2 two",
    "RENAME h g",
    "HDEL g x",
    "RPOPLPUSH l m",
    "MULTI",
    "SET b changed",
    "DEL c",
    "HSET g x again",
    "EXEC",
    "SMOVE s t p",
    "ZINCRBY z 5 one",
    "SUNIONSTORE u s t",
    "DEL g z",
    "SET a last EX 100",
    "COPY m n",
    "FLUSHDB",
    "SET a 1",
];

/// All records, in order.
type Dump = Vec<(Vec<u8>, Vec<u8>)>;

/// A store as the commands want it.
struct Kept<E: Env + Send + 'static>(Store<E, Arc<E>>)
where
    Store<E, Arc<E>>: Send + Sync;

fn trouble(error: kv::Error) -> Trouble {
    Trouble(error.to_string())
}

impl<E: Env + Send + 'static> Records for Kept<E>
where
    Store<E, Arc<E>>: Send + Sync,
{
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        self.0.get(key).map_err(trouble)
    }

    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Trouble> {
        self.0.scan((Bound::Included(from), Bound::Unbounded), visit).map_err(trouble)
    }

    fn scan_back(&self, end: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Trouble> {
        self.0.scan_back((Bound::Unbounded, Bound::Excluded(end)), visit).map_err(trouble)
    }

    fn write(&self, changes: &[Change]) -> Result<u64, Trouble> {
        let ticket = match changes {
            [(key, Some(value))] => self.0.put(key, value),
            [(key, None)] => self.0.delete(key).map(|ticket| ticket.unwrap_or(Ticket::DUE)),
            _ => {
                let mut batch = Batch::new();
                for (key, value) in changes {
                    match value {
                        Some(value) => batch.put(key, value),
                        None => batch.delete(key),
                    };
                }
                self.0.write(&batch)
            }
        };
        ticket.map(Ticket::number).map_err(trouble)
    }

    fn wait(&self, ticket: u64) -> Result<(), Trouble> {
        self.0.wait(Ticket::new(ticket)).map_err(trouble)
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn tidy_up(&self) -> Result<bool, Trouble> {
        self.0.collect().map_err(trouble)
    }

    fn bytes(&self) -> (u64, u64) {
        (0, 0)
    }
}

fn settings() -> Settings {
    Settings {
        password: None,
        port: 0,
        bind: String::new(),
        connections: 1,
        argument: 1 << 20,
        value: 1 << 20,
        durable: true,
        engine: String::new(),
        path: String::new(),
    }
}

/// Runs commands; `around` is called before and after each.
fn execute(records: Arc<dyn Records>, commands: &[&str], mut around: impl FnMut(usize, bool)) {
    let keyspace = Keyspace::open(records.clone(), [1, 2]).expect("a store");
    let mut core = Core::new(keyspace, settings(), 3, NOW);
    let mut session = Session::new(1, true);
    for (at, command) in commands.iter().enumerate() {
        around(at, true);
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let reply = format!("{:?}", core.execute(&mut session, &words, NOW));
        assert!(!reply.contains("ERR"), "{command}: {reply}");
        records.wait(core.keyspace.ticket()).expect("it does not fail");
        around(at, false);
    }
}

/// All records.
fn dump(records: &dyn Records) -> Result<Dump, Trouble> {
    let mut all = Vec::new();
    records.scan(&[], &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        true
    })?;
    Ok(all)
}

/// What the records are after each number of commands.
fn states() -> Vec<Dump> {
    let after = |count: usize| {
        let records: Arc<dyn Records> = Arc::new(InMemory::default());
        execute(records.clone(), &COMMANDS[..count], |_, _| {});
        dump(&*records).expect("in memory")
    };
    (0..=COMMANDS.len()).map(after).collect()
}

struct Judge<'o> {
    options: &'o Options,
    states: Vec<Dump>,
    image: Scratch,
}

impl Oracle for Judge<'_> {
    fn examine(&mut self, image: &crash::Image<'_>) -> Result<(), String> {
        let words: Vec<_> =
            image.changes.iter().map(|&Word { place, word }| (place.offset(), word)).collect();
        self.image.apply(&words);
        let bytes = self.image.to_bytes();
        self.image.rollback();
        let (mut begun, mut ended) = (0, 0);
        for mark in image.marks() {
            match mark.kind {
                MarkKind::Begin(number) => begun = begun.max(number as usize),
                MarkKind::End(number) => ended = ended.max(number as usize),
                _ => {}
            }
        }
        let store = match Store::open_on(Arc::new(Os::new(Image::from_bytes(&bytes))), self.options) {
            Ok(store) => store,
            Err(_) if begun == 0 => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let records: Arc<dyn Records> = Arc::new(Kept(store));
        let found = dump(&*records).map_err(|error| error.to_string())?;
        // What `Keyspace::open` writes first is in none of the states of no commands.
        let first = begun == 0 && found.len() <= self.states[0].len();
        if !first && !self.states[ended..=begun].contains(&found) {
            let what = COMMANDS.get(ended).unwrap_or(&"the last");
            return Err(format!("{} records are no state from {ended} to {begun} ({what})", found.len()));
        }
        let keyspace = Keyspace::open(records, [1, 2]).map_err(|error| error.to_string())?;
        let mut core = Core::new(keyspace, settings(), 3, NOW);
        let reply = format!("{:?}", core.execute(&mut Session::new(1, true), &[b"SET", b"later", b"1"], NOW));
        if reply.contains("ERR") { Err(reply) } else { Ok(()) }
    }
}

fn check(options: &Options) -> Outcome {
    let recording = Recording { values: true, ..Recording::persistent("commands", "store") };
    let space = Recorded::new(Image::new(BYTES), Recorder::new(Platform::ADR), &recording);
    let env = Arc::new(Os::new(space.expect("the sink takes a recording")));
    let store = Store::create_on(env.clone(), options).expect("room");
    execute(Arc::new(Kept(store)), COMMANDS, |at, begins| {
        let number = at as u64 + 1;
        match begins {
            true => env.space().observer().region_begin(number),
            false => env.space().observer().region_end(number),
        }
    });
    let env = Arc::into_inner(env).expect("nobody else has it");
    let (_, recorder) = env.into_space().finish().expect("the sink takes all events");
    let history = recorder.into_history();
    let contents = Contents::default();
    let mut checker = Checker::new(&history, &contents);
    checker.bounds = Bounds { per_cut: 24, findings: 1, ..Bounds::default() };
    checker.run(&mut Judge { options, states: states(), image: Scratch::new(BYTES) })
}

fn options(engine: Engine, flaw: Option<Flaw>) -> Options {
    let common = Options { chunk: 4 << 10, lanes: 1, shards: 2, seed: Some(7), ..Options::default() };
    Options { engine, flaw, durable: Some(Durable::AtOnce), ..common }
}

#[test]
fn every_command_is_whole_or_not_there() {
    for engine in [Engine::Log, Engine::Slab] {
        let outcome = check(&options(engine, None));
        let found: Vec<_> = outcome.findings.iter().map(|finding| &finding.message).collect();
        assert!(found.is_empty(), "{engine:?}: {found:#?}");
        assert!(outcome.images > 200, "{} images", outcome.images);
        let outcome = check(&options(engine, Some(Flaw::NotFenced)));
        assert!(!outcome.findings.is_empty(), "{engine:?}: a store that does not wait was not found");
    }
}
