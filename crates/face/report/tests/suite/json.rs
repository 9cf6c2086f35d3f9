//! `report.json` and `docs/report-json.md` say the same.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../../../docs/report-json.md");

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

/// A row of the document's tables: a field and its type.
type Row = (String, String);

/// The rows of each of the document's types; those outside of a type are under the empty name.
fn tables() -> BTreeMap<String, Vec<Row>> {
    let mut tables: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut current = String::new();
    for line in DOCUMENT.lines() {
        if line.starts_with('#') {
            current = line.strip_prefix("### Type: ").unwrap_or_default().to_owned();
        }
        if let Some((field, rest)) = line.strip_prefix("| `").and_then(|row| row.split_once("` | ")) {
            let kind = rest.split(" |").next().unwrap_or_default();
            tables.entry(current.clone()).or_default().push((field.to_owned(), kind.to_owned()));
        }
    }
    tables
}

/// The paths that the document describes below `here`: a field of a type that it defines has that type's
/// fields.
fn described(tables: &BTreeMap<String, Vec<Row>>, kind: &str, here: &str, into: &mut BTreeSet<String>) {
    for (field, kind) in &tables[kind] {
        let path = match (here, field.as_str()) {
            ("", field) => field.to_owned(),
            (here, ".") => here.to_owned(),
            (here, field) => format!("{here}.{field}"),
        };
        if !path.ends_with("[]") {
            into.insert(path.clone());
        }
        if tables.contains_key(kind) {
            described(tables, kind, &path, into);
        }
    }
}

#[test]
fn every_field_is_documented_and_every_documented_field_exists() {
    let mut written = BTreeSet::new();
    for (_, report) in common::all() {
        paths(&value(&report), "", &mut written);
    }
    let mut documented = BTreeSet::new();
    described(&tables(), "", "", &mut documented);
    let missing: Vec<_> = written.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&written).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "not in the document: {missing:#?}\nnot in the JSON: {gone:#?}"
    );
}

#[test]
fn the_document_states_the_schema_version() {
    assert!(DOCUMENT.contains(&format!("schema version {}.", report::SCHEMA)));
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
