//! Wear levelling: policies behind one trait, the media that they wear, and attacks on them.

mod age;
mod attack;
mod gap;
mod leveller;
mod media;
mod none;
mod policies;
mod random;
mod refresh;
mod rows;
mod run;
mod shuffle;

pub use age::AgeBased;
pub use attack::{Attack, Writes};
pub use gap::StartGap;
pub use leveller::{Cost, Leveller};
pub use media::Media;
pub use none::Unlevelled;
pub use policies::{Policy, PolicyError, Settings};
pub use random::Feistel;
pub use refresh::SecurityRefresh;
pub use rows::RowShift;
pub use run::{Levelled, run};
pub use shuffle::{Shuffle, Temporary};
