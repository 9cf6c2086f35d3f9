//! The streams of records: room, chunks, completion, the cold path.

pub mod busy;
pub mod chunks;
pub mod cold;
pub mod complete;
pub mod first;
pub mod meeting;
pub mod own_handlers;
pub mod record;
pub mod room;
pub mod stores;
pub mod switch;
pub mod word_lock;
