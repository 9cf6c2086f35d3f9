//! Lists.

use crate::context::{Context, Fault, Outcome, integer, is, positive, says, span};
use crate::data::layout::{self, List, Value};
use crate::data::records::Trouble;
use crate::data::tx::{Slot, Tx};
use crate::number;
use crate::reply::Reply;

/// Where a new list begins, so that it can grow to both sides.
const MIDDLE: u64 = 1 << 63;

/// The beginning or end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its beginning.
    Left,
    /// Its end.
    Right,
}

impl Side {
    /// Reads it.
    pub fn parse(argument: &[u8]) -> Result<Side, Fault> {
        match argument {
            word if is(word, "LEFT") => Ok(Side::Left),
            word if is(word, "RIGHT") => Ok(Side::Right),
            _ => Err(says::SYNTAX.into()),
        }
    }
}

fn list(context: &mut Context, key: &[u8]) -> Result<Option<List>, Fault> {
    let slot = context.slot(key)?;
    context.list(&slot)
}

fn element(tx: &Tx, list: &List, at: u64) -> Result<Vec<u8>, Trouble> {
    let found = tx.get(&layout::position(list.body, list.first + at))?;
    found.ok_or_else(|| Trouble("an element of a list is gone".into()))
}

fn set_element(tx: &mut Tx, list: &List, at: u64, value: &[u8]) {
    tx.put(layout::position(list.body, list.first + at), value.to_vec());
}

/// So many elements from one on.
fn elements(tx: &Tx, list: &List, from: u64, count: u64) -> Result<Vec<Vec<u8>>, Trouble> {
    let mut found = Vec::new();
    if count > 0 {
        let start = layout::position(list.body, list.first + from);
        tx.walk(&layout::positions(list.body), &start, |_, value| {
            found.push(value.to_vec());
            (found.len() as u64) < count
        })?;
    }
    Ok(found)
}

/// All elements.
pub fn all(context: &Context, list: &List) -> Result<Vec<Vec<u8>>, Fault> {
    Ok(elements(context.tx, list, 0, list.count)?)
}

/// Puts elements under a key in the place of what is there.
pub fn store(context: &mut Context, key: &[u8], values: Vec<Vec<u8>>) -> Outcome {
    let mut slot = context.slot(key)?;
    context.tx.remove(&mut slot);
    let mut list = List { body: context.tx.new_body(), first: MIDDLE, count: 0 };
    for value in &values {
        push(context, &mut list, Side::Right, value);
    }
    context.keep_list(&mut slot, list);
    Ok(Reply::count(values.len()))
}

fn push(context: &mut Context, list: &mut List, side: Side, value: &[u8]) {
    if side == Side::Left {
        list.first -= 1;
    }
    let at = if side == Side::Left { 0 } else { list.count };
    list.count += 1;
    set_element(context.tx, list, at, value);
}

fn pop(context: &mut Context, list: &mut List, side: Side) -> Result<Vec<u8>, Fault> {
    let at = if side == Side::Left { 0 } else { list.count - 1 };
    let value = element(context.tx, list, at)?;
    context.tx.delete(layout::position(list.body, list.first + at));
    if side == Side::Left {
        list.first += 1;
    }
    list.count -= 1;
    Ok(value)
}

fn list_or_new(context: &mut Context, slot: &Slot) -> Result<List, Fault> {
    let there = context.list(slot)?;
    Ok(there.unwrap_or_else(|| List { body: context.tx.new_body(), first: MIDDLE, count: 0 }))
}

fn push_all(context: &mut Context, args: &[&[u8]], side: Side, only_there: bool) -> Outcome {
    let mut slot = context.slot(args[1])?;
    if only_there && context.list(&slot)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let mut list = list_or_new(context, &slot)?;
    for value in &args[2..] {
        push(context, &mut list, side, value);
    }
    context.keep_list(&mut slot, list);
    Ok(Reply::Integer(list.count as i64))
}

pub fn lpush(context: &mut Context, args: &[&[u8]]) -> Outcome {
    push_all(context, args, Side::Left, false)
}

pub fn rpush(context: &mut Context, args: &[&[u8]]) -> Outcome {
    push_all(context, args, Side::Right, false)
}

pub fn lpushx(context: &mut Context, args: &[&[u8]]) -> Outcome {
    push_all(context, args, Side::Left, true)
}

pub fn rpushx(context: &mut Context, args: &[&[u8]]) -> Outcome {
    push_all(context, args, Side::Right, true)
}

pub fn llen(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::Integer(list(context, args[1])?.map_or(0, |list| list.count) as i64))
}

/// The place that an index means, which may count from the end.
fn place(list: &List, index: i64) -> Option<u64> {
    let at = if index < 0 { index.checked_add(list.count as i64)? } else { index };
    u64::try_from(at).ok().filter(|at| *at < list.count)
}

pub fn lindex(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let Some(list) = list(context, args[1])? else { return Ok(Reply::Null) };
    let index = integer(args[2])?;
    let Some(at) = place(&list, index) else { return Ok(Reply::Null) };
    Ok(Reply::Bulk(element(context.tx, &list, at)?))
}

