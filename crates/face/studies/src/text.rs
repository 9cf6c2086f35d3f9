//! Outcomes as text: for the terminal, and as the table in the documentation.

use report::human;

use crate::{Check, Means, Outcome, Row, Source, Verdict};

/// Columns of an entry before its text.
const INDENT: usize = 4;

/// A row's line in `--list`.
#[must_use]
pub fn list(row: &Row, width: usize) -> String {
    let means = match row.means {
        Means::Model(_) => "model",
        Means::Here(_) => "here",
        Means::Hardware(_) => "hardware",
        Means::Later(_) => "not yet",
    };
    let head = format!("{:<22}{means:<10}", row.id);
    wrapped(&format!("{head}{}", row.claim), width, head.len())
}

/// A row and what came of it, for the terminal.
#[must_use]
pub fn entry(outcome: &Outcome, width: usize) -> String {
    let head = format!("{:<16}{:<22}", outcome.verdict.to_string(), outcome.row.id);
    let mut text = wrapped(&format!("{head}{}", outcome.row.claim), width, head.len());
    for check in &outcome.evidence.checks {
        let mark = if check.holds { " " } else { "x" };
        let line = format!("{:INDENT$}{mark} {}: {} ({})", "", check.what, check.got, check.expected);
        text.push_str(&wrapped(&line, width, INDENT + 4));
    }
    for remark in remarks(outcome) {
        text.push_str(&wrapped(&format!("{:INDENT$}  {remark}", ""), width, INDENT + 2));
    }
    text
}

/// What is to be said besides the figures, one text each: that the result was an input of the calibration,
/// what the model's result rests on, and why it is no match.
#[must_use]
pub fn remarks(outcome: &Outcome) -> Vec<String> {
    let row = outcome.row;
    let input =
        if row.is_input() { format!("calibration input: {}", row.calibration) } else { String::new() };
    let mut remarks = vec![input, row.note.to_owned(), outcome.reason.clone()];
    remarks.retain(|remark| !remark.is_empty());
    remarks
}

/// How many of each verdict, and how many of the matches were inputs of the calibration.
#[must_use]
pub fn summary(outcomes: &[Outcome]) -> String {
    let verdicts =
        [Verdict::Matched, Verdict::ShapeOnly, Verdict::Missed, Verdict::NeedsHardware, Verdict::NotYet];
    let counted = verdicts.into_iter().filter_map(|verdict| {
        let of_verdict = || outcomes.iter().filter(|outcome| outcome.verdict == verdict);
        let inputs = of_verdict().filter(|outcome| outcome.row.is_input()).count();
        let inputs = if verdict == Verdict::Matched && inputs > 0 {
            format!(" ({inputs} of them calibration inputs)")
        } else {
            String::new()
        };
        let count = of_verdict().count();
        (count > 0).then(|| format!("{count} {verdict}{inputs}"))
    });
    counted.collect::<Vec<_>>().join(", ")
}

/// The outcomes as a Markdown document.
#[must_use]
pub fn markdown(outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "# Published results and ours\n\nMade by `strandline reproduce --out DIR`; do not edit. A value stands with what was \
         expected where it is off.\nA *calibration input* is a result on which a constant of the model was chosen: that it matches \
         shows no more than that the model\nholds its input.\n\n{}.\n",
        summary(outcomes)
    );
    for source in Source::ALL {
        let of_source: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| outcome.row.source == source).collect();
        if of_source.is_empty() {
            continue;
        }
        text.push_str(&format!(
            "\n## {}\n\n| id | claim | expected | here | verdict |\n|---|---|---|---|---|\n",
            source.title()
        ));
        for outcome in of_source {
            let cells = [
                outcome.row.id,
                outcome.row.claim,
                outcome.row.expected,
                &measured(outcome),
                &verdict(outcome),
            ];
            text.push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
        }
    }
    text
}

/// The verdict in one cell.
fn verdict(outcome: &Outcome) -> String {
    let mark = if outcome.row.is_input() { "<br>*calibration input*" } else { "" };
    format!("{}{mark}", outcome.verdict)
}

/// The measured values in one cell.
fn measured(outcome: &Outcome) -> String {
    let line = |check: &Check| {
        let off = if check.holds { String::new() } else { format!(" (**off**: {})", check.expected) };
        format!("{}: {}{off}", check.what, check.got)
    };
    let mut words: Vec<String> = outcome.evidence.checks.iter().map(line).collect();
    words.extend(remarks(outcome).iter().map(|remark| format!("*{remark}*")));
    words.join("<br>")
}

/// `text` over lines of at most `width` columns, those after the first indented; ends with a line feed.
fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(width.max(60)).subsequent_indent(&indent);
    textwrap::fill(&human::plain(text), options) + "\n"
}
