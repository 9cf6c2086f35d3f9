//! Unions, intersections and differences of sorted sets, with sets among them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::commands::ranges::store;
use crate::commands::sets::limit;
use crate::commands::sorted::pairs;
use crate::context::{Context, Fault, Outcome, integer, is, says};
use crate::data::elements::score_of_value;
use crate::data::layout::{Held, Kind, Value};
use crate::number;
use crate::reply::Reply;

type Members = Vec<(Vec<u8>, f64)>;

/// What is made of several sorted sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Union,
    Intersection,
    Difference,
}

/// How scores of one member become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joined {
    Sum,
    Least,
    Greatest,
}

impl Joined {
    fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Joined::Sum => number_or_zero(a + b),
            // Not `min` and `max`: of two zeros the first stays.
            Joined::Least => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Joined::Greatest => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// Infinities of both signs make zero.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Sets and sorted sets; none where there is no key.
fn sources(context: &mut Context, keys: &[&[u8]]) -> Result<Vec<Option<Held>>, Fault> {
    let mut all = Vec::new();
    for key in keys {
        all.push(match context.slot(key)?.value() {
            None => None,
            Some(Value::Held(held)) if held.kind != Kind::Hash => Some(*held),
            Some(_) => return Err(says::WRONG_TYPE.into()),
        });
    }
    Ok(all)
}

fn scores(context: &Context, of: Option<&Held>) -> Result<Members, Fault> {
    let Some(held) = of else { return Ok(Members::new()) };
    let all = context.tx.elements(held)?.into_iter();
    Ok(match held.kind {
        Kind::Sorted => all.map(|(name, value)| (name, score_of_value(&value))).collect(),
        _ => all.map(|(name, _)| (name, 1.0)).collect(),
    })
}

fn made(
    context: &Context,
    made: Made,
    sources: &[Option<Held>],
    weights: &[f64],
    joined: Joined,
) -> Result<Members, Fault> {
    let mut found = BTreeMap::<Vec<u8>, f64>::new();
    // In Redis's order, the smallest first, which decides how sums are rounded.
    let mut order: Vec<usize> = (0..sources.len()).collect();
    if made != Made::Difference {
        order.sort_by_key(|at| sources[*at].map_or(0, |held| held.count));
    }
    for (turn, at) in order.into_iter().enumerate() {
        let weight = weights.get(at).copied().unwrap_or(1.0);
        let of = scores(context, sources[at].as_ref())?;
        // Where a product is no number Redis takes zero, in later sets of an intersection for the sum only.
        let exact = made == Made::Intersection && turn > 0;
        let weighted = |score: f64| if exact { weight * score } else { number_or_zero(weight * score) };
        let mut of: BTreeMap<Vec<u8>, f64> =
            of.into_iter().map(|(name, score)| (name, weighted(score))).collect();
        match (made, turn) {
            (_, 0) => found = of,
            (Made::Union, _) => {
                for (name, score) in of {
                    let joined = |before: &mut f64| *before = joined.join(*before, score);
                    found.entry(name).and_modify(joined).or_insert(score);
                }
            }
            (Made::Intersection, _) => found.retain(|name, before| {
                let score = of.remove(name);
                *before = score.map_or(*before, |score| joined.join(*before, score));
                score.is_some()
            }),
            (Made::Difference, _) => found.retain(|name, _| !of.contains_key(name)),
        }
    }
    let mut found: Members = found.into_iter().collect();
    found.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then_with(|| a.0.cmp(&b.0)));
    Ok(found)
}

/// The keys whose number is the argument at `at`, and what is behind them.
fn keys_of<'a, 'b>(args: &'a [&'b [u8]], at: usize, name: &str) -> Result<[&'a [&'b [u8]]; 2], Fault> {
    let count = integer(args[at])?;
    if count < 1 {
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    let rest = &args[at + 1..];
    let count = usize::try_from(count).ok().filter(|count| *count <= rest.len()).ok_or(says::SYNTAX)?;
    Ok(rest.split_at(count).into())
}

/// Reads keys and options from `at` on and makes what is asked for; with it whether scores are wanted.
fn combined(
    context: &mut Context,
    args: &[&[u8]],
    at: usize,
    what: Made,
    name: &str,
) -> Result<(Members, bool), Fault> {
    let [keys, rest] = keys_of(args, at, name)?;
    let count = keys.len();
    let sources = sources(context, keys)?;
    let (mut weights, mut joined, mut with_scores, mut at) = (Vec::new(), Joined::Sum, false, 0);
    let stores = name.ends_with("store");
    while let Some(argument) = rest.get(at) {
        let left = rest.len() - at - 1;
        if what != Made::Difference && is(argument, "WEIGHTS") && left >= count {
            let parsed = rest[at + 1..=at + count].iter().map(|weight| number::double(weight));
            let parsed: Option<Vec<f64>> = parsed.collect();
            weights = parsed.ok_or("ERR weight value is not a float")?;
            at += count;
        } else if what != Made::Difference && is(argument, "AGGREGATE") && left >= 1 {
            joined = match rest[at + 1] {
                word if is(word, "SUM") => Joined::Sum,
                word if is(word, "MIN") => Joined::Least,
                word if is(word, "MAX") => Joined::Greatest,
                _ => return Err(says::SYNTAX.into()),
            };
            at += 1;
        } else if !stores && is(argument, "WITHSCORES") {
            with_scores = true;
        } else {
            return Err(says::SYNTAX.into());
        }
        at += 1;
    }
    Ok((made(context, what, &sources, &weights, joined)?, with_scores))
}

fn shown((members, with_scores): (Members, bool)) -> Reply {
    match with_scores {
        true => Reply::Pairs(pairs(members)),
        false => Reply::bulks(members.into_iter().map(|(member, _)| member)),
    }
}

pub fn zunion(context: &mut Context, args: &[&[u8]]) -> Outcome {
    combined(context, args, 1, Made::Union, "zunion").map(shown)
}

pub fn zinter(context: &mut Context, args: &[&[u8]]) -> Outcome {
    combined(context, args, 1, Made::Intersection, "zinter").map(shown)
}

pub fn zdiff(context: &mut Context, args: &[&[u8]]) -> Outcome {
    combined(context, args, 1, Made::Difference, "zdiff").map(shown)
}

pub fn zunionstore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (members, _) = combined(context, args, 2, Made::Union, "zunionstore")?;
    store(context, args[1], &members)
}

pub fn zinterstore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (members, _) = combined(context, args, 2, Made::Intersection, "zinterstore")?;
    store(context, args[1], &members)
}

pub fn zdiffstore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (members, _) = combined(context, args, 2, Made::Difference, "zdiffstore")?;
    store(context, args[1], &members)
}

pub fn zintercard(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let [keys, rest] = keys_of(args, 1, "zintercard")?;
    let sources = sources(context, keys)?;
    let most = match limit(rest)? {
        0 => usize::MAX,
        limit => limit,
    };
    let found = made(context, Made::Intersection, &sources, &[], Joined::Sum)?;
    Ok(Reply::count(found.len().min(most)))
}
