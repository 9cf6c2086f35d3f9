//! What `images` and `images_failing` count, on a program whose images are few.

use crate::common::{Scratch, compile, has, has_flushes, strandline};
use serde_json::Value;

/// The fields of `check.json` that count images: `images`, `images_failing`, `images_repeated`, and the
/// images of all findings.
fn counts(scratch: &Scratch, rounds: &str, jobs: &str) -> [u64; 4] {
    let pool = scratch.path("pool").display().to_string();
    std::fs::remove_file(&pool).ok();
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--json", "--pmem", &pool, "--jobs", jobs, "--recover", "./app POOL"])
        .args(["--", "./app", &pool, rounds])
        .output()
        .expect("strandline starts");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1), "{answer:#}");
    let number = |field: &str| answer[field].as_u64().expect("a number");
    let findings = answer["findings"].as_array().expect("findings");
    let of_findings = findings.iter().map(|finding| finding["images"].as_u64().expect("a number")).sum();
    [number("images"), number("images_failing"), number("images_repeated"), of_findings]
}

#[test]
fn images_are_counted_once_by_any_number_of_jobs() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("app.c", include_str!("../programs/two_words.c"));
    compile(scratch.dir(), "cc", "-O1 -g -mclwb -o app app.c");
    // Nothing is flushed, so there is one crash point, the end, and each line is lost or not: (0, 0), (0, 1),
    // (1, 0), (1, 1). Recovery refuses (0, 1). The complete image is looked at first, and met again among the
    // four.
    assert_eq!(counts(&scratch, "0", "1"), [4, 1, 1, 1]);
    // Before the fence of round r both words are r - 1 or r: four images, of which (r, r) is the first of the
    // next round's. With (0, 0) there are 1 + 3 * 40 different ones; recovery refuses (0, 1) and (4, 5). Met
    // are the complete one and the four at each of 40 points, and (40, 40) twice at the end: 40 * 5 + 2.
    let expected = [121, 2, 202 - 121, 2];
    // The points fall into blocks of which each job has some: what ends one block begins the next.
    for jobs in ["1", "2", "3"] {
        assert_eq!(counts(&scratch, "40", jobs), expected, "{jobs} jobs");
    }
}
