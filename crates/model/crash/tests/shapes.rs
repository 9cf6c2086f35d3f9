//! The six shapes that public checkers miss, and some more, as runs of a few instructions.

mod common;

use common::{Run, Words};
use crash::{Checker, Contents, Finding, History, Image, Outcome, Platform, Reason, Strategy, Witness};
use event::{SiteId, ThreadId};

const VALUE: u64 = 0;
const TOKEN: u64 = 256;

/// Token set: the value must be there.
fn token_means_value(word: &dyn Fn(u64) -> u64, _: &Image<'_>) -> Result<(), String> {
    match (word(TOKEN), word(VALUE)) {
        (0, _) | (1, 7) => Ok(()),
        (token, value) => Err(format!("token {token} but value {value}")),
    }
}

fn check(history: &History) -> Outcome {
    check_with(history, token_means_value)
}

fn check_with(
    history: &History,
    judge: impl FnMut(&dyn Fn(u64) -> u64, &Image<'_>) -> Result<(), String> + Clone,
) -> Outcome {
    let contents = Contents::default();
    let outcome = Checker::new(history, &contents).run(&mut Words::new(judge.clone()));
    // Each token repeats its finding, on a fresh oracle and through its text.
    for finding in &outcome.findings {
        let token = finding.token.to_string().parse().expect("a token");
        let again = Checker::new(history, &contents)
            .replay(&token, &mut Words::new(judge.clone()))
            .expect("its history")
            .expect("the same failure");
        assert_eq!(
            (&again.message, &again.missing, &again.witness),
            (&finding.message, &finding.missing, &finding.witness)
        );
    }
    outcome
}

fn one(outcome: &Outcome) -> &Finding {
    assert_eq!(outcome.findings.len(), 1, "{outcome:#?}");
    &outcome.findings[0]
}

#[test]
fn correct() {
    let mut run = Run::new(Platform::ADR);
    run.store(0, VALUE, 7);
    run.persist(0, VALUE);
    run.store(0, TOKEN, 1);
    run.persist(0, TOKEN);
    let outcome = check(&run.history());
    assert_eq!(outcome.findings, []);
    // Nothing, value, value and token.
    assert_eq!((outcome.cuts, outcome.images), (3, 3));
}

#[test]
fn token_before_value() {
    let mut run = Run::new(Platform::ADR);
    let value = run.store(0, VALUE, 7);
    let token = run.store(0, TOKEN, 1);
    let flush = run.clwb(0, VALUE);
    run.clwb(0, TOKEN);
    run.fence(0);
    let history = run.history();
    let outcome = check(&history);
    let finding = one(&outcome);
    assert_eq!(finding.missing.len(), 1);
    assert_eq!((finding.missing[0].site, finding.missing[0].reason), (value, Reason::FlushedLater(flush)));
    assert!(matches!(finding.witness, Some(Witness::Store { site, .. }) if site == token));
    assert_eq!(
        finding.story(&history),
        [
            "the store at main (test.c:1) (8 B at pool+0x0, thread 0) was not durable: it is flushed only later, at main (test.c:3)",
            "when the store at main (test.c:2) (at pool+0x100, thread 0) was",
        ]
    );
}

#[test]
fn value_never_flushed() {
    let mut run = Run::new(Platform::ADR);
    let value = run.store(0, VALUE, 7);
    run.store(0, TOKEN, 1);
    run.persist(0, TOKEN);
    let outcome = check(&run.history());
    let missing = &one(&outcome).missing[0];
    assert_eq!((missing.site, missing.reason), (value, Reason::NeverFlushed));
}

#[test]
fn flush_without_fence() {
    let mut run = Run::new(Platform::ADR);
    let value = run.store(0, VALUE, 7);
    let flush = run.clwb(0, VALUE);
    let token = run.store(0, TOKEN, 1);
    run.clwb(0, TOKEN);
    let fence = run.fence(0);
    let outcome = check(&run.history());
    let finding = one(&outcome);
    let reason = Reason::FencedLater { flush: Some(flush), fence };
    assert_eq!((finding.missing[0].site, finding.missing[0].reason), (value, reason));
    assert!(matches!(finding.witness, Some(Witness::Store { site, .. }) if site == token));
    // The old instruction needs none.
    let mut run = Run::new(Platform::ADR);
    run.store(0, VALUE, 7);
    run.clflush(0, VALUE);
    run.store(0, TOKEN, 1);
    run.persist(0, TOKEN);
    assert_eq!(check(&run.history()).findings, []);
}

#[test]
fn two_words_are_not_one() {
    let mut run = Run::new(Platform::ADR);
    run.store(0, VALUE, 1);
    run.persist(0, VALUE);
    run.begin(0, 1);
    let clear = run.store(0, VALUE, 0);
    let set = run.store(0, TOKEN, 1);
    run.clwb(0, VALUE);
    run.clwb(0, TOKEN);
    run.fence(0);
    let judge = |word: &dyn Fn(u64) -> u64, image: &Image<'_>| match (word(VALUE), word(TOKEN)) {
        (0, 0) if image.begun > 0 => Err("lost".to_owned()),
        (1, 1) => Err("twice".to_owned()),
        _ => Ok(()),
    };
    let outcome = check_with(&run.history(), judge);
    let found: Vec<_> =
        outcome.findings.iter().map(|finding| (&*finding.message, finding.missing[0].site)).collect();
    assert_eq!(found, [("twice", clear), ("lost", set)]);
}

