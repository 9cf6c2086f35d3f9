//! The kernel, the session, and what else needs nothing of ours.

pub mod glob;
pub mod kinds;
pub mod module;
mod own_bytes;
pub mod persistent;
pub mod session;
pub mod sys;
