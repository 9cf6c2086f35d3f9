//! Commands that wait until a list or sorted set has something.

use crate::commands::lists::{self, Side, pop_arguments};
use crate::commands::sorted::{self, Which};
use crate::context::{Context, Fault, Outcome, c_text};
use crate::number;
use crate::reply::Reply;

/// Milliseconds that a command waits; 0 for as long as it takes.
fn timeout(argument: &[u8]) -> Result<u64, Fault> {
    let wrong = "ERR timeout is not a float or out of range";
    let seconds = number::double(argument).filter(|_| c_text(argument) == argument).ok_or(wrong)?;
    let milliseconds = (seconds * 1000.0).ceil();
    if milliseconds > i64::MAX as f64 {
        return Err("ERR timeout is out of range".into());
    }
    if milliseconds < 0.0 {
        return Err("ERR timeout is negative".into());
    }
    Ok(milliseconds as u64)
}

/// What was popped, or that the command waits.
fn or_wait(popped: Option<Reply>, timeout: u64, otherwise: Reply) -> Outcome {
    popped.ok_or(Fault::Waits { timeout, otherwise })
}

fn pop_list(context: &mut Context, args: &[&[u8]], side: Side) -> Outcome {
    let (keys, time) = args[1..].split_at(args.len() - 2);
    let timeout = timeout(time[0])?;
    for key in keys {
        let mut slot = context.slot(key)?;
        if let Some(value) = lists::take(context, &mut slot, side, 1)?.pop() {
            return Ok(Reply::Array(vec![Reply::bulk(*key), Reply::Bulk(value)]));
        }
    }
    or_wait(None, timeout, Reply::NullArray)
}

pub fn blpop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    pop_list(context, args, Side::Left)
}

pub fn brpop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    pop_list(context, args, Side::Right)
}

fn transfer(context: &mut Context, args: &[&[u8]], sides: [Side; 2], time: &[u8]) -> Outcome {
    let timeout = timeout(time)?;
    let reply = lists::transfer(context, [args[1], args[2]], sides)?;
    or_wait(Some(reply).filter(|reply| *reply != Reply::Null), timeout, Reply::Null)
}

pub fn blmove(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let sides = [Side::parse(args[3])?, Side::parse(args[4])?];
    transfer(context, args, sides, args[5])
}

pub fn brpoplpush(context: &mut Context, args: &[&[u8]]) -> Outcome {
    transfer(context, args, [Side::Right, Side::Left], args[3])
}

pub fn blmpop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (keys, side, most) = pop_arguments(&args[2..], Side::parse)?;
    let timeout = timeout(args[1])?;
    let reply = lists::pop_first(context, keys, side, most)?;
    or_wait(Some(reply).filter(|reply| *reply != Reply::NullArray), timeout, Reply::NullArray)
}

fn pop_sorted(context: &mut Context, args: &[&[u8]], which: Which) -> Outcome {
    let (keys, time) = args[1..].split_at(args.len() - 2);
    let timeout = timeout(time[0])?;
    for key in keys {
        let mut slot = context.slot(key)?;
        if let Some((member, score)) = sorted::take(context, &mut slot, which, 1)?.pop() {
            return Ok(Reply::Array(vec![Reply::bulk(*key), Reply::Bulk(member), Reply::Double(score)]));
        }
    }
    or_wait(None, timeout, Reply::NullArray)
}

pub fn bzpopmin(context: &mut Context, args: &[&[u8]]) -> Outcome {
    pop_sorted(context, args, Which::Lowest)
}

pub fn bzpopmax(context: &mut Context, args: &[&[u8]]) -> Outcome {
    pop_sorted(context, args, Which::Highest)
}

pub fn bzmpop(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (keys, which, most) = pop_arguments(&args[2..], Which::parse)?;
    let timeout = timeout(args[1])?;
    let reply = sorted::pop_first(context, keys, which, most)?;
    or_wait(Some(reply).filter(|reply| *reply != Reply::NullArray), timeout, Reply::NullArray)
}
