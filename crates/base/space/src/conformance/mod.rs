//! The tests that every space and every environment runs: the contracts of [`Space`](crate::Space) and
//! [`Env`](crate::Env) as code. A space that wraps another one also runs [`forwards`].
//!
//! Their own tests call [`all`] and [`environment`] with a function that makes a fresh one. Failures are
//! panics, as in any test.

mod env;
mod powered;
mod space;
mod wrapper;

pub use env::environment;
pub use powered::{Cut, Powered};
pub use space::{
    LEN, all, bytes, compare_and_swap, copies, fresh_is_zero, hints_change_nothing, non_temporal,
    outside_panics, tests, words,
};
pub use wrapper::{Answers, Probe, forwards};
