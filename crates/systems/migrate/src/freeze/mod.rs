//! A tree of processes stopped, asked for its state, and let go.

mod checkpoint;
mod collect;
mod contents;
mod dump;
mod every;
mod registers;
mod stop;
mod threads;

pub use checkpoint::{Checkpoint, Looks, Times, checkpoint, checkpoint_then, look_before, monotonic, state};
pub use dump::{Writer, own_pages};
pub use every::checkpoint_every;
pub use stop::{Frozen, FrozenProcess, FrozenThread, freeze};
