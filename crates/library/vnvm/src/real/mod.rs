//! The real host: processes, a directory, files.

mod directory;
mod files;
mod front;
mod locks;
mod owners;

pub use directory::{Setup, inspect_directory, recover_directory};
pub use files::{RealFile, RealView};
pub use front::{Transaction, Vnvm};
pub use owners::Real;
