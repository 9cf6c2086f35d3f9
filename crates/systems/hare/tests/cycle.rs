//! The cycle model reports the ends that regex-automata reports, at every width; the published algorithm does
//! not.

mod common;
#[path = "common/expressions.rs"]
mod expressions;

use std::collections::BTreeSet;

use common::{expected, is_long, read, reference, text};
use hare::{Counting, Design, Expression, Limits, Lowering, Machine, Tables, Why};

/// The ends of each expression by the model.
fn ends(design: &Design, counting: Counting, text: &[u8]) -> Vec<Vec<u64>> {
    let tables = Tables::of(design);
    let mut machine = Machine::new(design, &tables, counting);
    let mut ends = vec![Vec::new(); design.accepts.len()];
    let width = design.limits.width;
    for (number, window) in text.chunks(width).enumerate() {
        let next = text.get((number + 1) * width).copied();
        machine.window(window, next, |position, expression| {
            ends[expression].push((number * width + position + 1) as u64);
        });
    }
    ends
}

fn compare(expressions: &[Expression], design: &Design, text: &[u8]) -> usize {
    let ours = ends(design, Counting::Exact, text);
    for (expression, ours) in expressions.iter().zip(&ours) {
        let theirs = expected(&reference(expression), text);
        assert!(
            *ours == theirs,
            "`{}` at width {}: {:?} differ over {:?}",
            expression.pattern(),
            design.limits.width,
            ours.iter().collect::<BTreeSet<_>>().symmetric_difference(&theirs.iter().collect()).take(5),
            String::from_utf8_lossy(&text[..text.len().min(400)]),
        );
    }
    ours.iter().map(Vec::len).sum()
}

#[test]
fn every_construct_at_every_width() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    for (pattern, alphabet) in expressions::LIST {
        for width in [1, 2, 4, 8, 16, 32] {
            let expressions = [read(pattern)];
            let design = match Design::of(&expressions, Limits::unlimited(width)) {
                Ok(design) => design,
                Err(refusal) if refusal.why == Why::EmptyMatch => continue,
                Err(refusal) => panic!("{refusal}"),
            };
            let lengths = design.nodes.iter().map(hare::Node::len).max();
            assert!(lengths <= Some(width), "{pattern}: {lengths:?}");
            assert!(design.nodes.iter().all(|node| node.preds.len() <= 4), "{pattern}");
            for length in [0, 1, width, 700] {
                compare(&expressions, &design, &text(&mut random, alphabet, length));
            }
        }
    }
}

#[test]
fn random_sets_of_expressions() {
    let seed = common::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..if is_long() { 3000 } else { 60 } {
        let width = [1, 2, 4, 8, 16, 32][random.usize(0..6)];
        let mut expressions = Vec::new();
        while expressions.len() < 5 {
            let expression = read(&expressions::random(&mut random, 2));
            if Design::of(std::slice::from_ref(&expression), Limits::unlimited(width)).is_ok() {
                expressions.push(expression);
            }
        }
        let design = Design::of(&expressions, Limits::unlimited(width))
            .unwrap_or_else(|refusal| panic!("HARE_SEED={seed}, round {round}: {refusal}"));
        compare(&expressions, &design, &text(&mut random, b"abcd ", 400));
    }
}

/// The published algorithm's wrong ends: (reported, but no match; match, but not reported).
fn wrong(pattern: &str, counting: Counting, text: &[u8]) -> (usize, usize) {
    let expressions = [read(pattern)];
    let design = Design::lowered(&expressions, Limits::unlimited(4), &Lowering::PUBLISHED)
        .unwrap_or_else(|refusal| panic!("{refusal}"));
    let ours: BTreeSet<u64> = ends(&design, counting, text).remove(0).into_iter().collect();
    let theirs: BTreeSet<u64> = expected(&reference(&expressions[0]), text).into_iter().collect();
    (ours.difference(&theirs).count(), theirs.difference(&ours).count())
}

/// Uniform text over `alphabet`.
fn uniform(alphabet: &[u8], seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| alphabet[random.usize(0..alphabet.len())]).collect()
}

