//! Sets.

use std::collections::BTreeSet;

use crate::commands::hashes::{chosen, scan, wanted};
use crate::context::{Context, Fault, Outcome, is, positive, says};
use crate::data::layout::{Held, Kind};
use crate::number;
use crate::reply::Reply;

type Members = BTreeSet<Vec<u8>>;

fn set(context: &mut Context, key: &[u8]) -> Result<Option<Held>, Fault> {
    let slot = context.slot(key)?;
    context.held(&slot, Kind::Set)
}

pub fn sadd(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    let mut held = context.held_or_new(&slot, Kind::Set)?;
    let mut added = 0;
    for member in &args[2..] {
        added += usize::from(context.tx.set_element(&mut held, member, b"")?);
    }
    if added > 0 {
        context.keep(&mut slot, held);
    }
    Ok(Reply::count(added))
}

pub fn srem(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    let Some(mut held) = context.held(&slot, Kind::Set)? else { return Ok(Reply::Integer(0)) };
    let mut removed = 0;
    for member in &args[2..] {
        removed += usize::from(context.tx.remove_element(&mut held, member)?);
    }
    if removed > 0 {
        context.keep(&mut slot, held);
    }
    Ok(Reply::count(removed))
}

pub fn smove(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (mut from, mut to) = (context.slot(args[1])?, context.slot(args[2])?);
    if from.entry().is_none() {
        return Ok(Reply::Integer(0));
    }
    let source = context.held(&from, Kind::Set)?;
    context.held(&to, Kind::Set)?;
    let Some(mut source) = source else { return Ok(Reply::Integer(0)) };
    if context.tx.element(&source, args[3])?.is_none() {
        return Ok(Reply::Integer(0));
    }
    if args[1] != args[2] {
        context.tx.remove_element(&mut source, args[3])?;
        context.keep(&mut from, source);
        let mut target = context.held_or_new(&to, Kind::Set)?;
        context.tx.set_element(&mut target, args[3], b"")?;
        context.keep(&mut to, target);
    }
    Ok(Reply::Integer(1))
}

pub fn sismember(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let Some(held) = set(context, args[1])? else { return Ok(Reply::Integer(0)) };
    Ok(Reply::truth(context.tx.element(&held, args[2])?.is_some()))
}

pub fn smismember(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let held = set(context, args[1])?;
    let has = |member: &&[u8]| match &held {
        Some(held) => context.tx.element(held, member).map(|found| Reply::truth(found.is_some())),
        None => Ok(Reply::Integer(0)),
    };
    Ok(Reply::Array(args[2..].iter().map(has).collect::<Result<_, _>>()?))
}

pub fn scard(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::Integer(set(context, args[1])?.map_or(0, |held| held.count) as i64))
}

fn shown(members: impl IntoIterator<Item = Vec<u8>>) -> Reply {
    Reply::Set(members.into_iter().map(Reply::Bulk).collect())
}

fn names(context: &Context, held: &Held) -> Result<Vec<Vec<u8>>, Fault> {
    Ok(context.tx.elements(held)?.into_iter().map(|(name, _)| name).collect())
}

pub fn spop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let count = match &args[2..] {
        [] => None,
        [count] => Some(positive(count)?),
        _ => return Err(says::SYNTAX.into()),
    };
    let mut slot = context.slot(args[1])?;
    let held = context.held(&slot, Kind::Set)?;
    let Some(mut held) = held else {
        return Ok(if count.is_some() { shown([]) } else { Reply::Null });
    };
    let wanted = count.unwrap_or(1);
    let found = context.tx.some_elements(&held, wanted, &mut context.shared.random)?;
    if wanted >= held.count {
        context.tx.remove(&mut slot);
    } else if wanted > 0 {
        for (member, _) in &found {
            context.tx.remove_element(&mut held, member)?;
        }
        context.keep(&mut slot, held);
    }
    let mut found = found.into_iter().map(|(member, _)| member);
    Ok(if count.is_some() { shown(found) } else { Reply::or_null(found.next()) })
}

pub fn srandmember(context: &mut Context, args: &[&[u8]]) -> Outcome {
    if args.len() > 3 {
        return Err(says::SYNTAX.into());
    }
    let wanted = wanted(args, "")?;
    let held = set(context, args[1])?;
    let Some((count, _)) = wanted else {
        let Some(held) = held else { return Ok(Reply::Null) };
        let found = context.tx.any_element(&held, &mut context.shared.random)?;
        return Ok(Reply::or_null(found.map(|(name, _)| name)));
    };
    let Some(held) = held else { return Ok(Reply::Array(Vec::new())) };
    Ok(Reply::bulks(chosen(context, &held, count)?.into_iter().map(|(name, _)| name)))
}

