//! The guide's structures keep what they acknowledged in every legal crash image, and the checker finds what
//! their broken twins lose.

mod memtable;
mod paged;
mod support;
