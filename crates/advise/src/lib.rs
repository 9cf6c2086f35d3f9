//! One file per advisor over events and machine figures.
#![forbid(unsafe_code)]

mod finding;

pub use finding::{Finding, Rule, SiteShare};