pub fn smembers(context: &mut Context, args: &[&[u8]]) -> Outcome {
    match set(context, args[1])? {
        Some(held) => Ok(shown(names(context, &held)?)),
        None => Ok(shown([])),
    }
}

/// The sets of several keys.
fn sets(context: &mut Context, keys: &[&[u8]]) -> Result<Vec<Option<Held>>, Fault> {
    keys.iter().map(|key| set(context, key)).collect()
}

/// What is in all sets, up to so many.
fn intersection(context: &mut Context, keys: &[&[u8]], most: usize) -> Result<Members, Fault> {
    let sets = sets(context, keys)?;
    let Some(mut sets) = sets.into_iter().collect::<Option<Vec<_>>>() else { return Ok(Members::new()) };
    sets.sort_by_key(|held| held.count);
    let Some((first, others)) = sets.split_first() else { return Ok(Members::new()) };
    let mut found = Members::new();
    for member in names(context, first)? {
        if found.len() >= most {
            break;
        }
        let mut everywhere = true;
        for other in others {
            everywhere = everywhere && context.tx.element(other, &member)?.is_some();
        }
        if everywhere {
            found.insert(member);
        }
    }
    Ok(found)
}

fn union(context: &mut Context, keys: &[&[u8]]) -> Result<Members, Fault> {
    let mut found = Members::new();
    for held in sets(context, keys)?.into_iter().flatten() {
        found.extend(names(context, &held)?);
    }
    Ok(found)
}

fn difference(context: &mut Context, keys: &[&[u8]]) -> Result<Members, Fault> {
    let sets = sets(context, keys)?;
    let mut found = Members::new();
    let Some(Some(first)) = sets.first() else { return Ok(found) };
    for member in names(context, first)? {
        let mut elsewhere = false;
        for other in sets[1..].iter().flatten() {
            elsewhere = elsewhere || context.tx.element(other, &member)?.is_some();
        }
        if !elsewhere {
            found.insert(member);
        }
    }
    Ok(found)
}

fn store(context: &mut Context, key: &[u8], members: Members) -> Outcome {
    let mut slot = context.slot(key)?;
    let mut held = Held { kind: Kind::Set, body: context.tx.new_body(), count: 0 };
    for member in &members {
        context.tx.set_element(&mut held, member, b"")?;
    }
    context.tx.remove(&mut slot);
    context.keep(&mut slot, held);
    Ok(Reply::count(members.len()))
}

pub fn sinter(context: &mut Context, args: &[&[u8]]) -> Outcome {
    intersection(context, &args[1..], usize::MAX).map(shown)
}

pub fn sunion(context: &mut Context, args: &[&[u8]]) -> Outcome {
    union(context, &args[1..]).map(shown)
}

pub fn sdiff(context: &mut Context, args: &[&[u8]]) -> Outcome {
    difference(context, &args[1..]).map(shown)
}

pub fn sinterstore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let members = intersection(context, &args[2..], usize::MAX)?;
    store(context, args[1], members)
}

pub fn sunionstore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let members = union(context, &args[2..])?;
    store(context, args[1], members)
}

pub fn sdiffstore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let members = difference(context, &args[2..])?;
    store(context, args[1], members)
}

/// The limit behind the keys; 0 for none.
pub fn limit(args: &[&[u8]]) -> Result<usize, Fault> {
    let mut limit = 0;
    for pair in args.chunks(2) {
        match pair {
            [word, number] if is(word, "LIMIT") => {
                let number = number::integer(number).and_then(|limit| usize::try_from(limit).ok());
                limit = number.ok_or("ERR LIMIT can't be negative")?;
            }
            _ => return Err(says::SYNTAX.into()),
        }
    }
    Ok(limit)
}

pub fn sintercard(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let count = number::integer(args[1]).filter(|count| *count > 0);
    let count = count.ok_or("ERR numkeys should be greater than 0")?;
    let rest = &args[2..];
    let count = usize::try_from(count).ok().filter(|count| *count <= rest.len());
    let (keys, rest) = rest.split_at(count.ok_or("ERR Number of keys can't be greater than number of args")?);
    let most = match limit(rest)? {
        0 => usize::MAX,
        limit => limit,
    };
    Ok(Reply::count(intersection(context, keys, most)?.len()))
}

pub fn sscan(context: &mut Context, args: &[&[u8]]) -> Outcome {
    scan(context, args, Kind::Set, |_| None)
}
