//! `strandline check --litmus`: what a crash may leave of a few instructions.

use std::path::PathBuf;

use anyhow::Context;
use crash::litmus::{self, Litmus};
use serde_json::json;

use crate::say;

/// Prints the outcomes of each test; whether all are as expected.
pub fn run(files: &[PathBuf], as_json: bool) -> anyhow::Result<bool> {
    let mut all = true;
    let mut answers = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(|| format!("can't read {name}"))?;
        let report = litmus::check(&Litmus::parse(&name, &text)?);
        all &= report.holds();
        if as_json {
            answers.push(json!({
                "file": name, "holds": report.holds(), "outcomes": report.outcomes,
                "unexpected": report.unexpected, "missing": report.missing,
            }));
        } else {
            say(&format!("{report}\n"))?;
        }
    }
    if as_json {
        say(&format!("{:#}\n", json!(answers)))?;
    }
    Ok(all)
}
