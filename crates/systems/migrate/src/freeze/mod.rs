//! A tree of processes stopped, asked for its state, and let go.

mod checkpoint;
mod collect;
mod contents;
mod dump;
mod every;
mod parasite;
mod registers;
mod stop;
mod threads;

pub use checkpoint::{Checkpoint, Looks, Times, checkpoint, checkpoint_then, look_before, monotonic, state};
pub use dump::{Writer, own_pages};
pub use every::checkpoint_every;
pub use parasite::By;
pub use stop::{Frozen, FrozenProcess, FrozenThread, freeze};
