//! Atomicity and durability of regions, judged without knowledge of the structure.

#[allow(dead_code)] // The other tests use the rest.
mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;

use common::Run;
use crash::{Change, Checker, Contents, History, Image, Oracle, Outcome, Place, Platform, Regions};

const LOG: u64 = 0;
const A: u64 = 1024;
const B: u64 = 2048;

/// Which step of the undo log is left out.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Broken {
    Not,
    /// Old values are not durable before the new ones are stored.
    LogUnflushed,
    /// The log is cleared before the new values are durable.
    ClearedEarly,
    /// The last region's values are never flushed.
    ValuesUnflushed,
}

/// Three regions, each of which stores to two lines under an undo log: `LOG` holds the number of old values, then the values.
fn run(broken: Broken) -> History {
    let mut run = Run::new(Platform::ADR);
    let mut old = 0;
    for region in 1..=3u64 {
        run.begin(0, region);
        run.store(0, LOG + 64, old);
        run.store(0, LOG + 128, old);
        if broken != Broken::LogUnflushed {
            run.clwb(0, LOG + 64);
            run.clwb(0, LOG + 128);
        }
        run.fence(0);
        run.store(0, LOG, 1);
        run.persist(0, LOG);
        run.store(0, A, region * 10);
        run.store(0, B, region * 10);
        if broken != Broken::ValuesUnflushed {
            run.clwb(0, A);
            run.clwb(0, B);
        }
        if broken != Broken::ClearedEarly {
            run.fence(0);
        }
        run.store(0, LOG, 0);
        run.persist(0, LOG);
        run.end(0, region);
        old = region * 10;
    }
    run.history()
}

struct Undo<'h> {
    regions: &'h Regions<'h>,
    words: BTreeMap<Place, u64>,
}

impl Oracle for Undo<'_> {
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
        for &Change { place, word } in image.changes {
            self.words.insert(place, word);
        }
        let words = RefCell::new(self.words.clone());
        let word = |offset: u64| words.borrow().get(&Place::new(0, offset)).copied().unwrap_or(0);
        if word(LOG) == 1 {
            for (log, at) in [(LOG + 64, A), (LOG + 128, B)] {
                let old = word(log);
                words.borrow_mut().insert(Place::new(0, at), old);
            }
        }
        self.regions.judge(image, |place| word(place.offset()))
    }
}

fn check(broken: Broken) -> Outcome {
    let history = run(broken);
    let contents = Contents::default();
    let regions = Regions::of(&history, &contents, |place| place.offset() >= A);
    Checker::new(&history, &contents).run(&mut Undo { regions: &regions, words: BTreeMap::new() })
}

#[test]
fn an_undo_log_keeps_regions_whole() {
    let outcome = check(Broken::Not);
    assert_eq!(outcome.findings, []);
    // Per region three with some of the old values, one with the mark, three with new values, one without the mark; and nothing at all.
    assert_eq!(outcome.images, 3 * 8 + 1);
}

#[test]
fn broken_ones_are_found_out() {
    for (broken, words) in [
        (Broken::LogUnflushed, "ended"),
        (Broken::ClearedEarly, "in part"),
        (Broken::ValuesUnflushed, "ended"),
    ] {
        let outcome = check(broken);
        let reported = outcome.findings.iter().any(|finding| finding.message.contains(words));
        assert!(reported, "{broken:?}: {:#?}", outcome.findings);
    }
}
