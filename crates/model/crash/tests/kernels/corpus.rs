//! The sequences of calls, and what a model lets a crash leave of each. `cuts.c` makes the same calls.

use std::collections::{BTreeMap, BTreeSet};

use crash::files::{Entry, Tree};
use crash::{Bounds, Checker, Image, Platform, Strategy};
use event::Op;

use crate::on_files::{Judge, Run};

/// The calls, a letter each: they write to, name and sync two files `a` and `b` of a folder that has a folder
/// `d`, and the files that they make.
pub const CALLS: &str = "wvABCtTrsqRmluUkxfghFDE";

/// What is there before.
fn before() -> Tree {
    let file = |byte: u8, len: usize| Entry::File(vec![byte; len]);
    Tree::from([
        ("/a".to_owned(), file(b'a', 1000)),
        ("/b".to_owned(), file(b'b', 600)),
        ("/d".to_owned(), Entry::Folder),
    ])
}

/// Names that are there when a sequence is at some call; none once a call of it would fail.
fn names_after(names: &BTreeSet<&'static str>, call: char) -> Option<BTreeSet<&'static str>> {
    let mut names = names.clone();
    let has = |name: &str| names.contains(name);
    let (needs, made, gone): (&str, Option<&'static str>, Option<&str>) = match call {
        'w' | 'v' | 'A' | 't' | 'T' | 'f' | 'g' => ("a", None, None),
        'B' | 'h' => ("b", None, None),
        'C' if !has("c") => ("", Some("c"), None),
        'x' if !has("d/x") => ("", Some("d/x"), None),
        'k' if !has("e") => ("", Some("e"), None),
        'F' => ("c", None, None),
        'D' | 'E' => ("", None, None),
        'r' => ("a", Some("b"), Some("a")),
        's' => ("b", Some("a"), Some("b")),
        // A file is not renamed to another name of its own: that does nothing.
        'q' if !has("c") => ("a", Some("c"), Some("a")),
        'R' if !has("a") => ("c", Some("a"), Some("c")),
        'm' if !has("d/a") => ("a", Some("d/a"), Some("a")),
        'l' if !has("c") => ("a", Some("c"), None),
        'u' => ("a", None, Some("a")),
        'U' => ("b", None, Some("b")),
        _ => return None,
    };
    if !needs.is_empty() && !has(needs) {
        return None;
    }
    gone.map(|gone| names.remove(gone));
    names.extend(made);
    Some(names)
}

/// Whether each call of the sequence can be made.
pub fn is_possible(sequence: &str) -> bool {
    let mut names = BTreeSet::from(["a", "b"]);
    for call in sequence.chars() {
        match names_after(&names, call) {
            Some(after) => names = after,
            None => return false,
        }
    }
    // Two names of one file can't replace each other.
    !(sequence.contains('l') && sequence.contains(['r', 's', 'R', 'q']))
}

/// All possible sequences of that length.
pub fn all(len: usize) -> Vec<String> {
    let mut sequences = vec![String::new()];
    for _ in 0..len {
        let longer = |sequence: &String| {
            CALLS.chars().map(move |call| format!("{sequence}{call}")).collect::<Vec<_>>()
        };
        sequences = sequences.iter().flat_map(longer).filter(|sequence| is_possible(sequence)).collect();
    }
    sequences
}

fn rename(run: &mut Run, lens: &mut BTreeMap<&'static str, u64>, call: char) {
    let (from, to) = match call {
        'r' => ("/a", "/b"),
        's' => ("/b", "/a"),
        'q' => ("/a", "/c"),
        'R' => ("/c", "/a"),
        _ => ("/a", "/d/a"),
    };
    let moved = lens.remove(from).unwrap_or(0);
    lens.insert(to, moved);
    let (from, to) = (run.name(from), run.name(to));
    run.push(Op::Rename { from, to }, &[]);
}

fn append(run: &mut Run, lens: &mut BTreeMap<&'static str, u64>, call: char) {
    let (path, count) = if call == 'A' { ("/a", 5000) } else { ("/b", 600) };
    let end = lens.get(path).copied().unwrap_or(0);
    lens.insert(path, end + count as u64);
    let file = run.name(path);
    run.push(Op::FileWrite { file, offset: end, len: count as u32 }, &vec![call as u8; count]);
}

/// Does what a call does, and says that it has returned.
fn call(run: &mut Run, lens: &mut BTreeMap<&'static str, u64>, call: char, number: u64) {
    let mut write = |run: &mut Run, path: &'static str, offset: u64, byte: char, count: usize| {
        let file = run.name(path);
        let end = offset + count as u64;
        lens.entry(path).and_modify(|len| *len = end.max(*len)).or_insert(end);
        run.push(Op::FileWrite { file, offset, len: count as u32 }, &vec![byte as u8; count]);
    };
    let op = |run: &mut Run, op: Op| {
        run.push(op, &[]);
    };
    match call {
        'w' => write(run, "/a", 0, 'w', 512),
        'v' => write(run, "/a", 300, 'v', 900),
        'A' | 'B' => append(run, lens, call),
        'C' | 'x' => {
            let (path, count) = if call == 'C' { ("/c", 700) } else { ("/d/x", 1) };
            let file = run.name(path);
            op(run, Op::FileCreate { file, folder: false });
            write(run, path, 0, call, count);
        }
        't' | 'T' => {
            let (file, to) = (run.name("/a"), if call == 't' { 100 } else { 6000 });
            lens.insert("/a", to);
            op(run, Op::FileTruncate { file, len: to });
        }
        'r' | 's' | 'q' | 'R' | 'm' => rename(run, lens, call),
        'l' => {
            let (from, to) = (run.name("/a"), run.name("/c"));
            op(run, Op::Link { from, to });
        }
        'u' | 'U' => {
            let path = if call == 'u' { "/a" } else { "/b" };
            lens.remove(path);
            let file = run.name(path);
            op(run, Op::Unlink { file });
        }
        'k' => {
            let file = run.name("/e");
            op(run, Op::FileCreate { file, folder: true });
        }
        'f' | 'g' | 'h' | 'F' | 'D' | 'E' => {
            let path = match call {
                'f' | 'g' => "/a",
                'h' => "/b",
                'F' => "/c",
                'D' => "/",
                _ => "/d",
            };
            let file = run.name(path);
            op(run, Op::FileSync { file, data_only: call == 'g' });
        }
        other => panic!("no call {other}"),
    }
    run.push(Op::RegionEnd { region: number }, &[]);
}

