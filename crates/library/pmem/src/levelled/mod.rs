//! Memory whose pages change their frames under running threads, so that it wears evenly.

mod error;
mod frames;
mod freeze;
mod layout;
mod space;

pub use error::LevelError;
pub use frames::{Frames, Recovered};
pub use layout::Shape;
pub use space::{Exchanged, Levelled};
