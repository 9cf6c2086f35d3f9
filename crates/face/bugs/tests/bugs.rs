//! The crash checker finds every known bug in the crate `bugs` without a hint where, and says nothing of the
//! twins.

#[path = "../../strandline/tests/common/bugs_page.rs"]
mod bugs_page;

use std::time::Instant;

use bugs::{Bug, bugs};
use bugs_page::Row;
use crash::lint::{self, Lints};
use crash::{Change, Checker, Contents, History, Oracle, Outcome, Place, Platform, Read, Recorder};
use event::Sink;
use space::sim::{Run, Schedule};
use space::{Image, Recorded, Recording, Scratch, Space, Touched};

/// Schedules of a structure with several threads.
const SEEDS: u64 = 8;

/// Recovers images in memory.
struct Recovery {
    bug: Bug,
    image: Scratch,
    words: Vec<(u64, u64)>,
    read: Vec<Read>,
}

impl Recovery {
    fn new(bug: Bug) -> Self {
        Recovery { bug, image: Scratch::new(Bug::BYTES), words: Vec::new(), read: Vec::new() }
    }
}

impl Oracle for Recovery {
    fn examine(&mut self, image: &crash::Image<'_>) -> Result<(), String> {
        self.words.clear();
        self.words.extend(image.changes.iter().map(|&Change { place, word }| (place.offset(), word)));
        self.image.apply(&self.words);
        let result = self.bug.recover_and_check(&self.image, image.ended);
        self.read.clear();
        let read = |touched: Touched| Read { line: Place::new(0, touched.line), words: touched.words };
        self.read.extend(self.image.touched().map(read));
        self.image.rollback();
        result
    }

    fn read(&self) -> Option<&[Read]> {
        Some(&self.read)
    }
}

/// A run as the checker sees it.
fn history(bug: &Bug, platform: Platform, seed: u64) -> History {
    record(bug, Recorder::new(platform), seed).into_history()
}

/// Gives the events of a run to `sink`.
fn record<K: Sink + Send>(bug: &Bug, sink: K, seed: u64) -> K {
    let recording = Recording {
        values: true,
        ..Recording::persistent(format!("{} {}", bug.structure, bug.variant), "pool")
    };
    let space = Recorded::new(Image::new(Bug::BYTES), sink, &recording);
    let space = space.expect("the sink takes a recording");
    let Run { result, space, .. } = space::sim::run(space, &Schedule::walk(seed), |env| bug.run(env));
    match result {
        Ok(Ok(())) => space.finish().expect("the sink takes all events").1,
        Ok(Err(wrong)) => panic!("{} {}: {wrong}", bug.structure, bug.variant),
        Err(failure) => panic!("{} {}: {failure}", bug.structure, bug.variant),
    }
}

/// Checks a run, and that each finding's token repeats it.
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

/// The page's part.
const SECTION: &str = "In Rust";

fn threads(bug: &Bug) -> bool {
    ["list", "chain"].contains(&bug.structure)
}

/// Checks a bug on as many schedules as it takes to find something.
fn row(bug: &Bug) -> Row {
    let started = Instant::now();
    let mut images = 0;
    let mut token = None;
    for seed in 1..=if threads(bug) { SEEDS } else { 1 } {
        let outcome = check(bug, &history(bug, Platform::ADR, seed));
        images += outcome.images;
        if let Some(finding) = outcome.findings.first() {
            let seed = if threads(bug) { format!(", schedule {seed}") } else { String::new() };
            token = Some(format!("`{}`{seed}", finding.token));
            break;
        }
    }
    Row {
        structure: bug.structure.to_owned(),
        variant: bug.variant.to_owned(),
        origin: bug.origin.to_owned(),
        token,
        images,
        seconds: started.elapsed().as_secs_f64(),
    }
}

#[test]
fn every_bug_is_found_and_no_twin_reported() {
    let rows: Vec<Row> = bugs().iter().map(row).collect();
    for (bug, row) in bugs().iter().zip(&rows) {
        assert_eq!(row.token.is_none(), bug.is_correct(), "{row:?}");
    }
    bugs_page::hold(SECTION, &rows);
}