#[test]
fn an_ended_region_survives() {
    for fenced in [true, false] {
        let mut run = Run::new(Platform::ADR);
        run.begin(0, 1);
        let store = run.store(0, VALUE, 7);
        run.clwb(0, VALUE);
        if fenced {
            run.fence(0);
        }
        run.end(0, 1);
        let outcome = check_with(&run.history(), |word, image| match (image.ended, word(VALUE)) {
            (1, 0) => Err("region 1 is lost".into()),
            _ => Ok(()),
        });
        if fenced {
            assert_eq!(outcome.findings, []);
        } else {
            assert_eq!(one(&outcome).missing[0].site, store);
            assert_eq!(one(&outcome).witness, Some(Witness::Ended { region: 1 }));
        }
    }
}

#[test]
fn a_thread_acts_on_what_is_not_durable() {
    // The writer's fence comes before the reader's store in this run, but nothing makes it.
    let late = |flush_on_read: bool| {
        let mut run = Run::new(Platform::ADR);
        let value = run.store(1, VALUE, 7);
        run.release(1, 0x10);
        run.persist(1, VALUE);
        run.acquire(2, 0x10);
        if flush_on_read {
            run.persist(2, VALUE);
        }
        run.store(2, TOKEN, 1);
        run.persist(2, TOKEN);
        (value, check(&run.history()))
    };
    let (value, outcome) = late(false);
    assert_eq!(one(&outcome).missing[0].site, value);
    assert_eq!(late(true).1.findings, []);
    // With the flush before the release it is right.
    let mut run = Run::new(Platform::ADR);
    run.store(1, VALUE, 7);
    run.persist(1, VALUE);
    run.release(1, 0x10);
    run.acquire(2, 0x10);
    run.store(2, TOKEN, 1);
    run.persist(2, TOKEN);
    assert_eq!(check(&run.history()).findings, []);
}

#[test]
fn a_line_survives_in_order() {
    let mut run = Run::new(Platform::ADR);
    run.store(0, 0, 1);
    run.store(0, 8, 2);
    run.store(0, 0, 3);
    run.persist(0, 0);
    let history = run.history();
    let contents = Contents::default();
    let mut images = Vec::new();
    let mut oracle = Words::new(|word: &dyn Fn(u64) -> u64, _: &Image<'_>| {
        images.push((word(0), word(8)));
        Ok(())
    });
    let mut checker = Checker::new(&history, &contents);
    checker.strategy = Strategy::Exhaustive;
    checker.run(&mut oracle);
    images.sort_unstable();
    assert_eq!(images, [(0, 0), (1, 0), (1, 2), (3, 2)]);
}

