//! HARE: text for many regular expressions at a fixed rate, in hardware and in software.
//!
//! An expression goes from text ([`Expression`]) to positions ([`Positions`]), which the software scanner
//! runs as bits ([`scan`]), and on to components for hardware of a width.
#![forbid(unsafe_code)]

mod byteset;
mod cycle;
mod design;
mod error;
mod explain;
mod expression;
mod look;
mod positions;
pub mod scan;
mod syntax;
mod tables;
mod tree;
mod verilog;

pub use byteset::ByteSet;
pub use cycle::{Counting, Machine};
pub use design::{Design, Exact, Kind, Limits, Node, Pred, Repeat};
pub use error::{Refusal, Why};
pub use explain::explain;
pub use expression::Expression;
pub use look::{LOOKS, Look, LookSet};
pub use positions::{Conditional, Count, Lowering, Positions};
pub use syntax::Reading;
pub use tables::{Bits, Tables, bits};
pub use tree::Tree;
pub use verilog::{Hardware, Image, MODULES};
