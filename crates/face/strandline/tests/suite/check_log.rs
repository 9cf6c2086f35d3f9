//! The example of a check in Rust does what it says.

#[allow(dead_code, reason = "its `main` is not called")]
#[path = "../../examples/check_log.rs"]
mod example;

#[test]
fn the_right_log_has_no_findings_and_the_wrong_one_the_marked_lines() {
    let source = include_str!("../../examples/check_log.rs");
    let line = |text: &str| 1 + source.lines().position(|line| line.contains(text)).expect("it is there");
    let (lost, survives) = (line("store_u64(at + 8"), line("store_u64(COUNT"));
    for seed in 1..=5 {
        let (outcome, story) = example::examine(seed, false).expect("it runs");
        assert!(outcome.findings.is_empty() && outcome.images > 10, "{story}");
        let (outcome, story) = example::examine(seed, true).expect("it runs");
        assert!(!outcome.findings.is_empty());
        let has = |line: usize| story.contains(&format!("check_log.rs:{line}"));
        assert!(has(lost) && has(survives), "{story}");
    }
}
