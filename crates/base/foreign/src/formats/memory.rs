//! Traces for simulators of memory and caches, which have little but addresses.

use crate::line::{Line, decimal, hex, prefixed, size};

const LINE: u32 = 64;

fn is_remark(text: &str) -> bool {
    text.trim().is_empty() || text.starts_with('#')
}

/// `0x12345680 R`, or instructions, an address that is read and perhaps one that is written back: `3 20734016 20800000`.
/// The latter becomes the read alone: a model of caches writes back by itself.
pub(crate) fn ramulator(text: &str) -> Option<Line> {
    if is_remark(text) {
        return Some(Line::remark());
    }
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words[..] {
        [addr, "R"] => Some(Line::access(false, prefixed(addr)?, LINE)),
        [addr, "W"] => Some(Line::access(true, prefixed(addr)?, LINE)),
        [bubbles, addr] | [bubbles, addr, _] => {
            words.get(2).map_or(Some(0), |addr| decimal(addr))?;
            let instructions = u32::try_from(decimal(bubbles)?).ok()?.checked_add(1)?;
            Some(Line { instructions, ..Line::access(false, decimal(addr)?, LINE) })
        }
        _ => None,
    }
}

/// `LD 0x229f6f80`, `ST 0xda5e700`.
pub(crate) fn ramulator2(text: &str) -> Option<Line> {
    if is_remark(text) {
        return Some(Line::remark());
    }
    let (op, addr) = text.trim().split_once(' ')?;
    let store = match op {
        "LD" => false,
        "ST" => true,
        _ => return None,
    };
    let addr = addr.trim();
    Some(Line::access(store, prefixed(addr).or_else(|| decimal(addr))?, LINE))
}

/// `0 10019d94`: read, write, instruction.
pub(crate) fn dinero(text: &str) -> Option<Line> {
    if is_remark(text) {
        return Some(Line::remark());
    }
    let mut words = text.split_ascii_whitespace();
    let (label, addr) = (words.next()?, hex(words.next()?)?);
    match label {
        "0" => Some(Line::access(false, addr, 4)),
        "1" => Some(Line::access(true, addr, 4)),
        "2" => Some(Line { instructions: 1, ..Line::remark() }),
        // Unknown and flush.
        "3" | "4" => Some(Line::remark()),
        _ => None,
    }
}

/// `1 W 140734192927288 8`: cycle, operation, address, size.
pub(crate) fn prospero(text: &str) -> Option<Line> {
    if is_remark(text) {
        return Some(Line::remark());
    }
    let mut words = text.split_ascii_whitespace();
    decimal(words.next()?)?;
    let store = match words.next()? {
        "R" => false,
        "W" => true,
        _ => return None,
    };
    Some(Line::access(store, decimal(words.next()?)?, size(words.next()?)?))
}

/// `0x51a83ec0 P_MEM_WR 10`: address, command, cycle. The names are those of k6 and of mase.
pub(crate) fn dramsim(text: &str) -> Option<Line> {
    if is_remark(text) {
        return Some(Line::remark());
    }
    let mut words = text.split_ascii_whitespace();
    let (addr, command) = (prefixed(words.next()?)?, words.next()?);
    decimal(words.next()?)?;
    match command {
        "P_MEM_RD" | "P_FETCH" | "P_LOCK_RD" | "READ" | "IFETCH" => Some(Line::access(false, addr, LINE)),
        "P_MEM_WR" | "P_LOCK_WR" | "WRITE" => Some(Line::access(true, addr, LINE)),
        "BOFF" | "P_INT_ACK" | "P_IO_RD" | "P_IO_WR" => Some(Line::remark()),
        _ => None,
    }
}
