//! The litmus tests of `litmus/`: each outcome set exactly as its file says, by both definitions of the platform.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use crash::Platform;
use crash::litmus::{Litmus, check};
use proptest::prelude::*;

static SUITE: LazyLock<Vec<(String, Litmus)>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("litmus");
    let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    // Beside those of memory, a folder of those of files.
    let mut files: Vec<_> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    let read = |path: &Path| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a text");
        let litmus = Litmus::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        (name, litmus)
    };
    files.iter().map(|path| read(path)).collect()
});

#[test]
fn all_outcomes_are_as_the_files_say() {
    let failing: Vec<String> = SUITE
        .iter()
        .map(|(name, litmus)| (name, check(litmus)))
        .filter(|(_, report)| !report.holds())
        .map(|(name, report)| format!("{name}: {report}"))
        .collect();
    assert!(failing.is_empty(), "{}", failing.join("\n"));
}

#[test]
fn files_are_named_by_platform_and_state_their_outcomes() {
    for (name, litmus) in &*SUITE {
        assert!(name.starts_with(litmus.platform.name()), "{name} is of platform {}", litmus.platform);
        assert!(litmus.exactly.is_some(), "{name} has no `outcome:`");
    }
    for platform in Platform::ALL {
        assert!(SUITE.iter().filter(|(_, litmus)| litmus.platform == platform).count() >= 5);
    }
}

/// A wrong expectation of each kind must be noticed, or the suite proves nothing.
#[test]
fn canary() {
    let program = "name: canary\nplatform: adr\nthread\n  A=1\n  clwb A\n  sfence\n  B=1\n";
    let wrong = [
        // One too many, one too few, a forbidden one that happens, an allowed one that does not.
        "outcome: A=0,1 B=0,1\n",
        "outcome: A=0,1 B=0\n",
        "forbidden: A=1 B=1\n",
        "allowed: A=0 B=1\n",
    ];
    for expectation in wrong {
        let litmus = Litmus::parse("canary", &format!("{program}{expectation}")).expect("a test");
        let report = check(&litmus);
        assert!(!report.holds(), "{expectation}");
        assert!(report.to_string().starts_with("canary (adr): FAILS, 3 outcomes\n"), "{report}");
    }
    let right = "outcome: A=0,1 B=0\noutcome: A=1 B=1\nforbidden: A=0 B=1\nallowed: A=1 B=0\n";
    let report = check(&Litmus::parse("canary", &format!("{program}{right}")).expect("a test"));
    assert_eq!(report.to_string(), "canary (adr): holds, 3 outcomes\n  A=0 B=0\n  A=1 B=0\n  A=1 B=1\n");
}

#[test]
fn a_test_is_written_as_it_is_read() {
    for (name, litmus) in &*SUITE {
        assert_eq!(Litmus::parse(name, &litmus.to_string()).as_ref(), Ok(litmus));
    }
}

#[test]
fn errors_name_file_and_line() {
    let head = "name: n\nplatform: adr\n";
    let cases = [
        ("", "1: the test has no `name:`"),
        ("name: n", "1: the test has no `platform:`"),
        ("name: n\nplatform: arm", "2: `arm` is no platform"),
        ("name: n\nplatform: ext4", "2: litmus tests are about memory, and `ext4` is a platform of files"),
        ("colour: red", "1: `colour:` is nothing a test has"),
        ("A=1", "1: `A=1` stands before the first `thread`"),
        ("thread\nA=-1", "2: `-1` is no name"),
        ("thread\njump", "2: `jump` is no instruction"),
        ("thread\nxchg A", "2: `A` is no assignment such as `A=1`"),
        ("thread\nclwb 1", "2: `1` is no name"),
        ("{head}thread\nsfence", "4: no thread stores to or loads from any location"),
        ("{head}thread\nA=1", "4: the test expects nothing"),
        ("{head}thread\nA=1\noutcome: B=1\n\n", "5: no thread uses a location `B`"),
        ("{head}thread\nA=1\nB=1\noutcome: A=1", "6: an outcome names all locations, and `B` is missing"),
        ("{head}thread\nA=1\noutcome: A=0 A=1", "5: `A` has two values"),
        ("{head}thread\nA=1\noutcome: A", "5: `A` is no value such as `A=1`"),
        ("{head}thread\nA=1\nallowed: A=0,1", "5: only `outcome:` may give a location several values"),
        ("{head}thread\nA=1\nforbidden:", "5: names no location"),
        ("{head}same line: A C\nthread\nA=1\nallowed: A=1", "3: no thread uses a location `C`"),
        ("{head}same line: A A\nthread\nA=1\nallowed: A=1", "3: `A` is on a line already"),
    ];
    for (text, fault) in cases {
        let error = Litmus::parse("some.litmus", &text.replace("{head}", head)).expect_err(text);
        let expected = format!("some.litmus:{fault}");
        assert!(error.to_string().starts_with(&expected), "{error}, not {expected}");
    }
}

#[test]
fn tests_that_would_take_forever_are_refused() {
    let head = "name: n\nplatform: adr\n";
    let refused = |threads: String, fault: &str| {
        let error = Litmus::parse("n", &format!("{head}{threads}allowed: A=1\n")).expect_err("too big");
        assert!(error.fault.contains(fault), "{error}");
    };
    refused(format!("thread\n{}", "A=1\n".repeat(17)), "17 stores are too many");
    refused(format!("thread\nA=1\n{}", "sfence\n".repeat(64)), "65 instructions are too many");
    refused(format!("thread\nA=1\n{0}thread\n{0}", "sfence\n".repeat(12)), "more than 1000000 interleavings");
    let words: String = (0..9).map(|word| format!("r=W{word}\n")).collect();
    let names: Vec<String> = (0..9).map(|word| format!("W{word}")).collect();
    refused(format!("same line: {}\nthread\nA=1\n{words}", names.join(" ")), "a line has 8 words");
    let values: Vec<String> = (0..300).map(|value| value.to_string()).collect();
    let values = values.join(",");
    refused(format!("thread\nA=1\nB=1\noutcome: A={values} B={values}\n"), "more than 65536 outcomes");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// What the fuzz target `litmus` does, on mutations of the suite: an error, or a test that reads back as it is written.
    #[test]
    fn mutated_files_are_read_or_refused(
        file in any::<prop::sample::Index>(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, "[ -~\n]{0,6}"), 1..4),
    ) {
        let mut text = file.get(&SUITE).1.to_string();
        for (at, gone, new) in cuts {
            let at = at.index(text.len());
            text.replace_range(at..(at + gone).min(text.len()), &new);
            if text.is_empty() {
                break;
            }
        }
        if let Ok(litmus) = Litmus::parse("mutated", &text) {
            prop_assert_eq!(Litmus::parse("mutated", &litmus.to_string()), Ok(litmus));
        }
    }
}
