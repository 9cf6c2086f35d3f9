//! The litmus tests of `litmus/files/`: what calls may leave of files, on each platform exactly as the file
//! says.
//!
//! A file has what was there `before`, the calls, and the outcomes: lines that begin with a platform's name
//! or `both` (posix and ext4), and `done` before it
//! for those that are left once the call `end` was reached. The other platforms are held against the files
//! that have lines of theirs. Files are written `path=contents`, where `y*8` stands for eight bytes and `+`
//! joins pieces, folders `path/` and symbolic links `path->target`; `nothing` is an empty disk. Zero bytes
//! are written `0`.

mod on_files;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crash::files::{Entry, FilesRun, Tree};
use crash::{Bounds, Checker, Image, Platform, Sector, Strategy};
use event::Op;
use on_files::{Judge, Run};

/// The platforms that a line with `both` is about.
const BOTH: [Platform; 2] = [Platform::POSIX, Platform::EXT4];

/// All trees, and those that are left once the call `end` was reached.
type Outcomes = [BTreeSet<String>; 2];

fn contents(text: &str) -> Vec<u8> {
    let piece = |piece: &str| match piece.split_once('*') {
        Some((byte, count)) => byte.repeat(count.parse().expect("a number")),
        None => piece.to_owned(),
    };
    let text: String = text.split('+').map(piece).collect();
    text.bytes().map(|byte| if byte == b'0' { 0 } else { byte }).collect()
}

fn shown(bytes: &[u8]) -> String {
    let mut pieces: Vec<String> = Vec::new();
    let mut plain = false;
    for run in bytes.chunk_by(|a, b| a == b) {
        let byte = if run[0] == 0 { '0' } else { char::from(run[0]) };
        let long = run.len() >= 8;
        let text = if long { format!("{byte}*{}", run.len()) } else { byte.to_string().repeat(run.len()) };
        match pieces.last_mut().filter(|_| plain && !long) {
            Some(last) => last.push_str(&text),
            None => pieces.push(text),
        }
        plain = !long;
    }
    pieces.join("+")
}

fn written(tree: &Tree) -> String {
    let entry = |(path, entry): (&String, &Entry)| match entry {
        Entry::Folder => format!("{path}/"),
        Entry::File(bytes) => format!("{path}={}", shown(bytes)),
        Entry::Link(to) => format!("{path}->{to}"),
        Entry::Again(of) => format!("{path} is {of}"),
    };
    let words: Vec<String> = tree.iter().map(entry).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
}

fn before(text: &str) -> Tree {
    let mut tree = Tree::new();
    for word in text.split_whitespace() {
        if let Some((path, to)) = word.split_once("->") {
            tree.insert(path.to_owned(), Entry::Link(to.to_owned()));
        } else if let Some((path, bytes)) = word.split_once('=') {
            tree.insert(path.to_owned(), Entry::File(contents(bytes)));
        } else {
            tree.insert(word.trim_end_matches('/').to_owned(), Entry::Folder);
        }
    }
    tree
}

fn call(run: &mut Run, words: &[&str]) {
    let number = |at: usize| words[at].parse().expect("a number");
    let names: Vec<_> = words[1..].iter().map(|word| run.name(word)).collect();
    let op = match words[0] {
        "create" => Op::FileCreate { file: names[0], folder: false },
        "mkdir" => Op::FileCreate { file: names[0], folder: true },
        "unlink" | "rmdir" => Op::Unlink { file: names[0] },
        "link" => Op::Link { from: names[0], to: names[1] },
        "symlink" => Op::Symlink { file: names[1], target: names[0] },
        "rename" => Op::Rename { from: names[0], to: names[1] },
        "exchange" => Op::Exchange { from: names[0], to: names[1] },
        "truncate" => Op::FileTruncate { file: names[0], len: number(2) },
        "collapse" => Op::FileCollapse { file: names[0], offset: number(2), len: number(3) },
        "insert" => Op::FileInsert { file: names[0], offset: number(2), len: number(3) },
        "fsync" => Op::FileSync { file: names[0], data_only: false },
        "fdatasync" => Op::FileSync { file: names[0], data_only: true },
        "sync" => Op::FilesSync { file: names[0] },
        "end" => Op::RegionEnd { region: 1 },
        "write" => {
            let bytes = contents(words[3]);
            let op = Op::FileWrite { file: names[0], offset: number(2), len: bytes.len() as u32 };
            run.push(op, &bytes);
            return;
        }
        other => panic!("no call `{other}`"),
    };
    run.push(op, &[]);
}

fn outcomes(run: &FilesRun) -> Outcomes {
    let mut checker = Checker::new(&run.history, &run.contents);
    checker.strategy = Strategy::Exhaustive;
    checker.bounds = Bounds { per_cut: 1 << 16, ..Bounds::default() };
    let mut found = Outcomes::default();
    let judge = |tree: &Tree, image: &Image<'_>| {
        found[0].insert(written(tree));
        if image.ended == 1 {
            found[1].insert(written(tree));
        }
        Ok(())
    };
    assert_eq!(checker.run(&mut Judge { disk: run.disk.clone(), judge }).cut_short, 0);
    found
}

/// What a test says of a platform, and what is found.
fn held(text: &str, platform: Platform) -> [Outcomes; 2] {
    let mut wanted = Outcomes::default();
    let mut run = Run::new(platform, &[]);
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let Some((key, rest)) = line.split_once(": ").filter(|_| !line.starts_with(' ')) else {
            call(&mut run, &line.split_whitespace().collect::<Vec<_>>());
            continue;
        };
        let (done, key) = key.strip_prefix("done ").map_or((0, key), |key| (1, key));
        match key {
            "before" => run = Run::on(platform, before(rest)),
            _ if key == platform.name() || key == "both" && BOTH.contains(&platform) => {
                wanted[done].insert(rest.to_owned());
            }
            _ => assert!(
                key == "both" || key.parse::<Platform>().is_ok_and(Platform::is_files),
                "no key `{key}`"
            ),
        }
    }
    let mut found = outcomes(&run.run());
    // A test without `done` lines says nothing of them.
    if !text.contains("\ndone ") {
        found[1].clear();
    }
    [wanted, found]
}

#[test]
fn calls_leave_exactly_what_the_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("litmus/files");
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut held_on: std::collections::BTreeMap<&str, u32> = std::collections::BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a text");
        count += 1;
        let says = |platform: &Platform| text.contains(&format!("\n{platform}: "));
        let large = Platform::POSIX.with_sector(Sector::Bytes4096);
        for platform in Platform::OF_FILES.into_iter().chain([large]) {
            if !says(&platform) && (!BOTH.contains(&platform) || !text.contains("\nboth: ")) {
                continue;
            }
            *held_on.entry(platform.name()).or_default() += 1;
            let [wanted, found] = held(&text, platform);
            if wanted != found {
                wrong.push(format!("{} on {platform}: {found:#?}, not {wanted:#?}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 25);
    // Each platform has tests of its own.
    assert!(held_on.len() == 7 && held_on.values().all(|&files| files >= 2), "{held_on:?}");
}

/// A wrong outcome must be noticed, or the suite proves nothing.
#[test]
fn canary() {
    let text = "before: /a=1\n  unlink /a\n  end\nboth: /a=1\nboth: nothing\n";
    let holds = |text: &str| {
        let [wanted, found] = held(text, Platform::EXT4);
        wanted == found
    };
    assert!(holds(text));
    assert!(!holds(&text.replace("both: nothing\n", "")) && !holds(&format!("{text}both: /a=2\n")));
    assert!(!holds(&format!("{text}done both: nothing\n")));
}
