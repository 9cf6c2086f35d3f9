//! Processes made from an image: children with the same numbers, made to execute the calls that make them what was
//! saved.

mod clones;
mod descriptions;
mod memory;
mod process;
mod run;
mod spawn;
mod threads;

pub use clones::{exit_code, restore_clone};
pub use run::{Restored, restore};
