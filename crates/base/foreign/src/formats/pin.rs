//! PIN's pinatrace: `0x7f21a3c1b0d3: R 0x7ffd1c8e2a18`, in some versions with size and value behind.

use crate::line::{Line, prefixed, size};

pub(crate) fn line(text: &str) -> Option<Line> {
    if text.starts_with('#') || text.trim().is_empty() {
        return Some(Line::remark());
    }
    let mut words = text.split_ascii_whitespace();
    let code = prefixed(words.next()?.strip_suffix(':')?)?;
    let store = match words.next()? {
        "R" => false,
        "W" => true,
        _ => return None,
    };
    let addr = prefixed(words.next()?)?;
    let len = words.next().map_or(Some(8), size)?;
    Some(Line { code, ..Line::access(store, addr, len) })
}