#[test]
fn non_temporal_stores_survive_in_any_order() {
    let mut run = Run::new(Platform::ADR);
    let bytes: Vec<u8> = [1u64, 2, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
    run.nt(0, 0, &bytes);
    run.fence(0);
    let outcome = check_with(&run.history(), |_, _| Ok(()));
    assert_eq!(outcome.images, 8);
}

#[test]
fn one_store_of_several_words_tears_from_both_ends() {
    let mut run = Run::new(Platform::ADR);
    let bytes: Vec<u8> = [1u64, 2, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
    run.bytes(0, 0, &bytes);
    let history = run.history();
    let contents = Contents::default();
    let mut images = Vec::new();
    let mut oracle = Words::new(|word: &dyn Fn(u64) -> u64, _: &Image<'_>| {
        images.push([word(0), word(8), word(16)]);
        Ok(())
    });
    Checker::new(&history, &contents).run(&mut oracle);
    images.sort_unstable();
    assert_eq!(images, [[0, 0, 0], [0, 0, 3], [0, 2, 3], [1, 0, 0], [1, 2, 0], [1, 2, 3]]);
}

#[test]
fn who_reads_a_store_comes_after_it() {
    // Thread 2 reads the flag without any synchronisation that the source records.
    for reads in [true, false] {
        let mut run = Run::new(Platform::ADR);
        run.store(1, VALUE, 7);
        run.persist(1, VALUE);
        run.store(1, 512, 1);
        if reads {
            run.load(2, 512);
        }
        run.store(2, TOKEN, 1);
        run.persist(2, TOKEN);
        assert_eq!(check(&run.history()).findings.is_empty(), reads);
    }
}

#[test]
fn platforms_differ() {
    let images = |platform| {
        let mut run = Run::new(platform);
        run.store(0, 0, 1);
        run.store(0, 64, 1);
        run.fence(0);
        run.store(0, 128, 1);
        let history = run.history();
        let contents = Contents::default();
        let mut images = Vec::new();
        let mut oracle = Words::new(|word: &dyn Fn(u64) -> u64, _: &Image<'_>| {
            images.push([word(0), word(64), word(128)]);
            Ok(())
        });
        Checker::new(&history, &contents).run(&mut oracle);
        images.sort_unstable();
        images
    };
    assert_eq!(images(Platform::ADR).len(), 8);
    assert_eq!(images(Platform::EADR), [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]);
    assert_eq!(images(Platform::EPOCH), [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]);
    assert_eq!(images(Platform::STRAND).len(), 8);
}

#[test]
fn a_search_that_is_broken_off_has_seen_all_of_the_run() {
    let mut run = Run::new(Platform::ADR);
    for number in 0..5000 {
        run.store(0, number % 64 * 64, number + 1);
        run.persist(0, number % 64 * 64);
    }
    let history = run.history();
    let contents = Contents::default();
    let checker = Checker::new(&history, &contents);
    let newest = |limit: u64| {
        let mut seen = Vec::new();
        let mut oracle = Words::new(|word: &dyn Fn(u64) -> u64, _: &Image<'_>| {
            seen.push((0..64).map(|line| word(line * 64)).max());
            Ok(())
        });
        let outcome = checker.part(0, 1, &mut oracle, &mut |outcome| outcome.points_done < limit);
        seen.sort_unstable();
        (outcome, seen)
    };
    let (whole, all) = newest(u64::MAX);
    assert_eq!((whole.points, whole.points_done), (5001, 5001));
    assert_eq!(all.last(), Some(&Some(5000)));
    // Two parts do the same together.
    let mut parts = Outcome::default();
    for part in 0..2 {
        let mut oracle = Words::new(|_: &dyn Fn(u64) -> u64, _: &Image<'_>| Ok(()));
        parts.merge(checker.part(part, 2, &mut oracle, &mut |_| true));
    }
    assert_eq!((parts.points, parts.points_done), (5001, 5001));
    let (some, seen) = newest(320);
    assert_eq!(some.points_done, 320);
    for quarter in 0..4 {
        assert!(
            seen.iter().flatten().any(|&newest| newest / 1250 == quarter),
            "nothing of quarter {quarter}"
        );
    }
}

