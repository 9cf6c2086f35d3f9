//! Strings and counters.

use crate::context::{Context, Fault, Outcome, integer, is, says};
use crate::data::layout::Value;
use crate::data::tx::Slot;
use crate::number::{self, Extended};
use crate::reply::Reply;

const OVERFLOW: &str = "ERR increment or decrement would overflow";
const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// When something is to expire, as arguments say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expiry {
    #[default]
    None,
    Keep,
    Persist,
    /// A time, or a time from now on if the flag is not set; in units of so many milliseconds.
    At {
        argument: usize,
        absolute: bool,
        unit: i64,
    },
}

/// The options of `SET` and `GETEX`.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    expiry: Expiry,
    absent: bool,
    present: bool,
    get: bool,
}

fn options(args: &[&[u8]], from: usize, set: bool) -> Result<Options, Fault> {
    let mut found = Options::default();
    let mut at = from;
    while let Some(argument) = args.get(at) {
        let timed = [("EX", false, 1000), ("PX", false, 1), ("EXAT", true, 1000), ("PXAT", true, 1)];
        let timed = timed.iter().find(|(word, ..)| is(argument, word));
        let free = found.expiry == Expiry::None;
        if set && is(argument, "NX") && !found.present {
            found.absent = true;
        } else if set && is(argument, "XX") && !found.absent {
            found.present = true;
        } else if set && is(argument, "GET") {
            found.get = true;
        } else if set && is(argument, "KEEPTTL") && (free || found.expiry == Expiry::Keep) {
            found.expiry = Expiry::Keep;
        } else if !set && is(argument, "PERSIST") && (free || found.expiry == Expiry::Persist) {
            found.expiry = Expiry::Persist;
        } else if let Some((_, absolute, unit)) = timed
            && free
            && at + 1 < args.len()
        {
            found.expiry = Expiry::At { argument: at + 1, absolute: *absolute, unit: *unit };
            at += 1;
        } else {
            return Err(says::SYNTAX.into());
        }
        at += 1;
    }
    Ok(found)
}

/// The time, in milliseconds since 1970.
fn time(argument: &[u8], absolute: bool, unit: i64, now: u64, command: &str) -> Result<u64, Fault> {
    let invalid = || Fault::from(format!("ERR invalid expire time in '{command}' command"));
    let value = integer(argument)?;
    if value <= 0 {
        return Err(invalid());
    }
    let value = value.checked_mul(unit).ok_or_else(invalid)?;
    let at = if absolute { value } else { value.checked_add(now as i64).ok_or_else(invalid)? };
    Ok(at as u64)
}

fn set_with(context: &mut Context, key: &[u8], value: &[u8], options: Options, expires: u64) -> Outcome {
    let mut slot = context.slot(key)?;
    let old = if options.get { Some(context.text(&slot)?.map(<[u8]>::to_vec)) } else { None };
    let refused = (options.absent && slot.entry().is_some()) || (options.present && slot.entry().is_none());
    if !refused {
        let expires = if options.expiry == Expiry::Keep { slot.expires() } else { expires };
        context.tx.set(&mut slot, Value::Text(value.to_vec()), expires);
    }
    Ok(match old {
        Some(old) => Reply::or_null(old),
        None if refused => Reply::Null,
        None => Reply::OK,
    })
}

pub fn set(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let options = options(args, 3, true)?;
    let expires = match options.expiry {
        Expiry::At { argument, absolute, unit } => {
            time(args[argument], absolute, unit, context.tx.now, "set")?
        }
        _ => 0,
    };
    set_with(context, args[1], args[2], options, expires)
}

pub fn setnx(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let options = Options { absent: true, ..Options::default() };
    let reply = set_with(context, args[1], args[2], options, 0)?;
    Ok(Reply::truth(reply == Reply::OK))
}

pub fn setex(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let expires = time(args[2], false, 1000, context.tx.now, "setex")?;
    set_with(context, args[1], args[3], Options::default(), expires)
}

pub fn psetex(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let expires = time(args[2], false, 1, context.tx.now, "psetex")?;
    set_with(context, args[1], args[3], Options::default(), expires)
}

pub fn get(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let slot = context.slot(args[1])?;
    let text = context.text(&slot)?;
    context.shared.stats.found[usize::from(text.is_none())] += 1;
    Ok(Reply::or_null(text.map(<[u8]>::to_vec)))
}

