//! `docs/bugs.md`: which known bugs the crash checker finds, by which token, how fast.
//!
//! A test makes the rows of its part and holds them against the page. With `STRANDLINE_UPDATE_DOCS` in the environment
//! it writes them instead.
#![allow(dead_code)] // every test file uses its part

use std::path::{Path, PathBuf};

/// What a check of one variant gave.
#[derive(Clone, Debug)]
pub struct Row {
    pub structure: String,
    pub variant: String,
    pub origin: String,
    /// The first finding's token, if there is one, and what else repeats it.
    pub token: Option<String>,
    /// Images that were examined.
    pub images: u64,
    /// The whole check.
    pub seconds: f64,
}

impl Row {
    /// The line of the page.
    fn line(&self) -> String {
        let classes = [(0.001, "1 ms"), (0.01, "10 ms"), (0.1, "0.1 s"), (1.0, "1 s"), (10.0, "10 s")];
        let class = classes.iter().find(|(limit, _)| self.seconds <= *limit);
        let time = class.map_or("over 10 s".to_owned(), |(_, class)| format!("≤ {class}"));
        let token = self.token.as_deref().unwrap_or("nothing found");
        let Row { structure, variant, origin, images, .. } = self;
        format!("| {structure} | {variant} | {origin} | {token} | {images} | {time} |")
    }
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/bugs.md")
}

/// A line's columns.
fn columns(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|column| column.trim().to_owned()).collect()
}

/// The lines of the table below the headline `## SECTION`, and where they are.
fn table(page: &str, section: &str) -> (Vec<Vec<String>>, std::ops::Range<usize>) {
    let headline = format!("## {section}\n");
    let start = page.find(&headline).unwrap_or_else(|| panic!("docs/bugs.md has no {headline}"));
    let rule = start + page[start..].find("|---").expect("the table has a rule");
    let first = rule + page[rule..].find('\n').expect("the rule is a line") + 1;
    let length = page[first..].lines().take_while(|line| line.starts_with('|')).map(|line| line.len() + 1);
    let range = first..first + length.sum::<usize>();
    (page[range.clone()].lines().map(columns).collect(), range)
}

/// The token that the page has for a variant.
pub fn token(section: &str, structure: &str, variant: &str) -> Option<String> {
    let page = std::fs::read_to_string(path()).expect("docs/bugs.md is read");
    let (rows, _) = table(&page, section);
    let row = rows.into_iter().find(|row| row[0] == structure && row[1] == variant)?;
    row.get(3).and_then(|token| Some(token.strip_prefix('`')?.split_once('`')?.0.to_owned()))
}

/// Whether the page is being written.
pub fn updates() -> bool {
    std::env::var_os("STRANDLINE_UPDATE_DOCS").is_some()
}

/// Holds the rows against the page, or writes them into it. Images and times may differ from the page's.
pub fn hold(section: &str, rows: &[Row]) {
    let page = std::fs::read_to_string(path()).expect("docs/bugs.md is read");
    let (reported, range) = table(&page, section);
    if updates() {
        let lines: String = rows.iter().map(|row| row.line() + "\n").collect();
        let page = format!("{}{lines}{}", &page[..range.start], &page[range.end..]);
        std::fs::write(path(), page).expect("docs/bugs.md is written");
        return;
    }
    let essence = |columns: &[String]| {
        let found = columns[3] != "nothing found";
        (columns[0].clone(), columns[1].clone(), columns[2].clone(), found)
    };
    let reported: Vec<_> = reported.iter().map(|row| essence(row)).collect();
    let here: Vec<_> = rows.iter().map(|row| essence(&columns(&row.line()))).collect();
    assert_eq!(reported, here, "docs/bugs.md is out of date; run this test with STRANDLINE_UPDATE_DOCS=1");
}
