//! Mutated assembler source: whatever stands there, it is rewritten or left, and lines keep their numbers. As
//! the fuzz target `assembler` does.

use instrument::{Atomics, Exports, rewrite, rewrite_shipped};

const SOURCE: &str = include_str!("../../../../../fuzz/seeds/assembler/calls.s");

/// Bytes that mean something, and some that do not.
const BYTES: &[u8] = b" \t\n;#\"'\\/*(),:$%@.{}[]\0\xff0";

/// A step of xorshift.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state as usize
}

/// Puts bytes, pieces and lines of the source elsewhere in it.
fn mutate(source: &mut Vec<u8>, state: &mut u64) {
    for _ in 0..=next(state) % 6 {
        let at = next(state) % source.len();
        let from = next(state) % SOURCE.len();
        let piece = &SOURCE.as_bytes()[from..(from + next(state) % 40).min(SOURCE.len())];
        match next(state) % 5 {
            0 => source[at] = BYTES[next(state) % BYTES.len()],
            1 => source.truncate(at.max(1)),
            2 => drop(source.splice(at..at, piece.iter().copied())),
            3 => drop(source.splice(at..(at + piece.len()).min(source.len()), piece.iter().copied())),
            _ => drop(source.drain(at..(at + next(state) % 9).min(source.len() - 1).max(at))),
        }
    }
}

#[test]
fn mutated_source_is_rewritten_or_left() {
    let names = ["__tsan_atomic8_store", "strandline_memcpy", "strandline_sprintf", "pmem_persist", "write"];
    let runtime: Exports = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let rounds = std::env::var("STRANDLINE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3000);
    let mut state = 88_172_645_463_325_252;
    let mut rewritten = 0;
    for round in 0..rounds {
        let mut source = SOURCE.as_bytes().to_vec();
        mutate(&mut source, &mut state);
        let mut atomics = Atomics::default();
        atomics.add_module(&String::from_utf8_lossy(&source));
        let texts = [rewrite(&source, &runtime), rewrite_shipped(&source, &runtime, &atomics)];
        let lines = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count();
        for text in texts.iter().flatten() {
            assert!(lines(text) >= lines(&source), "round {round}:\n{}", String::from_utf8_lossy(&source));
        }
        rewritten += usize::from(texts.iter().all(Option::is_some));
    }
    assert!(rewritten > rounds / 2, "nearly each has something to rewrite");
}
