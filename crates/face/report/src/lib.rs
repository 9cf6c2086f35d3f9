//! What a run tells its reader: terminal summary, one self-contained HTML page, JSON.
//!
//! The command line fills one [`Report`] with plain results (who ran, what was counted, what the
//! modelled machine measured, what the advisors found) and this crate only says it. It measures
//! nothing, reads no clock and no file: the date comes with the report, source lines come through a
//! closure, and the same report gives the same bytes.
//!
//! All three forms tell the same story in the same order: what is wrong, what to do about it, how much
//! that explains; then the figures; then the code that causes them. What they share is computed once, in
//! the module `digest`: which memory the run is about, sites folded into functions, the sentence at
//! the top. How a number is written for people is decided in [`human`] and nowhere else.
//!
//! * [`terminal()`] fits any width from 60 columns; it strips control characters from names, which come from
//!   the observed program and may not steer the reader's terminal.
//! * [`html()`] is complete without scripts and forbids itself any request by a content security policy.
//!   Plots are SVG written here: a plotting library would fix fonts and colours in the file, where ours
//!   take them from the page, so that they follow it into dark mode. A plot that needs more width
//!   than a phone has is drawn twice, and the style sheet shows the one that fits; scaling one picture
//!   would scale its letters too.
//! * [`page()`] makes pages of other verbs from plain data: curves beside published points, tables, words, the steps
//!   around a crash ([`Order`]).
//! * [`json()`] has every number of the page and more; `docs/report-json.md` describes each field, and
//!   a test holds the two together.
#![forbid(unsafe_code)]

mod chart;
mod content;
mod costs;
mod crashes;
mod digest;
mod excerpt;
mod html;
pub mod human;
mod json;
mod lints;
mod model;
mod prestores;
mod structures;
mod terminal;
mod wear;

pub use chart::{Axis, Curve, Curves, Order, OrderStep, StepKind, Unit};
pub use content::{Article, Block, Cell, Page, Section, Table};
pub use costs::{Costs, PhaseMark, SiteCost, StackCost, Wait};
pub use crashes::{CrashFinding, CrashFindings};
pub use digest::of_sampling;
pub use excerpt::Excerpt;
pub use html::{html, page};
pub use json::{SCHEMA, json};
pub use lints::{CrashLints, LintJson};
pub use model::{
    CaptureStats, Exit, FunctionSample, Report, Run, Samples, Skipped, Subject, Withheld, WriteSizes,
};
pub use prestores::Prestores;
pub use structures::{AllocationStack, FieldHeat, Structure, ThreadHeat, Trial};
pub use terminal::terminal;
pub use wear::{Wear, lifetime};
