//! One command at a time: which one it is, whether it may run, what it changes.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::commands::TABLE;
use crate::context::{
    Command, Context, Fault, Outcome, Queue, Replies, Session, Settings, Shared, Stats, Waiting, c_text,
    fits, is,
};
use crate::data::keyspace::{DATABASES, Keyspace};
use crate::data::layout;
use crate::data::records::Trouble;
use crate::data::tx::{Finished, Tx};
use crate::reply::{Reply, Version};

const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";
/// Characters of a name and of all arguments that an error repeats.
const SHOWN: usize = 128;
/// Keys that are looked at for their expiry at a time, and records that are removed.
const EXPIRED_AT_ONCE: usize = 200;
const REMOVED_AT_ONCE: usize = 1000;

/// A store with its clients.
pub struct Core {
    /// The store.
    pub keyspace: Keyspace,
    /// What all clients share.
    pub shared: Shared,
}

impl Core {
    /// A server without clients.
    pub fn new(keyspace: Keyspace, settings: Settings, random: u64, now: u64) -> Core {
        let shared = Shared {
            settings,
            kept: BTreeMap::new(),
            clients: BTreeMap::new(),
            killed: Vec::new(),
            watchers: HashMap::new(),
            changed: HashSet::new(),
            random: fastrand::Rng::with_seed(random),
            started: now,
            stats: Stats::default(),
            waiting: 0,
            news: false,
            ends: false,
            broken: None,
            commands: TABLE,
        };
        Core { keyspace, shared }
    }

    /// Does what a client asks for. `now` is in milliseconds since 1970.
    pub fn execute(&mut self, session: &mut Session, args: &[&[u8]], now: u64) -> Reply {
        self.shared.stats.commands += 1;
        if session.replies == Replies::SkipNext {
            session.replies = Replies::Skip;
        } else if session.replies == Replies::Skip {
            session.replies = Replies::On;
        }
        let reply = match self.dispatch(session, args, now) {
            Ok(reply) => reply,
            Err(Fault::Waits { timeout, .. }) => {
                let args = args.iter().map(|argument| argument.to_vec()).collect();
                let until = (timeout > 0).then(|| now.saturating_add(timeout));
                session.waiting = Some(Waiting { args, until });
                self.shared.waiting += 1;
                Reply::Silence
            }
            Err(fault) => Reply::Error(words(fault)),
        };
        if let Some(client) = self.shared.clients.get_mut(&session.id) {
            client.active = now;
            client.database = session.database;
            client.version = session.version;
            client.queued = session.queue.as_ref().map_or(-1, |queue| queue.commands.len() as i64);
            if client.name != session.name || client.library != session.library {
                client.name.clone_from(&session.name);
                client.library.clone_from(&session.library);
            }
        }
        if session.replies == Replies::On { reply } else { Reply::Silence }
    }

    /// Tries again what a client waits for; its reply, if there is one.
    pub fn execute_again(&mut self, session: &mut Session, now: u64) -> Option<Reply> {
        let waiting = session.waiting.as_ref()?;
        let args: Vec<&[u8]> = waiting.args.iter().map(Vec::as_slice).collect();
        let outcome = match find(args[0]) {
            Some(command) => {
                let mut own = Session::new(session.id, session.trusted);
                own.database = session.database;
                self.run(command, &mut own, &args, now)
            }
            None => Err(unknown(&args)),
        };
        let reply = match outcome {
            Ok(reply) => reply,
            Err(Fault::Waits { .. }) if waiting.until.is_none_or(|until| now < until) => return None,
            Err(Fault::Waits { .. }) => Reply::NullArray,
            Err(fault) => Reply::Error(words(fault)),
        };
        session.waiting = None;
        self.shared.waiting -= 1;
        Some(if session.replies == Replies::On { reply } else { Reply::Silence })
    }

    fn dispatch(&mut self, session: &mut Session, args: &[&[u8]], now: u64) -> Outcome {
        let Some(name) = args.first() else { return Ok(Reply::Silence) };
        if is(name, "QUIT") {
            session.ends = true;
            return Ok(Reply::OK);
        }
        let checked = self.checked(session, args);
        let command = match checked {
            Ok(command) => command,
            Err(fault) => {
                if let Some(queue) = &mut session.queue {
                    queue.refused = true;
                }
                if find(name).is_some_and(|command| command.name == "exec") {
                    session.queue = None;
                    self.unwatch(session);
                    return Err(discarded(&words(fault)));
                }
                return Err(fault);
            }
        };
        if let Some(client) = self.shared.clients.get_mut(&session.id) {
            client.last = command.name;
        }
        let at_once = ["exec", "discard", "multi", "watch", "reset"];
        if let Some(queue) = &mut session.queue
            && !at_once.contains(&command.name)
        {
            queue.bytes += args.iter().map(|argument| argument.len()).sum::<usize>();
            if queue.bytes > self.shared.settings.argument {
                queue.refused = true;
                return Err("ERR the transaction is larger than a request may be".into());
            }
            queue.commands.push(args.iter().map(|argument| argument.to_vec()).collect());
            return Ok(Reply::Word("QUEUED"));
        }
        match command.name {
            "multi" if session.queue.is_some() => Err("ERR MULTI calls can not be nested".into()),
            "multi" => {
                session.queue = Some(Queue::default());
                Ok(Reply::OK)
            }
            "exec" => self.exec(session, now),
            "discard" => {
                session.queue.take().ok_or("ERR DISCARD without MULTI")?;
                self.unwatch(session);
                Ok(Reply::OK)
            }
            "watch" => self.watch(session, &args[1..], now),
            "unwatch" => {
                self.unwatch(session);
                Ok(Reply::OK)
            }
            "reset" => {
                self.reset(session);
                Ok(Reply::Word("RESET"))
            }
            _ => self.run(command, session, args, now),
        }
    }