pub fn getset(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let options = Options { get: true, ..Options::default() };
    set_with(context, args[1], args[2], options, 0)
}

pub fn getdel(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    let old = context.text(&slot)?.map(<[u8]>::to_vec);
    context.tx.remove(&mut slot);
    Ok(Reply::or_null(old))
}

pub fn getex(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let options = options(args, 2, false)?;
    let mut slot = context.slot(args[1])?;
    let Some(text) = context.text(&slot)?.map(<[u8]>::to_vec) else { return Ok(Reply::Null) };
    match options.expiry {
        Expiry::At { argument, absolute, unit } => {
            let at = time(args[argument], absolute, unit, context.tx.now, "getex")?;
            if at <= context.tx.now {
                context.tx.remove(&mut slot);
            } else {
                context.tx.set(&mut slot, Value::Text(text.clone()), at);
            }
        }
        Expiry::Persist if slot.expires() > 0 => context.tx.set(&mut slot, Value::Text(text.clone()), 0),
        _ => {}
    }
    Ok(Reply::Bulk(text))
}

pub fn mget(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut all = Vec::new();
    for key in &args[1..] {
        let slot = context.slot(key)?;
        all.push(Reply::or_null(context.text(&slot).unwrap_or(None).map(<[u8]>::to_vec)));
    }
    Ok(Reply::Array(all))
}

pub fn mset(context: &mut Context, args: &[&[u8]]) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'mset' command".into());
    }
    for pair in args[1..].chunks_exact(2) {
        set_with(context, pair[0], pair[1], Options::default(), 0)?;
    }
    Ok(Reply::OK)
}

pub fn msetnx(context: &mut Context, args: &[&[u8]]) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'msetnx' command".into());
    }
    for pair in args[1..].chunks_exact(2) {
        if context.slot(pair[0])?.entry().is_some() {
            return Ok(Reply::Integer(0));
        }
    }
    for pair in args[1..].chunks_exact(2) {
        set_with(context, pair[0], pair[1], Options::default(), 0)?;
    }
    Ok(Reply::Integer(1))
}

pub fn append(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    let mut text = context.text(&slot)?.unwrap_or_default().to_vec();
    if text.len() + args[2].len() > context.shared.settings.value {
        return Err(TOO_LONG.into());
    }
    text.extend_from_slice(args[2]);
    let len = text.len();
    context.tx.update(&mut slot, Value::Text(text));
    Ok(Reply::count(len))
}

pub fn strlen(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let slot = context.slot(args[1])?;
    Ok(Reply::count(context.text(&slot)?.map_or(0, <[u8]>::len)))
}

pub fn getrange(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    let slot = context.slot(args[1])?;
    let text = context.text(&slot)?.unwrap_or_default();
    let len = text.len() as i64;
    if start < 0 && end < 0 && start > end {
        return Ok(Reply::bulk(""));
    }
    let from_end = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end || len == 0 {
        return Ok(Reply::bulk(""));
    }
    Ok(Reply::bulk(&text[start as usize..=end as usize]))
}

pub fn setrange(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let offset = integer(args[2])?;
    if offset < 0 {
        return Err("ERR offset is out of range".into());
    }
    let mut slot = context.slot(args[1])?;
    let mut text = context.text(&slot)?.unwrap_or_default().to_vec();
    if args[3].is_empty() {
        return Ok(Reply::count(text.len()));
    }
    let end = (offset as u64).saturating_add(args[3].len() as u64);
    if end > context.shared.settings.value as u64 {
        return Err(TOO_LONG.into());
    }
    let (start, end) = (offset as usize, end as usize);
    if text.len() < end {
        text.resize(end, 0);
    }
    text[start..end].copy_from_slice(args[3]);
    let len = text.len();
    context.tx.update(&mut slot, Value::Text(text));
    Ok(Reply::count(len))
}

fn add(context: &mut Context, key: &[u8], more: i64) -> Outcome {
    let mut slot = context.slot(key)?;
    let value = match context.text(&slot)? {
        Some(text) => integer(text)?,
        None => 0,
    };
    let sum = value.checked_add(more).ok_or(OVERFLOW)?;
    context.tx.update(&mut slot, Value::Text(sum.to_string().into_bytes()));
    Ok(Reply::Integer(sum))
}

pub fn incr(context: &mut Context, args: &[&[u8]]) -> Outcome {
    add(context, args[1], 1)
}

pub fn decr(context: &mut Context, args: &[&[u8]]) -> Outcome {
    add(context, args[1], -1)
}

