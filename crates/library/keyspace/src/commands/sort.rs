//! `SORT`.

use std::cmp::Ordering;

use crate::commands::lists::{all, store};
use crate::context::{Context, Fault, Outcome, c_text, integer, is, says};
use crate::data::layout::{self, Kind, Value};
use crate::number;
use crate::reply::Reply;

/// What is asked for.
#[derive(Debug, Default)]
struct Sort {
    by: Option<Vec<u8>>,
    get: Vec<Vec<u8>>,
    limit: Option<(i64, i64)>,
    descending: bool,
    alphabetic: bool,
    store: Option<Vec<u8>>,
}

fn parse(args: &[&[u8]], stores: bool) -> Result<Sort, Fault> {
    let (mut sort, mut at) = (Sort::default(), 0);
    while let Some(argument) = args.get(at) {
        let left = args.len() - at - 1;
        match argument {
            word if is(word, "ASC") => sort.descending = false,
            word if is(word, "DESC") => sort.descending = true,
            word if is(word, "ALPHA") => sort.alphabetic = true,
            word if is(word, "LIMIT") && left >= 2 => {
                sort.limit = Some((integer(args[at + 1])?, integer(args[at + 2])?));
                at += 2;
            }
            word if stores && is(word, "STORE") && left >= 1 => {
                sort.store = Some(args[at + 1].to_vec());
                at += 1;
            }
            word if is(word, "BY") && left >= 1 => {
                sort.by = Some(args[at + 1].to_vec());
                at += 1;
            }
            word if is(word, "GET") && left >= 1 => {
                sort.get.push(args[at + 1].to_vec());
                at += 1;
            }
            _ => return Err(says::SYNTAX.into()),
        }
        at += 1;
    }
    Ok(sort)
}

/// What is under the key that a pattern makes of an element: a string, or a field of a hash.
fn looked_up(context: &mut Context, pattern: &[u8], element: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    // A field stands behind an arrow behind the star.
    let arrow = pattern[star..].windows(2).position(|two| two == b"->").map(|at| at + star);
    let (end, field) = match arrow.filter(|at| at + 2 < pattern.len()) {
        Some(at) => (at, Some(&pattern[at + 2..])),
        None => (pattern.len(), None),
    };
    let key = [&pattern[..star], element, &pattern[star + 1..end]].concat();
    let slot = context.slot(&key)?;
    match (field, slot.value()) {
        (None, Some(Value::Text(text))) => Ok(Some(text.clone())),
        (Some(field), Some(Value::Held(held))) if held.kind == Kind::Hash => {
            Ok(context.tx.element(held, field)?)
        }
        _ => Ok(None),
    }
}

/// The elements in the order of the key; whether that order has a meaning.
fn source(context: &mut Context, key: &[u8], backwards: bool) -> Result<(Vec<Vec<u8>>, bool), Fault> {
    let slot = context.slot(key)?;
    match slot.value() {
        None => Ok((Vec::new(), true)),
        Some(Value::List(list)) => {
            let mut found = all(context, list)?;
            if backwards {
                found.reverse();
            }
            Ok((found, true))
        }
        Some(Value::Held(held)) if held.kind == Kind::Set => {
            Ok((context.tx.elements(held)?.into_iter().map(|(name, _)| name).collect(), false))
        }
        Some(Value::Held(held)) if held.kind == Kind::Sorted => {
            let (prefix, mut found) = (layout::scores(held.body), Vec::new());
            let visit = |record: &[u8], _: &[u8]| {
                found.push(layout::score_of(record).1.to_vec());
                true
            };
            match backwards {
                false => context.tx.walk(&prefix, &prefix, visit)?,
                true => context.tx.walk_back(&prefix, &layout::end(&prefix), visit)?,
            }
            Ok((found, true))
        }
        Some(_) => Err(says::WRONG_TYPE.into()),
    }
}

/// What an element is sorted by.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
}

fn order(context: &mut Context, sort: &Sort, elements: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Fault> {
    let mut weighed = Vec::new();
    for element in elements {
        let by = match &sort.by {
            Some(pattern) => looked_up(context, pattern, &element)?,
            None => Some(element.clone()),
        };
        let weight = match (sort.alphabetic, by) {
            (true, by) => Weight::Text(by),
            (false, None) => Weight::Number(0.0),
            (false, Some(text)) => {
                // As `strtod` has it: nothing is zero.
                let text = c_text(&text);
                let number = if text.is_empty() { Some(0.0) } else { number::double(text) };
                Weight::Number(number.ok_or("ERR One or more scores can't be converted into double")?)
            }
        };
        weighed.push((weight, element));
    }
    weighed.sort_by(|(a, one), (b, other)| {
        let order = match (a, b) {
            (Weight::Number(a), Weight::Number(b)) => {
                // Elements of one weight have an order of their own, so that it is always the same.
                a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| one.cmp(other))
            }
            (Weight::Text(a), Weight::Text(b)) if sort.store.is_some() => a.cmp(b),
            // As C compares text.
            (Weight::Text(a), Weight::Text(b)) => a.as_deref().map(c_text).cmp(&b.as_deref().map(c_text)),
            _ => Ordering::Equal,
        };
        if sort.descending { order.reverse() } else { order }
    });
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

fn sorted(context: &mut Context, args: &[&[u8]], stores: bool) -> Outcome {
    let sort = parse(&args[2..], stores)?;
    let unsorted = sort.by.as_ref().is_some_and(|by| !by.contains(&b'*'));
    let (elements, in_order) = source(context, args[1], unsorted && sort.descending)?;
    // What is stored is the same wherever it is done.
    let sorts = !unsorted || (!in_order && sort.store.is_some());
    let elements = match sorts {
        true if unsorted => {
            let plain = Sort { alphabetic: true, store: sort.store.clone(), ..Sort::default() };
            order(context, &plain, elements)?
        }
        true => order(context, &sort, elements)?,
        false => elements,
    };
    let count = elements.len() as i64;
    let (skip, most) = sort.limit.unwrap_or((0, -1));
    let skip = skip.clamp(0, count);
    let most = if most < 0 { count } else { most };
    let mut found = Vec::new();
    for element in elements.into_iter().skip(skip as usize).take(most as usize) {
        if sort.get.is_empty() {
            found.push(Some(element));
            continue;
        }
        for pattern in &sort.get {
            found.push(looked_up(context, pattern, &element)?);
        }
    }
    match &sort.store {
        Some(key) => store(context, key, found.into_iter().map(Option::unwrap_or_default).collect()),
        None => Ok(Reply::Array(found.into_iter().map(Reply::or_null).collect())),
    }
}

pub fn sort(context: &mut Context, args: &[&[u8]]) -> Outcome {
    sorted(context, args, true)
}

pub fn sort_ro(context: &mut Context, args: &[&[u8]]) -> Outcome {
    sorted(context, args, false)
}
