//! Bits of strings.

use crate::context::{Context, Fault, Outcome, integer, is, says};
use crate::data::layout::Value;
use crate::number;
use crate::reply::Reply;

const NO_OFFSET: &str = "ERR bit offset is not an integer or out of range";
/// Bits of the longest string that Redis allows, 512 MiB.
const BITS_MAX: u64 = 1 << 32;

fn offset(argument: &[u8], most: u64) -> Result<u64, Fault> {
    let offset = number::integer(argument).and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| *offset < most).ok_or(NO_OFFSET.into())
}

fn bit(text: &[u8], at: u64) -> bool {
    text.get((at / 8) as usize).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

pub fn setbit(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let at = offset(args[2], BITS_MAX.min(8 * context.shared.settings.value as u64))?;
    let value = number::integer(args[3]).filter(|value| matches!(value, 0 | 1));
    let value = value.ok_or("ERR bit is not an integer or out of range")? == 1;
    let mut slot = context.slot(args[1])?;
    let mut text = context.text(&slot)?.unwrap_or_default().to_vec();
    let before = bit(&text, at);
    let byte = (at / 8) as usize;
    if text.len() <= byte {
        text.resize(byte + 1, 0);
    }
    let mask = 1 << (7 - at % 8);
    text[byte] = if value { text[byte] | mask } else { text[byte] & !mask };
    context.tx.update(&mut slot, Value::Text(text));
    Ok(Reply::truth(before))
}

pub fn getbit(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let at = offset(args[2], BITS_MAX)?;
    let slot = context.slot(args[1])?;
    Ok(Reply::truth(bit(context.text(&slot)?.unwrap_or_default(), at)))
}

/// Whether a range counts bits, not bytes.
fn counts_bits(argument: Option<&&[u8]>) -> Result<bool, Fault> {
    match argument {
        None => Ok(false),
        Some(word) if is(word, "BIT") => Ok(true),
        Some(word) if is(word, "BYTE") => Ok(false),
        Some(_) => Err(says::SYNTAX.into()),
    }
}

/// A range of so many things; none if it is empty. Ends may count from behind.
fn range(start: i64, end: i64, count: i64) -> Option<(i64, i64)> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |at: i64| if at < 0 { at.saturating_add(count).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(count - 1));
    (start <= end).then_some((start, end))
}

/// Ones among the bits from the first to the last.
fn ones(text: &[u8], first: i64, last: i64) -> i64 {
    let (low, high) = ((first / 8) as usize, (last / 8) as usize);
    let all: i64 = text[low..=high].iter().map(|byte| i64::from(byte.count_ones())).sum();
    let before = (low as i64 * 8..first).filter(|at| bit(text, *at as u64)).count();
    let behind = (last + 1..(high as i64 + 1) * 8).filter(|at| bit(text, *at as u64)).count();
    all - before as i64 - behind as i64
}

pub fn bitcount(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let slot = context.slot(args[1])?;
    let text = context.text(&slot)?;
    if args.len() == 3 || args.len() > 5 {
        return if text.is_none() && slot.entry().is_none() {
            Ok(Reply::Integer(0))
        } else {
            Err(says::SYNTAX.into())
        };
    }
    let Some(text) = text else { return Ok(Reply::Integer(0)) };
    let bytes = text.len() as i64;
    let (start, end, bits) = match &args[2..] {
        [] => (0, -1, false),
        [start, end, unit @ ..] => {
            let (start, end) = (integer(start)?, integer(end)?);
            if start < 0 && end < 0 && start > end {
                // Redis looks at the unit only now.
                return Ok(Reply::Integer(0));
            }
            (start, end, counts_bits(unit.first())?)
        }
        _ => return Err(says::SYNTAX.into()),
    };
    let Some((start, end)) = range(start, end, if bits { 8 * bytes } else { bytes }) else {
        return Ok(Reply::Integer(0));
    };
    let (first, last) = if bits { (start, end) } else { (8 * start, 8 * end + 7) };
    Ok(Reply::Integer(ones(text, first, last)))
}

pub fn bitpos(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let wanted = integer(args[2])?;
    if !matches!(wanted, 0 | 1) {
        return Err("ERR The bit argument must be 1 or 0.".into());
    }
    let wanted = wanted == 1;
    let slot = context.slot(args[1])?;
    let Some(text) = context.text(&slot)? else {
        return Ok(Reply::Integer(if wanted { -1 } else { 0 }));
    };
    let bytes = text.len() as i64;
    let (start, end, bits) = match &args[3..] {
        [] => (0, -1, false),
        [start] => (integer(start)?, -1, false),
        [start, end, unit @ ..] if unit.len() < 2 => {
            // In Redis's order, which shows in errors.
            let start = integer(start)?;
            let bits = counts_bits(unit.first())?;
            (start, integer(end)?, bits)
        }
        _ => return Err(says::SYNTAX.into()),
    };
    let count = if bits { 8 * bytes } else { bytes };
    let from_end = |at: i64| if at < 0 { at.saturating_add(count).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(count - 1));
    if start > end {
        return Ok(Reply::Integer(-1));
    }
    let (first, last) = if bits { (start, end) } else { (8 * start, 8 * end + 7) };
    let found = (first..=last).find(|at| bit(text, *at as u64) == wanted);
    Ok(Reply::Integer(match found {
        Some(at) => at,
        // Zeros go on behind a string, unless the range has an end.
        None if !wanted && args.len() <= 4 => 8 * bytes,
        None => -1,
    }))
}

pub fn bitop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let join: fn(u8, u8) -> u8 = match args[1] {
        word if is(word, "AND") => |a, b| a & b,
        word if is(word, "OR") => |a, b| a | b,
        word if is(word, "XOR") => |a, b| a ^ b,
        word if is(word, "NOT") => {
            if args.len() != 4 {
                return Err("ERR BITOP NOT must be called with a single source key.".into());
            }
            |a, _| !a
        }
        _ => return Err(says::SYNTAX.into()),
    };
    let mut texts = Vec::new();
    for key in &args[3..] {
        let slot = context.slot(key)?;
        texts.push(context.text(&slot)?.unwrap_or_default().to_vec());
    }
    let len = texts.iter().map(Vec::len).max().unwrap_or(0);
    let byte = |text: &Vec<u8>, at: usize| text.get(at).copied().unwrap_or(0);
    let not = is(args[1], "NOT");
    let joined = (0..len).map(|at| {
        let first = byte(&texts[0], at);
        if not {
            join(first, 0)
        } else {
            texts[1..].iter().fold(first, |value, text| join(value, byte(text, at)))
        }
    });
    let joined: Vec<u8> = joined.collect();
    let mut slot = context.slot(args[2])?;
    if joined.is_empty() {
        context.tx.remove(&mut slot);
    } else {
        context.tx.set(&mut slot, Value::Text(joined), 0);
    }
    Ok(Reply::count(len))
}
