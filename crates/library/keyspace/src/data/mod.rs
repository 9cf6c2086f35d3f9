//! Redis's data types on an ordered map of byte strings.

pub mod elements;
pub mod keyspace;
pub mod layout;
pub mod records;
pub mod tx;
