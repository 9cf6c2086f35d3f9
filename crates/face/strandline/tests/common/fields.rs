//! The fields of a JSON, and those that a document has in its tables.

use std::collections::BTreeSet;

use serde_json::Value;

/// Every path of a value: `lints[].code.line`.
pub fn paths(value: &Value, here: &str, into: &mut BTreeSet<String>) {
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

/// The fields that the tables of a document describe.
pub fn documented(document: &str) -> BTreeSet<String> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(field, _)| field.to_owned()).collect()
}

/// Fails if a field of the value is in no table, or a field of a table not in the value, but for those in `unseen`. Fields of objects in
/// several places are described by the object's kind: `kinds` has the end of their path and the kind.
pub fn compare(document: &str, values: &[Value], kinds: &[(&str, &str)], unseen: &[&str]) {
    let mut written = BTreeSet::new();
    values.iter().for_each(|value| paths(value, "", &mut written));
    let by_kind = |path: &String| {
        let (parent, field) = path.rsplit_once('.')?;
        let (_, kind) = kinds.iter().find(|(end, _)| parent.ends_with(end))?;
        Some(format!("{kind}.{field}"))
    };
    let written: BTreeSet<String> =
        written.iter().map(|path| by_kind(path).unwrap_or_else(|| path.clone())).collect();
    let documented = documented(document);
    let missing: Vec<_> = written.difference(&documented).collect();
    assert!(missing.is_empty(), "not in the document: {missing:#?}");
    let gone: Vec<_> =
        documented.difference(&written).filter(|field| !unseen.contains(&field.as_str())).collect();
    assert!(gone.is_empty(), "only in the document: {gone:#?}");
}