pub fn lset(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let slot = context.slot(args[1])?;
    let list = context.list(&slot)?.ok_or(says::NO_KEY)?;
    let at = place(&list, integer(args[2])?).ok_or(says::NO_INDEX)?;
    set_element(context.tx, &list, at, args[3]);
    context.tx.touch(&slot);
    Ok(Reply::OK)
}

/// Takes elements from one side; what was there.
pub fn take(context: &mut Context, slot: &mut Slot, side: Side, most: u64) -> Result<Vec<Vec<u8>>, Fault> {
    let Some(mut list) = context.list(slot)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for _ in 0..most.min(list.count) {
        found.push(pop(context, &mut list, side)?);
    }
    context.keep_list(slot, list);
    Ok(found)
}

fn pop_some(context: &mut Context, args: &[&[u8]], side: Side, name: &str) -> Outcome {
    if args.len() > 3 {
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let count = match args.get(2) {
        Some(count) => Some(positive(count)?),
        None => None,
    };
    let mut slot = context.slot(args[1])?;
    if context.list(&slot)?.is_none() {
        return Ok(if count.is_some() { Reply::NullArray } else { Reply::Null });
    }
    if count == Some(0) {
        return Ok(Reply::Array(Vec::new()));
    }
    let mut found = take(context, &mut slot, side, count.unwrap_or(1))?;
    Ok(if count.is_some() { Reply::bulks(found) } else { Reply::or_null(found.pop()) })
}

pub fn lpop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    pop_some(context, args, Side::Left, "lpop")
}

pub fn rpop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    pop_some(context, args, Side::Right, "rpop")
}

pub fn lrange(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    let Some(list) = list(context, args[1])? else { return Ok(Reply::Array(Vec::new())) };
    let (from, count) = span(start, end, list.count);
    Ok(Reply::bulks(elements(context.tx, &list, from, count)?))
}

pub fn ltrim(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    let mut slot = context.slot(args[1])?;
    let Some(mut list) = context.list(&slot)? else { return Ok(Reply::OK) };
    let (from, count) = span(start, end, list.count);
    if count == 0 {
        context.tx.remove(&mut slot);
        return Ok(Reply::OK);
    }
    for at in (0..from).chain(from + count..list.count) {
        context.tx.delete(layout::position(list.body, list.first + at));
    }
    list.first += from;
    list.count = count;
    context.keep_list(&mut slot, list);
    Ok(Reply::OK)
}

pub fn lpos(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (mut rank, mut count, mut most) = (1, None, 0);
    for pair in args[3..].chunks(2) {
        let natural = |argument: &[u8], wrong: &'static str| {
            number::integer(argument).and_then(|count| u64::try_from(count).ok()).ok_or(wrong)
        };
        match pair {
            [word, value] if is(word, "RANK") => {
                rank = integer(value)?;
                match rank {
                    0 => {
                        return Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from \
                                    the second ... or use negative to start from the end of the list"
                            .into());
                    }
                    // What C makes of its negation: no match is passed over.
                    i64::MIN => rank = -1,
                    _ => {}
                }
            }
            [word, value] if is(word, "COUNT") => {
                count = Some(natural(value, "ERR COUNT can't be negative")?)
            }
            [word, value] if is(word, "MAXLEN") => most = natural(value, "ERR MAXLEN can't be negative")?,
            _ => return Err(says::SYNTAX.into()),
        }
    }
    let list = list(context, args[1])?;
    let wanted = count.map_or(1, |count| if count == 0 { u64::MAX } else { count });
    let (mut found, mut skip) = (Vec::new(), rank.unsigned_abs() - 1);
    if let Some(list) = list {
        let most = if most == 0 { list.count } else { most.min(list.count) };
        let mut seen = 0;
        let prefix = layout::positions(list.body);
        let visit = |record: &[u8], value: &[u8]| {
            if value == args[2] {
                if skip == 0 {
                    let at = layout::number(&record[prefix.len()..]) - list.first;
                    found.push(Reply::Integer(at as i64));
                } else {
                    skip -= 1;
                }
            }
            seen += 1;
            seen < most && (found.len() as u64) < wanted
        };
        match rank > 0 {
            true => context.tx.walk(&prefix, &prefix, visit)?,
            false => context.tx.walk_back(&prefix, &layout::end(&prefix), visit)?,
        }
    }
    Ok(match count {
        Some(_) => Reply::Array(found),
        None => found.into_iter().next().unwrap_or(Reply::Null),
    })
}

/// Puts other elements in the place of all.
fn replace_all(context: &mut Context, list: &mut List, from: u64, rest: &[Vec<u8>]) {
    for (at, value) in (from..).zip(rest) {
        set_element(context.tx, list, at, value);
    }
    let count = from + rest.len() as u64;
    for at in count..list.count {
        context.tx.delete(layout::position(list.body, list.first + at));
    }
    list.count = count;
}

