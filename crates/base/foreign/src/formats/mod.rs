//! A parser of a line, or of a record, for each tool.

pub(crate) mod champsim;
pub(crate) mod dynamorio;
pub(crate) mod memory;
pub(crate) mod perf;
pub(crate) mod pin;
