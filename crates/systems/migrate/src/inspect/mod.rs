//! What a tree of processes has, and what of it cannot move: looked up from outside, before anything is stopped.

mod files;
mod locks;
mod memory;
mod obstacle;
mod process;
mod sockets;

pub use files::{Files, Options, look_at_files};
pub use memory::{Layout, look_again, look_at_memory};
pub use obstacle::{Obstacle, Report};
pub use process::{check_process, has_ended, inspect, tree};
pub use sockets::{get_option, peek};
