//! Failure-atomic synchronisation-free regions (Gogte 2020, chapter IV): coupled and decoupled commits,
//! against ATLAS and against no persistency.

mod arrays;
mod lists;
mod orders;
mod program;
mod record;
mod replay;
mod rows;
mod tree;

pub(crate) use record::Taken;
pub use rows::ROWS;
