//! Shell blocks of a page, run as a reader would.
//!
//! Blocks fenced as `sh` or `console` run in the page's order in one empty folder. A comment on the line before a fence changes
//! that: `<!-- shell: skip, REASON -->` reports the block as skipped, `<!-- shell: status N -->` is the status that it ends with,
//! `<!-- shell: first COMMAND -->` (repeatable, on lines of their own) prepares what the page takes for granted, `needs PROGRAM`
//! skips where that is absent, `loose` lets commands before the last one fail. Before a fence of any language, `file NAME` writes
//! the code into a file of the folder.
//! In `console` blocks lines with `$ ` are commands; the others are what they print, but for `…` and for numbers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{Scratch, has};

/// A block, with what its comments say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Number of its first line in the page.
    pub line: usize,
    /// Why it is not run.
    pub skip: Option<String>,
    /// Programs without which it is skipped.
    pub needs: Vec<String>,
    /// It is no script, but this file.
    pub file: Option<String>,
    /// Whether only the last command's status counts.
    pub loose: bool,
    /// Status it ends with.
    pub status: i32,
    /// What is run before it.
    pub first: Vec<String>,
    /// Its commands.
    pub script: String,
    /// What has to be printed.
    pub printed: Vec<String>,
}

/// The shell blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let (mut all, mut next) = (Vec::new(), Block::default());
    // Whether its lines are kept, and whether they are a console's.
    let mut inside: Option<(bool, bool)> = None;
    for (number, line) in page.lines().enumerate() {
        let trimmed = line.trim();
        match inside {
            Some((kept, _)) if trimmed.starts_with("```") => {
                let block = std::mem::take(&mut next);
                if kept {
                    all.push(block);
                }
                inside = None;
            }
            Some((true, true)) => match trimmed.strip_prefix("$ ") {
                Some(command) => next.script += &format!("{command}\n"),
                None => next.printed.push(trimmed.to_owned()),
            },
            Some((true, false)) => next.script += &format!("{line}\n"),
            Some((false, _)) => {}
            None => {
                if let Some(language) = trimmed.strip_prefix("```") {
                    let kept = matches!(language, "sh" | "console") || next.file.is_some();
                    inside = Some((kept, language == "console"));
                    next.line = number + 1;
                } else if let Some(said) = trimmed.strip_prefix("<!-- shell: ") {
                    note(&mut next, said.trim_end_matches("-->").trim());
                } else if !trimmed.is_empty() {
                    next = Block::default();
                }
            }
        }
    }
    all
}

fn note(block: &mut Block, said: &str) {
    if let Some(reason) = said.strip_prefix("skip, ") {
        block.skip = Some(reason.to_owned());
    } else if let Some(status) = said.strip_prefix("status ") {
        block.status = status.parse().expect("a number");
    } else if let Some(command) = said.strip_prefix("first ") {
        block.first.push(command.to_owned());
    } else if let Some(program) = said.strip_prefix("needs ") {
        block.needs.push(program.to_owned());
    } else if let Some(name) = said.strip_prefix("file ") {
        block.file = Some(name.to_owned());
    } else if said == "loose" {
        block.loose = true;
    } else {
        panic!("<!-- shell: {said} --> is neither skip, needs, status, first, file nor loose");
    }
}

/// What became of a page's blocks.
#[derive(Debug, Default)]
pub struct Ran {
    pub run: usize,
    pub skipped: usize,
    pub failed: Vec<String>,
}

/// Runs a page's blocks.
pub fn run(path: &Path, name: &str) -> Ran {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let scratch = Scratch::new();
    let shared = Shared::new();
    let mut ran = Ran::default();
    for block in blocks(&text) {
        let at = format!("{name}:{}", block.line);
        if let Some(name) = &block.file {
            scratch.file(name, &block.script);
            continue;
        }
        let absent = block.needs.iter().find(|program| !has(program)).map(|program| format!("no {program}"));
        if let Some(reason) = block.skip.as_ref().or(absent.as_ref()) {
            println!("skipped: {at}: {reason}");
            ran.skipped += 1;
            continue;
        }
        ran.run += 1;
        let output = execute(&block, &scratch, &shared);
        if let Some(fault) = fault(&block, &output) {
            ran.failed.push(format!("{at}: {fault}\n{}", block.script));
            // What follows builds on it.
            break;
        }
    }
    ran
}

