//! Tables of numbers.

use maud::{Markup, html};

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A name of the program: function, file.
    Code(String),
    /// A number as people read it, and as sorting needs it.
    Number(String, f64),
}

impl Cell {
    /// A count or size with its way of being written.
    #[must_use]
    pub fn number(value: u64, write: fn(u64) -> String) -> Cell {
        Cell::Number(write(value), value as f64)
    }

    /// A ratio that may be missing; missing ones sort last.
    #[must_use]
    pub fn optional(value: Option<f64>, write: fn(Option<f64>) -> String) -> Cell {
        Cell::Number(write(value), value.unwrap_or(f64::MAX))
    }

    /// A share of a whole.
    #[must_use]
    pub fn share(value: f64) -> Cell {
        Cell::Number(crate::human::percent(value), value)
    }
}

/// A table with its caption. Columns are right-aligned if their first cell is a number.
pub fn table(caption: &str, head: &[&str], rows: &[Vec<Cell>]) -> Markup {
    let numeric = |column: usize| {
        rows.first().and_then(|row| row.get(column)).is_some_and(|cell| matches!(cell, Cell::Number(..)))
    };
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for (column, name) in head.iter().enumerate() {
                            th scope="col" class=[numeric(column).then_some("number")] { (name) }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @for cell in row { (one(cell)) }
                        }
                    }
                }
            }
        }
    }
}

fn one(cell: &Cell) -> Markup {
    html! {
        @match cell {
            Cell::Text(text) => { td { (text) } }
            Cell::Code(text) => { td { code { (text) } } }
            Cell::Number(text, value) => { td class="number" data-value=(value) { (text) } }
        }
    }
}
