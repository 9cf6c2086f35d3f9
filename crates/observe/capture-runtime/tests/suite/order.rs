//! Every file uses only files below it: folders stand in the order that `lib.rs` draws, and within a folder
//! there is no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A file: its folder, empty at the root, and its name.
type Place = (String, String);

/// The folders that `lib.rs` draws, from the bottom up.
fn drawn(lib: &str) -> Vec<String> {
    let lines = lib.lines().filter_map(|line| line.strip_prefix("//!   "));
    let mut names: Vec<String> =
        lines.filter_map(|line| line.split_once("/  ")).map(|(name, _)| name.trim().to_string()).collect();
    names.reverse();
    names
}

/// The files and their text without comments.
fn files(source: &Path) -> BTreeMap<Place, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(String::new(), source.to_path_buf())];
    while let Some((folder, path)) = folders.pop() {
        for entry in std::fs::read_dir(path).expect("a folder") {
            let path: PathBuf = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push((name, path));
            } else if !matches!(name.as_str(), "lib" | "mod") {
                let text = std::fs::read_to_string(&path).expect("text");
                let code: Vec<&str> =
                    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
                found.insert((folder.clone(), name), code.join(" "));
            }
        }
    }
    found
}

/// The parts of a path that may be followed by a list in braces, each as the path that it makes.
fn paths(tree: &str, before: &str, found: &mut Vec<String>) {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (at, letter) in tree.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('{') {
            Some((head, list)) => {
                paths(list.trim_end().trim_end_matches('}'), &format!("{before}{head}"), found);
            }
            None => found.push(format!("{before}{part}")),
        }
    }
}

/// The files that a file's text uses.
fn used(own: &Place, text: &str, all: &BTreeMap<Place, String>) -> BTreeSet<Place> {
    let mut named = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in text.match_indices(word) {
            let rest = &text[at + word.len()..];
            let is_use = text[..at].trim_end().ends_with("use");
            let end = if is_use {
                rest.find(';')
            } else {
                rest.find(|c: char| c != ':' && c != '_' && !c.is_alphanumeric())
            };
            let before = if word == "super::" { format!("{}::", own.0) } else { String::new() };
            paths(&rest[..end.unwrap_or(rest.len())], &before, &mut named);
        }
    }
    let place = |path: &String| {
        let mut parts = path.split("::").map(str::trim);
        let (first, second) = (parts.next()?.to_string(), parts.next().unwrap_or_default().to_string());
        let at_root = (String::new(), first.clone());
        if all.contains_key(&at_root) {
            Some(at_root)
        } else {
            Some((first, second)).filter(|place| all.contains_key(place))
        }
    };
    named.iter().filter_map(place).filter(|place| place != own).collect()
}

/// A circle that begins and ends at `place`, within its folder.
fn circle(place: &Place, uses: &BTreeMap<Place, BTreeSet<Place>>) -> bool {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&Place> = uses[place].iter().collect();
    while let Some(at) = next.pop() {
        if at == place {
            return true;
        }
        if seen.insert(at) {
            next.extend(&uses[at]);
        }
    }
    false
}

#[test]
fn every_file_uses_only_files_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let order = drawn(&std::fs::read_to_string(source.join("lib.rs")).expect("text"));
    let all = files(&source);
    // Files at the root stand on top.
    let height = |folder: &str| {
        if folder.is_empty() { Some(order.len()) } else { order.iter().position(|name| name == folder) }
    };
    let uses: BTreeMap<Place, BTreeSet<Place>> =
        all.iter().map(|(place, text)| (place.clone(), used(place, text, &all))).collect();
    assert!(uses.values().map(BTreeSet::len).sum::<usize>() > 200, "the uses are found");
    for (place, used) in &uses {
        assert!(height(&place.0).is_some(), "lib.rs does not draw the folder of {place:?}");
        for below in used {
            assert!(height(&below.0) <= height(&place.0), "{place:?} uses {below:?}, which stands above it");
        }
        assert!(!circle(place, &uses), "{place:?} is part of a circle: {:?}", uses[place]);
    }
}

#[test]
fn uses_are_found_wherever_they_are_written() {
    let all: BTreeMap<Place, String> = [("a", "b"), ("a", "c"), ("d", "e"), ("", "f")]
        .map(|(folder, name)| ((folder.to_string(), name.to_string()), String::new()))
        .into();
    let own = ("a".to_string(), "b".to_string());
    let text = "use crate::d::{e::{self, x}, y}; use super::c; fn g() { crate::f::h(crate::a::b::i) }";
    let found = used(&own, text, &all);
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["f", "c", "e"]);
}
