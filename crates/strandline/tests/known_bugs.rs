//! The crash checker finds every known bug in `studies::bugs` without being told where, and says nothing of the twins.

use crash::{Change, Checker, Contents, History, Oracle, Outcome, Platform, Recorder};
use space::{Env, Image, Recorded, Recording, Space};
use studies::bugs::{Bug, bugs};

/// Recovers images in memory.
struct Recovery {
    bug: Bug,
    image: Image,
}

impl Recovery {
    fn new(bug: Bug) -> Self {
        Recovery { bug, image: Image::new(Bug::BYTES) }
    }
}

impl Oracle for Recovery {
    fn examine(&mut self, image: &crash::Image<'_>) -> Result<(), String> {
        for &Change { place, word } in image.changes {
            self.image.store_u64(place.offset(), word);
        }
        self.bug.recover_and_check(&Image::from_bytes(&self.image.to_bytes()), image.ended)
    }
}

/// A run on ordinary memory, as the checker sees it.
fn history(bug: &Bug, platform: Platform) -> History {
    let recording = Recording {
        values: true,
        ..Recording::persistent(format!("{} {}", bug.structure, bug.variant), "pool")
    };
    let space = Recorded::new(Image::new(Bug::BYTES), Recorder::new(platform), &recording);
    let env = pmem::Os::new(space.expect("the recorder takes a recording"));
    bug.run(&env).unwrap_or_else(|wrong| panic!("{} {}: {wrong}", bug.structure, bug.variant));
    env.into_space().finish().expect("the recorder takes all events").1.into_history()
}

fn check(bug: &Bug, history: &History) -> Outcome {
    let contents = Contents::default();
    let checker = Checker::new(history, &contents);
    let outcome = checker.run(&mut Recovery::new(*bug));
    for finding in &outcome.findings {
        let token = finding.token.to_string().parse().expect("a token");
        let again = checker.replay(&token, &mut Recovery::new(*bug)).expect("a token of this run");
        assert_eq!(again.expect("the same failure").message, finding.message);
    }
    outcome
}

#[test]
fn every_bug_is_found_and_no_twin_reported() {
    let mut wrong = Vec::new();
    for bug in bugs() {
        let history = history(bug, Platform::Adr);
        let outcome = check(bug, &history);
        let told = format!("{} {}: {outcome:?}", bug.structure, bug.variant);
        println!(
            "{} {}: {} images, {} failing, {} findings",
            bug.structure,
            bug.variant,
            outcome.images,
            outcome.failing,
            outcome.findings.len()
        );
        for finding in &outcome.findings {
            println!("{} {}", finding.token, finding.story(history.files(), history.table()).join("; "));
        }
        if outcome.findings.is_empty() != bug.is_correct() {
            wrong.push(told);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
