//! The state of each thread: data, without what is done with it.

pub mod count;
pub mod deferred;
pub mod local;
pub mod own_handlers;
pub mod scratch;
pub mod stream;
