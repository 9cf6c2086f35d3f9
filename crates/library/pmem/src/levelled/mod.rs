//! Memory whose pages change their frames under running threads, so that it wears evenly.

mod error;
mod frames;
mod freeze;
mod layout;
mod reduction;
mod space;
mod watch;

pub use error::LevelError;
pub use frames::{Frames, Recovered};
pub use freeze::Freezer;
pub use layout::Shape;
pub use reduction::{Heat, Limits, Moves, Phase, Reduction};
pub use space::{Exchanged, Levelled};
pub use watch::Watcher;