    /// The command, if it may be given.
    fn checked(&self, session: &Session, args: &[&[u8]]) -> Result<&'static Command, Fault> {
        let Some(command) = find(args[0]) else { return Err(unknown(args)) };
        if !command.inside.is_empty() && args.len() > 1 {
            subcommand(command, args)?;
        } else if !fits(command.arity, args.len()) {
            return Err(format!("ERR wrong number of arguments for '{}' command", command.name).into());
        }
        if !session.trusted && !command.is('a') {
            return Err("NOAUTH Authentication required.".into());
        }
        if session.queue.is_some() && command.is('m') {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        Ok(command)
    }

    /// Runs a command in a transaction of its own.
    fn run(&mut self, command: &Command, session: &mut Session, args: &[&[u8]], now: u64) -> Outcome {
        if matches!(command.name, "dbsize" | "info") {
            (0..DATABASES).try_for_each(|database| self.keyspace.count(database).map(drop))?;
        }
        let mut tx = Tx::new(&self.keyspace, session.database, now);
        let mut context = Context { tx: &mut tx, session, shared: &mut self.shared };
        let reply = (command.run)(&mut context, args)?;
        let finished = tx.finish();
        self.commit(finished)?;
        Ok(reply)
    }

    fn commit(&mut self, finished: Finished) -> Result<(), Fault> {
        if finished.changes.is_empty() && finished.touched.is_empty() {
            return Ok(());
        }
        if let Some(why) = &self.shared.broken {
            return Err(format!("MISCONF nothing can be written: {why}; restart the server").into());
        }
        self.keyspace.commit(&finished.changes, finished.aside)?;
        self.shared.news |= self.shared.waiting > 0;
        if !self.shared.watchers.is_empty() {
            for key in finished.touched {
                if let Some(clients) = self.shared.watchers.get(&key) {
                    self.shared.changed.extend(clients);
                }
            }
        }
        Ok(())
    }

    /// Runs what was queued in one transaction.
    fn exec(&mut self, session: &mut Session, now: u64) -> Outcome {
        let queue = session.queue.take().ok_or("ERR EXEC without MULTI")?;
        let expired = session.watched.iter().any(|(database, key, was_there)| {
            let slot = Tx::new(&self.keyspace, *database, now).slot(key);
            *was_there && slot.is_ok_and(|slot| slot.entry().is_none())
        });
        let changed = self.shared.changed.contains(&session.id) || expired;
        self.unwatch(session);
        if queue.refused {
            return Err(ABORTED.into());
        }
        if changed {
            return Ok(Reply::NullArray);
        }
        let mut tx = Tx::new(&self.keyspace, session.database, now);
        let mut replies = Vec::new();
        for args in &queue.commands {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let mut context = Context { tx: &mut tx, session, shared: &mut self.shared };
            let outcome = match find(args[0]) {
                Some(command) if command.name == "unwatch" => Ok(Reply::OK),
                Some(command) => (command.run)(&mut context, &args),
                None => Err(unknown(&args)),
            };
            replies.push(match outcome {
                Ok(reply) => reply,
                Err(Fault::Waits { otherwise, .. }) => otherwise,
                Err(Fault::Store(trouble)) => return Err(discarded(trouble.0.as_bytes())),
                Err(fault) => Reply::Error(words(fault)),
            });
        }
        let finished = tx.finish();
        self.commit(finished).map_err(|fault| discarded(&words(fault)))?;
        Ok(Reply::Array(replies))
    }

    fn watch(&mut self, session: &mut Session, keys: &[&[u8]], now: u64) -> Outcome {
        if session.queue.is_some() {
            return Err("ERR WATCH inside MULTI is not allowed".into());
        }
        for key in keys {
            let tx = Tx::new(&self.keyspace, session.database, now);
            let there = tx.slot(key)?.entry().is_some();
            let name = (session.database, key.to_vec());
            let clients = self.shared.watchers.entry(name.clone()).or_default();
            if !clients.contains(&session.id) {
                clients.push(session.id);
                session.watched.push((name.0, name.1, there));
            }
        }
        Ok(Reply::OK)
    }

