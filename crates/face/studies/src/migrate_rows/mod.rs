//! Migration over fabric-attached memory (Chou 2020, section 3): results B1 to B11, C1, C2, D1 and D2 of the specification.
//!
//! Times of the computer that runs them, so they are measured only where they are asked for by name; `measure` does that once
//! for all rows, `rows` holds ratios against what was published.

mod measure;
mod rows;
mod store;
mod verb;

pub use rows::ROWS;
