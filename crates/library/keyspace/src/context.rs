//! What a command has to do with: a transaction, its client, and what all clients share.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::data::layout::{Held, Kind, List, Value};
use crate::data::records::Trouble;
use crate::data::tx::{Slot, Tx};
use crate::reply::{Reply, Version};

/// Why a command gives no reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An error for the client, with its code.
    Says(Cow<'static, [u8]>),
    /// The store can't do it.
    Store(Trouble),
    /// There is nothing yet.
    Waits {
        /// Milliseconds that the client waits; 0 for as long as it takes.
        timeout: u64,
        /// What it gets if it does not wait, as in a transaction.
        otherwise: Reply,
    },
}

impl From<Trouble> for Fault {
    fn from(trouble: Trouble) -> Fault {
        Fault::Store(trouble)
    }
}

impl From<&'static str> for Fault {
    fn from(text: &'static str) -> Fault {
        Fault::Says(text.as_bytes().into())
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Says(text.into_bytes().into())
    }
}

impl Fault {
    /// An error that repeats an argument, as far as C takes it for text.
    pub fn repeating(before: &str, argument: &[u8], behind: &str) -> Fault {
        Fault::Says([before.as_bytes(), c_text(argument), behind.as_bytes()].concat().into())
    }
}

/// What C takes for the text that begins here.
pub fn c_text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The version of Redis whose replies these are.
pub const REDIS: &str = "7.0.15";

/// What a command gives.
pub type Outcome = Result<Reply, Fault>;

/// Redis's errors that many commands have.
pub mod says {
    /// A key holds another type.
    pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
    /// No integer.
    pub const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
    /// No number.
    pub const NOT_FLOAT: &str = "ERR value is not a valid float";
    /// Arguments in no order that means something.
    pub const SYNTAX: &str = "ERR syntax error";
    /// There is no such key.
    pub const NO_KEY: &str = "ERR no such key";
    /// A count below 0.
    pub const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
    /// Beyond the list.
    pub const NO_INDEX: &str = "ERR index out of range";
    /// A sum that is infinite or no number.
    pub const INFINITE: &str = "ERR increment would produce NaN or Infinity";
}

/// A command: its name, how it is called, and what does it.
pub struct Command {
    /// In lower case.
    pub name: &'static str,
    /// Arguments with the name; negative: at least so many.
    pub arity: i32,
    /// Whether it changes something: `w`; stays possible without the password: `a`; or not in a transaction:
    /// `m`. `f` is fast, `r` reads. `1` or `2`: that argument says how many keys follow.
    pub flags: &'static str,
    /// The first and last argument that are keys, and the step between keys; as Redis gives them.
    pub keys: (i32, i32, i32),
    /// What does it.
    pub run: fn(&mut Context, &[&[u8]]) -> Outcome,
    /// Its subcommands, if it has some, and how many arguments they have.
    pub inside: &'static [(&'static str, i32)],
}

/// Whether there are as many arguments as the arity says; a negative one: at least.
pub fn fits(arity: i32, arguments: usize) -> bool {
    let given = arguments as i32;
    if arity < 0 { given >= -arity } else { given == arity }
}

impl Command {
    /// Whether it has a flag.
    pub fn is(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }
}

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub struct Queue {
    /// Their arguments.
    pub commands: Vec<Vec<Vec<u8>>>,
    /// Bytes of these.
    pub bytes: usize,
    /// Whether one of them was refused.
    pub refused: bool,
}

/// Whether a client gets replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// It does.
    On,
    /// It does not.
    Off,
    /// Not to the next command.
    SkipNext,
    /// Not to this one.
    Skip,
}

/// What the server knows of a client.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// The database that it selected.
    pub database: usize,
    /// The protocol that it speaks.
    pub version: Version,
    /// Whether it may do more than give a password.
    pub trusted: bool,
    /// The name that it gave itself.
    pub name: Vec<u8>,
    /// Name and version of its library.
    pub library: [Vec<u8>; 2],
    /// Its commands since `MULTI`.
    pub queue: Option<Queue>,
    /// Keys that it watches, and whether each was there then.
    pub watched: Vec<(usize, Vec<u8>, bool)>,
    /// Whether it gets replies.
    pub replies: Replies,
    /// Whether the connection ends behind this reply.
    pub ends: bool,
    /// What it waits for.
    pub waiting: Option<Waiting>,
}

/// A command that waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
    /// How long, in milliseconds since 1970; none for as long as it takes.
    pub until: Option<u64>,
}

impl Session {
    /// A client that has just come.
    pub fn new(id: u64, trusted: bool) -> Session {
        Session {
            id,
            database: 0,
            version: Version::Two,
            trusted,
            name: Vec::new(),
            library: [Vec::new(), Vec::new()],
            queue: None,
            watched: Vec::new(),
            replies: Replies::On,
            ends: false,
            waiting: None,
        }
    }
}

/// How a client looks to others.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address and ours.
    pub addresses: [String; 2],
    /// When it came, in milliseconds since 1970.
    pub since: u64,
    /// When it gave a command last.
    pub active: u64,
    /// That command.
    pub last: &'static str,
    /// The database that it selected.
    pub database: usize,
    /// Commands that wait for `EXEC`; -1 outside of a transaction.
    pub queued: i64,
    /// The name that it gave itself.
    pub name: Vec<u8>,
    /// Name and version of its library.
    pub library: [Vec<u8>; 2],
    /// The protocol that it speaks.
    pub version: Version,
}

