//! Tokens of crash images: what the fuzz target `image_token` does, on mutations of valid ones.

#[allow(dead_code)] // of the instructions a few are enough here
mod common;

use common::{Run, Words};
use crash::{Checker, Contents, History, Image, Platform, Strategy, Token};
use proptest::prelude::*;

/// Two threads that store to lines of their own and persist them.
fn history() -> History {
    let mut run = Run::new(Platform::ADR);
    for line in 0..6u64 {
        let thread = (line % 2) as u32;
        run.store(thread, line * 64, line + 1);
        run.store(thread, line * 64 + 8, line + 1);
        run.persist(thread, line * 64);
    }
    run.history()
}

/// A token of each kind of failure.
fn tokens(history: &History) -> Vec<String> {
    let contents = Contents::default();
    let mut checker = Checker::new(history, &contents);
    checker.strategy = Strategy::Exhaustive;
    checker.bounds.findings = 64;
    let mut oracle = Words::new(|word: &dyn Fn(u64) -> u64, _: &Image<'_>| {
        let lines: Vec<String> = (0..6).map(|line| "ab".repeat(word(line * 64 + 8) as usize)).collect();
        Err(lines.join("-"))
    });
    checker.run(&mut oracle).findings.iter().map(|finding| finding.token.to_string()).collect()
}

/// Four threads that nothing orders: each stores a number, persists it, and then a copy of it. `order` says who goes on.
fn apart(order: &[u8]) -> History {
    let mut run = Run::new(Platform::ADR);
    let mut steps = [0u64; 4];
    for &thread in order {
        let at = u64::from(thread % 4);
        let step = &mut steps[at as usize];
        let offset = (2 * at + *step % 2) * 64;
        run.store(u32::from(thread % 4), offset, *step / 2 + 1);
        run.persist(u32::from(thread % 4), offset);
        *step += 1;
    }
    run.history()
}

/// Fails where exactly three numbers are there, and where a copy is there before its number, which no crash leaves.
fn three(word: &dyn Fn(u64) -> u64) -> Result<(), String> {
    let numbers: Vec<u64> = (0..4).map(|at| word(2 * at * 64)).collect();
    if let Some(at) = (0..4).find(|&at| word((2 * at + 1) * 64) > numbers[at as usize]) {
        return Err(format!("in no crash: the copy of {at}"));
    }
    let there = numbers.iter().filter(|number| **number > 0).count();
    let missing = numbers.iter().position(|number| *number == 0).unwrap_or(4);
    if there == 3 { Err(format!("three: missing {missing}")) } else { Ok(()) }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn what_is_found_between_threads_that_never_meet_is_a_crash_and_its_token_repeats_it(
        order in prop::collection::vec(0u8..4, 8..28),
        seed in any::<u64>(),
    ) {
        let history = apart(&order);
        let contents = Contents::default();
        let mut checker = Checker::new(&history, &contents);
        checker.seed = seed;
        let mut oracle = Words::new(|word: &dyn Fn(u64) -> u64, _: &Image<'_>| three(word));
        for finding in checker.run(&mut oracle).findings {
            prop_assert!(finding.message.starts_with("three"), "{}", finding.message);
            let mut fresh = Words::new(|word: &dyn Fn(u64) -> u64, _: &Image<'_>| three(word));
            let again = checker.replay(&finding.token, &mut fresh).expect("it is of this run");
            let again = again.map(|again| (again.message, again.missing));
            prop_assert_eq!(again, Some((finding.message, finding.missing)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn mutated_tokens_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), "[0-9a-h_.+-]{0,3}"), 0..4),
    ) {
        thread_local!(static GIVEN: (History, Vec<String>) = {
            let history = history();
            let tokens = tokens(&history);
            (history, tokens)
        });
        GIVEN.with(|(history, tokens)| {
            assert!(tokens.len() > 8, "{} tokens", tokens.len());
            let mut text = which.get(tokens).clone();
            for (place, by) in edits {
                let at = place.index(text.len());
                text.replace_range(at..=at, &by);
                if text.is_empty() {
                    break;
                }
            }
            let Ok(token) = text.parse::<Token>() else { return Ok(()) };
            prop_assert_eq!(token.to_string().parse(), Ok(token.clone()));
            let contents = Contents::default();
            let checker = Checker::new(history, &contents);
            let mut oracle = Words::new(|_: &dyn Fn(u64) -> u64, _: &Image<'_>| Err("wrong".to_owned()));
            if let Ok(found) = checker.replay(&token, &mut oracle) {
                prop_assert!(found.is_some() && checker.image(&token).is_ok(), "{}", text);
            }
            Ok(())
        })?;
    }
}
