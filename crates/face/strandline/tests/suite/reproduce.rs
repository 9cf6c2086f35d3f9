//! `strandline reproduce`: published results beside ours.

use crate::common::{Scratch, ok, stderr, stdout, strandline};

fn reproduce(arguments: &[&str]) -> std::process::Output {
    strandline().arg("reproduce").args(arguments).output().expect("strandline starts")
}

#[test]
fn every_result_is_listed_and_documented() {
    let listed = stdout(&ok(strandline().args(["reproduce", "--list"])));
    let document = include_str!("../../../../../docs/reproduce.md");
    let ids: Vec<&str> = listed
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(ids.contains(&"xpoint-26") && ids.contains(&"B-R5"), "{listed}");
    for id in ids {
        assert!(document.contains(&format!("\n| {id} |")), "docs/reproduce.md lacks {id}");
    }
}

#[test]
fn a_result_is_measured_and_the_exit_status_tells_of_misses() {
    let output = reproduce(&["xpoint-1", "d2", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = answer["rows"].as_array().expect("rows");
    let verdicts: Vec<&str> = rows.iter().map(|row| row["verdict"].as_str().expect("a verdict")).collect();
    assert_eq!(verdicts[1..], ["needs-hardware"], "{verdicts:?}");
    assert!(rows[0]["checks"].as_array().is_some_and(|checks| checks.len() > 3), "{:#}", rows[0]);
    let expected = i32::from(verdicts.contains(&"missed"));
    assert_eq!(output.status.code(), Some(expected), "{}", stderr(&output));
}

#[test]
fn the_same_results_come_twice_and_as_a_page() {
    let scratch = Scratch::new();
    let run = |folder: &str| {
        let folder = scratch.path(folder);
        reproduce(&["xpoint-10", "--out", folder.to_str().expect("a path")]);
        ["reproduce.html", "reproduce.json", "reproduce.md"]
            .map(|file| std::fs::read_to_string(folder.join(file)).expect(file))
    };
    let [page, json, table] = run("one");
    assert!(page.contains("<svg") && page.contains("class=\"ring\""), "no curve with published points");
    assert!(json.contains("\"published\"") && table.contains("| xpoint-10 |"), "{table}");
    assert!(run("two") == [page, json, table], "the results differ");
}

#[test]
fn an_unknown_result_is_refused_with_a_remedy() {
    let output = reproduce(&["xpoint-99"]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("xpoint-99") && message.contains("--list"), "{message}");
}
