//! The software scanner.

mod dfa;
mod factor;
mod filter;
mod nfa;
mod scanner;

pub use factor::Factor;
pub use nfa::{Nfa, State};
pub use scanner::{Match, Scanner, Stream, Way};