#[test]
fn what_happens_once_in_a_long_run_is_tried_first() {
    let mut run = Run::new(Platform::ADR);
    for number in 1..=6000u64 {
        run.at(1).store(0, VALUE, number);
        if number == 5432 {
            run.at(9).store(0, TOKEN, number);
        }
        run.at(2).persist(0, VALUE);
        run.at(3).store(0, TOKEN, number);
        run.at(4).persist(0, TOKEN);
    }
    let history = run.history();
    let contents = Contents::default();
    let mut oracle =
        Words::new(
            |word: &dyn Fn(u64) -> u64, _: &Image<'_>| {
                if word(TOKEN) > word(VALUE) { Err("a token without a value".into()) } else { Ok(()) }
            },
        );
    let outcome =
        Checker::new(&history, &contents).part(0, 1, &mut oracle, &mut |outcome| outcome.points_done < 10);
    assert_eq!(one(&outcome).message, "a token without a value");
}

#[test]
fn a_pool_that_is_made_anew_has_nothing_of_the_old_one() {
    let made_anew = |cut: bool| {
        let mut run = Run::new(Platform::ADR);
        if cut {
            run.truncate(0, 0);
        }
        run.store(0, TOKEN, 1);
        run.persist(0, TOKEN);
        run.truncate(0, 0); // Too late: what was stored is not undone by this.
        let history = run.history();
        let mut contents = Contents::default();
        contents.insert("pool", 9u64.to_le_bytes().to_vec());
        history.truncate(&mut contents);
        contents.file("pool").is_some_and(|bytes| !bytes.is_empty())
    };
    assert!(!made_anew(true));
    assert!(made_anew(false));
}

#[test]
fn one_helper_can_be_wrong_for_two_callers() {
    let mut run = Run::new(Platform::ADR);
    // Lines 1 and 2 store a value and what points to it, for whoever asks.
    for (value, token) in [(VALUE, TOKEN), (1024, 2048)] {
        run.at(1).store(0, value, 7);
        run.at(2).store(0, token, 1);
        run.at(3).clwb(0, value);
        run.at(4).clwb(0, token);
        run.at(5).fence(0);
    }
    let outcome = check_with(&run.history(), |word, _| {
        for (name, value, token) in [("index", VALUE, TOKEN), ("log", 1024, 2048)] {
            if word(token) == 1 && word(value) == 0 {
                return Err(format!("the {name} points to nothing"));
            }
        }
        Ok(())
    });
    let messages: Vec<&str> = outcome.findings.iter().map(|finding| &*finding.message).collect();
    assert_eq!(messages, ["the index points to nothing", "the log points to nothing"]);
}

/// Thread 0 and its story: why the value was missing when the token was there.
fn why(history: &History) -> (SiteId, Reason, String) {
    let outcome = check(history);
    let finding = one(&outcome);
    assert_eq!(finding.missing.len(), 1, "{finding:?}");
    let story = finding.story(history);
    let (_, reason) = story[0].rsplit_once(": ").expect("a reason");
    (finding.missing[0].site, finding.missing[0].reason, reason.to_owned())
}

