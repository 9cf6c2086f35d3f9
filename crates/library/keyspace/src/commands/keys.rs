//! Keys of any type, and databases.

use crate::context::{Context, Fault, Outcome, c_text, integer, is, says};
use crate::data::keyspace::DATABASES;
use crate::data::layout::{self, Held, List, Value};
use crate::data::tx::Slot;
use crate::glob;
use crate::number;
use crate::reply::Reply;

const NO_DATABASE: &str = "ERR DB index is out of range";
const SAME: &str = "ERR source and destination objects are the same";

/// A C `int`.
pub fn int(argument: &[u8]) -> Result<i64, Fault> {
    let value = integer(argument)?;
    if i32::try_from(value).is_err() {
        let (low, high) = (i32::MIN, i32::MAX);
        return Err(format!("ERR value is out of range, value must between {low} and {high}").into());
    }
    Ok(value)
}

/// A database's number.
pub fn database(argument: &[u8]) -> Result<usize, Fault> {
    let number = int(argument)?;
    usize::try_from(number).ok().filter(|number| *number < DATABASES).ok_or(NO_DATABASE.into())
}

/// Looks a key up in another database.
fn slot_in(context: &mut Context, database: usize, key: &[u8]) -> Result<Slot, Fault> {
    let current = std::mem::replace(&mut context.tx.database, database);
    let slot = context.slot(key);
    context.tx.database = current;
    slot
}

pub fn del(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut removed = 0;
    for key in &args[1..] {
        let mut slot = context.slot(key)?;
        removed += usize::from(context.tx.remove(&mut slot));
    }
    Ok(Reply::count(removed))
}

pub fn exists(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut there = 0;
    for key in &args[1..] {
        there += usize::from(context.slot(key)?.entry().is_some());
    }
    Ok(Reply::count(there))
}

pub fn type_of(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::Word(context.slot(args[1])?.value().map_or("none", Value::type_name)))
}