/// As `cuts.c` writes it.
fn shown(tree: &Tree) -> String {
    let bytes = |bytes: &[u8]| -> String {
        let letter = |byte: u8| if byte == 0 { '0' } else { char::from(byte) };
        let runs = bytes.chunk_by(|a, b| a == b).map(|run| format!("{}*{}", letter(run[0]), run.len()));
        runs.collect::<Vec<_>>().join("+")
    };
    let entry = |(path, entry): (&String, &Entry)| match entry {
        Entry::Folder => format!("{path}/ "),
        Entry::File(contents) => format!("{path}={} ", bytes(contents)),
        Entry::Link(_) | Entry::Again(_) => panic!("{path} is no file"),
    };
    tree.iter().map(entry).collect()
}

/// The states that a model allows of a sequence, each with the most calls that may have returned; none if
/// there are too many.
pub fn allowed(platform: Platform, sequence: &str) -> Option<BTreeMap<String, u64>> {
    let mut run = Run::on(platform, before());
    let mut lens = BTreeMap::from([("/a", 1000), ("/b", 600)]);
    for (number, letter) in (1..).zip(sequence.chars()) {
        call(&mut run, &mut lens, letter, number);
    }
    let run = run.run();
    let mut checker = Checker::new(&run.history, &run.contents);
    checker.strategy = Strategy::Exhaustive;
    checker.bounds = Bounds { per_cut: 1 << 14, ..Bounds::default() };
    let mut states = BTreeMap::new();
    let judge = |tree: &Tree, image: &Image<'_>| {
        let most = states.entry(shown(tree)).or_insert(0);
        *most = image.ended.max(*most);
        Ok(())
    };
    let outcome = checker.run(&mut Judge { disk: run.disk.clone(), judge });
    (outcome.cut_short == 0).then_some(states)
}
