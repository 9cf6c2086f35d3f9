//! The advisors on event streams that are written by hand.

mod common;
mod linter;
mod prestores;
mod rules;
