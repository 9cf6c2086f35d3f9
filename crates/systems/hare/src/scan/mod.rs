//! The software scanner.

mod nfa;

pub use nfa::{Nfa, State};