/// The text of the known figure has six letters: 235 wrong ends in 30,000 positions for the first expression,
/// 0 or 1 for the second.
#[test]
fn the_published_algorithm_is_wrong_as_often_as_known() {
    let mut wrong_ends = 0;
    for seed in 0..4 {
        let text = uniform(b"abcdef", seed, 30_000);
        let overlapping = "[a-d]{2,4}[abe]{2,3}";
        let (extra, missed) = wrong(overlapping, Counting::Corrected, &text);
        assert_eq!(missed, 0);
        wrong_ends += extra;
        let (extra, missed) = wrong(overlapping, Counting::Printed, &text);
        assert!(extra > 100 && missed > 100, "{extra} {missed}");
        assert_eq!(wrong(overlapping, Counting::Exact, &text), (0, 0));
        assert!(wrong("a[ab]{1,2}[bc]{2,3}d", Counting::Corrected, &text).0 <= 2);
        for exact in ["ab{2,4}c", "[ab][bc]+d?efc{2}", "gr(e|a)y", "abc+de"] {
            assert_eq!(wrong(exact, Counting::Corrected, &text), (0, 0), "{exact}");
        }
    }
    assert!((180..290).contains(&(wrong_ends / 4)), "{wrong_ends}");
}

#[test]
fn examples_of_the_source() {
    let found = |pattern: &str, text: &[u8]| {
        let design = Design::of(&[read(pattern)], Limits::published(4)).expect(pattern);
        ends(&design, Counting::Exact, text).remove(0)
    };
    assert_eq!(found("[a-d]{2,4}[abe]{2,3}", b"adbceb"), [6]);
    // The second window of four, its third position.
    assert_eq!(found("[ab][bc]+d?efc{2}", b"abcefccg"), [7]);
    let parts = |pattern: &str| {
        let design = Design::of(&[read(pattern)], Limits::published(4)).expect(pattern);
        design.nodes.len()
    };
    assert_eq!((parts("abc+de"), parts("gr(e|a)y"), parts("ab?c"), parts("tr[a-u]ck")), (3, 1, 3, 2));
}

#[test]
fn what_does_not_fit_is_refused_by_name_and_place() {
    let small = Limits { slots: 8, classes: 1, vectors: 1, feedback: false, ..Limits::published(4) };
    for (pattern, at, what) in [
        ("ab|cd|ef|gh|ij|kl|mn|op|qr", 0..26, "slots"),
        ("[ab][cd]x[a-c]", 0..14, "classes"),
        ("x[a-d]{2,9}[a-e]{3,10}", 11..22, "bit vectors"),
        ("a(?:bc)+d", 1..8, "feeds back"),
        ("a*", 0..2, "empty"),
    ] {
        let limits = if what == "bit vectors" { Limits { vectors: 0, classes: 9, ..small } } else { small };
        let refusal = Design::of(&[read(pattern)], limits).expect_err(pattern);
        assert_eq!((refusal.at.clone(), refusal.to_string().contains(what)), (at, true), "{refusal}");
    }
}

/// 10^9 bytes, beside the reference. Takes some minutes.
#[test]
#[ignore = "takes minutes: ./test --long"]
fn a_billion_bytes() {
    let patterns = [
        "abc+de",
        "gr(e|a)y",
        "[a-d]{2,4}[abe]{2,3}",
        "a[ab]{1,2}[bc]{2,3}d",
        "a(b|cd)*e",
        "(?m)^ab.{3,9}f",
        r"\bab*e\b",
        "f[a-d]{20}",
    ];
    let expressions = patterns.map(read);
    let design = Design::of(&expressions, Limits::published(8)).expect("it fits");
    let tables = Tables::of(&design);
    let mut machine = Machine::new(&design, &tables, Counting::Exact);
    let references = expressions.each_ref().map(reference);
    let mut caches = references.each_ref().map(hare_reference_cache);
    // Each piece begins anew, so that the reference sees what the model sees.
    let (pieces, length) = (1000, 1_000_000);
    let mut found = 0;
    for piece in 0..pieces {
        let text = common::text(&mut fastrand::Rng::with_seed(piece), b"abcdefgry \n", length);
        machine.restart();
        let mut ours = vec![Vec::new(); expressions.len()];
        for (number, window) in text.chunks(8).enumerate() {
            let next = text.get((number + 1) * 8).copied();
            machine.window(window, next, |position, expression| {
                ours[expression].push((number * 8 + position + 1) as u64);
            });
        }
        for ((reference, cache), ours) in references.iter().zip(&mut caches).zip(&ours) {
            assert!(*ours == common::expected_with(reference, cache, &text), "piece {piece}");
            found += ours.len();
        }
    }
    assert!(found > 1_000_000, "{found}");
}

fn hare_reference_cache(reference: &regex_automata::hybrid::dfa::DFA) -> regex_automata::hybrid::dfa::Cache {
    reference.create_cache()
}
