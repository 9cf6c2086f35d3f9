//! The functions that ours stand in front of.

pub mod calls;
pub mod chosen;
pub mod heap;
pub mod next;
