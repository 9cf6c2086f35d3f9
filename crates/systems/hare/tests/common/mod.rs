//! The reference: all ends of matches as regex-automata reports them, and text to scan.
#![allow(dead_code)]

use hare::{Expression, Reading};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, hybrid};

/// Bytes, and case matters.
pub const BYTES: Reading = Reading { unicode: false, ignore_case: false, lines: false };

/// The expression, which must be accepted.
pub fn read(pattern: &str) -> Expression {
    Expression::read(pattern, BYTES).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// A forward automaton that reports every end of a match.
pub fn reference(expression: &Expression) -> hybrid::dfa::DFA {
    hybrid::dfa::Builder::new()
        .syntax(syntax::Config::new().utf8(false).unicode(expression.is_unicode()))
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(None))
        .configure(
            hybrid::dfa::Config::new()
                .match_kind(MatchKind::All)
                .cache_capacity(64 << 20)
                .skip_cache_capacity_check(true),
        )
        .build(expression.pattern())
        .expect("the reference reads what we read")
}

/// The ends of all matches.
pub fn expected(reference: &hybrid::dfa::DFA, text: &[u8]) -> Vec<u64> {
    expected_with(reference, &mut reference.create_cache(), text)
}

/// The same, with a cache that is kept.
pub fn expected_with(reference: &hybrid::dfa::DFA, cache: &mut hybrid::dfa::Cache, text: &[u8]) -> Vec<u64> {
    let input = Input::new(text).anchored(Anchored::No);
    let mut state = hybrid::dfa::OverlappingState::start();
    let mut ends = Vec::new();
    loop {
        reference.try_search_overlapping_fwd(cache, &input, &mut state).expect("it does not give up");
        match state.get_match() {
            Some(end) => ends.push(end.offset() as u64),
            None => return ends,
        }
    }
}

/// Text over `alphabet`, in which runs of one byte are frequent.
pub fn text(random: &mut fastrand::Rng, alphabet: &[u8], length: usize) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::with_capacity(length);
    while text.len() < length {
        let byte = alphabet[random.usize(0..alphabet.len())];
        let run = match random.u8(0..64) {
            0 => random.usize(2..400),
            1..16 => 2,
            _ => 1,
        };
        text.extend(std::iter::repeat_n(byte, run));
    }
    text.truncate(length);
    text
}

/// The seed of this run.
pub fn seed() -> u64 {
    std::env::var("HARE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Whether the long tests run.
pub fn is_long() -> bool {
    std::env::var_os("STRANDLINE_LONG").is_some()
}
