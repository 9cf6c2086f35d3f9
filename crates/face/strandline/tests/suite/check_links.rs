//! `strandline check --files` of links, exchanged names, files without a name and syncs of everything: what
//! is right gives no
//! finding, what is wrong gives one.

use crate::common::{Scratch, compile, stderr, strandline};
use serde_json::Value;

/// The program, built, and a way to check a shape of it.
struct Links(Scratch);

impl Links {
    fn new() -> Links {
        let scratch = Scratch::new();
        scratch.file("links.c", include_str!("../programs/links.c"));
        compile(scratch.dir(), "cc", "-O1 -g -o links links.c");
        Links(scratch)
    }

    /// How many findings there are, and all that was said.
    fn findings(&self, platform: &str, shape: &str) -> (usize, String) {
        let data = self.0.path("data");
        if data.exists() {
            std::fs::remove_dir_all(&data).expect("the folder is removed");
        }
        std::fs::create_dir(&data).expect("the folder is made");
        let recover = format!("./links --verify {shape} POOL");
        let mut command = strandline();
        command.current_dir(self.0.dir()).args([
            "check",
            "--json",
            "--files",
            "data",
            "--platform",
            platform,
        ]);
        let output = command.args(["--recover", &recover, "--", "./links", shape, "data"]).output();
        let output = output.expect("it runs");
        let said = format!("{platform} {shape}: {}", stderr(&output));
        assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
        assert!(!said.contains("not recorded"), "{said}");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        (answer["findings"].as_array().map_or(0, Vec::len), format!("{said} {answer:#}"))
    }
}

const SHAPES: [&str; 10] = [
    "mail",
    "version",
    "nameless",
    "nameless-by-number",
    "sync",
    "syncfs",
    "exchange",
    "collapse",
    "renamed",
    "reopened",
];

#[test]
fn names_and_syncs_are_right_with_what_they_need_and_wrong_without() {
    let links = Links::new();
    for platform in ["ext4", "posix"] {
        for shape in SHAPES {
            let (found, said) = links.findings(platform, shape);
            assert_eq!(found, 0, "{said}");
            let (found, said) = links.findings(platform, &format!("-{shape}"));
            assert!(found > 0, "{said}");
        }
        // A file system with a journal keeps a link and the removal behind it in order; others need not.
        for shape in ["=mail", "=version"] {
            let (found, said) = links.findings(platform, shape);
            assert_eq!(found > 0, platform == "posix", "{said}");
        }
    }
}
