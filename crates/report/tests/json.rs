//! `report.json` and `docs/report-json.md` say the same.

mod common;

use std::collections::BTreeSet;

use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/report-json.md");

fn value(report: &report::Report) -> Value {
    serde_json::from_str(&report::json(report)).expect("the report is JSON")
}

/// Every path of a value: `run.exit.kind`, `sites[].frames[].line`.
fn paths(value: &Value, here: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let path = if here.is_empty() { name.clone() } else { format!("{here}.{name}") };
                into.insert(path.clone());
                paths(inner, &path, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{here}[]"), into)),
        _ => {}
    }
}

/// The paths that the document's tables describe.
fn documented() -> BTreeSet<String> {
    let path = |line: &str| line.strip_prefix("| `")?.split_once('`').map(|(path, _)| path.to_owned());
    DOCUMENT.lines().filter_map(path).collect()
}

#[test]
fn every_field_is_documented_and_every_documented_field_exists() {
    let mut written = BTreeSet::new();
    for (_, report) in common::all() {
        paths(&value(&report), "", &mut written);
    }
    let documented = documented();
    let missing: Vec<_> = written.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&written).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "not in the document: {missing:#?}\nnot in the JSON: {gone:#?}"
    );
}

#[test]
fn the_document_states_the_schema_version() {
    assert!(DOCUMENT.contains(&format!("schema version {}", report::SCHEMA)));
    assert_eq!(value(&common::full())["schema"], report::SCHEMA);
}

#[test]
fn top_level_fields_are_always_there() {
    let names = |report| value(&report).as_object().map(|o| o.keys().cloned().collect::<Vec<_>>());
    assert_eq!(names(common::empty()), names(common::everything()));
}

#[test]
fn numbers_arrive_exactly() {
    let report = common::huge();
    let json = value(&report);
    assert_eq!(json["counts"]["events"], u64::MAX);
    assert_eq!(
        json["machine"]["persistent"]["total"]["media_write_bytes"],
        report.figures.persistent.total.media_write_bytes
    );
    let full = value(&common::full());
    assert_eq!(full["sites"].as_array().map(Vec::len), Some(7), "sites that did nothing are left out");
    assert_eq!(full["findings"][0]["sites"][0]["label"], "leaf_insert (btree.c:21)");
    assert!(value(&common::hostile())["findings"][0]["share"].is_null(), "JSON has no NaN");
}
