//! The scanner finds what regex-automata finds, however the text is cut.

mod common;
#[path = "common/expressions.rs"]
mod expressions;

use common::{expected, is_long, read, reference, text};
use hare::Expression;
use hare::scan::{Match, Scanner, Way};

fn compare(expressions: &[Expression], text: &[u8], random: &mut fastrand::Rng) -> usize {
    let scanner = Scanner::new(expressions).unwrap_or_else(|refusal| panic!("{refusal}"));
    let whole = scanner.scan(text);
    assert!(whole.is_sorted());
    for (number, expression) in expressions.iter().enumerate() {
        let ours: Vec<u64> =
            whole.iter().filter(|end| end.expression == number as u32).map(|end| end.end).collect();
        let theirs = expected(&reference(expression), text);
        let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        assert!(
            ours == theirs,
            "`{}`: {} ends, not {}; the first that differs is number {first:?}; {:?}",
            expression.pattern(),
            ours.len(),
            theirs.len(),
            String::from_utf8_lossy(&text[..text.len().min(300)])
        );
    }
    let mut pieces: Vec<Match> = Vec::new();
    let mut stream = scanner.stream();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(random.usize(1..=rest.len().min(90)));
        stream.feed(piece, |end| pieces.push(end));
        rest = more;
    }
    stream.finish(|end| pieces.push(end));
    assert!(whole == pieces, "cut text differs");
    whole.len()
}

#[test]
fn every_construct_alone() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    for (pattern, alphabet) in expressions::LIST {
        for length in [0, 1, 5, 3000] {
            compare(&[read(pattern)], &text(&mut random, alphabet, length), &mut random);
        }
    }
}

#[test]
fn every_construct_together() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    let all: Vec<Expression> = expressions::LIST.iter().map(|(pattern, _)| read(pattern)).collect();
    for alphabet in [&b"abcde "[..], b"abxy\n", b"ab@.com", "éαx".as_bytes()] {
        compare(&all, &text(&mut random, alphabet, 3000), &mut random);
    }
}

#[test]
fn random_sets() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    for _ in 0..if is_long() { 5000 } else { 100 } {
        let set: Vec<Expression> = (0..8).map(|_| read(&expressions::random(&mut random, 2))).collect();
        compare(&set, &text(&mut random, b"abcd ", 500), &mut random);
    }
}

#[test]
fn literals_are_found_in_long_text() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    let set: Vec<Expression> =
        ["needle", "hay[st]{2,90}ack", "x.{0,20}abb+cd", "(?i)straw", "a(bcd|bce|bdd)+.*q", "ab[cd]{3}e"]
            .map(read)
            .into();
    let scanner = Scanner::new(&set).expect("they are accepted");
    assert!(scanner.ways().all(|way| matches!(way, Way::Literals(_))));
    let mut bytes = text(&mut random, b"abcdehnstrxy\n", 300_000);
    for _ in 0..500 {
        let word = [&b"needle"[..], b"haystack", b"STRaw", b"x..abbcd", b"abcdbceq"][random.usize(0..5)];
        let at = random.usize(0..bytes.len() - word.len());
        bytes[at..at + word.len()].copy_from_slice(word);
    }
    assert!(compare(&set, &bytes, &mut random) > 400);
}

#[test]
fn too_many_states_are_no_error() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    let set: Vec<Expression> = ["[ab].{14}c", "[bc].{13}d", "[cd].{15}a", "[ad]..[bc].{9}b"].map(read).into();
    compare(&set, &text(&mut random, b"abcd", 60_000), &mut random);
}
