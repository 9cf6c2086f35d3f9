//! Choosing a configuration of tiered memory (Ni 2022, chapter 4): results T1 to T17.

mod clusters;
mod programs;
mod rows;
mod truth;

pub use rows::ROWS;
pub(crate) use truth::Truth;
