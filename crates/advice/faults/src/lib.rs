//! What page faults cost, what would remove them, and what a page-fault offload engine (POE) would add.
#![forbid(unsafe_code)]

pub mod poe;
