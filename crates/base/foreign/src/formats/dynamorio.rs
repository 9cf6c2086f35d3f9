//! DynamoRIO: the view tool of drmemtrace (`  12  5:  1234 read  8 byte(s) @ 0x7f... by PC 0x7f...`), and the sample client
//! memtrace_simple (`0x7ffe3b4cd8a8:  8, w`).

use crate::line::{Line, decimal, hex, prefixed, size};

pub(crate) fn line(text: &str) -> Option<Line> {
    let trimmed = text.trim();
    let heading = ["Format:", "Output format:", "<--", "---", "View tool", "#"];
    if trimmed.is_empty() || heading.iter().any(|start| trimmed.starts_with(start)) {
        return Some(Line::remark());
    }
    // Totals at the end: `     42 : total instructions`.
    if trimmed.contains(": total ") {
        return Some(Line::remark());
    }
    simple(trimmed).or_else(|| view(trimmed))
}

/// `0x7ffe3b4cd8a8:  8, w`; with an opcode in place of `r` and `w`, an instruction.
fn simple(text: &str) -> Option<Line> {
    let (addr, rest) = text.split_once(':')?;
    let (len, what) = rest.split_once(',')?;
    let (addr, len) = (prefixed(addr.trim())?, size(len.trim())?);
    match what.trim() {
        "r" => Some(Line::access(false, addr, len)),
        "w" => Some(Line::access(true, addr, len)),
        opcode
            if opcode.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !opcode.is_empty() =>
        {
            Some(Line { instructions: 1, code: addr, ..Line::remark() })
        }
        _ => None,
    }
}

/// `           7           2:     3264 ifetch       3 byte(s) @ 0x00007f6fdd3ec2d0 48 89 e7 ...`
fn view(text: &str) -> Option<Line> {
    let (head, rest) = text.split_once(':')?;
    if !head.split_ascii_whitespace().all(|word| decimal(word).is_some()) {
        return None;
    }
    let mut words = rest.split_ascii_whitespace();
    let id = words.next()?;
    // In some versions with the workload's number: W0.T3264.
    let thread = decimal(id.rsplit('T').next()?)?;
    let what = words.next()?;
    if what.starts_with('<') {
        return Some(Line { thread, ..Line::remark() });
    }
    let kind: Vec<&str> =
        std::iter::once(what).chain(words.by_ref().take_while(|word| size(word).is_none())).collect();
    let (before, after) = rest.split_once(" byte(s) @ ")?;
    let len = size(before.split_ascii_whitespace().next_back()?)?;
    let mut after = after.split_ascii_whitespace();
    let addr = hex(after.next()?)?;
    let pc = after.skip_while(|word| *word != "PC").nth(1).and_then(hex).unwrap_or(0);
    match kind[0] {
        "ifetch" => Some(Line { instructions: 1, code: addr, thread, ..Line::remark() }),
        "read" => Some(Line { code: pc, thread, ..Line::access(false, addr, len) }),
        "write" => Some(Line { code: pc, thread, ..Line::access(true, addr, len) }),
        // Prefetches, flushes, headers of threads.
        word if word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-') => {
            Some(Line { thread, ..Line::remark() })
        }
        _ => None,
    }
}
