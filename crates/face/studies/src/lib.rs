//! Published results, and what the models make of them.
//!
//! A [`Row`] is one published result: what was claimed, in numbers, how far a result may be off and why, how
//! it is measured here, and the function that does so on the modelled machine. [`judge`] runs it and says
//! *matched*, *shape only* or *missed*; what takes hardware or parts that are still to come says which.
//! `strandline reproduce` prints them all.
//!
//! # Rules
//!
//! - A tolerance is written, with its reason, before the model's result is known, and not widened afterwards. One that
//!   turns out to be wrong stays, and the row's `lacks` says so.
//! - A verdict follows from the row's [`Check`]s alone: all hold, only the shapes hold, or not even these.
//! - A miss stays, with what the model seems to lack.
//! - A result on which a constant of the model was chosen says so in `calibration`: its match shows no more than that the
//!   model holds its input.
//! - This crate knows the machine; the machine knows nothing of this crate. No published number stands anywhere else.
//!
//! # Adding a result
//!
//! A `Row` in the file of its group (or a new file, named in its source's `ROWS`), with a function that asks
//! the [`Lab`] for measurements and makes [`Check`]s of them. Published series go to `data/`. Then
//! `strandline reproduce ID`, and `strandline reproduce --out DIR` for the table in `docs/reproduce.md`.
#![forbid(unsafe_code)]

mod check;
mod counter_rows;
mod cxl_rows;
mod data;
mod designs;
mod fault_rows;
mod hare_rows;
mod index;
mod judge;
mod kernels;
mod kv;
mod lab;
mod migrate_rows;
mod page;
pub mod pattern;
mod prestores;
pub mod published;
mod row;
mod series;
mod sfr_rows;
mod ssp;
mod steps;
mod text;
mod tmc;
mod unified_rows;
mod vnvm;
mod vnvm_rows;
mod wear_rows;
mod xpoint;

pub use check::{Check, Kind, number};
pub use data::{SCHEMA, json};
pub use judge::{Hardware, Outcome, StudyError, judge, rows, select};
pub use kernels::KernelError;
pub use lab::{Access, Idle, Lab, Sample, Tail};
pub use measure::{Op, Pattern as Order};
pub use page::page;
pub use row::{Evidence, Means, Row, Source, Verdict};
pub use series::Series;
pub use text::{entry, list, markdown, summary};

use report::{Axis, Curve, Curves};

/// A chart.
fn chart(title: &str, x: Axis, y: Axis, curves: Vec<Curve>) -> Curves {
    Curves { title: title.to_owned(), x, y, curves }
}

/// A measured curve without published points.
fn curve(name: &str, series: &Series) -> Curve {
    Curve { name: name.to_owned(), points: series.0.clone(), published: Vec::new() }
}

impl Evidence {
    /// Checks without a chart.
    fn of(checks: Vec<Check>) -> Evidence {
        Evidence { checks, charts: Vec::new() }
    }
}