#[derive(Default)]
struct When {
    absent: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

fn when(args: &[&[u8]]) -> Result<When, Fault> {
    let mut when = When::default();
    for argument in args {
        match () {
            () if is(argument, "NX") => when.absent = true,
            () if is(argument, "XX") => when.present = true,
            () if is(argument, "GT") => when.later = true,
            () if is(argument, "LT") => when.earlier = true,
            () => {
                return Err(Fault::repeating("ERR Unsupported option ", argument, ""));
            }
        }
    }
    if when.absent && (when.present || when.later || when.earlier) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if when.later && when.earlier {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    Ok(when)
}

fn expire_with(
    context: &mut Context,
    args: &[&[u8]],
    absolute: bool,
    unit: i64,
    name: &'static str,
) -> Outcome {
    let when = when(&args[3..])?;
    let invalid = || Fault::from(format!("ERR invalid expire time in '{name}' command"));
    let base = if absolute { 0 } else { context.tx.now as i64 };
    let at = integer(args[2])?.checked_mul(unit).ok_or_else(invalid)?;
    let at = at.checked_add(base).ok_or_else(invalid)?;
    let mut slot = context.slot(args[1])?;
    let Some(entry) = slot.entry().cloned() else { return Ok(Reply::Integer(0)) };
    let current = entry.expires as i64;
    let refused = (when.absent && current != 0)
        || (when.present && current == 0)
        || (when.later && (current == 0 || at <= current))
        || (when.earlier && current != 0 && at >= current);
    if refused {
        return Ok(Reply::Integer(0));
    }
    if at <= context.tx.now as i64 {
        context.tx.remove(&mut slot);
    } else {
        context.tx.set(&mut slot, entry.value, at as u64);
    }
    Ok(Reply::Integer(1))
}

pub fn expire(context: &mut Context, args: &[&[u8]]) -> Outcome {
    expire_with(context, args, false, 1000, "expire")
}

pub fn pexpire(context: &mut Context, args: &[&[u8]]) -> Outcome {
    expire_with(context, args, false, 1, "pexpire")
}

pub fn expireat(context: &mut Context, args: &[&[u8]]) -> Outcome {
    expire_with(context, args, true, 1000, "expireat")
}

pub fn pexpireat(context: &mut Context, args: &[&[u8]]) -> Outcome {
    expire_with(context, args, true, 1, "pexpireat")
}

/// What is said of the time of a key that has one; -2 without a key, -1 without a time.
fn time_of(context: &mut Context, key: &[u8], say: impl Fn(u64, u64) -> u64) -> Outcome {
    let slot = context.slot(key)?;
    Ok(Reply::Integer(match slot.entry() {
        None => -2,
        Some(entry) if entry.expires == 0 => -1,
        Some(entry) => say(entry.expires, context.tx.now) as i64,
    }))
}

pub fn ttl(context: &mut Context, args: &[&[u8]]) -> Outcome {
    time_of(context, args[1], |at, now| (at - now + 500) / 1000)
}

pub fn pttl(context: &mut Context, args: &[&[u8]]) -> Outcome {
    time_of(context, args[1], |at, now| at - now)
}

pub fn expiretime(context: &mut Context, args: &[&[u8]]) -> Outcome {
    time_of(context, args[1], |at, _| at / 1000)
}

pub fn pexpiretime(context: &mut Context, args: &[&[u8]]) -> Outcome {
    time_of(context, args[1], |at, _| at)
}

pub fn persist(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    let Some(entry) = slot.entry().filter(|entry| entry.expires > 0).cloned() else {
        return Ok(Reply::Integer(0));
    };
    context.tx.set(&mut slot, entry.value, 0);
    Ok(Reply::Integer(1))
}

/// Gives the value of one key to another, perhaps in another database.
fn give(context: &mut Context, from: &mut Slot, to: &mut Slot) {
    if let Some(entry) = from.entry().cloned() {
        let body = entry.value.body();
        context.tx.remove_but(from, body);
        context.tx.set(to, entry.value, entry.expires);
    }
}

pub fn rename(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut from = context.slot(args[1])?;
    if from.entry().is_none() {
        return Err(says::NO_KEY.into());
    }
    if args[1] != args[2] {
        let mut to = context.slot(args[2])?;
        give(context, &mut from, &mut to);
    }
    Ok(Reply::OK)
}

pub fn renamenx(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut from = context.slot(args[1])?;
    if from.entry().is_none() {
        return Err(says::NO_KEY.into());
    }
    let mut to = context.slot(args[2])?;
    if to.entry().is_some() {
        return Ok(Reply::Integer(0));
    }
    give(context, &mut from, &mut to);
    Ok(Reply::Integer(1))
}

pub fn move_to(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let target = database(args[2])?;
    if target == context.tx.database {
        return Err(SAME.into());
    }
    let mut from = context.slot(args[1])?;
    let mut to = slot_in(context, target, args[1])?;
    if from.entry().is_none() || to.entry().is_some() {
        return Ok(Reply::Integer(0));
    }
    give(context, &mut from, &mut to);
    Ok(Reply::Integer(1))
}

pub fn copy(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (mut target, mut replace, mut at) = (context.tx.database, false, 3);
    while let Some(argument) = args.get(at) {
        if is(argument, "REPLACE") {
            replace = true;
        } else if is(argument, "DB") && at + 1 < args.len() {
            target = database(args[at + 1])?;
            at += 1;
        } else {
            return Err(says::SYNTAX.into());
        }
        at += 1;
    }
    if target == context.tx.database && args[1] == args[2] {
        return Err(SAME.into());
    }
    let from = context.slot(args[1])?;
    let Some(entry) = from.entry().cloned() else { return Ok(Reply::Integer(0)) };
    let mut to = slot_in(context, target, args[2])?;
    if to.entry().is_some() && !replace {
        return Ok(Reply::Integer(0));
    }
    let value = match entry.value {
        Value::Text(text) => Value::Text(text),
        Value::Held(held) => Value::Held(Held { body: copied(context, held.body)?, ..held }),
        Value::List(list) => Value::List(List { body: copied(context, list.body)?, ..list }),
    };
    context.tx.set(&mut to, value, entry.expires);
    Ok(Reply::Integer(1))
}

/// Copies all elements; the new body.
fn copied(context: &mut Context, body: u64) -> Result<u64, Fault> {
    let (prefix, copy) = (layout::body(body), context.tx.new_body());
    let target = layout::body(copy);
    let mut records = Vec::new();
    context.tx.walk(&prefix, &prefix, |key, value| {
        records.push(([&target, &key[prefix.len()..]].concat(), value.to_vec()));
        true
    })?;
    for (key, value) in records {
        context.tx.put(key, value);
    }
    Ok(copy)
}

pub fn keys(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (prefix, now) = (layout::space(context.tx.space()), context.tx.now);
    let mut found = Vec::new();
    context.tx.walk(&prefix, &prefix, |record, value| {
        let key = layout::key_of(record).1;
        if glob::matches(args[1], key) && is_live(value, now) {
            found.push(Reply::bulk(key));
        }
        true
    })?;
    Ok(Reply::Array(found))
}

fn is_live(entry: &[u8], now: u64) -> bool {
    let expires = entry.get(1..9).map_or(0, layout::number);
    expires == 0 || expires > now
}

/// The options of `SCAN` and of those for elements.
pub struct Scan {
    /// Where it goes on.
    pub cursor: u64,
    count: usize,
    pattern: Option<Vec<u8>>,
    kind: Option<Vec<u8>>,
}

impl Scan {
    /// Reads the cursor.
    pub fn cursor(argument: &[u8]) -> Result<u64, Fault> {
        // As `strtoul` has it: nothing is zero, and what is negative wraps.
        let text = c_text(argument);
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if text.is_empty() {
            return Ok(0);
        }
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'));
        let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
        let number = number.ok_or("ERR invalid cursor")?;
        Ok(if negative { number.wrapping_neg() } else { number })
    }

    /// Reads the options behind the cursor.
    pub fn options(cursor: u64, args: &[&[u8]], kinds: bool) -> Result<Scan, Fault> {
        let mut scan = Scan { cursor, count: 10, pattern: None, kind: None };
        for pair in args.chunks(2) {
            match pair {
                [name, value] if is(name, "COUNT") => {
                    let count = integer(value)?;
                    if count < 1 {
                        return Err(says::SYNTAX.into());
                    }
                    scan.count = count as usize;
                }
                [name, value] if is(name, "MATCH") => scan.pattern = Some(value.to_vec()),
                [name, value] if kinds && is(name, "TYPE") => scan.kind = Some(value.to_ascii_lowercase()),
                _ => return Err(says::SYNTAX.into()),
            }
        }
        Ok(scan)
    }

    /// Whether a key, field or member is wanted.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, name))
    }

    /// Hands out the records under `prefix` from the cursor on; the cursor of the next call. Records are
    /// ordered by a hash, which is the cursor; those of one hash are never divided.
    pub fn records(
        &self,
        context: &Context,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, Fault> {
        let from = [prefix, &self.cursor.to_be_bytes()].concat();
        let (mut seen, mut last, mut next) = (0, None, 0);
        context.tx.walk(prefix, &from, |record, value| {
            let hash = layout::number(&record[prefix.len()..prefix.len() + 8]);
            if seen >= self.count && last != Some(hash) {
                next = hash;
                return false;
            }
            (seen, last) = (seen + 1, Some(hash));
            visit(record, value);
            true
        })?;
        Ok(next)
    }

    /// The reply.
    pub fn reply(next: u64, found: Vec<Reply>) -> Reply {
        Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)])
    }
}

