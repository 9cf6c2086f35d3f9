//! The book: `docs/SUMMARY.md` lists its chapters, whose shell lines run and whose links lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::ok;
use crate::{root, shell};

/// Pages that stand beside the book: its own table of contents on a code host, and notes that are dated.
const BESIDE: &[&str] = &["SUMMARY.md", "README.md"];

/// Pages beside the book, from the folder `docs`, whose shell lines run and whose links lead somewhere, too.
const FRONT: [&str; 2] = ["../README.md", "../CONTRIBUTING.md"];

/// The chapters, from the folder `docs`.
fn chapters() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("docs/SUMMARY.md");
    let links = text.lines().filter_map(|line| line.split("](").nth(1)?.split(')').next());
    links.map(str::to_owned).collect()
}

#[test]
fn every_page_is_a_chapter_once() {
    let chapters = chapters();
    let unique: BTreeSet<&String> = chapters.iter().collect();
    assert_eq!(unique.len(), chapters.len(), "a page is listed twice");
    let docs = root().join("docs");
    for folder in ["", "man", "internals"] {
        for entry in fs::read_dir(docs.join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("text");
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if path.ends_with(".md") && !BESIDE.contains(&&*path) {
                assert!(unique.contains(&path), "docs/{path} is not in docs/SUMMARY.md");
            }
        }
    }
    for chapter in &chapters {
        assert!(docs.join(chapter).is_file(), "docs/SUMMARY.md lists docs/{chapter}, which is not there");
    }
}

/// The heading's name in links, as code hosts and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// Links to a heading that is not there; that files are there is a house rule.
fn dead_anchors(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a chapter");
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut dead = Vec::new();
    for link in links.filter(|link| !link.contains("://")) {
        let Some((file, wanted)) = link.split_once('#') else { continue };
        let target = if file.is_empty() { path.to_owned() } else { path.with_file_name(file) };
        if target.extension().is_some_and(|end| end == "md")
            && !anchors(&fs::read_to_string(&target).unwrap_or_default()).contains(wanted)
        {
            dead.push(format!("{}: {link}", path.display()));
        }
    }
    dead
}

#[test]
fn links_to_headings_lead_there() {
    let docs = root().join("docs");
    let pages = chapters().into_iter().chain(FRONT.map(str::to_owned));
    let dead: Vec<String> = pages.flat_map(|name| dead_anchors(&docs.join(name))).collect();
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn a_dead_anchor_is_found() {
    let scratch = crate::common::Scratch::new();
    let page = scratch.file("a.md", "# One, two\n[x](#one-two) [y](#three) [z](b.md#four)\n");
    scratch.file("b.md", "## Four\n");
    assert_eq!(dead_anchors(&page).len(), 1);
}

fn runs(chapters: &[String]) {
    let docs = root().join("docs");
    let (mut run, mut skipped, mut failed) = (0, 0, Vec::new());
    for name in chapters {
        let ran = shell::run(&docs.join(name), &format!("docs/{name}"));
        println!("docs/{name}: {} blocks run, {} skipped", ran.run, ran.skipped);
        run += ran.run;
        skipped += ran.skipped;
        failed.extend(ran.failed);
    }
    println!("{run} blocks run, {skipped} skipped, {} failed", failed.len());
    assert!(run > 0 && failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn the_tour_and_the_front_pages_run() {
    let pages: Vec<String> = ["tour.md"].into_iter().chain(FRONT).map(str::to_owned).collect();
    runs(&pages);
}

/// One chapter: `STRANDLINE_CHAPTER=check.md`.
#[test]
#[ignore = "minutes: ./test --long"]
fn every_shell_line_of_the_book_runs() {
    match std::env::var("STRANDLINE_CHAPTER") {
        Ok(name) => runs(&[name]),
        Err(_) => runs(&chapters()),
    }
}

#[test]
fn the_book_builds() {
    if !crate::common::has("mdbook") {
        return;
    }
    let scratch = crate::common::Scratch::new();
    let output = ok(Command::new("mdbook").arg("build").arg(root()).arg("-d").arg(scratch.path("book")));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("ERROR"), "{said}");
    for chapter in chapters() {
        let page = scratch.path("book").join(&chapter).with_extension("html");
        assert!(page.is_file(), "{}", page.display());
    }
}
