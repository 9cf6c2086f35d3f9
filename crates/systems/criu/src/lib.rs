//! CRIU's images: checkpoints written so that `criu restore` takes them, and images of `criu dump` read as checkpoints.
//!
//! An image is a folder of files, each a magic number and protocol-buffer messages with their lengths before them (`wire`),
//! beside files of raw pages. Field numbers and constants are those of CRIU's `images/*.proto` and `criu/include/magic.h`
//! (versions 3.17 to 4.2). About thirty messages of some hundred are needed, so they are written and read field by field
//! (`names`), without generated code.
//!
//! What an image of CRIU has and a checkpoint of ours does not, or the other way round, is refused by name.
#![forbid(unsafe_code)]

mod names;
mod read;
mod save;
mod state;
pub mod wire;
mod write;

pub use read::{is_image, read};
pub use save::{restore, restore_clone, save};
pub use write::write;
