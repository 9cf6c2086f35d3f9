//! The comparison as text, page and JSON. No form holds a date or a host: the same events, machines and seed
//! give the same bytes.

use report::human::{elide, pad_left, pad_right};
use report::{Block, Cell, Page, Section, Table, human};
use serde_json::{Value, json};

use super::compare::{Comparison, Measured};
use super::persists;
use crate::error::Error;

/// Name and version of the document's layout.
const SCHEMA: &str = "strandline-simulate-1";
/// Columns of a line of source in the terminal's tables.
const NAME_MAX: usize = 48;

impl Comparison {
    /// The comparison for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        text(self)
    }

    /// The comparison as a self-contained HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        page(self)
    }

    /// All numbers, as `docs/simulate-json.md` describes them.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        json(self)
    }
}

fn text(comparison: &Comparison) -> String {
    let counts = &comparison.notes.counts;
    let mut text = format!(
        "{}: {} events\n{}\n",
        human::plain(&comparison.subject),
        human::grouped(counts.events),
        comparison.headline()
    );
    if let Some(scope) = comparison.notes.scope() {
        text.push_str(&format!("{scope}\n"));
    }
    for warning in &comparison.notes.warnings {
        text.push_str(&format!("warning: {}\n", human::plain(warning)));
    }
    for table in comparison.tables() {
        text.push('\n');
        text.push_str(&aligned(&table));
    }
    text
}

/// A table with its columns below each other.
fn aligned(table: &Table) -> String {
    let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.chain(table.head.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let line = |cells: &[String]| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = width(column);
            line.push_str(&if column == 0 { pad_right(cell, width) } else { pad_left(cell, width + 2) });
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut head = table.head.clone();
    head[0] = String::new();
    let mut text = format!("{}\n{}", table.caption, line(&head));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) | Cell::Code(text) => elide(&human::plain(text), NAME_MAX),
        Cell::Number(text, _) => text.clone(),
    }
}

fn page(comparison: &Comparison) -> String {
    let labels: Vec<String> = comparison.machines.iter().map(|machine| machine.label.clone()).collect();
    let tables = comparison.tables().into_iter().map(Block::Table).collect();
    let mut timeline: Vec<Block> = comparison.charts().into_iter().map(Block::Curves).collect();
    timeline.insert(0, Block::Text("Each machine on its own clock, in at most 512 slices.".to_owned()));
    report::page(&Page {
        verb: "simulate".to_owned(),
        title: comparison.subject.clone(),
        meta: vec![labels.join(", "), format!("strandline {}", env!("CARGO_PKG_VERSION"))],
        headline: comparison.headline(),
        story: std::iter::once(format!(
            "The same {} events of {} ran on each machine; times are simulated.",
            human::grouped(comparison.notes.counts.events),
            human::plural(
                comparison.machines.first().map_or(0, |machine| machine.figures.threads.len()),
                "thread"
            )
        ))
        .chain(comparison.notes.scope().map(str::to_owned))
        .collect(),
        cautions: comparison.notes.warnings.clone(),
        sections: [
            Some(Section { id: "compared".to_owned(), title: "Side by side".to_owned(), blocks: tables }),
            Some(Section { id: "timeline".to_owned(), title: "Timeline".to_owned(), blocks: timeline }),
            persists::section(comparison),
        ]
        .into_iter()
        .flatten()
        .collect(),
        command: comparison.command.clone(),
    })
}

fn json(comparison: &Comparison) -> Result<String, Error> {
    let machines: Vec<Value> =
        comparison.machines.iter().map(|machine| one(comparison, machine)).collect::<Result<_, Error>>()?;
    let source = comparison.notes.source.as_ref();
    let answer = json!({
        "schema": SCHEMA,
        "subject": comparison.subject,
        "command": comparison.command,
        "producer": source.map(|source| &source.producer),
        "counts": comparison.notes.counts,
        "warnings": comparison.notes.warnings,
        "machines": machines,
    });
    Ok(format!("{answer:#}\n"))
}

fn one(comparison: &Comparison, machine: &Measured) -> Result<Value, Error> {
    let mut figures = serde_json::to_value(&machine.figures)?;
    let waits: Vec<Value> = comparison
        .waits()
        .into_iter()
        .filter_map(|(id, _)| {
            let time = machine.figures.site_stalls.get(id as usize)?;
            Some(json!({ "site": id, "line": comparison.site(id), "stalled": time }))
        })
        .collect();
    figures["site_stalls"] = Value::Array(waits);
    Ok(json!({
        "machine": machine.label,
        "description": machine.config,
        "elapsed_ns": machine.figures.elapsed.ns(),
        "figures": figures,
    }))
}
