//! Hashes.

use crate::commands::keys::Scan;
use crate::commands::strings::float_sum;
use crate::context::{Context, Fault, Outcome, integer, is, says};
use crate::data::elements::Pair;
use crate::data::layout::{self, Held, Kind};
use crate::number;
use crate::reply::Reply;

fn hash(context: &mut Context, key: &[u8]) -> Result<Option<Held>, Fault> {
    let slot = context.slot(key)?;
    context.held(&slot, Kind::Hash)
}

/// Sets fields; how many are new.
fn set_fields(context: &mut Context, args: &[&[u8]], name: &str) -> Result<usize, Fault> {
    if !args.len().is_multiple_of(2) {
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let mut slot = context.slot(args[1])?;
    let mut held = context.held_or_new(&slot, Kind::Hash)?;
    let mut added = 0;
    for pair in args[2..].chunks_exact(2) {
        added += usize::from(context.tx.set_element(&mut held, pair[0], pair[1])?);
    }
    context.keep(&mut slot, held);
    Ok(added)
}

pub fn hset(context: &mut Context, args: &[&[u8]]) -> Outcome {
    set_fields(context, args, "hset").map(Reply::count)
}

pub fn hmset(context: &mut Context, args: &[&[u8]]) -> Outcome {
    set_fields(context, args, "hmset").map(|_| Reply::OK)
}

pub fn hsetnx(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    if let Some(held) = context.held(&slot, Kind::Hash)?
        && context.tx.element(&held, args[2])?.is_some()
    {
        return Ok(Reply::Integer(0));
    }
    let mut held = context.held_or_new(&slot, Kind::Hash)?;
    context.tx.set_element(&mut held, args[2], args[3])?;
    context.keep(&mut slot, held);
    Ok(Reply::Integer(1))
}

fn field(context: &mut Context, key: &[u8], name: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    match hash(context, key)? {
        Some(held) => Ok(context.tx.element(&held, name)?),
        None => Ok(None),
    }
}

pub fn hget(context: &mut Context, args: &[&[u8]]) -> Outcome {
    field(context, args[1], args[2]).map(Reply::or_null)
}

pub fn hmget(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let held = hash(context, args[1])?;
    let value = |name: &&[u8]| match &held {
        Some(held) => context.tx.element(held, name).map(Reply::or_null),
        None => Ok(Reply::Null),
    };
    Ok(Reply::Array(args[2..].iter().map(value).collect::<Result<_, _>>()?))
}

pub fn hdel(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    let Some(mut held) = context.held(&slot, Kind::Hash)? else { return Ok(Reply::Integer(0)) };
    let mut removed = 0;
    for name in &args[2..] {
        removed += usize::from(context.tx.remove_element(&mut held, name)?);
    }
    if removed > 0 {
        context.keep(&mut slot, held);
    }
    Ok(Reply::count(removed))
}

pub fn hlen(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::Integer(hash(context, args[1])?.map_or(0, |held| held.count) as i64))
}

pub fn hstrlen(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(field(context, args[1], args[2])?.map_or(0, |value| value.len())))
}

pub fn hexists(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::truth(field(context, args[1], args[2])?.is_some()))
}

fn all(context: &mut Context, key: &[u8]) -> Result<Vec<Pair>, Fault> {
    match hash(context, key)? {
        Some(held) => Ok(context.tx.elements(&held)?),
        None => Ok(Vec::new()),
    }
}

pub fn hkeys(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::bulks(all(context, args[1])?.into_iter().map(|(name, _)| name)))
}

pub fn hvals(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::bulks(all(context, args[1])?.into_iter().map(|(_, value)| value)))
}

pub fn hgetall(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let all = all(context, args[1])?;
    Ok(Reply::Map(all.into_iter().map(|(name, value)| (Reply::Bulk(name), Reply::Bulk(value))).collect()))
}

/// Sets a field to what is made of its value.
fn change(
    context: &mut Context,
    args: &[&[u8]],
    make: impl FnOnce(Option<&[u8]>) -> Result<String, Fault>,
) -> Result<String, Fault> {
    let mut slot = context.slot(args[1])?;
    let value = match context.held(&slot, Kind::Hash)? {
        Some(held) => context.tx.element(&held, args[2])?,
        None => None,
    };
    let made = make(value.as_deref())?;
    let mut held = context.held_or_new(&slot, Kind::Hash)?;
    context.tx.set_element(&mut held, args[2], made.as_bytes())?;
    context.keep(&mut slot, held);
    Ok(made)
}

