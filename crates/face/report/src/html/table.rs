//! Tables of numbers.

use maud::{Markup, html};

use crate::content::Cell;

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
