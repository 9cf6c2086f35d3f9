//! The tests of spaces and environments from outside, in one binary.

mod conformance;
mod recorded;
mod scratch;
mod sim;
mod sim_failures;
mod sim_tokens;
mod sim_twice;