pub fn hincrby(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let more = integer(args[3])?;
    let mut sum = 0;
    change(context, args, |value| {
        let value = value.map_or(Some(0), number::integer).ok_or("ERR hash value is not an integer")?;
        sum = value.checked_add(more).ok_or("ERR increment or decrement would overflow")?;
        Ok(sum.to_string())
    })?;
    Ok(Reply::Integer(sum))
}

pub fn hincrbyfloat(context: &mut Context, args: &[&[u8]]) -> Outcome {
    // The increment is looked at first, and must be finite.
    float_sum(None, args[3], says::NOT_FLOAT).map_err(|fault| match fault == says::INFINITE.into() {
        true => "ERR value is NaN or Infinity".into(),
        false => fault,
    })?;
    let sum = change(context, args, |value| float_sum(value, args[3], "ERR hash value is not a float"))?;
    Ok(Reply::bulk(sum))
}

/// How many random elements are wanted, and whether with what belongs to them.
pub fn wanted(args: &[&[u8]], with: &str) -> Result<Option<(i64, bool)>, Fault> {
    let Some(count) = args.get(2) else { return Ok(None) };
    let count = integer(count)?;
    if count == i64::MIN {
        let text =
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
        return Err(text.into());
    }
    let with = match &args[3..] {
        [] => false,
        [word] if is(word, with) => true,
        _ => return Err(says::SYNTAX.into()),
    };
    if with && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err("ERR value is out of range".into());
    }
    Ok(Some((count, with)))
}

/// So many elements by chance: different ones, or, for a negative number, perhaps some several times.
pub fn chosen(context: &mut Context, held: &Held, count: i64) -> Result<Vec<Pair>, Fault> {
    let random = &mut context.shared.random;
    if count >= 0 {
        return Ok(context.tx.some_elements(held, count as u64, random)?);
    }
    if count.unsigned_abs() > context.shared.settings.value as u64 / 16 {
        return Err("ERR the reply would be larger than a request may be".into());
    }
    let mut found = Vec::new();
    for _ in 0..count.unsigned_abs() {
        found.extend(context.tx.any_element(held, random)?);
    }
    Ok(found)
}

pub fn hrandfield(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let wanted = wanted(args, "WITHVALUES")?;
    let held = hash(context, args[1])?;
    let Some((count, with)) = wanted else {
        let Some(held) = held else { return Ok(Reply::Null) };
        let found = context.tx.any_element(&held, &mut context.shared.random)?;
        return Ok(Reply::or_null(found.map(|(name, _)| name)));
    };
    let Some(held) = held else { return Ok(Reply::Array(Vec::new())) };
    let found = chosen(context, &held, count)?;
    Ok(match with {
        true => Reply::Pairs(found.into_iter().map(|(n, v)| (Reply::Bulk(n), Reply::Bulk(v))).collect()),
        false => Reply::bulks(found.into_iter().map(|(name, _)| name)),
    })
}

pub fn hscan(context: &mut Context, args: &[&[u8]]) -> Outcome {
    scan(context, args, Kind::Hash, |value| Some(Reply::bulk(value)))
}

/// Some of the elements from a cursor on; `show` makes the second half of a pair, if it has one.
pub fn scan(
    context: &mut Context,
    args: &[&[u8]],
    kind: Kind,
    show: impl Fn(&[u8]) -> Option<Reply>,
) -> Outcome {
    let cursor = Scan::cursor(args[2])?;
    let slot = context.slot(args[1])?;
    let Some(held) = context.held(&slot, kind)? else { return Ok(Scan::reply(0, Vec::new())) };
    let scan = Scan::options(cursor, &args[3..], false)?;
    let mut found = Vec::new();
    let next = scan.records(context, &layout::pairs(held.body), |record, value| {
        let name = layout::pair_of(record).1;
        if scan.wants(name) {
            found.push(Reply::bulk(name));
            found.extend(show(value));
        }
    })?;
    Ok(Scan::reply(next, found))
}
