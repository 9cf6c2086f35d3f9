//! The built-in workloads: what they do, and what a crash leaves of them.

mod crash;
mod registry;
mod support;
mod tree;
