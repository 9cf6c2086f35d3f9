//! B+-trees on persistent memory (Ni 2022, chapter 5).
//!
//! `record.rs` runs the library's trees on 48 simulated threads and keeps what they do to their memory;
//! `replay.rs` has it done on the study's machine by a tree of the study's size. Flushes, fences, bytes and
//! amplification are counted; instructions are estimated; times are the model's.

mod findings;
mod load;
mod logs;
mod nodes;
mod record;
mod recovery;
mod replay;
mod table;

pub use findings::ROWS as FINDINGS;
pub use load::ROWS as LOAD;
pub use logs::ROWS as LOGS;
pub use nodes::ROWS as NODES;
pub(crate) use record::Taken;
pub use recovery::ROWS as RECOVERY;
pub use table::ROWS as TABLE;
