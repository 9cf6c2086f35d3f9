//! perf: what `perf script` prints of events with data addresses, and `perf mem -D report`.

use crate::line::{Access, Line, decimal, hex};

const BYTES: u32 = 8;

/// `app  4242 [001] 18233.112233:     1 cpu/mem-loads,ldlat=30/P:     7f3a5c001040 |OP LOAD|LVL L3 hit|...  401166 main+0x36 (/opt/app)`
///
/// Lines that begin with white space and an address are callers of the sample before.
pub(crate) fn script(text: &str) -> Option<Line> {
    if text.trim().is_empty() || text.starts_with('#') {
        return Some(Line::remark());
    }
    if text.starts_with([' ', '\t'])
        && text.split_ascii_whitespace().next().is_some_and(|word| hex(word).is_some())
    {
        let first = text.split_ascii_whitespace().nth(1);
        if !first.is_some_and(|word| word.starts_with('[') || word.contains('/') && decimal(word).is_some()) {
            return Some(Line::remark());
        }
    }
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let at = words.iter().position(|word| is_time(word))?;
    let thread = words[..at].iter().rev().find_map(|word| decimal(word.rsplit('/').next()?))?;
    let mut rest = words[at + 1..].iter();
    let mut event = *rest.next()?;
    let mut period = 0;
    if let Some(number) = decimal(event) {
        period = number;
        event = rest.next()?;
    }
    if !event.ends_with(':') {
        return None;
    }
    let addr = hex(rest.next()?)?;
    let tail: Vec<&str> = rest.copied().collect();
    let joined = tail.join(" ");
    let store = if joined.contains("|OP STORE") {
        true
    } else if joined.contains("|OP LOAD") {
        false
    } else {
        event.contains("store")
    };
    let names = names(&tail);
    let code = names.as_ref().map_or(0, |names| names.0);
    Some(Line {
        access: Some(Access { store, addr, len: BYTES }),
        code,
        names: names.map(|(_, function, module)| (function, module)),
        thread,
        period,
        instructions: 0,
    })
}

/// `18233.112233:`
fn is_time(word: &str) -> bool {
    word.strip_suffix(':').and_then(|word| word.split_once('.')).is_some_and(|(seconds, rest)| {
        !seconds.is_empty() && !rest.is_empty() && decimal(seconds).is_some() && decimal(rest).is_some()
    })
}

/// Address, function and module at the end: `401166 main+0x36 (/opt/app)`.
fn names(tail: &[&str]) -> Option<(u64, String, String)> {
    let module = tail.last()?.strip_prefix('(')?.strip_suffix(')')?;
    let symbol = tail.len().checked_sub(2)?;
    // Names of C++ have spaces; the address is the last word before them that is one.
    let at = (0..symbol).rev().find(|&at| tail[at].len() >= 4 && hex(tail[at]).is_some())?;
    let function = tail[at + 1..=symbol].join(" ");
    let function = function.rsplit_once("+0x").map_or(function.as_str(), |(name, _)| name);
    Some((hex(tail[at])?, function.to_owned(), module.to_owned()))
}

/// `# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, # SYMBOL` and lines of these, with blanks or commas between.
pub(crate) fn mem(text: &str) -> Option<Line> {
    if text.trim().is_empty() || text.starts_with('#') {
        return Some(Line::remark());
    }
    let words: Vec<&str> = text.split([',', ' ', '\t']).filter(|word| !word.is_empty()).collect();
    let [_, tid, ip, addr, ..] = words[..] else { return None };
    let source = words[4..].iter().rev().find_map(|word| word.starts_with("0x").then(|| hex(word))?)?;
    let symbol = words.last().filter(|word| !word.starts_with("0x")).and_then(|word| {
        let (module, function) = word.rsplit_once(':')?;
        Some((function.to_owned(), module.to_owned()))
    });
    // Bits 0 to 4 of the data source: not available, load, store, prefetch, execution.
    let store = source & 4 != 0;
    decimal(words[0])?;
    let addr = addr.starts_with("0x").then(|| hex(addr))??;
    Some(Line {
        access: (source & 6 != 0).then_some(Access { store, addr, len: BYTES }),
        code: hex(ip)?,
        names: symbol,
        thread: decimal(tid)?,
        ..Line::default()
    })
}
