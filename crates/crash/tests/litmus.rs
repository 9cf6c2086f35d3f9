//! The litmus tests of `litmus/`: each outcome set exactly as its file says, by both definitions of the platform.

use std::fs;
use std::path::Path;

use crash::Platform;
use crash::litmus::{Litmus, check};

fn suite() -> Vec<(String, Litmus)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("litmus");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |path: &Path| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a text");
        let litmus = Litmus::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        (name, litmus)
    };
    files.iter().map(|path| read(path)).collect()
}

#[test]
fn all_outcomes_are_as_the_files_say() {
    let failing: Vec<String> = suite()
        .iter()
        .map(|(name, litmus)| (name, check(litmus)))
        .filter(|(_, report)| !report.holds())
        .map(|(name, report)| format!("{name}: {report}"))
        .collect();
    assert!(failing.is_empty(), "{}", failing.join("\n"));
}

#[test]
fn files_are_named_by_platform_and_state_their_outcomes() {
    let suite = suite();
    for (name, litmus) in &suite {
        assert!(name.starts_with(litmus.platform.name()), "{name} is of platform {}", litmus.platform);
        assert!(litmus.exactly.is_some(), "{name} has no `outcome:`");
    }
    for platform in Platform::ALL {
        assert!(suite.iter().filter(|(_, litmus)| litmus.platform == platform).count() >= 5);
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
