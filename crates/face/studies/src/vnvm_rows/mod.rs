//! Virtualised NVM (Chou 2020, chapter 2): results A1 to A14 of the specification.
//!
//! The library's protocol itself runs, four processes at a time, on a modelled disk and in modelled time:
//! `machine` says what each step takes,
//! `store` is the stand-in for the source's MongoDB, `rows` and `commits` hold what comes out against what
//! was published.

mod commits;
mod machine;
mod rows;
mod store;

pub use rows::ROWS;
