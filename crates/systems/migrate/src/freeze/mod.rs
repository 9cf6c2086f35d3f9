//! A tree of processes stopped, asked for its state, and let go.

mod checkpoint;
mod collect;
mod contents;
mod dump;
mod stop;
mod threads;

pub use checkpoint::{Checkpoint, Times, checkpoint};
pub use stop::{Frozen, FrozenProcess, FrozenThread, freeze};
