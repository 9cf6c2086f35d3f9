//! Reports in all three forms, and pages of other verbs.

mod browser;
mod common;
mod curves;
mod html;
mod json;
mod order;
mod terminal;