#[test]
fn a_fence_that_never_comes_and_one_that_comes_later() {
    let mut run = Run::new(Platform::ADR);
    let value = run.store(0, VALUE, 7);
    let flush = run.clwb(0, VALUE);
    run.store(0, TOKEN, 1);
    let story = "it was flushed at main (test.c:2), but no fence followed".to_owned();
    assert_eq!(why(&run.history()), (value, Reason::NotFenced(Some(flush)), story));

    let past_the_cache = |fenced: bool| {
        let mut run = Run::new(Platform::ADR);
        let value = run.nt(0, VALUE, &7u64.to_le_bytes());
        run.store(0, TOKEN, 1);
        let fence = fenced.then(|| run.fence(0));
        (value, fence, run.history())
    };
    let (value, _, history) = past_the_cache(false);
    let story = "it was stored non-temporally, and no fence followed".to_owned();
    assert_eq!(why(&history), (value, Reason::NotFenced(None), story));
    let (value, fence, history) = past_the_cache(true);
    let reason = Reason::FencedLater { flush: None, fence: fence.expect("a fence") };
    let story = "it was stored non-temporally, and the fence comes only later, at main (test.c:3)".to_owned();
    assert_eq!(why(&history), (value, reason, story));
}

#[test]
fn a_flush_that_came_first_by_chance_comes_later() {
    // In this run the value was durable before thread 2 stored the token; nothing makes it.
    let mut run = Run::new(Platform::ADR);
    let value = run.store(1, VALUE, 7);
    run.release(1, 0x10);
    let flush = run.clwb(1, VALUE);
    run.fence(1);
    run.acquire(2, 0x10);
    run.store(2, TOKEN, 1);
    run.persist(2, TOKEN);
    let history = run.history();
    assert_eq!(
        (why(&history).0, why(&history).1),
        (value, Reason::FencedLater { flush: Some(flush), fence: SiteId(4) })
    );

    // Thread 2 flushes what thread 1 may store behind that.
    let mut run = Run::new(Platform::ADR);
    let value = run.store(1, VALUE, 7);
    let flush = run.clwb(2, VALUE);
    run.fence(2);
    run.store(2, TOKEN, 1);
    run.persist(2, TOKEN);
    let story =
        "only another thread flushes its line, at main (test.c:2), and nothing orders that behind the store";
    assert_eq!(why(&run.history()), (value, Reason::FlushedApart(flush), story.to_owned()));
}

#[test]
fn what_another_thread_has_not_stored_yet_is_named() {
    let mut run = Run::new(Platform::ADR);
    // Others are on the way to it.
    for number in 0..5 {
        run.store(1, 1024 + 64 * number, 1);
        run.persist(1, 1024 + 64 * number);
    }
    let value = run.store(1, VALUE, 7);
    run.persist(1, VALUE);
    run.store(1, 1024, 2);
    for number in 1..3 {
        run.store(2, TOKEN, number);
        run.persist(2, TOKEN);
    }
    let history = run.history();
    let outcome = check(&history);
    let finding = outcome.findings.iter().find(|finding| finding.missing[0].reason == Reason::NotMade);
    let finding = finding.unwrap_or_else(|| panic!("{outcome:#?}"));
    assert_eq!((finding.missing[0].site, finding.missing[0].thread), (value, ThreadId(1)));
    assert!(finding.story(&history)[0].ends_with("the crash came before it"));
}

#[test]
fn what_came_behind_the_crash_is_not_missing() {
    let mut run = Run::new(Platform::ADR);
    let value = run.store(0, VALUE, 7);
    run.store(0, TOKEN, 1);
    // Lost with the value, since it is in its line.
    run.store(0, VALUE + 8, 9);
    run.clwb(0, TOKEN);
    run.fence(0);
    let history = run.history();
    let outcome = check(&history);
    let missing: Vec<SiteId> = one(&outcome).missing.iter().map(|missing| missing.site).collect();
    assert_eq!(missing, [value], "{outcome:#?}");
}