pub fn incrby(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let more = integer(args[2])?;
    add(context, args[1], more)
}

pub fn decrby(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let less = integer(args[2])?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(context, args[1], less)
}

/// The sum of two numbers as text, in the precision of `long double`; `wrong` is the error of the first.
pub fn float_sum(value: Option<&[u8]>, more: &[u8], wrong: &'static str) -> Result<String, Fault> {
    let infinite = |text: &[u8]| number::double(text).is_some_and(f64::is_infinite);
    let value = value.unwrap_or(b"0");
    let first = Extended::parse(value);
    if first.is_none() && !infinite(value) {
        return Err(wrong.into());
    }
    let second = Extended::parse(more);
    if second.is_none() && !infinite(more) {
        return Err(says::NOT_FLOAT.into());
    }
    let (Some(first), Some(second)) = (first, second) else { return Err(says::INFINITE.into()) };
    Ok(first.plus(&second).ok_or(says::INFINITE)?.text())
}

pub fn incrbyfloat(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut slot = context.slot(args[1])?;
    let sum = float_sum(context.text(&slot)?, args[2], says::NOT_FLOAT)?;
    context.tx.update(&mut slot, Value::Text(sum.clone().into_bytes()));
    Ok(Reply::bulk(sum))
}

/// The longest text that two strings have in common, not necessarily in one piece.
pub fn lcs(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (first, second) = (context.slot(args[1])?, context.slot(args[2])?);
    let text = |slot: &Slot| match slot.value() {
        None => Ok(Vec::new()),
        Some(Value::Text(text)) => Ok(text.clone()),
        Some(_) => Err(Fault::from("ERR The specified keys must contain string values")),
    };
    let (a, b) = (text(&first)?, text(&second)?);
    let (mut len, mut idx, mut with_len, mut min) = (false, false, false, 0);
    let mut at = 3;
    while let Some(argument) = args.get(at) {
        if is(argument, "IDX") {
            idx = true;
        } else if is(argument, "LEN") {
            len = true;
        } else if is(argument, "WITHMATCHLEN") {
            with_len = true;
        } else if is(argument, "MINMATCHLEN") && at + 1 < args.len() {
            min = integer(args[at + 1])?.max(0) as usize;
            at += 1;
        } else {
            return Err(says::SYNTAX.into());
        }
        at += 1;
    }
    if len && idx {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    if (a.len() + 1).saturating_mul(b.len() + 1) > context.shared.settings.argument {
        return Err("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".into());
    }
    Ok(common(&a, &b, len, idx, with_len, min))
}

fn common(a: &[u8], b: &[u8], len: bool, idx: bool, with_len: bool, min: usize) -> Reply {
    let width = b.len() + 1;
    let mut table = vec![0u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i * width + j] = if a[i - 1] == b[j - 1] {
                table[(i - 1) * width + j - 1] + 1
            } else {
                table[(i - 1) * width + j].max(table[i * width + j - 1])
            };
        }
    }
    let total = table[a.len() * width + b.len()];
    if len {
        return Reply::Integer(total.into());
    }
    let (mut i, mut j) = (a.len(), b.len());
    let (mut text, mut matches) = (Vec::new(), Vec::new());
    // A match that is being followed towards the front: where it ends in both.
    let mut run: Option<(usize, usize, usize)> = None;
    let mut close = |run: &mut Option<(usize, usize, usize)>| {
        if let Some((i, j, length)) = run.take()
            && length >= min.max(1)
        {
            let range = |end: usize| Reply::Array(vec![Reply::count(end + 1 - length), Reply::count(end)]);
            let mut found = vec![range(i), range(j)];
            found.extend(with_len.then(|| Reply::count(length)));
            matches.push(Reply::Array(found));
        }
    };
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            text.push(a[i - 1]);
            (i, j) = (i - 1, j - 1);
            run = Some(run.map_or((i, j, 1), |(ri, rj, length)| (ri, rj, length + 1)));
        } else {
            close(&mut run);
            if table[(i - 1) * width + j] > table[i * width + j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
    close(&mut run);
    if idx {
        let names = [Reply::bulk("matches"), Reply::bulk("len")];
        let [matches_name, len_name] = names;
        return Reply::Map(vec![
            (matches_name, Reply::Array(matches)),
            (len_name, Reply::Integer(total.into())),
        ]);
    }
    text.reverse();
    Reply::Bulk(text)
}
