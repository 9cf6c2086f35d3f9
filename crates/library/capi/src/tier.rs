//! Which memory an allocation lies on. The header `strandline_tier.h` says what the function does.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::fs;
use std::io;
use std::sync::OnceLock;

use crate::entry::{entries, run};
use crate::error::{Code, Failure};

const PAGE: usize = 4096;
/// `SL_TIER_ONE`.
const ONE: c_int = 1;
/// From `linux/mempolicy.h`.
const PREFERRED: c_long = 1;
const INTERLEAVE: c_long = 3;
const WEIGHTED_INTERLEAVE: c_long = 6;

/// The fast and the slow node, if there are two.
fn nodes() -> Option<(u32, u32)> {
    static FOUND: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let list =
            |name: &str| fs::read_to_string(format!("/sys/devices/system/node/{name}")).unwrap_or_default();
        chosen(&numbers(&list("has_memory")), &numbers(&list("has_cpu")))
    })
}

fn chosen(memory: &[u32], processors: &[u32]) -> Option<(u32, u32)> {
    let fast = *memory.iter().find(|node| processors.contains(node)).or(memory.first())?;
    let without = memory.iter().find(|node| !processors.contains(node) && **node != fast);
    let slow = without.or_else(|| memory.iter().find(|node| **node != fast))?;
    Some((fast, *slow))
}

/// The numbers in a list like `0-2,5`.
fn numbers(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

fn tier(memory: *mut c_void, bytes: usize, hint: c_int) -> Result<c_int, Failure> {
    if memory.is_null() {
        return Err(Failure::new(Code::Argument, "sl_tier: no memory (null)"));
    }
    if !(0..=2).contains(&hint) {
        let why = format!("sl_tier: no hint {hint}: use SL_TIER_FAST, SL_TIER_SLOW or SL_TIER_INTERLEAVE");
        return Err(Failure::new(Code::Argument, why));
    }
    let Some(after) = memory.addr().checked_add(bytes) else {
        return Err(Failure::new(Code::Argument, format!("sl_tier: {bytes} bytes go beyond all addresses")));
    };
    let (start, end) = (memory.addr().next_multiple_of(PAGE), after / PAGE * PAGE);
    let Some((fast, slow)) = nodes() else { return Ok(ONE) };
    if start >= end {
        return Ok(0);
    }
    let bit = |node: u32| 1u64 << node.min(63);
    let call = |mode: c_long, nodes: u64| {
        // SAFETY: a policy for a range of pages changes no byte; the kernel refuses what is not mapped. The mask is one word.
        let done =
            unsafe { libc::syscall(libc::SYS_mbind, start, end - start, mode, &raw const nodes, 65, 0) };
        if done == 0 { Ok(0) } else { Err(io::Error::last_os_error()) }
    };
    let done = match hint {
        0 => call(PREFERRED, bit(fast)),
        1 => call(PREFERRED, bit(slow)),
        _ => {
            let both = bit(fast) | bit(slow);
            call(WEIGHTED_INTERLEAVE, both).or_else(|_| call(INTERLEAVE, both))
        }
    };
    done.map_err(|error| {
        Failure::new(Code::Argument, format!("sl_tier: the kernel refuses the range: {error}"))
    })
}

fn tag(memory: *mut c_void, name: *const c_char) -> Result<c_int, Failure> {
    if memory.is_null() || name.is_null() {
        return Err(Failure::new(Code::Argument, "sl_tag: no memory or no name (null)"));
    }
    // The library that `strandline plan` puts into a program stands in front of this one.
    Ok(0)
}

entries! {
    /// The name of a structure.
    fn sl_tag(memory: *mut c_void, _bytes: usize, name: *const c_char; site) -> c_int {
        run(site, || tag(memory, name)).unwrap_or_else(|code| code as c_int)
    }

    /// Where pages come from.
    fn sl_tier(memory: *mut c_void, bytes: usize, hint: c_int; site) -> c_int {
        run(site, || tier(memory, bytes, hint)).unwrap_or_else(|code| code as c_int)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_without_processors_is_the_slow_one() {
        assert_eq!(chosen(&[0, 1, 2], &[0, 2]), Some((0, 1)));
        assert_eq!(chosen(&[0, 1], &[0, 1]), Some((0, 1)));
        assert_eq!((chosen(&[0], &[0]), chosen(&[], &[])), (None, None));
        assert_eq!(numbers("0-2,5\n"), [0, 1, 2, 5]);
    }

    #[test]
    fn wrong_calls_are_errors_and_one_node_is_no_error() {
        let mut memory = vec![0u8; 4 * PAGE];
        let at = memory.as_mut_ptr().cast::<c_void>();
        assert!(
            tier(std::ptr::null_mut(), 1, 0).is_err()
                && tier(at, 1, 3).is_err()
                && tier(at, usize::MAX, 0).is_err()
        );
        for hint in 0..3 {
            let expected = if nodes().is_some() { 0 } else { ONE };
            assert_eq!(tier(at, 4 * PAGE, hint).ok(), Some(expected));
        }
    }
}
