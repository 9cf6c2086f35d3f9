//! The positions of an expression, run byte by byte, end where regex-automata's matches end.

mod common;
#[path = "common/expressions.rs"]
mod expressions;

use common::{expected, read, reference, text};
use hare::scan::Nfa;
use hare::{Expression, Lowering, Positions};

fn ends(nfa: &Nfa, text: &[u8]) -> Vec<u64> {
    let mut state = nfa.start();
    (0..=text.len())
        .filter(|&at| {
            let before = at.checked_sub(1).map(|before| text[before]);
            nfa.step(&mut state, at as u64, before, text.get(at).copied(), true)
        })
        .map(|at| at as u64)
        .collect()
}

fn compare(expression: &Expression, lowering: &Lowering, text: &[u8]) -> usize {
    let positions: Positions = match expression.positions(lowering) {
        Ok(positions) => positions,
        Err(refusal) => panic!("{refusal}"),
    };
    let ours = ends(&Nfa::of(&positions), text);
    let theirs = expected(&reference(expression), text);
    assert_eq!(ours, theirs, "`{}` over {:?}", expression.pattern(), String::from_utf8_lossy(text));
    ours.len()
}

#[test]
fn every_construct_ends_where_the_reference_ends() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    let lowerings = [Lowering::SOFTWARE, Lowering::PUBLISHED, Lowering::hardware(4)];
    for (pattern, alphabet) in expressions::LIST {
        let expression = read(pattern);
        let mut found = 0;
        for lowering in &lowerings {
            let lowering = Lowering { bound_of_rows: 65_535, ..*lowering };
            for length in [0, 1, 2, 40, 20_000] {
                found += compare(&expression, &lowering, &text(&mut random, alphabet, length));
            }
        }
        // Some match at the end of the text only, some hardly ever.
        let rare = ["abcdefghijklmnopqrstuvwxyz", "a{300}b", "(?i)straße", "ab$", "^$"];
        assert!(found > 0 || rare.contains(pattern), "`{pattern}` is not exercised");
    }
}

#[test]
fn random_expressions_end_where_the_reference_ends() {
    let seed = common::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..400 {
        let pattern = expressions::random(&mut random, 2);
        let Ok(expression) = Expression::read(&pattern, common::BYTES) else {
            panic!("HARE_SEED={seed}, round {round}: `{pattern}` is refused");
        };
        for lowering in [Lowering::SOFTWARE, Lowering::PUBLISHED] {
            if expression.positions(&lowering).is_ok() {
                compare(&expression, &lowering, &text(&mut random, b"abcd ", 300));
            }
        }
    }
}

#[test]
fn refusals_name_the_construct_and_its_place() {
    for (pattern, at, what) in [
        (r"(a)\1", 3..5, "back-reference"),
        ("ab(?=c)", 2..5, "look-around"),
        ("a(?:bc{3}){900,2000}d", 1..20, "unrolled"),
        ("a{2,70000}", 0..10, "above"),
        (r"é\bx", 2..4, "word boundary"),
        ("a(b", 1..2, "unclosed"),
    ] {
        let refusal = Expression::read(pattern, common::BYTES)
            .and_then(|expression| expression.positions(&Lowering { trim: false, ..Lowering::SOFTWARE }))
            .expect_err(pattern);
        assert_eq!((refusal.at.clone(), refusal.to_string().contains(what)), (at, true), "{refusal}");
    }
}
