//! Checkpoint, clone and migrate running processes over shared memory.

pub mod batch;
pub mod fam;
