//! Mappings of persistent memory.

pub mod kept;
pub mod map;
