//! `docs/engines.md`: what the checks of engines are held against.
//!
//! A row says what is checked and what must be found. Its last columns are written with
//! `STRANDLINE_UPDATE_DOCS` in the environment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use crate::build::Engine;
use crate::common::{ok, stdout};

/// The tests of engines write into one page.
static PAGE: Mutex<()> = Mutex::new(());

/// What is checked, and what must be found.
#[derive(Debug)]
pub struct Row {
    pub engine: Engine,
    /// Words that the program takes as its mode.
    pub settings: String,
    /// Whether the compiler's order of stores is checked, or the source's.
    pub is_as_shipped: bool,
    pub platform: String,
    /// How many acknowledged transactions may be lost.
    pub lost: String,
    verdict: String,
    /// The row's line.
    line: String,
}

/// What a check gave beside the verdict.
pub struct Measured {
    pub images: u64,
    pub seconds: f64,
    /// The first finding's.
    pub token: Option<String>,
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/engines.md")
}

fn read() -> String {
    std::fs::read_to_string(path()).expect("docs/engines.md is read")
}

/// The heading of the second table.
const UNMODIFIED: &str = "## Unmodified";

/// The cells of a row of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    Some(line.strip_prefix("| ")?.trim_end_matches('|').split('|').map(str::trim).collect())
}

/// A row of the second table.
#[derive(Debug)]
pub struct UnmodifiedRow {
    pub settings: String,
    pub platform: String,
    /// How many acknowledged transactions may be lost.
    pub lost: String,
    verdict: String,
    /// The row's line.
    line: String,
}

/// The second table's rows of an engine.
pub fn unmodified_rows(engine: &str) -> Vec<UnmodifiedRow> {
    let page = read();
    let (_, unmodified) = page.split_once(UNMODIFIED).expect("the page has two tables");
    let rows = unmodified.lines().filter_map(|line| {
        let [name, _, settings, platform, lost, verdict, ..] = cells(line)?[..] else { return None };
        (name == engine).then(|| UnmodifiedRow {
            settings: settings.to_owned(),
            platform: platform.to_owned(),
            lost: if lost == "any" { "1000".to_owned() } else { lost.to_owned() },
            verdict: verdict.to_owned(),
            line: line.to_owned(),
        })
    });
    rows.collect()
}

impl UnmodifiedRow {
    /// Holds what was found against the row, and writes what was measured if that is asked for; how they
    /// differ, if they do.
    pub fn hold(&self, answer: &Value, measured: &Measured) -> Option<String> {
        let differs = differs(&self.verdict, answer).map(|how| format!("{self:?}: {how}"));
        if std::env::var_os("STRANDLINE_UPDATE_DOCS").is_some() {
            write(&self.line, measured);
        }
        differs
    }
}

/// The page's rows of an engine.
pub fn rows(engine: Engine) -> Vec<Row> {
    let page = read();
    let (compiled, _) = page.split_once(UNMODIFIED).expect("the page has two tables");
    let rows = compiled.lines().filter_map(|line| {
        let [name, settings, built, platform, lost, verdict, ..] = cells(line)?[..] else { return None };
        (name == engine.name()).then(|| Row {
            engine,
            settings: if settings == "default" { String::new() } else { settings.to_owned() },
            is_as_shipped: built == "as shipped",
            platform: platform.to_owned(),
            lost: if lost == "any" { "1000".to_owned() } else { lost.to_owned() },
            verdict: verdict.to_owned(),
            line: line.to_owned(),
        })
    });
    let rows: Vec<Row> = rows.collect();
    assert!(!rows.is_empty(), "docs/engines.md has no rows of {engine:?}");
    rows
}

impl Row {
    /// Holds what was found against the row, and writes what was measured if that is asked for. What the
    /// compiler reorders is found where the compiler is the page's. How they differ, if they do.
    pub fn hold(&self, answer: &Value, measured: &Measured) -> Option<String> {
        let compiler = stdout(&ok(Command::new("gcc").arg("-dumpfullversion")));
        let known = read().contains(&format!("gcc {}", compiler.trim()));
        let judged = known || !self.verdict.contains("compiler");
        let differs = judged.then(|| differs(&self.verdict, answer)).flatten();
        if std::env::var_os("STRANDLINE_UPDATE_DOCS").is_some() {
            write(&self.line, measured);
        }
        differs.map(|how| format!("{self:?}: {how}"))
    }
}

/// How a check's answer differs from a row's verdict: the findings must have the names of functions and
/// messages that it quotes.
fn differs(verdict: &str, answer: &Value) -> Option<String> {
    let findings = answer["findings"].to_string();
    let names: Vec<&str> = verdict.split('`').skip(1).step_by(2).collect();
    let holds = match verdict {
        "nothing found" => findings == "[]",
        _ => !names.is_empty() && names.iter().all(|name| findings.contains(name)),
    };
    (!holds).then(|| format!("{:#}", answer["findings"]))
}

/// Writes what was measured into the last three of a row's columns.
fn write(line: &str, measured: &Measured) {
    let _page = PAGE.lock().expect("no test panics while it writes");
    let token = measured.token.as_deref().map_or("-".to_owned(), |token| format!("`{token}`"));
    let kept: Vec<&str> = line.split('|').take(7).collect();
    let new =
        format!("{}| {} | {:.0} s | {token} |", kept.join("|"), measured.images, measured.seconds.ceil());
    let page = read().replacen(line, &new, 1);
    std::fs::write(path(), page).expect("docs/engines.md is written");
}
