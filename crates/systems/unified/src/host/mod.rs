//! The kernels on the CPU: what `kernels/*.wgsl` say, in Rust, one invocation per call.

pub mod litmus;
pub mod micro;
pub mod query;
pub mod sort;
pub mod table;

use std::sync::atomic::{AtomicU32, Ordering};

/// A word.
pub fn load(words: &[AtomicU32], at: usize) -> u32 {
    words[at].load(Ordering::Relaxed)
}

/// Sets a word.
pub fn store(words: &[AtomicU32], at: usize, value: u32) {
    words[at].store(value, Ordering::Relaxed);
}