/// Settings of a server that commands see.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The password, if one is needed.
    pub password: Option<Vec<u8>>,
    /// The port.
    pub port: u16,
    /// Addresses.
    pub bind: String,
    /// Connections at a time.
    pub connections: usize,
    /// Bytes of an argument.
    pub argument: usize,
    /// Bytes of a string that commands may build.
    pub value: usize,
    /// Whether replies wait until what they show is durable.
    pub durable: bool,
    /// The engine's name.
    pub engine: String,
    /// The store's path.
    pub path: String,
}

/// What all clients share.
pub struct Shared {
    /// Settings.
    pub settings: Settings,
    /// Further settings that `CONFIG SET` keeps and nothing needs.
    pub kept: BTreeMap<String, String>,
    /// Clients by number.
    pub clients: BTreeMap<u64, Client>,
    /// Clients that are to be ended.
    pub killed: Vec<u64>,
    /// Who watches a key.
    pub watchers: HashMap<(usize, Vec<u8>), Vec<u64>>,
    /// Whose watched keys changed.
    pub changed: HashSet<u64>,
    /// For `SPOP` and the like.
    pub random: fastrand::Rng,
    /// When the server started, in milliseconds since 1970.
    pub started: u64,
    /// Numbers for `INFO`.
    pub stats: Stats,
    /// Clients that wait.
    pub waiting: usize,
    /// Whether something changed that they may wait for.
    pub news: bool,
    /// Whether `SHUTDOWN` was given.
    pub ends: bool,
    /// Why nothing can be written any more.
    pub broken: Option<String>,
    /// All commands.
    pub commands: &'static [Command],
}

/// Numbers for `INFO`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were refused.
    pub refused: u64,
    /// Connections that were dropped because they did not read.
    pub slow: u64,
    /// Commands.
    pub commands: u64,
    /// Keys that expired.
    pub expired: u64,
    /// Waits for durability that were done for all clients together.
    pub syncs: u64,
    /// Keys that were found, and that were not.
    pub found: [u64; 2],
}

/// What a command has to do with.
pub struct Context<'a, 'k> {
    /// Its transaction.
    pub tx: &'a mut Tx<'k>,
    /// Its client.
    pub session: &'a mut Session,
    /// What all share.
    pub shared: &'a mut Shared,
}

impl Context<'_, '_> {
    /// Looks a key up. What expired is removed.
    pub fn slot(&mut self, key: &[u8]) -> Result<Slot, Fault> {
        let mut slot = self.tx.slot(key)?;
        if slot.expired_at().is_some() && self.shared.broken.is_none() {
            self.tx.remove(&mut slot);
            self.shared.stats.expired += 1;
        }
        Ok(slot)
    }

    /// A string's bytes, if there is one.
    pub fn text<'s>(&self, slot: &'s Slot) -> Result<Option<&'s [u8]>, Fault> {
        match slot.value() {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(says::WRONG_TYPE.into()),
        }
    }

    /// A hash, set or sorted set, if there is one.
    pub fn held(&self, slot: &Slot, kind: Kind) -> Result<Option<Held>, Fault> {
        match slot.value() {
            None => Ok(None),
            Some(Value::Held(held)) if held.kind == kind => Ok(Some(*held)),
            Some(_) => Err(says::WRONG_TYPE.into()),
        }
    }

    /// The same, or a new one that is empty.
    pub fn held_or_new(&mut self, slot: &Slot, kind: Kind) -> Result<Held, Fault> {
        let there = self.held(slot, kind)?;
        Ok(there.unwrap_or_else(|| Held { kind, body: self.tx.new_body(), count: 0 }))
    }

    /// A list, if there is one.
    pub fn list(&self, slot: &Slot) -> Result<Option<List>, Fault> {
        match slot.value() {
            None => Ok(None),
            Some(Value::List(list)) => Ok(Some(*list)),
            Some(_) => Err(says::WRONG_TYPE.into()),
        }
    }

    /// Puts back what was changed; what is empty goes away.
    pub fn keep(&mut self, slot: &mut Slot, held: Held) {
        if held.count == 0 {
            self.tx.remove(slot);
        } else if slot.value() == Some(&Value::Held(held)) {
            self.tx.touch(slot);
        } else {
            self.tx.update(slot, Value::Held(held));
        }
    }

    /// The same for a list.
    pub fn keep_list(&mut self, slot: &mut Slot, list: List) {
        if list.count == 0 {
            self.tx.remove(slot);
        } else if slot.value() == Some(&Value::List(list)) {
            self.tx.touch(slot);
        } else {
            self.tx.update(slot, Value::List(list));
        }
    }
}

/// An argument as an integer.
pub fn integer(argument: &[u8]) -> Result<i64, Fault> {
    crate::number::integer(argument).ok_or(says::NOT_INTEGER.into())
}

/// An argument as a count.
pub fn positive(argument: &[u8]) -> Result<u64, Fault> {
    let number = crate::number::integer(argument).and_then(|number| u64::try_from(number).ok());
    number.ok_or(says::NOT_POSITIVE.into())
}

/// An argument as a number.
pub fn double(argument: &[u8]) -> Result<f64, Fault> {
    crate::number::double(argument).ok_or(says::NOT_FLOAT.into())
}

/// Whether an argument is this word, in either case.
pub fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// Where a range of a sequence begins and how long it is: both ends may count from behind.
pub fn span(start: i64, end: i64, count: u64) -> (u64, u64) {
    let count = count as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(count) } else { at };
    let (start, end) = (from_end(start).max(0), from_end(end).min(count - 1));
    if start > end || start >= count { (0, 0) } else { (start as u64, (end - start + 1) as u64) }
}