/// The page's tokens repeat their failures.
#[test]
fn written_tokens_replay() {
    for bug in bugs().iter().filter(|bug| !bug.is_correct() && !bugs_page::updates()) {
        let reported = bugs_page::token(SECTION, bug.structure, bug.variant).expect("the page has a token");
        let token = reported.parse().expect("a token");
        let contents = Contents::default();
        let seeds = 1..=if threads(bug) { SEEDS } else { 1 };
        let fails = seeds.map(|seed| history(bug, Platform::ADR, seed)).any(|history| {
            let replayed = Checker::new(&history, &contents).replay(&token, &mut Recovery::new(*bug));
            matches!(replayed, Ok(Some(_)))
        });
        assert!(
            fails,
            "{} {}: {reported}; STRANDLINE_UPDATE_DOCS=1 writes docs/bugs.md",
            bug.structure, bug.variant
        );
    }
}

/// The twins rest on nothing but flushes and fences; where fences alone order, and where nothing is lost,
/// they hold, too.
#[test]
fn twins_hold_on_other_platforms() {
    for bug in bugs().iter().filter(|bug| bug.is_correct()) {
        for platform in [Platform::EADR, Platform::EPOCH] {
            let history = history(bug, platform, 1);
            let stories: Vec<_> = check(bug, &history).findings;
            let stories: Vec<_> = stories.iter().map(|finding| finding.story(&history)).collect();
            assert!(stories.is_empty(), "{} on {platform}: {stories:#?}", bug.structure);
        }
    }
}

/// The lints have nothing to say of a twin, and see what is never flushed.
#[test]
fn lints_agree() {
    for bug in bugs() {
        let lints = record(bug, Lints::new(), 1);
        let found = lints.findings();
        let reported: Vec<String> =
            found.iter().map(|lint| lint.describe(lints.files(), lints.table())).collect();
        assert!(!bug.is_correct() || found.is_empty(), "{} fixed: {reported:#?}", bug.structure);
        if bug.variant == "sibling-unflushed" {
            assert!(found.iter().any(|lint| lint.kind == lint::Kind::NeverFlushed), "{reported:#?}");
        }
    }
}

/// Where caches survive, a missing flush or fence is no bug, and what takes two stores still is one.
/// (Non-temporal stores wait for a fence all the same.)
#[test]
fn surviving_caches_leave_bugs_of_atomicity() {
    let found: Vec<String> = bugs()
        .iter()
        .filter(|bug| !check(bug, &history(bug, Platform::EADR, 1)).findings.is_empty())
        .map(|bug| format!("{} {}", bug.structure, bug.variant))
        .collect();
    let expected = [
        "level update-loses",
        "level move-twice",
        "cceh depth-first",
        "cceh pattern-first",
        "fair root-split",
        "masstree cut-first",
        "undo not-added",
        "undo added-after",
        "shadow in-place",
        "log no-fence",
    ];
    assert_eq!(found, expected);
}

/// Recovery answers whatever it is given.
#[test]
fn recovery_bears_damaged_images() {
    let mut noticed = 0;
    for bug in bugs().iter().filter(|bug| bug.is_correct()) {
        let space::sim::Run { space, .. } =
            space::sim::run(Image::new(Bug::BYTES), &Schedule::walk(1), |env| bug.run(env));
        let whole = space.to_bytes();
        let used: Vec<u64> = (64..Bug::BYTES).step_by(8).filter(|&at| space.load_u64(at) != 0).collect();
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for _ in 0..300 {
            let image = Image::from_bytes(&whole);
            for _ in 0..=random() % 4 {
                let at = used[random() as usize % used.len()];
                let word = match random() % 4 {
                    0 => 0,
                    1 => random() << 32 | random(),
                    2 => random() % 2048 * 8,
                    _ => image.load_u64(at) ^ 1 << (random() % 64),
                };
                image.store_u64(at, word);
            }
            noticed += u32::from(bug.recover_and_check(&image, 0).is_err());
        }
    }
    assert!(noticed > 1000, "only {noticed} damaged images were noticed");
}
