//! The runtime in programs of its own, and the order of its files.

mod counting;
mod documented;
mod library;
mod order;
mod own_functions;
mod runs;
mod support;
mod threads;