    fn unwatch(&mut self, session: &mut Session) {
        for (database, key, _) in session.watched.drain(..) {
            let name = (database, key);
            if let Some(clients) = self.shared.watchers.get_mut(&name) {
                clients.retain(|id| *id != session.id);
                if clients.is_empty() {
                    self.shared.watchers.remove(&name);
                }
            }
        }
        self.shared.changed.remove(&session.id);
    }

    fn reset(&mut self, session: &mut Session) {
        self.unwatch(session);
        session.queue = None;
        session.database = 0;
        session.version = Version::Two;
        session.name.clear();
        session.replies = Replies::On;
        session.trusted = self.shared.settings.password.is_none();
    }

    /// Forgets a client that is gone.
    pub fn leave(&mut self, session: &mut Session) {
        self.unwatch(session);
        self.shared.waiting -= usize::from(session.waiting.take().is_some());
        self.shared.clients.remove(&session.id);
    }

    /// Removes some of what expired or was deleted; whether there is more.
    ///
    /// # Errors
    /// If the store can't be read, or has no room.
    pub fn tidy_up(&mut self, now: u64) -> Result<bool, Trouble> {
        if self.shared.broken.is_some() {
            return Ok(false);
        }
        let expired = self.expire(now)?;
        Ok(self.keyspace.tidy_up(REMOVED_AT_ONCE)? || expired)
    }

    fn expire(&mut self, now: u64) -> Result<bool, Trouble> {
        if !self.keyspace.may_expire() {
            return Ok(false);
        }
        let prefix = layout::expiries();
        let mut due = Vec::new();
        self.keyspace.records().scan(&prefix, &mut |record, _| {
            let is_due = record.starts_with(&prefix) && layout::expiry_of(record).0 <= now;
            if is_due {
                due.push(record.to_vec());
            }
            is_due && due.len() < EXPIRED_AT_ONCE
        })?;
        if due.is_empty() {
            return Ok(false);
        }
        let mut tx = Tx::new(&self.keyspace, 0, now);
        let mut expired = 0;
        for record in &due {
            let (at, space, key) = layout::expiry_of(record);
            tx.delete(record.clone());
            let Some(database) = (0..DATABASES).find(|database| tx.space_of(*database) == space) else {
                continue;
            };
            tx.database = database;
            let mut slot = tx.slot(key)?;
            if slot.expired_at() == Some(at) {
                tx.remove(&mut slot);
                expired += 1;
            }
        }
        let finished = tx.finish();
        self.commit(finished)
            .map_err(|fault| Trouble(String::from_utf8_lossy(&words(fault)).into_owned()))?;
        self.shared.stats.expired += expired;
        Ok(due.len() == EXPIRED_AT_ONCE)
    }
}

fn find(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0u8; 24];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let at = TABLE.binary_search_by(|command| command.name.as_bytes().cmp(lower)).ok()?;
    Some(&TABLE[at])
}

fn words(fault: Fault) -> Vec<u8> {
    match fault {
        Fault::Says(text) => text.into_owned(),
        Fault::Store(trouble) => format!("ERR {trouble}").into_bytes(),
        Fault::Waits { .. } => Vec::new(),
    }
}

fn discarded(why: &[u8]) -> Fault {
    let why = why.strip_prefix(b"ERR ").unwrap_or(why);
    Fault::repeating("EXECABORT Transaction discarded because of: ", why, "")
}

/// Whether a subcommand is one, with the right number of arguments.
fn subcommand(command: &Command, args: &[&[u8]]) -> Result<(), Fault> {
    let upper = command.name.to_uppercase();
    let Some((name, arity)) = command.inside.iter().find(|(name, _)| is(args[1], name)) else {
        let behind = format!("'. Try {upper} HELP.");
        return Err(Fault::repeating("ERR unknown subcommand '", shortened(args[1], SHOWN), &behind));
    };
    match fits(*arity, args.len()) {
        true => Ok(()),
        false => Err(format!("ERR wrong number of arguments for '{}|{name}' command", command.name).into()),
    }
}

fn shortened(bytes: &[u8], most: usize) -> &[u8] {
    c_text(&bytes[..bytes.len().min(most)])
}

fn unknown(args: &[&[u8]]) -> Fault {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(shortened(args[0], SHOWN));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut repeated = Vec::new();
    for argument in &args[1..] {
        if repeated.len() >= SHOWN {
            break;
        }
        let argument = shortened(argument, SHOWN - repeated.len());
        repeated.extend_from_slice(&[b"'", argument, b"' "].concat());
    }
    text.extend(repeated);
    Fault::Says(text.into())
}
