//! `strandline check --litmus` on files of the suite, on a wrong expectation and on a file that is none.

use std::process::Command;

fn check(file: &std::path::Path) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_strandline"))
        .args(["check", "--litmus"])
        .arg(file)
        .output()
        .expect("strandline runs")
}

#[test]
fn outcomes_are_printed_and_held_against_the_expectation() {
    let suite = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../model/crash/litmus");
    let file = suite.join("strand-ab.litmus");
    let right = check(&file);
    let text = String::from_utf8_lossy(&right.stdout).into_owned();
    assert_eq!(right.status.code(), Some(0), "{text}");
    assert!(text.contains("A=1 B=1 C=0"), "{text}");

    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("wrong.litmus");
    let source = std::fs::read_to_string(&file).expect("the suite's file");
    std::fs::write(&wrong, source.replace("PB", "")).expect("written");
    assert_eq!(check(&wrong).status.code(), Some(1));

    std::fs::write(&wrong, "name: none\nplatform: paper\n").expect("written");
    let none = check(&wrong);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("wrong.litmus"), "{none:?}");
}

/// What does not hold is said in the verdict, below the outcomes, in the JSON and by the status, for both
/// kinds of files.
#[test]
fn expectations_that_are_not_met_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.litmus");
    let litmus = |head: &str, tail: &str, json: bool| {
        let text = format!("name: t\n{head}\nthread\n  A=1\n  B=1\n{tail}\n");
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
        command.arg("litmus").arg(&file).args(json.then_some("--json"));
        let ran = command.output().expect("strandline runs");
        (ran.status.code(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
    };
    for (head, on) in [("platform: adr", "platform adr"), ("design: x86", "x86")] {
        let (status, text) = litmus(head, "allowed: A=0 B=1", false);
        assert!(status == Some(0) && text.starts_with(&format!("t ({on}): holds")), "{text}");
        let (status, text) = litmus(head, "forbidden: A=0 B=1", false);
        assert!(status == Some(1) && text.contains("FAILS"), "{text}");
        assert!(text.contains("A=0 B=1 is `forbidden:`, and an outcome"), "{text}");
        let (_, text) = litmus(head, "outcome: A=0,1 B=0", false);
        assert!(text.contains("A=0 B=1 is an outcome, and not in `outcome:`"), "{text}");
        let (status, text) = litmus(head, "forbidden: A=0 B=1", true);
        let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((status, &found[0]["holds"], &found[0]["on"]), (Some(1), &false.into(), &on.into()));
        assert_eq!(found[0]["faults"].as_array().map(Vec::len), Some(1), "{text}");
    }
    let (status, text) = litmus("", "allowed: A=0", false);
    assert!(status == Some(2) && text.contains("neither `platform:`"), "{text}");
}
