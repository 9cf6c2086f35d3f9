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
