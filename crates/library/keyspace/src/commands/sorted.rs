//! Sorted sets: members and scores.

use crate::commands::hashes::{chosen, scan, wanted};
use crate::commands::lists::pop_arguments;
use crate::context::{Context, Fault, Outcome, double, is, positive, says};
use crate::data::elements::score_of_value;
use crate::data::layout::{self, Held, Kind};
use crate::data::tx::Slot;
use crate::number::general;
use crate::reply::Reply;

const NO_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// A sorted set, if there is one.
pub fn sorted(context: &mut Context, key: &[u8]) -> Result<Option<Held>, Fault> {
    let slot = context.slot(key)?;
    context.held(&slot, Kind::Sorted)
}

/// The options of `ZADD`.
#[derive(Clone, Copy, Debug, Default)]
struct Add {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
    changed: bool,
    adds: bool,
}

/// What became of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Added {
    New(f64),
    Changed(f64),
    Same(f64),
    Refused,
}

fn add_one(
    context: &mut Context,
    held: &mut Held,
    add: Add,
    score: f64,
    member: &[u8],
) -> Result<Added, Fault> {
    let Some(before) = context.tx.score(held, member)? else {
        if add.present {
            return Ok(Added::Refused);
        }
        context.tx.set_score(held, member, score)?;
        return Ok(Added::New(score));
    };
    if add.absent {
        return Ok(Added::Refused);
    }
    let score = if add.adds { before + score } else { score };
    if score.is_nan() {
        return Err(NO_NUMBER.into());
    }
    if (add.greater && score <= before) || (add.less && score >= before) {
        return Ok(Added::Refused);
    }
    if score == before {
        return Ok(Added::Same(score));
    }
    context.tx.set_score(held, member, score)?;
    Ok(Added::Changed(score))
}

fn add_all(context: &mut Context, key: &[u8], add: Add, pairs: &[&[u8]]) -> Outcome {
    let all: Vec<(f64, &[u8])> =
        pairs.chunks_exact(2).map(|pair| Ok((double(pair[0])?, pair[1]))).collect::<Result<_, Fault>>()?;
    let mut slot = context.slot(key)?;
    let there = context.held(&slot, Kind::Sorted)?;
    if there.is_none() && add.present {
        return Ok(if add.adds { Reply::Null } else { Reply::Integer(0) });
    }
    let mut held = context.held_or_new(&slot, Kind::Sorted)?;
    let (mut new, mut changed, mut last) = (0, 0, Reply::Null);
    for (score, member) in all {
        match add_one(context, &mut held, add, score, member)? {
            Added::New(score) => {
                new += 1;
                last = Reply::Double(score);
            }
            Added::Changed(score) => {
                changed += 1;
                last = Reply::Double(score);
            }
            Added::Same(score) => last = Reply::Double(score),
            Added::Refused => {}
        }
    }
    if new + changed > 0 {
        context.keep(&mut slot, held);
    }
    Ok(if add.adds { last } else { Reply::Integer(if add.changed { new + changed } else { new }) })
}

pub fn zadd(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (mut add, mut at) = (Add::default(), 2);
    while let Some(argument) = args.get(at) {
        match argument {
            word if is(word, "NX") => add.absent = true,
            word if is(word, "XX") => add.present = true,
            word if is(word, "GT") => add.greater = true,
            word if is(word, "LT") => add.less = true,
            word if is(word, "CH") => add.changed = true,
            word if is(word, "INCR") => add.adds = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = &args[at..];
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(says::SYNTAX.into());
    }
    if add.absent && add.present {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    if (add.absent && (add.greater || add.less)) || (add.greater && add.less) {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if add.adds && pairs.len() > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    add_all(context, args[1], add, pairs)
}

pub fn zincrby(context: &mut Context, args: &[&[u8]]) -> Outcome {
    add_all(context, args[1], Add { adds: true, ..Add::default() }, &args[2..])
}

pub fn zrem(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    let Some(mut held) = context.held(&slot, Kind::Sorted)? else { return Ok(Reply::Integer(0)) };
    let mut removed = 0;
    for member in &args[2..] {
        removed += usize::from(context.tx.remove_element(&mut held, member)?);
    }
    if removed > 0 {
        context.keep(&mut slot, held);
    }
    Ok(Reply::count(removed))
}

pub fn zcard(context: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::Integer(sorted(context, args[1])?.map_or(0, |held| held.count) as i64))
}

pub fn zscore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let Some(held) = sorted(context, args[1])? else { return Ok(Reply::Null) };
    Ok(context.tx.score(&held, args[2])?.map_or(Reply::Null, Reply::Double))
}

pub fn zmscore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let held = sorted(context, args[1])?;
    let score = |member: &&[u8]| match &held {
        Some(held) => context.tx.score(held, member).map(|score| score.map_or(Reply::Null, Reply::Double)),
        None => Ok(Reply::Null),
    };
    Ok(Reply::Array(args[2..].iter().map(score).collect::<Result<_, _>>()?))
}

