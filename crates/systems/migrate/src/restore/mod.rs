//! Processes made from an image: children with the same numbers, made to execute the calls that make them what was
//! saved.

mod clones;
mod descriptions;
mod memory;
mod process;
mod run;
mod spawn;
mod threads;

pub use clones::{Made, Namespace, exit_code, in_namespace, restore_clone, spawn_namespace};
pub use run::{How, Pager, Restored, restore, restore_image};