pub fn scan(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let scan = Scan::options(Scan::cursor(args[1])?, &args[2..], true)?;
    let (prefix, now) = (layout::space(context.tx.space()), context.tx.now);
    let mut found = Vec::new();
    let next = scan.records(context, &prefix, |record, value| {
        let key = layout::key_of(record).1;
        let wanted = scan.kind.as_ref().is_none_or(|kind| {
            layout::Entry::parse(value).is_some_and(|entry| entry.value.type_name().as_bytes() == kind)
        });
        if wanted && scan.wants(key) && is_live(value, now) {
            found.push(Reply::bulk(key));
        }
    })?;
    Ok(Scan::reply(next, found))
}

pub fn randomkey(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let (prefix, now) = (layout::space(context.tx.space()), context.tx.now);
    let random = context.shared.random.u64(..);
    for from in [[&prefix[..], &random.to_be_bytes()].concat(), prefix.clone()] {
        let mut found = None;
        context.tx.walk(&prefix, &from, |record, value| {
            found = is_live(value, now).then(|| layout::key_of(record).1.to_vec());
            found.is_none()
        })?;
        if let Some(key) = found {
            return Ok(Reply::Bulk(key));
        }
    }
    Ok(Reply::Null)
}

pub fn dbsize(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let prefix = layout::space(context.tx.space());
    if let Some(known) = context.tx.key_count() {
        return Ok(Reply::Integer(known));
    }
    let mut count = 0;
    context.tx.walk(&prefix, &prefix, |_, _| {
        count += 1;
        true
    })?;
    Ok(Reply::Integer(count))
}

/// Says to those who watch a key of a database that it changes.
fn touch_watched(context: &mut Context, database: usize) -> Result<(), Fault> {
    let watched: Vec<Vec<u8>> = context
        .shared
        .watchers
        .keys()
        .filter(|(of, _)| *of == database)
        .map(|(_, key)| key.clone())
        .collect();
    for key in watched {
        let slot = slot_in(context, database, &key)?;
        if slot.entry().is_some() {
            context.tx.touch(&slot);
        }
    }
    Ok(())
}

fn flush(context: &mut Context, args: &[&[u8]], databases: &[usize]) -> Outcome {
    match args {
        [_] => {}
        [_, how] if is(how, "SYNC") || is(how, "ASYNC") => {}
        _ => return Err(says::SYNTAX.into()),
    }
    for database in databases {
        touch_watched(context, *database)?;
        let prefix = layout::space(context.tx.space_of(*database));
        let mut used = false;
        context.tx.walk(&prefix, &prefix, |_, _| {
            used = true;
            false
        })?;
        if used {
            context.tx.flush(*database);
        }
    }
    Ok(Reply::OK)
}

pub fn flushdb(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let database = context.tx.database;
    flush(context, args, &[database])
}

pub fn flushall(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let all: Vec<usize> = (0..DATABASES).collect();
    flush(context, args, &all)
}

pub fn swapdb(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let invalid = |which: &str| Fault::from(format!("ERR invalid {which} DB index"));
    let numbers = [number::integer(args[1]), number::integer(args[2])];
    let [first, second] = numbers.map(|number| number.filter(|number| i32::try_from(*number).is_ok()));
    let (first, second) = (first.ok_or_else(|| invalid("first"))?, second.ok_or_else(|| invalid("second"))?);
    let known = |number: i64| usize::try_from(number).ok().filter(|number| *number < DATABASES);
    let (Some(first), Some(second)) = (known(first), known(second)) else { return Err(NO_DATABASE.into()) };
    if first != second {
        touch_watched(context, first)?;
        touch_watched(context, second)?;
        context.tx.swap(first, second);
    }
    Ok(Reply::OK)
}