/// Memory of this run alone, in place of /dev/shm and of the mount point that pages name.
struct Shared(PathBuf);

impl Shared {
    fn new() -> Shared {
        let folder = tempfile::Builder::new().prefix("strandline-docs-").tempdir_in("/dev/shm");
        Shared(folder.expect("/dev/shm").keep())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn execute(block: &Block, scratch: &Scratch, shared: &Shared) -> Output {
    let bin = scratch.path(".bin");
    if !bin.exists() {
        fs::create_dir(&bin).expect("made");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_strandline"), bin.join("strandline")).expect("linked");
    }
    let own = format!("{}/", shared.0.display());
    let script = format!(
        "set -e\n{}\n{}\n{}",
        block.first.join("\n"),
        if block.loose { "set +e" } else { "" },
        block.script
    );
    let script = script.replace("/dev/shm/", &own).replace("/mnt/pmem/", &own);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    Command::new("timeout")
        .args(["--kill-after=5", "300", "bash", "-c", &script])
        .current_dir(scratch.dir())
        .env("PATH", path)
        .env("ROOT", crate::root())
        .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
        .env("STRANDLINE_CALIBRATE", "never")
        .stdin(Stdio::null())
        .output()
        .expect("timeout and bash")
}

fn fault(block: &Block, output: &Output) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if output.status.code() != Some(block.status) {
        return Some(format!("{}, not {}\n{stdout}{stderr}", output.status, block.status));
    }
    let printed = alike(&format!("{stdout}\n{stderr}"));
    let missing =
        |line: &&String| !line.is_empty() && !line.split('…').all(|part| printed.contains(&alike(part)));
    let line = block.printed.iter().find(missing)?;
    Some(format!("it does not print `{line}`, but\n{stdout}{stderr}"))
}

/// Numbers and widths of gaps left out.
fn alike(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut result = String::new();
    for c in words.join(" ").chars() {
        match c.is_ascii_digit() || c == '.' {
            true if result.ends_with('#') => {}
            true => result.push('#'),
            false => result.push(c),
        }
    }
    result
}

#[test]
fn blocks_are_found_with_their_comments() {
    let file = blocks("<!-- shell: file a.c -->\n```c\nint x;\n```\n```c\nint y;\n```\n");
    assert_eq!((file.len(), file[0].file.as_deref(), &*file[0].script), (1, Some("a.c"), "int x;\n"));
    let page = "text\n\n<!-- shell: first touch a -->\n<!-- shell: status 1 -->\n```sh\nls\nfalse\n```\n\
                ```c\nint x;\n```\n<!-- shell: skip, no such hardware -->\n```console\n$ ls\na 12\n```\n";
    let found = blocks(page);
    assert_eq!(found.len(), 2);
    assert_eq!((&*found[0].script, found[0].status, &*found[0].first[0]), ("ls\nfalse\n", 1, "touch a"));
    assert_eq!(found[1].skip.as_deref(), Some("no such hardware"));
    assert_eq!((&*found[1].script, &*found[1].printed[0]), ("ls\n", "a 12"));
}

#[test]
fn a_block_that_fails_or_prints_something_else_is_a_fault() {
    let scratch = Scratch::new();
    let run_page = |text: &str| run(&scratch.file("page.md", text), "page.md");
    let right = run_page("```console\n$ echo 17 apples\n3 apples\n$ echo x$(echo y)\nx…\n```\n");
    assert!(right.failed.is_empty() && right.run == 1, "{right:?}");
    assert_eq!(run_page("```console\n$ echo pears\n3 apples\n```\n").failed.len(), 1);
    assert_eq!(run_page("```sh\nfalse\ntrue\n```\n").failed.len(), 1);
    assert_eq!(run_page("```sh\nno-such-command\n```\n").failed.len(), 1);
    let skipped = run_page("<!-- shell: skip, needs it -->\n```sh\nfalse\n```\n");
    assert!((skipped.run, skipped.skipped, skipped.failed.len()) == (0, 1, 0), "{skipped:?}");
}
