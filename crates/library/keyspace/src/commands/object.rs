//! `OBJECT`: how Redis would store a value.

use crate::commands::connection::{help, subcommand};
use crate::context::{Context, Fault, Outcome};
use crate::data::layout::{Held, Kind, Value};
use crate::number;
use crate::reply::Reply;

/// Subcommands of `OBJECT`.
pub const OBJECT: &[(&str, i32)] =
    &[("encoding", 3), ("freq", 3), ("idletime", 3), ("refcount", 3), ("help", 2)];

/// Up to so many elements, of so many bytes each, Redis keeps in one piece; and so many numbers.
const FEW: u64 = 128;
const SHORT: usize = 64;
const FEW_NUMBERS: u64 = 512;
/// The longest string in one piece with its head.
const EMBEDDED: usize = 44;

pub fn object(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let what = subcommand(OBJECT, args);
    if what == "help" {
        return Ok(help("OBJECT", OBJECT));
    }
    let slot = context.slot(args[2])?;
    let Some(value) = slot.value() else { return Ok(Reply::Null) };
    match what {
        "refcount" => Ok(Reply::Integer(1)),
        "idletime" => Ok(Reply::Integer(0)),
        "freq" => Err(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
                 when switching between policies at runtime LRU and LFU data will take some time to adjust."
                .into(),
        ),
        _ => Ok(Reply::bulk(encoding(context, value)?)),
    }
}

fn encoding(context: &Context, value: &Value) -> Result<&'static str, Fault> {
    let held = match value {
        Value::Text(text) if text.len() <= 20 && number::integer(text).is_some() => return Ok("int"),
        Value::Text(text) if text.len() <= EMBEDDED => return Ok("embstr"),
        Value::Text(_) => return Ok("raw"),
        Value::List(_) => return Ok("quicklist"),
        Value::Held(held) => held,
    };
    let (one_piece, many) = match held.kind {
        Kind::Hash => ("listpack", "hashtable"),
        Kind::Sorted => ("listpack", "skiplist"),
        Kind::Set => ("intset", "hashtable"),
    };
    Ok(if in_one_piece(context, held)? { one_piece } else { many })
}

fn in_one_piece(context: &Context, held: &Held) -> Result<bool, Fault> {
    let numbers = held.kind == Kind::Set;
    if held.count > if numbers { FEW_NUMBERS } else { FEW } {
        return Ok(false);
    }
    let fits = |text: &[u8]| if numbers { number::integer(text).is_some() } else { text.len() <= SHORT };
    let all = context.tx.elements(held)?;
    Ok(all.iter().all(|(name, value)| fits(name) && (held.kind != Kind::Hash || fits(value))))
}