fn rank(context: &mut Context, args: &[&[u8]], backwards: bool) -> Outcome {
    let Some(held) = sorted(context, args[1])? else { return Ok(Reply::Null) };
    let Some(score) = context.tx.score(&held, args[2])? else { return Ok(Reply::Null) };
    let (prefix, record) = (layout::scores(held.body), layout::score(held.body, score, args[2]));
    let mut rank = 0;
    let visit = |at: &[u8], _: &[u8]| {
        let before = at != record;
        rank += i64::from(before);
        before
    };
    match backwards {
        false => context.tx.walk(&prefix, &prefix, visit)?,
        true => context.tx.walk_back(&prefix, &layout::end(&prefix), visit)?,
    }
    Ok(Reply::Integer(rank))
}

pub fn zrank(context: &mut Context, args: &[&[u8]]) -> Outcome {
    rank(context, args, false)
}

pub fn zrevrank(context: &mut Context, args: &[&[u8]]) -> Outcome {
    rank(context, args, true)
}

/// The lowest or highest of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The lowest.
    Lowest,
    /// The highest.
    Highest,
}

impl Which {
    /// Reads it.
    pub fn parse(argument: &[u8]) -> Result<Which, Fault> {
        match argument {
            word if is(word, "MIN") => Ok(Which::Lowest),
            word if is(word, "MAX") => Ok(Which::Highest),
            _ => Err(says::SYNTAX.into()),
        }
    }
}

/// Takes members from one end.
pub fn take(
    context: &mut Context,
    slot: &mut Slot,
    which: Which,
    most: u64,
) -> Result<Vec<(Vec<u8>, f64)>, Fault> {
    let Some(mut held) = context.held(slot, Kind::Sorted)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    if most > 0 {
        let prefix = layout::scores(held.body);
        let visit = |record: &[u8], _: &[u8]| {
            let (score, member) = layout::score_of(record);
            found.push((member.to_vec(), score));
            (found.len() as u64) < most
        };
        match which {
            Which::Lowest => context.tx.walk(&prefix, &prefix, visit)?,
            Which::Highest => context.tx.walk_back(&prefix, &layout::end(&prefix), visit)?,
        }
        for (member, _) in &found {
            context.tx.remove_element(&mut held, member)?;
        }
        context.keep(slot, held);
    }
    Ok(found)
}

/// Members with their scores.
pub fn pairs(members: impl IntoIterator<Item = (Vec<u8>, f64)>) -> Vec<(Reply, Reply)> {
    members.into_iter().map(|(member, score)| (Reply::Bulk(member), Reply::Double(score))).collect()
}

fn pop(context: &mut Context, args: &[&[u8]], which: Which) -> Outcome {
    let count = match &args[2..] {
        [] => None,
        [count] => Some(positive(count)?),
        _ => return Err(says::SYNTAX.into()),
    };
    let mut slot = context.slot(args[1])?;
    let found = pairs(take(context, &mut slot, which, count.unwrap_or(1))?);
    Ok(match count {
        Some(_) => Reply::Pairs(found),
        None => Reply::Array(found.into_iter().flat_map(|(member, score)| [member, score]).collect()),
    })
}

pub fn zpopmin(context: &mut Context, args: &[&[u8]]) -> Outcome {
    pop(context, args, Which::Lowest)
}

pub fn zpopmax(context: &mut Context, args: &[&[u8]]) -> Outcome {
    pop(context, args, Which::Highest)
}

/// Takes members from the first sorted set that is there.
pub fn pop_first(context: &mut Context, keys: &[&[u8]], which: Which, most: u64) -> Outcome {
    for key in keys {
        let mut slot = context.slot(key)?;
        let found = take(context, &mut slot, which, most)?;
        if !found.is_empty() {
            let pairs = pairs(found).into_iter().map(|(member, score)| Reply::Array(vec![member, score]));
            return Ok(Reply::Array(vec![Reply::bulk(*key), Reply::Array(pairs.collect())]));
        }
    }
    Ok(Reply::NullArray)
}

pub fn zmpop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (keys, which, most) = pop_arguments(&args[1..], Which::parse)?;
    pop_first(context, keys, which, most)
}

pub fn zrandmember(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let wanted = wanted(args, "WITHSCORES")?;
    let held = sorted(context, args[1])?;
    let Some((count, with)) = wanted else {
        let Some(held) = held else { return Ok(Reply::Null) };
        let found = context.tx.any_element(&held, &mut context.shared.random)?;
        return Ok(Reply::or_null(found.map(|(name, _)| name)));
    };
    let Some(held) = held else { return Ok(Reply::Array(Vec::new())) };
    let found = chosen(context, &held, count)?;
    Ok(match with {
        true => Reply::Pairs(pairs(found.into_iter().map(|(name, value)| (name, score_of_value(&value))))),
        false => Reply::bulks(found.into_iter().map(|(name, _)| name)),
    })
}

pub fn zscan(context: &mut Context, args: &[&[u8]]) -> Outcome {
    scan(context, args, Kind::Sorted, |value| Some(Reply::bulk(general(score_of_value(value)))))
}