pub fn lrem(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let count = integer(args[2])?;
    let mut slot = context.slot(args[1])?;
    let Some(mut list) = context.list(&slot)? else { return Ok(Reply::Integer(0)) };
    let all = elements(context.tx, &list, 0, list.count)?;
    let matches = all.iter().filter(|value| *value == args[3]).count() as u64;
    let removed = if count == 0 { matches } else { matches.min(count.unsigned_abs()) };
    if removed == 0 {
        return Ok(Reply::Integer(0));
    }
    // Those that stay although they match: the first ones if it counts from the end.
    let (mut spared, mut left) = (if count < 0 { matches - removed } else { 0 }, removed);
    let first = all.iter().position(|value| value == args[3]).unwrap_or(0);
    let mut rest = Vec::new();
    for value in all.into_iter().skip(first) {
        if value == args[3] && spared > 0 {
            spared -= 1;
        } else if value == args[3] && left > 0 {
            left -= 1;
            continue;
        }
        rest.push(value);
    }
    replace_all(context, &mut list, first as u64, &rest);
    context.keep_list(&mut slot, list);
    Ok(Reply::Integer(removed as i64))
}

pub fn linsert(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let behind = match args[2] {
        word if is(word, "BEFORE") => false,
        word if is(word, "AFTER") => true,
        _ => return Err(says::SYNTAX.into()),
    };
    let mut slot = context.slot(args[1])?;
    let Some(mut list) = context.list(&slot)? else { return Ok(Reply::Integer(0)) };
    let all = elements(context.tx, &list, 0, list.count)?;
    let Some(at) = all.iter().position(|value| value == args[3]) else { return Ok(Reply::Integer(-1)) };
    let at = at + usize::from(behind);
    // The shorter side makes room.
    if at < all.len() / 2 {
        push(context, &mut list, Side::Left, b"");
        for (to, value) in all[..at].iter().enumerate() {
            set_element(context.tx, &list, to as u64, value);
        }
    } else {
        push(context, &mut list, Side::Right, b"");
        for (to, value) in (at + 1..).zip(&all[at..]) {
            set_element(context.tx, &list, to as u64, value);
        }
    }
    set_element(context.tx, &list, at as u64, args[4]);
    context.keep_list(&mut slot, list);
    Ok(Reply::Integer(list.count as i64))
}

/// Moves an element from one list's side to another's.
pub fn transfer(context: &mut Context, keys: [&[u8]; 2], sides: [Side; 2]) -> Outcome {
    let mut from = context.slot(keys[0])?;
    let Some(mut source) = context.list(&from)? else { return Ok(Reply::Null) };
    if keys[0] == keys[1] {
        let value = pop(context, &mut source, sides[0])?;
        push(context, &mut source, sides[1], &value);
        context.tx.update(&mut from, Value::List(source));
        return Ok(Reply::Bulk(value));
    }
    let mut to = context.slot(keys[1])?;
    let mut target = list_or_new(context, &to)?;
    let value = pop(context, &mut source, sides[0])?;
    context.keep_list(&mut from, source);
    push(context, &mut target, sides[1], &value);
    context.keep_list(&mut to, target);
    Ok(Reply::Bulk(value))
}

pub fn rpoplpush(context: &mut Context, args: &[&[u8]]) -> Outcome {
    transfer(context, [args[1], args[2]], [Side::Right, Side::Left])
}

pub fn lmove(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let sides = [Side::parse(args[3])?, Side::parse(args[4])?];
    transfer(context, [args[1], args[2]], sides)
}

/// The keys of `LMPOP` and its relatives, and what is behind their number and them: a side, and a count.
pub fn pop_arguments<'a, 'b, T>(
    args: &'a [&'b [u8]],
    side: fn(&[u8]) -> Result<T, Fault>,
) -> Result<(&'a [&'b [u8]], T, u64), Fault> {
    let count = number::integer(args[0]).filter(|count| *count > 0);
    let count = count.ok_or("ERR numkeys should be greater than 0")?;
    let keys = usize::try_from(count).ok().filter(|count| *count < args.len() - 1).ok_or(says::SYNTAX)?;
    let (keys, rest) = args[1..].split_at(keys);
    let side = side(rest[0])?;
    let mut most = None;
    for pair in rest[1..].chunks(2) {
        match pair {
            [word, count] if is(word, "COUNT") && most.is_none() => {
                let count = number::integer(count).and_then(|count| u64::try_from(count).ok());
                let count = count.filter(|count| *count > 0);
                most = Some(count.ok_or("ERR count should be greater than 0")?);
            }
            _ => return Err(says::SYNTAX.into()),
        }
    }
    Ok((keys, side, most.unwrap_or(1)))
}

/// Takes elements from the first list that is there.
pub fn pop_first(context: &mut Context, keys: &[&[u8]], side: Side, most: u64) -> Outcome {
    for key in keys {
        let mut slot = context.slot(key)?;
        let found = take(context, &mut slot, side, most)?;
        if !found.is_empty() {
            return Ok(Reply::Array(vec![Reply::bulk(*key), Reply::bulks(found)]));
        }
    }
    Ok(Reply::NullArray)
}

pub fn lmpop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (keys, side, most) = pop_arguments(&args[1..], Side::parse)?;
    pop_first(context, keys, side, most)
}
