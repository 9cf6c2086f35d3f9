//! The maps as their users see them, without crashes.

mod btree;
mod bytes;
mod format;
mod hash;
mod log_structured;
mod model;
mod trees;
