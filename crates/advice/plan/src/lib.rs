#![forbid(unsafe_code)]
#![allow(missing_docs)]
pub mod curve;
pub mod profile;
