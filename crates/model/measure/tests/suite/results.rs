//! A sweep's file survives being cut anywhere, and never mixes two sweeps.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use measure::{Figures, Header, Measurement, Outcome, Point, Results, ResultsError, Study};

fn header(events: u64) -> Header {
    let parameters = BTreeMap::from([("events".to_owned(), serde_json::json!(events))]);
    Header::new("a machine", parameters)
}

fn points() -> Vec<Point> {
    let mut study = Study::find("threads").expect("there is one");
    study.axis = [1, 3].map(measure::Setting::Threads).to_vec();
    study.points()
}

/// The same for the same point, as a deterministic bench would have it.
fn measured(point: &Point) -> Measurement {
    if point.task.threads == 3 {
        return point.with(Outcome::Skipped("2 cores".to_owned()));
    }
    point.done(Figures {
        seconds: 0.1 + f64::from(point.task.threads),
        gb_per_s: Some(1.0 / 3.0),
        ..Figures::default()
    })
}

/// A run that is killed after `most` points.
fn run(path: &Path, most: usize) -> Vec<Measurement> {
    let mut results = Results::open(path, &header(100)).expect("the file can be used");
    for point in points().into_iter().filter(|point| !results.has(point)).take(most).collect::<Vec<_>>() {
        results.append(&measured(&point)).expect("there is room");
    }
    results.measurements().to_vec()
}

#[test]
fn another_sweep_is_refused_with_the_name_of_what_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sweep.jsonl");
    let of = |lines: u64| {
        let machine = serde_json::json!({"device": {"unit": 256, "buffer": {"lines": lines}}});
        Header::new("a machine", BTreeMap::from([("machine".to_owned(), machine)]))
    };
    Results::open(&path, &of(64)).expect("a new file");
    let refused = Results::open(&path, &of(128)).expect_err("another machine").to_string();
    assert!(refused.contains("its `machine.device.buffer.lines` is 64, here it is 128"), "{refused}");
    let refused = Results::open(folder.path(), &of(64)).expect_err("a folder");
    assert!(matches!(refused, ResultsError::NoFile { .. }), "{refused}");
}

#[test]
fn a_sweep_that_is_cut_at_any_byte_ends_as_if_it_had_not_been() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sweep.jsonl");
    let whole = run(&path, usize::MAX);
    let bytes = fs::read(&path).expect("the file is there");
    assert_eq!(whole.len(), points().len());
    // Every end of a line and the bytes around it, and some bytes in between.
    let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').flat_map(|end| end..end + 3);
    let cuts = ends.chain((0..bytes.len()).step_by(211)).filter(|cut| *cut <= bytes.len());
    for cut in cuts {
        fs::write(&path, &bytes[..cut]).expect("a shorter file");
        let kept = Results::open(&path, &header(100)).expect("a cut file can be used").measurements().len();
        let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(kept, lines.saturating_sub(1), "cut at {cut}");
        // Some of the way, then the rest.
        run(&path, 2);
        assert_eq!(run(&path, usize::MAX), whole, "cut at {cut}");
        assert_eq!(fs::read(&path).expect("the file is there"), bytes, "cut at {cut}");
    }
}

#[test]
fn another_sweeps_file_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sweep.jsonl");
    run(&path, 2);
    let before = fs::read(&path).expect("the file is there");
    let refused = Results::open(&path, &header(200)).expect_err("other parameters").to_string();
    assert!(refused.contains("`events` is 100, here it is 200"), "{refused}");
    let other = Header::new("another machine", header(100).parameters);
    let refused = Results::open(&path, &other).expect_err("another machine").to_string();
    assert!(refused.contains("it is of a machine, not of another machine"), "{refused}");
    assert_eq!(fs::read(&path).expect("the file is there"), before);
}

#[test]
fn what_is_no_results_file_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes");
    for text in ["my notes", "my notes\n", "{\"format\":\"x\"}\n"] {
        fs::write(&path, text).expect("a small file");
        let refused = Results::open(&path, &header(100)).expect_err("no results");
        assert!(matches!(refused, ResultsError::Damaged { line: 1, .. }), "{refused}");
        assert_eq!(fs::read_to_string(&path).expect("the file is there"), text);
    }
    fs::remove_file(&path).expect("the file was there");
    run(&path, 2);
    let text = fs::read_to_string(&path).expect("the file is there") + "nonsense\n";
    fs::write(&path, text).expect("room");
    let refused = Results::open(&path, &header(100)).expect_err("a bad line").to_string();
    assert!(refused.contains("line 4"), "{refused}");
}

#[test]
fn two_runs_do_not_write_to_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sweep.jsonl");
    let first = Results::open(&path, &header(100)).expect("a new file");
    let refused = Results::open(&path, &header(100)).expect_err("in use");
    assert!(matches!(refused, ResultsError::Busy { .. }), "{refused}");
    drop(first);
    Results::open(&path, &header(100)).expect("free again");
}