#[test]
fn under_eadr_nothing_is_flushed() {
    let mut run = Run::new(Platform::EADR);
    run.store(0, TOKEN, 1);
    let value = run.store(0, VALUE, 7);
    let story = "the crash came before it".to_owned();
    assert_eq!(why(&run.history()), (value, Reason::NotMade, story));
}

#[test]
fn a_token_out_of_range_says_which_part_of_what() {
    let mut run = Run::new(Platform::ADR);
    run.store(0, VALUE, 7);
    run.store(0, TOKEN, 1);
    run.clwb(0, VALUE);
    run.clwb(0, TOKEN);
    run.fence(0);
    let history = run.history();
    let contents = Contents::default();
    let token = one(&check(&history)).token.to_string();
    let said = |from: &str, to: &str| {
        let changed = token.replace(from, to);
        assert_ne!(changed, token);
        let mut oracle = Words::new(|_: &dyn Fn(u64) -> u64, _: &Image<'_>| Ok(()));
        let replayed =
            Checker::new(&history, &contents).replay(&changed.parse().expect("a token"), &mut oracle);
        replayed.expect_err(&changed).to_string()
    };
    assert!(token.starts_with("adr-p4-a0-b0-c0.1-h"), "{token}");
    assert_eq!(said("-p4", "-p6"), "`p6` of the token is out of range: the run has 5 steps");
    assert_eq!(
        said("-b0", "-b1"),
        "`b1` of the token is out of range: the run has 1 fences that order something"
    );
    assert!(said("-p4", "-p3").contains("of another run"));
    let parts = "what may be lost at this crash falls into 2 parts, which count from 0";
    assert_eq!(said("-c0.1", "-c2.1"), format!("`c2.1` of the token is out of range: {parts}"));
    let images = "part 0 has 2 images, which count from 0";
    assert_eq!(said("-c0.1", "-c0.2"), format!("`c0.2` of the token is out of range: {images}"));
}

/// What is in the first file behind a run, in words.
fn difference(history: &History, found: &[u8]) -> Option<(u64, u8, u8)> {
    let contents = Contents::default();
    let difference = history.left(&contents).difference(0, 0, found)?;
    Some((difference.offset, difference.expected, difference.found))
}

#[test]
fn the_undisturbed_image_has_all_stores() {
    let mut run = Run::new(Platform::ADR);
    for number in 1..=9 {
        run.store(0, VALUE, number);
    }
    let history = run.history();
    let contents = Contents::default();
    let mut oracle = Words::new(|word: &dyn Fn(u64) -> u64, _: &Image<'_>| match word(VALUE) {
        9 => Err("nine".to_owned()),
        _ => Ok(()),
    });
    let left = history.left(&contents);
    let checker = Checker::new(&history, &contents);
    assert_eq!(checker.undisturbed(&left.changes(), &mut oracle), Err("nine".to_owned()));
    assert_eq!(left.stored(0), (9, 9));
    assert_eq!(difference(&history, &[9, 0, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(difference(&history, &[9, 1, 0, 2, 0, 0, 0, 0, 3]), Some((1, 0, 1)));
    // An earlier value of the same thread is none that could be left.
    assert_eq!(difference(&history, &[8]), Some((0, 9, 8)));
}

#[test]
fn of_threads_that_race_either_may_have_stored_last() {
    let mut run = Run::new(Platform::ADR);
    for (thread, value) in [(0, 1), (1, 2), (0, 3), (1, 4)] {
        run.store(thread, VALUE, value);
    }
    let history = run.history();
    assert_eq!(difference(&history, &[4]), None);
    assert_eq!(difference(&history, &[3]), None);
    assert_eq!(difference(&history, &[2]), Some((0, 4, 2)));
    let contents = Contents::default();
    let mut left = history.left(&contents);
    assert_eq!(left.difference(0, 0, &[3]), None);
    assert_eq!((left.changes()[0].word, left.raced().len()), (3, 1), "what is there is what the run left");
}
