//! Outcomes as one HTML page.

use report::{Block, Cell, Page, Section, Table};

use crate::{Check, Outcome, Source, Verdict, summary, text};

/// The page; `command` makes it again.
#[must_use]
pub fn page(outcomes: &[Outcome], command: Vec<String>) -> String {
    let mut sections = Vec::new();
    for source in Source::ALL {
        let of_source: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| outcome.row.source == source).collect();
        if !of_source.is_empty() {
            sections.push(overview(source, &of_source));
        }
    }
    sections.extend(outcomes.iter().filter(|outcome| !outcome.evidence.checks.is_empty()).map(detail));
    report::page(&Page {
        verb: "reproduce".to_owned(),
        title: "Published results and ours".to_owned(),
        meta: vec![format!("strandline {}", env!("CARGO_PKG_VERSION"))],
        headline: summary(outcomes),
        story: vec![
            "Each row is a published result, held against the modelled machine with a tolerance that was fixed before. A value \
             misses where only the shape holds; a row misses where not even that does. A calibration input is a result on which a \
             constant of the model was chosen: that it matches shows no more than that the model holds its input."
                .to_owned(),
        ],
        sections,
        command,
        ..Page::default()
    })
}

fn overview(source: Source, outcomes: &[&Outcome]) -> Section {
    let row = |outcome: &&Outcome| {
        let texts = [outcome.row.id, outcome.row.claim, outcome.row.expected];
        let mut cells: Vec<Cell> = texts.into_iter().map(|text| Cell::Text(text.to_owned())).collect();
        let mark = if outcome.row.is_input() { " (calibration input)" } else { "" };
        cells.push(Cell::Text(format!("{}{mark}", outcome.verdict)));
        cells.push(Cell::Text(explanation(outcome)));
        cells
    };
    let table = Table {
        caption: source.title().to_owned(),
        head: ["id", "claim", "expected", "verdict", "explanation"].map(str::to_owned).into(),
        rows: outcomes.iter().map(row).collect(),
    };
    Section {
        id: source.name().to_owned(),
        title: source.name().to_owned(),
        blocks: vec![Block::Table(table)],
    }
}

/// Why a row is not matched.
fn explanation(outcome: &Outcome) -> String {
    let off: Vec<String> = outcome
        .evidence
        .checks
        .iter()
        .filter(|check| !check.holds)
        .map(|check| format!("{}: {} instead of {}", check.what, check.got, check.expected))
        .collect();
    match (outcome.verdict, off.is_empty()) {
        (Verdict::Matched, _) | (_, true) => outcome.reason.clone(),
        _ => format!("{} {}", outcome.reason, off.join("; ")).trim().to_owned(),
    }
}

fn detail(outcome: &Outcome) -> Section {
    let row = outcome.row;
    let mut blocks = vec![
        Block::Text(row.claim.to_owned()),
        Block::Text(format!("Expected: {}. Tolerance: {}.", row.expected, row.tolerance)),
        Block::Text(format!("Measured: {}.", row.method)),
    ];
    blocks.extend(text::remarks(outcome).iter().map(|remark| Block::Text(format!("{remark}."))));
    blocks.push(Block::Table(Table {
        caption: format!("{}: {}", row.id, outcome.verdict),
        head: ["what", "expected", "here", "holds"].map(str::to_owned).into(),
        rows: outcome.evidence.checks.iter().map(cells).collect(),
    }));
    blocks.extend(outcome.evidence.charts.iter().cloned().map(Block::Curves));
    Section { id: row.id.to_owned(), title: row.id.to_owned(), blocks }
}

fn cells(check: &Check) -> Vec<Cell> {
    let holds = if check.holds { "yes" } else { "no" };
    [&check.what, &check.expected, &check.got, holds].map(|text| Cell::Text(text.to_owned())).into()
}
