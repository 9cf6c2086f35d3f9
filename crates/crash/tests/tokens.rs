//! Tokens of crash images: what the fuzz target `image_token` does, on mutations of valid ones.

#[allow(dead_code)] // of the instructions a few are enough here
mod common;

use common::{Run, Words};
use crash::{Checker, Contents, History, Image, Platform, Strategy, Token};
use proptest::prelude::*;

/// Two threads that store to lines of their own and persist them.
fn history() -> History {
    let mut run = Run::new(Platform::Adr);
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
