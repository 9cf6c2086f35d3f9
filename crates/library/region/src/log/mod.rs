//! Logs: rings of lines that know by themselves whether they are whole.

mod line;
mod ring;

pub(crate) use line::{Content, Role, WORDS, read_line, write_line};
pub(crate) use ring::{Ring, clear};
