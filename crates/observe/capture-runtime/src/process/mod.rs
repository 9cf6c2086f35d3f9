//! Threads, signal handlers, processes: their beginnings and ends.

pub mod alive;
pub mod begin;
pub mod by_number;
pub mod children;
pub mod execute;
pub mod exit;
pub mod forked;
pub mod jump;
pub mod signal;
pub mod thread;
pub mod tree;
pub mod unload;
